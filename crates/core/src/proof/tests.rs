//! Every refusal of the proof rule, one change to a good case at a time.

mod any_answers;
mod contradicted;
mod control;

use super::*;
use crate::control::Control;
use crate::identity_rule::IdentityRule;
use crate::observed::{CLAIM, ConditionView, TaintView};
use crate::reading::Identity;
use std::collections::BTreeMap;

const MACHINE: &str = "11111111-2222-4333-8444-555555555555";

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn off(asked: f64) -> Reading {
    Reading {
        state: PowerState::Off,
        raw: "Off".to_owned(),
        identity: Identity {
            system_uuid: Some(MACHINE.to_owned()),
            serial_number: None,
        },
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked: seconds(asked),
        answered: seconds(asked + 0.1),
        wall: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A case that is a proof at 14 s: quiesced at 10 s, Off asked at 11 s and 13 s.
struct Good {
    node: NodeView,
    lease_now: LeaseView,
    written: Option<&'static str>,
    /// What was read before.
    before: Vec<DeviceReadings>,
    devices: Vec<DeviceReadings>,
    others: Vec<DeviceReadings>,
    require: Require,
    commanded: bool,
    confirmed_until: Option<Duration>,
    verification: Verification,
    now: Duration,
}

fn device(name: &str) -> DeviceReadings {
    DeviceReadings {
        device: name.to_owned(),
        version: "uid/1".to_owned(),
        identity: IdentityRule::Is(MACHINE.to_owned()),
        outlets: false,
        covers: None,
        control: Control::Shown,
        readings: vec![off(11.0), off(13.0)],
    }
}

fn good() -> Good {
    let claim = TaintView {
        key: CLAIM.to_owned(),
        value: Some("fence-n1".to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: None,
    };
    let ready = ConditionView {
        kind: "Ready".to_owned(),
        status: "Unknown".to_owned(),
        transition: String::new(),
        heartbeat: String::new(),
    };
    Good {
        node: NodeView {
            name: "worker-1".to_owned(),
            uid: "uid-1".to_owned(),
            labels: BTreeMap::new(),
            annotation_keys: Vec::new(),
            unschedulable: false,
            taints: vec![claim],
            conditions: vec![ready],
            boot_id: "boot-1".to_owned(),
            system_uuid: MACHINE.to_owned(),
            provider_id: String::new(),
            addresses: Vec::new(),
            volumes_attached: 0,
            reported_early: false,
            resource_version: String::new(),
            finalizers: Vec::new(),
            deleting: false,
        },
        lease_now: LeaseView {
            renew_time: "renewal-1".to_owned(),
        },
        written: None,
        before: Vec::new(),
        devices: vec![device("bmc")],
        others: Vec::new(),
        require: Require::All,
        commanded: false,
        confirmed_until: None,
        verification: Verification {
            off_reads_min: 2,
            window: seconds(1.0),
        },
        now: seconds(14.0),
    }
}

/// What they have said, as far as these readings tell.
fn said<'a>(heard: impl Iterator<Item = &'a DeviceReadings>, commanded: bool) -> PowerHistory {
    let mut said = PowerHistory::default();
    heard.for_each(|device| said.note(device, commanded));
    said
}

fn judged(change: impl FnOnce(&mut Good)) -> Result<Proof, NotProven> {
    let mut good = good();
    change(&mut good);
    let heard = [&good.before, &good.devices, &good.others];
    let case = Case {
        claim: "fence-n1",
        node_uid: "uid-1",
        boot_id: "boot-1",
        node: &good.node,
        lease_before: &LeaseView {
            renew_time: "renewal-1".to_owned(),
        },
        lease_now: &good.lease_now,
        written: good.written,
        quiesced: seconds(10.0),
        devices: &good.devices,
        others: &good.others,
        require: good.require,
        power_history: &said(heard.into_iter().flatten(), good.commanded),
        verification: &good.verification,
        commanded: good.commanded,
        kubelet_answers: false,
        confirmed_until: good.confirmed_until,
    };
    judge(&case, good.now)
}

fn is_alive(change: impl FnOnce(&mut Good)) -> bool {
    matches!(judged(change), Err(NotProven::Alive(_)))
}

fn is_not_off(change: impl FnOnce(&mut Vec<Reading>)) -> bool {
    let outcome = judged(|good| change(&mut good.devices[0].readings));
    matches!(outcome, Err(NotProven::NotOffLongEnough { .. }))
}

#[test]
fn a_good_case_is_a_proof_that_dies_15_s_after_its_last_question() {
    let proof = judged(|_| {}).expect("a proof");
    assert_eq!(proof.claim(), "fence-n1");
    assert_eq!(proof.valid_until(), seconds(28.0));
}

#[test]
fn a_sign_of_life_on_the_node_refuses() {
    assert!(is_alive(|good| good.node.uid = "uid-2".to_owned()));
    assert!(is_alive(|good| good.node.boot_id = "boot-2".to_owned()));
    assert!(is_alive(|good| good.node.taints.clear()));
    assert!(is_alive(
        |good| good.node.taints[0].value = Some("fence-n2".to_owned())
    ));
    assert!(is_alive(
        |good| good.node.conditions[0].status = "True".to_owned()
    ));
    assert!(is_alive(|good| good.node.conditions.clear()));
    assert!(judged(|good| good.node.conditions[0].status = "False".to_owned()).is_ok());
}

#[test]
fn only_an_exact_off_counts_and_it_counts_from_the_last_other_answer() {
    for state in [
        PowerState::On,
        PowerState::Transitional,
        PowerState::Unknown,
    ] {
        assert!(is_not_off(|readings| readings[1].state = state));
        assert!(is_not_off(|readings| readings[0].state = state));
    }
    assert!(is_not_off(
        |readings| readings[1].faults = vec!["PowerFault".to_owned()]
    ));
    assert!(is_not_off(Vec::clear));
    assert!(is_not_off(|readings| readings.truncate(1)));
}

#[test]
fn readings_from_before_quiesce_do_not_count() {
    assert!(is_not_off(|readings| readings[0] = off(9.9)));
    assert!(judged(|good| good.devices[0].readings[0] = off(10.0)).is_ok());
}

#[test]
fn the_run_must_span_the_window_from_answer_to_question() {
    assert!(is_not_off(|readings| readings[0] = off(12.0)));
    assert!(judged(|good| good.devices[0].readings[0] = off(11.8)).is_ok());
}

#[test]
fn two_readings_are_needed_whatever_the_policy_says() {
    let outcome = judged(|good| {
        good.verification = Verification {
            off_reads_min: 0,
            window: Duration::ZERO,
        };
        good.devices[0].readings.truncate(1);
    });
    assert!(matches!(outcome, Err(NotProven::NotOffLongEnough { .. })));
}

#[test]
fn an_old_reading_proves_nothing_and_neither_does_one_of_the_future() {
    let at = |now: f64| judged(|good| good.now = seconds(now));
    assert!(at(28.0).is_ok());
    assert!(matches!(at(28.001), Err(NotProven::Stale { .. })));
    assert!(matches!(at(12.9), Err(NotProven::Stale { .. })));
}

#[test]
fn the_right_machine_has_to_answer_each_time() {
    let other = "99999999-2222-4333-8444-555555555555";
    let named = |uuid: Option<&str>, rule: IdentityRule| {
        judged(|good| {
            good.devices[0].readings[0].identity.system_uuid = uuid.map(str::to_owned);
            good.devices[0].identity = rule;
        })
    };
    let is = || IdentityRule::Is(MACHINE.to_owned());
    let or_silent = || IdentityRule::IsOrSilent(MACHINE.to_owned());
    let wrong = |outcome| matches!(outcome, Err(NotProven::WrongMachine { .. }));
    assert!(wrong(named(Some(other), is())));
    assert!(matches!(
        named(None, is()),
        Err(NotProven::IdentityRefused { .. })
    ));
    assert!(wrong(named(Some(other), or_silent())));
    assert!(named(None, or_silent()).is_ok());
    assert!(named(Some(other), IdentityRule::Skip).is_ok());
    let outcome = named(Some(MACHINE), IdentityRule::NotPinned);
    assert!(matches!(outcome, Err(NotProven::IdentityNotPinned { .. })));
    let outcome = named(Some(MACHINE), IdentityRule::Refused("shared".to_owned()));
    assert!(matches!(outcome, Err(NotProven::IdentityRefused { .. })));
}

#[test]
fn all_devices_or_any_one() {
    let second_is_on = |good: &mut Good| {
        good.devices.push(device("pdu"));
        good.devices[1].readings[1].state = PowerState::On;
    };
    assert!(judged(second_is_on).is_err());
    let any = |second: PowerState| {
        judged(move |good| {
            good.devices.push(device("pdu"));
            good.devices[1].readings[1].state = second;
            good.require = Require::Any;
            good.commanded = true;
        })
    };
    assert!(any(PowerState::Unknown).is_ok());
    // One that contradicts is not one that is silent (S4).
    for contradicts in [PowerState::On, PowerState::Transitional] {
        assert!(matches!(
            any(contradicts),
            Err(NotProven::NotOffLongEnough { .. })
        ));
    }
    assert!(matches!(
        judged(|good| good.devices.clear()),
        Err(NotProven::NoDevice)
    ));
}

/// Whom it speaks of need not be known for certain, as long as it is not somebody else.
#[test]
fn a_device_that_reads_on_is_heard_even_where_its_off_would_prove_nothing() {
    let second_is_on = |rule: IdentityRule, uuid: Option<&str>| {
        judged(|good| {
            let mut second = device("second");
            second.identity = rule;
            second.readings[1].state = PowerState::On;
            second.readings[1].identity.system_uuid = uuid.map(str::to_owned);
            good.devices.push(second);
            good.require = Require::Any;
            // So soon after our command it contradicts nothing yet.
            good.commanded = true;
        })
    };
    let is = || IdentityRule::Is(MACHINE.to_owned());
    let shared = "00000000-0000-0000-0000-000000000000";
    for (rule, uuid) in [
        (IdentityRule::NotPinned, Some(MACHINE)),
        (IdentityRule::Refused("shared".to_owned()), Some(MACHINE)),
        (is(), None),
        (is(), Some(shared)),
    ] {
        let outcome = second_is_on(rule.clone(), uuid).expect_err("no proof");
        assert!(!outcome.is_contradiction(), "{rule:?} {uuid:?}: {outcome}");
    }
    let another = Some("99999999-2222-4333-8444-555555555555");
    assert!(second_is_on(is(), another).is_ok());
}

#[test]
fn a_device_of_another_level_that_reads_on_contradicts() {
    let other = |state: PowerState, uuid: &str| {
        judged(|good| {
            let mut other = device("pdu");
            other.readings.truncate(1);
            other.readings[0].state = state;
            other.readings[0].identity.system_uuid = Some(uuid.to_owned());
            good.others.push(other);
            good.commanded = true;
        })
    };
    for state in [PowerState::On, PowerState::Transitional] {
        let outcome = other(state, MACHINE).expect_err("no proof");
        assert!(
            matches!(outcome, NotProven::OtherReadsOn { .. }),
            "{outcome}"
        );
        assert!(other(state, "99999999-2222-4333-8444-555555555555").is_ok());
    }
    for state in [PowerState::Off, PowerState::Unknown] {
        assert!(other(state, MACHINE).is_ok());
    }
}

#[test]
fn two_supplies_that_were_off_one_after_the_other_prove_nothing() {
    let second_supply = |first: f64, last: f64, require: Require| {
        judged(move |good| {
            good.devices.push(DeviceReadings {
                readings: vec![off(first), off(last)],
                ..device("pdu")
            });
            good.require = require;
            good.now = seconds(last + 0.5);
        })
    };
    for (first, last) in [(13.5, 15.0), (12.5, 15.0)] {
        let outcome = second_supply(first, last, Require::All);
        assert!(
            matches!(&outcome, Err(NotProven::NotOffTogether { devices, .. }) if devices == "FenceDevice bmc, pdu"),
            "{outcome:?}"
        );
    }
    // From the answer at 11.9 s to the question at 13 s.
    assert!(second_supply(11.8, 15.0, Require::All).is_ok());
    assert!(second_supply(13.5, 15.0, Require::Any).is_ok());
}

#[test]
fn a_proof_of_all_devices_lives_as_long_as_its_oldest_reading() {
    let later = |good: &mut Good| {
        good.devices.push(device("pdu"));
        good.devices[1].readings[1] = off(13.5);
    };
    let proof = judged(later).expect("a proof");
    assert_eq!(proof.valid_until(), seconds(28.0));
}

/// For `probe FILE`: the device's part of the rule, without a cluster.
#[test]
fn a_device_alone_reads_off_by_the_same_rule() {
    let verification = good().verification;
    let reads_off = |device: &DeviceReadings, since: f64| {
        reads_off(device, seconds(since), &verification, seconds(14.0)).is_ok()
    };
    assert!(reads_off(&device("bmc"), 10.0));
    // Asked before the time in question.
    assert!(!reads_off(&device("bmc"), 12.0));
    let mut on = device("bmc");
    on.readings[1].state = PowerState::On;
    assert!(!reads_off(&on, 10.0));
}
