//! The operator's own resources, as an API server without their schemas would give them: what can be decoded can be judged.

use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_core::assess::others::Served;
use fencing_core::assess::{World, assess};
use fencing_core::identity::{judge, pinned, rule};
use fencing_core::observed::{ConditionView, NodeView};
use fencing_core::reading::Identity;
use fencing_core::record;
use fencing_core::select::{Onsets, first_due, governing};
use fencing_core::support::{unsupported, unsupported_fence};
use fencing_core::window::effective;
use serde_json::{from_slice, from_value, to_value};
use std::collections::BTreeMap;
use std::time::Duration;

const MACHINE: &str = "11111111-2222-4333-8444-555555555555";

pub fn run(bytes: &[u8]) {
    if let Ok(policy) = from_slice::<NodeFencingPolicy>(bytes) {
        judge_policy(policy);
    }
    if let Ok(device) = from_slice::<FenceDevice>(bytes) {
        judge_device(&device);
    }
    if let Ok(fence) = from_slice::<NodeFence>(bytes) {
        judge_fence(&fence);
    }
}

fn node(ready: &str) -> NodeView {
    NodeView {
        name: "worker-1".to_owned(),
        uid: "uid-1".to_owned(),
        labels: BTreeMap::from([("rack".to_owned(), "7".to_owned())]),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: "boot-1".to_owned(),
        system_uuid: MACHINE.to_owned(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn judge_policy(policy: NodeFencingPolicy) {
    let stored = to_value(&policy).expect("it was JSON");
    let again: NodeFencingPolicy = from_value(stored.clone()).expect("what was written");
    assert_eq!(to_value(again).ok(), Some(stored), "written and read again");
    let _ = unsupported(&policy.spec, Some("words"));
    for second in [0, 1_800_000_000, -377_705_023_201, 253_402_207_200] {
        let now = jiff::Timestamp::from_second(second).expect("a second");
        if let Ok(now) = effective(&policy, now) {
            let _ = now.message();
        }
    }
    let mut onsets = Onsets::default();
    onsets.note(&node("Unknown"), Duration::from_secs(1));
    let _ = first_due(&policy.spec.unhealthy_conditions, &onsets);
    let policies = [policy.clone(), policy];
    let nodes = [node("Unknown"), node("True")];
    // Two of the same priority: both act, or neither.
    let selected = governing(&policies, &nodes[0]);
    assert!(
        !matches!(selected, Ok(Some(_))),
        "of two that are the same, one acts"
    );
    let status = assess(&World {
        policies: &policies,
        nodes: &nodes.each_ref(),
        devices: &[],
        fences: &[],
        attached: &BTreeMap::new(),
        served: &Served::NotAsked,
        delays: &[],
        frozen: None,
        lacks: Some("words"),
        lacks_early: Some("words"),
        found: &|_, _| None,
        targets: &|_, _| Vec::new(),
        now: jiff::Timestamp::UNIX_EPOCH,
    });
    assert!(
        status.protected.values().all(|is_protected| !is_protected),
        "without a device"
    );
}

fn judge_device(device: &FenceDevice) {
    let node = node("True");
    let _ = (rule(device, &node), pinned(device, &node));
    let found = Identity {
        system_uuid: Some("99999999-2222-4333-8444-555555555555".to_owned()),
        serial_number: None,
    };
    let _ = judge(device, &node, &found);
}

fn judge_fence(fence: &NodeFence) {
    let _ = unsupported_fence(&fence.spec, Some("words"));
    if let Some(status) = &fence.status {
        for second in [0, 1_800_000_000] {
            let now = jiff::Timestamp::from_second(second).expect("a second");
            let _ = record::read(status, now);
        }
    }
}
