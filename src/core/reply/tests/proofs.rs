//! What is known of a proof, and for how long.

use super::*;

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
