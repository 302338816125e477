//! What people do, while a request is on its way, to the machine that it is about.

use super::Network;
use crate::objects::{CLAIM, taints, text};
use crate::world::Machine;
use serde_json::{Value, json};
use simapi::Request;
use simapi::kinds::{ATTACHMENT, FENCE, NODE};
use std::time::Duration;
use tokio::time::sleep;

impl Network {
    /// Somebody takes the right to patch such objects away for a while.
    pub(super) fn revoke(&self, request: &Request, time: Duration) {
        let resource = match request.path.starts_with("/api/v1/nodes/") {
            true => "nodes",
            false => "nodefences/status",
        };
        let api = self.world.api.clone();
        api.deny("patch", resource);
        tokio::spawn(async move {
            sleep(time).await;
            api.allow_everything();
        });
    }

    /// The machine that this is about.
    fn machine(&self, request: &Request) -> Option<(String, Machine)> {
        let name = |prefix| request.path.split(prefix).nth(1)?.split('/').next();
        if let Some(attachment) = name("/volumeattachments/") {
            let attachment = self.world.api.get(&ATTACHMENT, "", attachment)?;
            return self.world.of_node(text(&attachment, "/spec/nodeName"));
        }
        let node = match name("/nodefences/") {
            Some(fence) => {
                let fence = self.world.api.get(&FENCE, "", fence);
                fence.map(|fence| text(&fence, "/spec/nodeName").to_owned())
            }
            None => name("/nodes/").map(str::to_owned).or_else(|| {
                let body: Value = serde_json::from_slice(&request.body).ok()?;
                Some(text(&body, "/spec/nodeName").to_owned())
            }),
        };
        self.world.of_node(&node?)
    }

    pub(super) fn power_on(&self, request: &Request) {
        if let Some((machine, _)) = self.machine(request) {
            self.world.power_on(&machine, "by hand, meanwhile");
        }
    }

    pub(super) fn take_claim(&self, request: &Request) {
        let Some((_, machine)) = self.machine(request) else {
            return;
        };
        let place = ("", machine.node.as_str());
        let _ = self.world.api.change("human", &NODE, place, |node| {
            let mut all = taints(node).to_vec();
            all.retain(|taint| taint["key"] != CLAIM);
            node["spec"]["taints"] = json!(all);
        });
    }

    pub(super) fn slow_bmc(&self, request: &Request) {
        let Some((name, _)) = self.machine(request) else {
            return;
        };
        let world = self.world.clone();
        let slow = move |time| world.with(&name, |machine| machine.bmc.slow = time);
        slow(Duration::from_secs(2));
        tokio::spawn(async move {
            sleep(Duration::from_secs(15)).await;
            slow(Duration::ZERO);
        });
    }
}
