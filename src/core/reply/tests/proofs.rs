//! What is known of a proof, and for how long.

use super::*;
use crate::core::incident::Device;
use crate::core::proof::Require;

/// S17, S22: what was silent beside the last readings may answer beside these, and what was stored of them says nothing of these.
#[test]
fn new_readings_are_judged_anew() {
    let mut memory = memory();
    memory.begin(false);
    (memory.judged_down, memory.evidence_is_new) = (true, true);
    let reply = Reply::Device(1, confirmed(off_readings(), Vec::new()));
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    assert!(!memory.judged_down && !memory.evidence_is_new);
}

/// S17: the evidence of an older proof is what is known until that of the new one is stored for certain.
#[test]
fn the_devices_of_a_new_proof_are_known_once_its_evidence_is_stored() {
    let proven_by = |reply: Reply| {
        let mut memory = Memory {
            evidence: true,
            proven_by: vec!["bmc".to_owned()],
            proving: vec!["pdu".to_owned()],
            ..memory()
        };
        learn(&settings(), &mut memory, Asked::StoreEvidence, reply, NOW);
        assert!(memory.evidence);
        memory.proven_by
    };
    assert_eq!(proven_by(Reply::Done), ["pdu"]);
    assert_eq!(proven_by(Reply::Unknown("silence".to_owned())), ["bmc"]);
}

/// S8: what somebody takes away before the Node is read again was there: it is not set again.
#[test]
fn a_taint_that_the_api_server_has_taken_is_known() {
    for (reply, is_known) in [
        (Reply::Done, true),
        (Reply::Unknown("silence".to_owned()), false),
    ] {
        let mut memory = memory();
        learn(&settings(), &mut memory, Asked::Taint, reply, NOW);
        assert_eq!(memory.tainted, is_known);
    }
}

/// S4: a device that reports a fault beside its off proves nothing, so no list is in time for it.
#[test]
fn under_any_a_device_with_a_fault_asks_for_no_list() {
    let mut any = settings();
    any.levels[0].require = Require::Any;
    let counts = |faults: &[&str]| {
        let mut memory = memory();
        memory.begin(false);
        let mut readings = off_readings();
        for reading in &mut readings[0].readings {
            reading.faults = faults.iter().map(|it| (*it).to_owned()).collect();
        }
        let list = PodList {
            pods: vec![pod("listed")],
            answered: Duration::from_secs(12),
        };
        let reply = Reply::Device(1, confirmed(readings, vec![list]));
        learn(&any, &mut memory, Asked::Device, reply, NOW);
        memory.pods.is_some()
    };
    assert!(counts(&[]));
    assert!(!counts(&["interlock"]));
}

/// S15, L1: an outlet that is taken out of its level while it is read is an outlet still, and a FenceDevice that is none any more is none.
#[test]
fn what_an_outlet_says_is_told_by_the_settings_or_by_what_it_was() {
    let mut pdu = settings();
    let device = |name: &str, outlets| Device {
        name: name.to_owned(),
        outlets,
        ..pdu.levels[0].devices[0].clone()
    };
    let (outlet, bmc) = (device("outlet", true), device("outlet", false));
    let reads_on = |second| {
        let mut on = off_readings().remove(0);
        "outlet".clone_into(&mut on.device);
        on.readings.truncate(1);
        (on.readings[0].state, on.readings[0].asked) =
            (PowerState::On, Duration::from_secs(second));
        vec![off_readings().remove(0), on]
    };
    for (later, is_against) in [(None, false), (Some(bmc), true)] {
        let mut memory = memory();
        let mut hears = |levels: &Settings, second| {
            memory.begin(false);
            let reply = Reply::Device(memory.orders, confirmed(reads_on(second), vec![]));
            learn(levels, &mut memory, Asked::Device, reply, NOW);
        };
        pdu.levels[0].devices = vec![settings().levels[0].devices[0].clone(), outlet.clone()];
        hears(&pdu, 20);
        pdu.levels[0].devices.truncate(1);
        pdu.levels[0].devices.extend(later);
        hears(&pdu, 50);
        let against = memory.said.against(&["bmc"], 1, Require::All);
        assert_eq!(against.is_some(), is_against);
    }
}
