//! What is known of a proof, and for how long.

use super::*;

/// S22: what was silent beside the last readings may answer beside these.
#[test]
fn the_kubelet_is_asked_anew_beside_new_readings() {
    let mut memory = memory();
    memory.begin(false);
    memory.kubelet_silent = true;
    let reply = Reply::Device(1, confirmed(off_readings(), Vec::new()));
    learn(&settings(), &mut memory, Asked::Device, reply, NOW);
    assert!(!memory.kubelet_silent);
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
