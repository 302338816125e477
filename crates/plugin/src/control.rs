//! Which device of which node lacks a positive control (S25): its Off proves nothing, and people are told before the night that needs it.

use fencing_api::conditions::{READY, find};
use fencing_api::device::FenceDevice;
use fencing_api::policy::NodeFencingPolicy;
use fencing_core::control::{Control, in_boot};
use fencing_core::observed::NodeView;
use fencing_core::protection::levels::Devices;
use fencing_core::select::governing;
use kube::ResourceExt;
use schemars::JsonSchema;
use serde::Serialize;

/// A device whose Off does not count for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lack {
    /// The Node.
    pub node: String,
    /// The FenceDevice.
    pub device: String,
    /// The policy that governs the node.
    pub policy: String,
    /// `NoPositiveControl`: it has not read On in the node's current boot. `OffWhileRunning`: it reads Off of the running machine.
    pub reason: String,
    /// That in words, and the way out.
    pub message: String,
}

/// Why the device could not fence, as the operator has found; none: it could.
pub fn unready(device: &FenceDevice) -> Option<String> {
    let name = device.name_any();
    let conditions = device.status.as_ref().map(|it| it.conditions.as_slice());
    match find(conditions.unwrap_or_default(), READY) {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!(
            "FenceDevice {name} is not ready: {}: {}",
            ready.reason, ready.message
        )),
        None => Some(format!("FenceDevice {name} has not been probed yet")),
    }
}

/// What is missing of this device for this node; none: its Off counts, or the Node has not reported a boot yet.
pub fn lacking(device: &FenceDevice, node: &NodeView) -> Option<Control> {
    let control = in_boot(device, node, &node.boot_id);
    (!node.boot_id.is_empty() && !control.is_shown()).then_some(control)
}

/// The fact.
pub fn fact(control: Control) -> &'static str {
    match control {
        Control::OffWhileRunning => "reads Off while the node runs",
        Control::Shown | Control::ShownLately | Control::Missing => {
            "has not read On in the node's current boot"
        }
    }
}

/// What follows, and what to do.
pub fn way_out(control: Control, node: &str) -> String {
    match control {
        Control::OffWhileRunning => {
            "its Off proves nothing; correct its address, systemID or outlets".to_owned()
        }
        Control::Shown | Control::ShownLately | Control::Missing => {
            format!("its Off proves nothing; probe it: kubectl fence test {node}")
        }
    }
}

/// All of them, of the nodes that a policy governs, by node.
pub fn lacks(
    policies: &[NodeFencingPolicy],
    devices: &[FenceDevice],
    nodes: impl Iterator<Item = NodeView>,
) -> Vec<Lack> {
    let index = Devices::of(devices);
    let of_node = |node: NodeView| {
        let Ok(Some(policy)) = governing(policies, &node) else {
            return Vec::new();
        };
        let lack = |device: &FenceDevice| {
            let control = lacking(device, &node)?;
            let name = device.name_any();
            Some(Lack {
                message: format!(
                    "FenceDevice {name} of node {} {}: {}",
                    node.name,
                    fact(control),
                    way_out(control, &node.name)
                ),
                node: node.name.clone(),
                device: name,
                policy: policy.name_any(),
                reason: control.reason().to_owned(),
            })
        };
        index.serving(&node).into_iter().filter_map(lack).collect()
    };
    nodes.flat_map(of_node).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fencing_core::fixtures;
    use serde_json::{Value, json};

    /// A node of this name, in boot-1.
    pub fn node(name: &str) -> NodeView {
        NodeView {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            boot_id: "boot-1".to_owned(),
            ..fixtures::node()
        }
    }

    /// What a device has read of it in its boot.
    pub fn row(node: &NodeView, reads: &str) -> Value {
        json!({"nodeName": node.name, "nodeUID": node.uid, "bootID": node.boot_id, "powerState": reads, "sinceTime": "2026-11-26T06:00:00Z"})
    }

    /// A device with these rows.
    pub fn device(name: &str, spec: Value, rows: &[Value]) -> FenceDevice {
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
            "metadata": {"name": name, "generation": 1}, "spec": spec,
            "status": {"observedGeneration": 1, "positiveControls": rows},
        });
        serde_json::from_value(device).expect("a device")
    }

    fn policy() -> NodeFencingPolicy {
        let spec = json!({"nodeSelector": {}, "fence": {"mode": "PowerOff"}});
        NodeFencingPolicy::new("workers", serde_json::from_value(spec).expect("a spec"))
    }

    /// A fleet of three nodes, and an outlet of the first.
    #[test]
    fn each_node_of_a_fleet_is_told_by_its_own_row() {
        let nodes = ["w1", "w2", "w3"].map(node);
        let rows = [row(&nodes[0], "On"), row(&nodes[1], "Off")];
        let fleet = json!({"nodeSelector": {}, "redfish": {"address": "${node.name}-bmc"}});
        let outlet = json!({"nodeName": "w1", "ipmi": {"address": "bmc"}});
        let devices = [
            device("rack", fleet, &rows),
            device("outlet", outlet, &[]),
            device("hands", json!({"nodeName": "w1", "manual": {}}), &[]),
        ];
        let found = |policies: &[NodeFencingPolicy], nodes: &[NodeView]| {
            let found = lacks(policies, &devices, nodes.iter().cloned()).into_iter();
            let found = found.map(|it| (it.node, it.device, it.reason, it.message));
            found.collect::<Vec<_>>()
        };
        let all = found(&[policy()], &nodes);
        let short: Vec<_> = all
            .iter()
            .map(|(node, device, reason, _)| format!("{node} {device} {reason}"))
            .collect();
        assert_eq!(
            short,
            [
                "w1 outlet NoPositiveControl",
                "w2 rack OffWhileRunning",
                "w3 rack NoPositiveControl"
            ]
        );
        assert!(all[0].3.ends_with("kubectl fence test w1"), "{all:#?}");
        assert!(all[1].3.contains("correct its address"), "{all:#?}");
        // Of another boot the rows say nothing, and a node that no policy selects needs none.
        let mut rebooted = nodes.clone();
        rebooted[0].boot_id = "boot-2".to_owned();
        assert_eq!(found(&[policy()], &rebooted).len(), 4);
        assert!(found(&[], &nodes).is_empty());
        rebooted[0].boot_id.clear();
        assert_eq!(
            found(&[policy()], &rebooted).len(),
            2,
            "it has not reported"
        );
    }
}
