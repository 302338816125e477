//! A plain incident for unit tests: one node, one device, a policy that asks for nothing special. Each test changes the one
//! thing that it is about.

#![allow(clippy::expect_used, reason = "a fixture fails like a test")]

use super::attempt::Attempt;
use super::control::Control;
use super::device::{Device, DeviceReadings, Level};
use super::identity_rule::IdentityRule;
use super::memory::OwnClaim;
use super::observed::{
    CLAIM, ConditionView, LeaseView, NodeView, OUT_OF_SERVICE, Observed, PodView, Read, TaintView,
};
use super::power_history::PowerHistory;
use super::proof::{Case, Proof, judge};
use super::reading::{Identity, PowerState, Reading};
use super::settings::{Approval, Record, Settings};
use super::verification::{Require, Verification};
use fencing_api::settings::{FenceMode, Procedure};
use proptest::test_runner::Config as ProptestConfig;
use std::time::Duration;

/// System UUID of the node's machine.
pub const MACHINE: &str = "11111111-2222-4333-8444-555555555555";

/// An off command to the device that was written down and has not been answered.
pub fn attempt() -> Attempt {
    Attempt {
        id: "n1-1".to_owned(),
        level: "level".to_owned(),
        devices: vec!["bmc".to_owned()],
        versions: [("bmc".to_owned(), bmc().version)].into(),
        limit: Duration::from_secs(10),
        recorded: true,
        contested: false,
        results: Default::default(),
    }
}

/// Mode PowerOff, one device.
pub fn settings() -> Settings {
    Settings {
        fence: "fence".to_owned(),
        node: "worker-1".to_owned(),
        node_uid: Some("uid-1".to_owned()),
        boot_id: Some("boot-1".to_owned()),
        human: false,
        adopted: false,
        not_before: Duration::ZERO,
        claims_off_early: false,
        condition: None,
        procedure: procedure(),
        power_on: None,
        verification: verification(),
        read_period: Duration::from_millis(20),
        levels: vec![level()],
        approval: Approval::NotNeeded,
        unsupported: None,
        confirmation: None,
        released: false,
        stop: None,
        record: Record::default(),
    }
}

/// Mode PowerOff, and times that a test does not wait long for.
fn procedure() -> Procedure {
    let mut procedure = Procedure::default();
    procedure.fence.mode = FenceMode::PowerOff;
    procedure.recovery.detach_timeout_seconds = 60;
    procedure.release.timeout_seconds = 60;
    procedure
}

/// The same settings, but for this of the policy.
pub fn asking(mut settings: Settings, change: impl FnOnce(&mut Procedure)) -> Settings {
    change(&mut settings.procedure);
    settings
}

/// One device, `bmc`, that must be [`MACHINE`]'s.
pub fn level() -> Level {
    Level {
        name: "level".to_owned(),
        require: Require::All,
        attempts_max: 1,
        retry_period: Duration::from_secs(1),
        timeout: Duration::from_secs(10),
        devices: vec![bmc()],
    }
}

/// The only device of [`level`].
pub fn bmc() -> Device {
    Device {
        name: "bmc".to_owned(),
        version: "uid-bmc/1".to_owned(),
        identity: IdentityRule::Is(MACHINE.to_owned()),
        manual: false,
        outlets: false,
        covers: None,
        control: Control::ShownLately,
    }
}

fn verification() -> Verification {
    Verification {
        off_reads_min: 2,
        window: Duration::from_millis(20),
    }
}

/// A Node that is not Ready.
pub fn node() -> NodeView {
    NodeView {
        name: "worker-1".to_owned(),
        uid: "uid-1".to_owned(),
        labels: Default::default(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: "Unknown".to_owned(),
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

/// Another node, which is Ready.
pub fn ready_node(name: &str) -> NodeView {
    let mut node = NodeView {
        name: name.to_owned(),
        ..node()
    };
    for condition in &mut node.conditions {
        condition.status = "True".to_owned();
    }
    node
}

/// The date of a claim.
pub const DATE: &str = "2026-01-02T00:00:00Z";

/// A taint as [`NodeView::taints`] has it.
pub fn taint(key: &str, value: &str, effect: &str) -> TaintView {
    TaintView {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

/// A node from which everything has gone.
pub fn drained() -> Observed {
    Observed {
        node: Read::NotRead,
        lease: Read::NotRead,
        pods: Read::Present(Vec::new()),
        starting: Read::NotRead,
        attachments: Read::Present(Vec::new()),
        attachments_cached: Vec::new(),
        volumes: Read::NotRead,
        tolerated_volumes: Vec::new(),
        kubelet_answers: false,
        evidence: Read::Present(false),
        hold: None,
        claim_of_other_fence: false,
        cleared_by: None,
        claim_of_other_process: false,
        frozen: None,
    }
}

/// The Node under this claim.
pub fn claimed(claim: &str) -> NodeView {
    NodeView {
        taints: vec![dated(taint(CLAIM, claim, "NoExecute"))],
        ..node()
    }
}

/// The `out-of-service` that goes with a claim.
pub fn out_of_service() -> TaintView {
    dated(taint(OUT_OF_SERVICE, "nodeshutdown", "NoExecute"))
}

/// The taint with the date of a claim.
pub fn dated(taint: TaintView) -> TaintView {
    TaintView {
        time_added: Some(DATE.to_owned()),
        ..taint
    }
}

/// A pod of the node that is being deleted.
pub fn pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "7".to_owned(),
        deleting: true,
        finished: false,
        finalizers: false,
        mirror: false,
        tolerates_out_of_service: false,
        tolerates_claim: None,
        claims: Vec::new(),
        attachable: false,
        inline: false,
        comes_back: false,
        looks_alive: false,
        written: 0,
    }
}

/// This claim of ours on the Node, which the API server has shown.
pub fn own_claim(value: &str) -> OwnClaim {
    OwnClaim {
        value: value.to_owned(),
        uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        seen: true,
    }
}

/// The kubelet's Lease, which does not move.
pub fn lease() -> LeaseView {
    LeaseView {
        renew_time: "renewal-1".to_owned(),
    }
}

/// Off, asked for at 11 s and at 13 s, by the right machine.
pub fn off_readings() -> Vec<DeviceReadings> {
    let off = |seconds: u64| Reading {
        state: PowerState::Off,
        raw: "Off".to_owned(),
        identity: Identity {
            system_uuid: Some(MACHINE.to_owned()),
            serial_number: None,
        },
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked: Duration::from_secs(seconds),
        answered: Duration::from_secs(seconds),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    vec![DeviceReadings::of(&bmc(), vec![off(11), off(13)])]
}

/// A proof that was won under this claim at 14 s, the way every proof is: by the rule. It dies at 28 s, 15 s after the last
/// question.
pub fn proof(claim: &str) -> Proof {
    let case = Case {
        claim,
        node_uid: "uid-1",
        boot_id: "boot-1",
        node: &claimed(claim),
        lease_before: &lease(),
        lease_now: &lease(),
        written: None,
        commanded: false,
        kubelet_answers: false,
        quiesced: Duration::from_secs(10),
        devices: &off_readings(),
        others: &[],
        require: Require::All,
        power_history: &PowerHistory::default(),
        verification: &verification(),
        confirmed_until: None,
    };
    judge(&case, Duration::from_secs(14)).expect("a proof")
}

/// How often a cheap property is tried: 10,000 times, or as often as `PROPTEST_CASES` says if that is more (`make soak`).
pub fn cases() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig {
        cases: asked.cases.max(10_000),
        ..asked
    }
}
