//! What a policy's condition `Ready` says.

use super::{Rows, node};
use fencing_api::conditions::{READY, find};
use fencing_api::device::FenceDevice;
use fencing_api::policy::{NodeFencingPolicy, NodeFencingPolicyStatus};
use fencing_core::assess::others::Served;
use fencing_core::assess::{World, assess};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The message of each policy's condition `Ready`.
fn assessed(specs: &[(&str, Value)]) -> BTreeMap<String, String> {
    let policy = |(name, spec): &(&str, Value)| {
        NodeFencingPolicy::new(name, serde_json::from_value(spec.clone()).expect("a spec"))
    };
    let policies: Vec<_> = specs.iter().map(policy).collect();
    let device: FenceDevice = serde_json::from_value(json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc", "generation": 1},
        "spec": {"nodeName": "worker-1", "manual": {}},
        "status": {"observedGeneration": 1, "conditions": [{
            "type": "Ready", "status": "True", "reason": "Probed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    }))
    .expect("a device");
    let assessment = assess(&World {
        policies: &policies,
        nodes: &[&node(Some("True"), "")],
        devices: &[&device],
        fences: &[],
        attached: &BTreeMap::from([(
            "rook-ceph.rbd.csi.ceph.com".to_owned(),
            BTreeSet::from(["worker-1".to_owned()]),
        )]),
        served: &Served::NotAsked,
        delays: &[],
        frozen: None,
        lacks: Some("RBAC does not grant the operator delete nodes"),
        lacks_early: None,
        found: &|_, _| None,
        targets: &|_, _| Vec::new(),
        now: jiff::Timestamp::UNIX_EPOCH,
    });
    let words = |status: &NodeFencingPolicyStatus| {
        find(&status.conditions, READY)
            .into_iter()
            .map(|it| format!("{}: {}", it.reason, it.message))
            .collect()
    };
    assessment
        .statuses
        .iter()
        .map(|(name, status)| (name.clone(), words(status)))
        .collect()
}

pub fn policies(rows: &mut Rows) {
    rows.begin("NodeFencingPolicy: the message of its condition Ready");
    let level = |selector: Value| json!({"name": "bmc", "deviceSelector": selector});
    let spec = |extra: Value| {
        let mut spec = json!({
            "nodeSelector": {}, "release": {"mode": "AfterRecovery"}, "fence": {"mode": "ConfirmOnly", "levels": [level(json!({}))]},
        });
        json_patch::merge(&mut spec, &extra);
        spec
    };
    let mut one = |input: &str, extra: Value| {
        let words = assessed(&[("prod", spec(extra))])
            .remove("prod")
            .expect("the policy");
        rows.row(input, &words);
    };
    one(
        "a wait shorter than the cluster's grace period",
        json!({"unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}]}),
    );
    one(
        "Ceph with AfterDetach",
        json!({"release": {"mode": "AfterDetach"}}),
    );
    one(
        "a level that matches no device",
        json!({"fence": {"levels": [level(json!({"matchLabels": {"tier": "pdu"}}))]}}),
    );
    one(
        "a selector that matches no node",
        json!({"nodeSelector": {"matchLabels": {"rack": "8"}}}),
    );
    one(
        "a window in a time zone that the API server knows, and this version does not",
        json!({"windows": [{"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "timeZone": "Europe/Berln", "mode": "Observe"}]}),
    );
    one(
        "a window whose time is none, under an older CustomResourceDefinition",
        json!({"windows": [{"name": "night", "days": ["Mon"], "start": "24:00", "end": "06:00", "mode": "Observe"}]}),
    );
    one(
        "a window that is open",
        json!({"windows": [{"name": "night", "days": ["Wed"], "start": "22:00", "end": "06:00", "mode": "Observe"}]}),
    );
    one(
        "a window that is closed",
        json!({"windows": [{"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "mode": "Observe"}]}),
    );
    one(
        "a Node that is to be deleted, without the rights for that",
        json!({"recovery": {"strategy": "DeleteNode"}, "release": {"mode": "AfterDetach"}}),
    );
    one(
        "paused",
        json!({"pauseRequests": [{"name": "upgrade", "reason": "of the switches"}]}),
    );
    one(
        "paused until a time that is past",
        json!({"pauseRequests": [{"name": "upgrade", "expireTime": "1970-01-01T00:00:00Z"}]}),
    );
    one(
        "paused until a time that is to come",
        json!({"pauseRequests": [{"name": "upgrade", "reason": "of the switches", "expireTime": "2099-01-01T00:00:00Z"}]}),
    );
    let both = assessed(&[("all", spec(json!({}))), ("prod", spec(json!({})))]);
    assert_eq!(both["all"], both["prod"]);
    rows.row(
        "two policies of equal priority on one node, each of them",
        &both["all"],
    );
}
