//! Devices, policies and the nodes that they protect: what the operator says of each, all of it from conditions that it keeps.

use super::super::cluster::{Cluster, Error, seen};
use super::super::control::{lacks, unready};
use super::super::providers;
use super::{Category, Check, Finding};
use fencing_api::conditions::{READY, find};
use fencing_api::device::FenceDevice;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_cluster::slim::SlimNode;
use fencing_cluster::text::listed;
use fencing_core::control::OFF_WHILE_RUNNING;
use fencing_core::observed::NodeView;
use fencing_core::quiesce::counted;
use fencing_core::select::{governing, serves};
use kube::ResourceExt;
use kube::api::ListParams;
use std::collections::BTreeMap;

const HERE: Category = Category("fleet");
const DEVICES: Check = HERE.check(
    "devices",
    "docs/runbooks/FenceDeviceUnreachable.md#diagnosis",
);
const NO_DEVICE: Check = HERE.check("devices", "docs/how-to/first-node.md#write-the-device");
const POLICIES: Check = HERE.check("policies", "docs/how-to/first-node.md#write-the-policy");
const NODES: Check = HERE.check(
    "nodes",
    "docs/runbooks/NodesWithoutFenceDevice.md#diagnosis",
);
const CONTROL: Check = HERE.check(
    "positive-control",
    "docs/how-to/first-node.md#keep-an-eye-on-the-devices",
);
const LIES: Check = HERE.check(
    "positive-control",
    "docs/runbooks/FenceDeviceOffWhileRunning.md#diagnosis",
);
/// Names in one line.
const NAMED_MAX: usize = 5;

pub(super) async fn look(
    cluster: &Cluster,
    policies: &[NodeFencingPolicy],
) -> Result<Vec<Finding>, Error> {
    let all = ListParams::default();
    let devices = cluster.ours::<FenceDevice>().await?;
    let nodes = seen(cluster.list(&cluster.api::<SlimNode>(), &all).await)?;
    let mut findings = of_devices(&devices);
    let of_nodes = match nodes {
        Ok(nodes) => {
            let views: Vec<NodeView> = nodes.iter().map(SlimNode::view).collect();
            findings.extend(controlled(policies, &devices, &views));
            findings.extend(unserved(&devices, &views));
            protected(policies, &views)
        }
        Err(words) => NODES.unknown(format!(
            "which nodes no policy selects is not known: {words}"
        )),
    };
    findings.extend(of_policies(policies));
    findings.push(of_nodes);
    Ok(findings)
}

/// Which device of which node has not shown that it can read On (S25), one line for each device and reason.
fn controlled(
    policies: &[NodeFencingPolicy],
    devices: &[FenceDevice],
    nodes: &[NodeView],
) -> Vec<Finding> {
    let mut by: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    let lacks = lacks(policies, devices, nodes.iter().cloned());
    for lack in &lacks {
        let lies = lack.reason == OFF_WHILE_RUNNING;
        let of_device = by.entry((!lies, lack.device.as_str())).or_default();
        of_device.push(lack.node.clone());
    }
    if by.is_empty() && !devices.is_empty() {
        return vec![
            CONTROL.well("each device has read On of each of its nodes in the node's current boot"),
        ];
    }
    let found = by.into_iter().map(|((is_missing, device), nodes)| {
        let named = listed(&nodes, "", NAMED_MAX);
        let first = nodes.first().map_or("NODE", String::as_str);
        match is_missing {
            false => LIES.fails(format!(
                "FenceDevice {device} reads Off while these nodes run: {named}; its Off proves nothing: correct its address, systemID or outlets"
            )),
            true => CONTROL.warns(format!(
                "FenceDevice {device} has not read On in the current boot of {named}; its Off proves nothing until a probe does: kubectl fence test {first}"
            )),
        }
    });
    found.collect()
}

/// Nodes of a cloud or a hypervisor that no FenceDevice is for, and the driver that would be.
fn unserved(devices: &[FenceDevice], nodes: &[NodeView]) -> Vec<Finding> {
    let is_served = |node: &NodeView| devices.iter().any(|device| serves(device, node));
    let left: Vec<NodeView> = nodes.iter().filter(|it| !is_served(it)).cloned().collect();
    let found = providers::of(&left).into_iter().map(|(provider, nodes)| {
        let (named, machines) = (listed(&nodes, "", NAMED_MAX), provider.machines);
        NO_DEVICE.warns(match provider.driver {
            Some(driver) => format!(
                "no FenceDevice is for these {machines}: {named}; driver {driver} would be: kubectl fence generate devices --from-provider-ids"
            ),
            None => format!(
                "no FenceDevice is for these {machines}: {named}; this version has no driver for them: use driver manual"
            ),
        })
    });
    found.collect()
}

fn of_devices(devices: &[FenceDevice]) -> Vec<Finding> {
    if devices.is_empty() {
        return vec![NO_DEVICE.warns("there is no FenceDevice, so machines are confirmed off only by hand; write one for each node (kubectl explain fencedevice.spec)")];
    }
    let not_ready = devices.iter().filter_map(unready);
    let not_ready: Vec<Finding> = not_ready.map(|it| DEVICES.fails(it)).collect();
    match not_ready.is_empty() {
        true => vec![DEVICES.well(format!(
            "{} verified for the right machines",
            counted(devices.len(), "FenceDevice")
        ))],
        false => not_ready,
    }
}

fn of_policies(policies: &[NodeFencingPolicy]) -> Vec<Finding> {
    if policies.is_empty() {
        return vec![POLICIES.fails("there is no NodeFencingPolicy, so nothing is fenced; write one (kubectl explain nodefencingpolicy.spec)")];
    }
    let of_policy = |policy: &NodeFencingPolicy| {
        let name = policy.name_any();
        let status = policy.status.as_ref();
        let ready = find(status.map_or(&[], |it| &it.conditions), READY);
        let mode = status.and_then(|it| Some(it.effective.as_ref()?.mode));
        let mode = mode.unwrap_or(policy.spec.procedure.fence.mode);
        match ready {
            None => POLICIES.fails(format!("NodeFencingPolicy {name} is not ready")),
            Some(ready) if ready.status != "True" => POLICIES.fails(format!("NodeFencingPolicy {name} is not ready: {}: {}", ready.reason, ready.message)),
            Some(_) if mode == FenceMode::Observe => POLICIES.warns(format!("NodeFencingPolicy {name} is in mode Observe and only reports; set fence.mode when you trust it")),
            Some(ready) if ready.message.contains("; warning: ") => POLICIES.warns(format!("NodeFencingPolicy {name} acts, mode {mode:?}: {}", ready.message)),
            Some(ready) => POLICIES.well(format!("NodeFencingPolicy {name} acts, mode {mode:?}: {}", ready.message)),
        }
    };
    policies.iter().map(of_policy).collect()
}

fn protected(policies: &[NodeFencingPolicy], nodes: &[NodeView]) -> Finding {
    let selected = |node: &&NodeView| !matches!(governing(policies, node), Ok(None));
    let (selected, left): (Vec<&NodeView>, Vec<&NodeView>) =
        nodes.iter().partition(|it| selected(it));
    let left: Vec<String> = left.iter().map(|it| it.name.clone()).collect();
    let statuses = policies.iter().filter_map(|it| it.status.as_ref());
    let unprotected: Vec<String> = statuses
        .flat_map(|it| it.unprotected_nodes.clone())
        .collect();
    match (unprotected.is_empty(), left.is_empty()) {
        (true, true) => NODES.well(format!("all {} nodes are protected", nodes.len())),
        (true, false) => NODES.warns(format!("{} protected; no policy selects {}", counted(selected.len(), "node"), listed(&left, "", NAMED_MAX))),
        (false, _) => NODES.fails(format!("{} cannot be fenced (no FenceDevice of their policy's levels is Ready); see kubectl get fencedevices, and write the missing ones", listed(&unprotected, "", NAMED_MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Mark;
    use crate::control::tests::{device, node, row};
    use serde_json::json;

    #[test]
    fn each_device_without_a_positive_control_is_told_with_its_nodes_and_the_way_out() {
        let spec = json!({"nodeSelector": {}, "fence": {"mode": "PowerOff"}});
        let spec = serde_json::from_value(spec).expect("a spec");
        let policies = [NodeFencingPolicy::new("workers", spec)];
        let nodes = ["w1", "w2", "w3"].map(node);
        let fleet = json!({"nodeSelector": {}, "redfish": {"address": "${node.name}-bmc"}});
        let found = |rows: &[_]| {
            let devices = [device("rack", fleet.clone(), rows)];
            let found = controlled(&policies, &devices, &nodes).into_iter();
            let found = found.map(|it| (it.status, it.message, it.check));
            found.collect::<Vec<_>>()
        };
        let well = nodes.each_ref().map(|it| row(it, "On"));
        let all = found(&well);
        assert_eq!((all.len(), all[0].0), (1, Mark::Ok), "{all:#?}");
        let some = found(&[row(&nodes[1], "Off")]);
        let [(fails, lies, check), (warns, missing, _)] = some.as_slice() else {
            panic!("{some:#?}");
        };
        assert_eq!((*fails, *warns), (Mark::Failed, Mark::Warning));
        assert_eq!(*check, "positive-control");
        assert!(lies.starts_with("FenceDevice rack reads Off while these nodes run: w2; "));
        assert!(missing.contains("boot of w1, w3; "), "{missing}");
        assert!(missing.ends_with("kubectl fence test w1"), "{missing}");
        assert!(controlled(&policies, &[], &nodes).is_empty());
    }
}
