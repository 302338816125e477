//! What people see to once the trouble is over: devices, and taints that nobody else takes away.

use super::Stage;
use crate::objects::{CLAIM, DETACHING, OUT_OF_SERVICE, is_ended, taint, taints, text, value_of};
use crate::plan;
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, DEVICE, FENCE, NODE};

impl Stage {
    /// Each machine has the FenceDevice of its Node, and no other.
    pub fn put_devices(&self) {
        let machines: Vec<(String, String)> = {
            let machines = self.world.machines();
            let pairs = machines
                .iter()
                .map(|(name, it)| (name.clone(), it.node.clone()));
            pairs.collect()
        };
        for device in self.world.api.all(&DEVICE) {
            let node = text(&device, "/spec/nodeName");
            if !machines.iter().any(|(_, own)| own == node) {
                let place = ("", text(&device, "/metadata/name"));
                let _ = self.world.api.delete("human", &DEVICE, place, &Value::Null);
            }
        }
        for (machine, node) in machines {
            if self
                .world
                .api
                .get(&DEVICE, "", &format!("bmc-{node}"))
                .is_none()
            {
                let device = plan::device(&node, &machine);
                let _ = self.world.api.add("human", &DEVICE, device);
            }
        }
    }

    /// A human takes away what is theirs to take: out-of-service without a claim of ours, and the mark under which the operator detaches, once
    /// that has lost its claim, nothing of the node is attached any more, and the machine is off or has booted anew. With the claim, where a
    /// NodeFence says that both are to be removed: it was deleted and made anew, and knows nothing of what it had proven.
    pub fn untaint(&self, name: &str) {
        let is_unproven = self.is_told_to_remove_both(name);
        let attachments = self.world.api.all(&ATTACHMENT);
        let is_attached = attachments
            .iter()
            .any(|it| text(it, "/spec/nodeName") == name);
        let boot = self
            .world
            .of_node(name)
            .filter(|(_, machine)| machine.on)
            .map(|(machine, it)| it.boot_id(&machine));
        let foreign = |node: &Value, key: &str| {
            let may_go = match key {
                DETACHING => !is_attached && value_of(node, key) != boot,
                _ => true,
            };
            let is_theirs = taint(node, CLAIM).is_none() || is_unproven;
            taint(node, key).is_some() && is_theirs && may_go
        };
        let _ = self.world.api.change("human", &NODE, ("", name), |node| {
            for key in [OUT_OF_SERVICE, DETACHING] {
                if foreign(node, key) {
                    let mut all = taints(node).to_vec();
                    all.retain(|taint| taint["key"] != key && taint["key"] != CLAIM);
                    node["spec"]["taints"] = json!(all);
                }
            }
        });
    }

    /// That is done once the machine is off, or has booted since: all of them have.
    fn is_told_to_remove_both(&self, node: &str) -> bool {
        let all = self.world.api.all(&FENCE);
        let mut open = all
            .iter()
            .filter(|it| text(it, "/spec/nodeName") == node && !is_ended(it));
        let says = |fence: &Value| {
            let conditions = fence["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["reason"] == "OutOfServiceUnproven")
        };
        open.any(|fence| says(fence))
    }
}
