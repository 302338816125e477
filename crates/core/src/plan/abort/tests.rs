//! Who is accused when an incident ends, and what is said of an off that was sent.

use super::*;
use crate::attempt::Attempt;
use crate::fixtures;
use crate::memory::{Commands, LateCommands, ProvenOff, UnderTaint};
use crate::observed::{ConditionView, Read};
use crate::plan::Moment;
use crate::plan::Observed;
use crate::plan::round::Round;
use std::time::Duration;

/// S22: a machine that lives after its device has accepted an off is its device's fault, unless somebody has turned it on since.
#[test]
fn a_device_is_accused_of_what_lives_and_was_not_off_in_between() {
    let accused = |result: OffResult, ready: &str, boot: &str| {
        let node = NodeView {
            boot_id: boot.to_owned(),
            ..is(ready)
        };
        let (s, mut m) = (fixtures::settings(), commanded(result));
        accusation(&Round::of(&s, &mut m, &fixtures::drained(), &at(1)), &node).is_some()
    };
    assert!(!accused(OffResult::Accepted, "Unknown", "boot-1"));
    assert!(accused(OffResult::Accepted, "True", "boot-1"));
    assert!(accused(OffResult::Accepted, "Unknown", "boot-2"));
    assert!(accused(OffResult::Landed, "True", "boot-1"));
    assert!(!accused(OffResult::Landed, "True", "boot-2"));
    assert!(!accused(OffResult::AlreadyOff, "True", "boot-1"));
}

fn at(seconds: u64) -> Moment {
    Moment {
        now: Duration::from_secs(seconds),
        nonce: String::new(),
        date: fixtures::DATE.to_owned(),
    }
}

fn is(ready: &str) -> NodeView {
    NodeView {
        conditions: vec![ConditionView {
            status: ready.to_owned(),
            ..fixtures::node().conditions.remove(0)
        }],
        ..fixtures::node()
    }
}

/// A process whose device has taken an off, under its claim.
fn commanded(result: OffResult) -> Memory {
    let attempt = Attempt {
        results: [("bmc".to_owned(), result)].into(),
        ..fixtures::attempt()
    };
    Memory {
        claim: Some(fixtures::own_claim("fence-n1")),
        commands: Commands {
            attempt: Some(attempt),
            ..Commands::default()
        },
        ..Memory::default()
    }
}

/// S22: who is proven down and Ready in that boot refutes the proof; an off alone proves nothing.
#[test]
fn a_proof_is_refuted_by_its_own_node_in_its_own_boot() {
    let refuted = |proven_off_by: Option<ProofSource>, node: &NodeView| {
        let mut m = Memory {
            proven: ProvenOff {
                by: proven_off_by,
                ..commanded(OffResult::Accepted).proven
            },
            ..commanded(OffResult::Accepted)
        };
        let (s, o, t) = (fixtures::settings(), fixtures::drained(), at(1));
        accuse(&mut Round::of(&s, &mut m, &o, &t), node);
        (m.accused.is_some(), m.proven.refuted)
    };
    let devices = || Some(ProofSource::Devices(vec!["bmc".to_owned()]));
    assert_eq!(refuted(devices(), &is("True")), (true, true));
    assert_eq!(
        refuted(Some(ProofSource::Confirmation), &is("True")),
        (true, true)
    );
    assert_eq!(refuted(None, &is("True")), (true, false));
    let anew = NodeView {
        boot_id: "boot-2".to_owned(),
        ..is("True")
    };
    assert_eq!(refuted(devices(), &anew), (true, false));
}

/// Under the taint, whoever has set it, the watch over it says what it has to.
#[test]
fn nobody_is_accused_when_the_taint_has_stood() {
    for (by_this, by_another, accused) in [
        (false, false, true),
        (true, false, false),
        (false, true, false),
    ] {
        let mut s = fixtures::settings();
        s.record.tainted = by_another;
        let mut m = Memory {
            taint: UnderTaint {
                seen: by_this,
                ..commanded(OffResult::Accepted).taint
            },
            ..commanded(OffResult::Accepted)
        };
        let node = is("True");
        let (o, t) = (fixtures::drained(), at(1));
        let round = &mut Round::of(&s, &mut m, &o, &t);
        assert!(aborted(round, &node, "fence-n1").is_some());
        assert_eq!(m.accused.is_some(), accused);
    }
}

/// A kubelet that had fallen silent speaks again; one that had said NotReady all along may have said so before the off.
#[test]
fn only_who_was_silent_speaks_again() {
    let speaks = |silent: bool, ready: &str, claim: Option<&str>| {
        let mut s = fixtures::settings();
        s.condition = Some(HeldCondition {
            type_: "Ready".to_owned(),
            status: if silent { "Unknown" } else { "False" }.to_owned(),
            since: None,
        });
        let mut node = is(ready);
        node.taints = claim.map_or(Vec::new(), |claim| fixtures::claimed(claim).taints);
        reports_again(&s, &node)
    };
    assert!(speaks(true, "False", None));
    assert!(!speaks(false, "False", None));
    assert!(!speaks(true, "Unknown", None));
    assert!(!speaks(true, "False", Some("fence-n1")));
    assert!(speaks(true, "False", Some("other-n1")));
}

/// S23: what was sent is told until it has landed on a machine that shows life since, or can land no more on one that does.
#[test]
fn an_end_tells_of_an_off_that_was_sent() {
    let told = |m: &Memory, node: Option<NodeView>, seconds: u64| {
        let o = Observed {
            node: node.map_or(Read::Absent, Read::Present),
            ..fixtures::drained()
        };
        let (s, mut m) = (fixtures::settings(), m.clone());
        off_left_behind(&Round::of(&s, &mut m, &o, &at(seconds))).is_some()
    };
    let landed = commanded(OffResult::Landed);
    assert!(told(&landed, Some(is("Unknown")), 1));
    assert!(told(&landed, None, 1));
    assert!(!told(&landed, Some(is("True")), 1));
    let anew = |boot: &str| NodeView {
        uid: "uid-2".to_owned(),
        boot_id: boot.to_owned(),
        ..is("Unknown")
    };
    assert!(!told(&landed, Some(anew("boot-1")), 1));
    // A Node that no kubelet has reported of shows nothing.
    assert!(told(&landed, Some(anew("")), 1));
    assert!(told(&commanded(OffResult::Accepted), Some(is("True")), 1));
    assert!(!told(
        &commanded(OffResult::AlreadyOff),
        Some(is("Unknown")),
        1
    ));
    let late = Memory {
        late: LateCommands {
            own_off_until: Some(Duration::from_secs(10)),
            ..LateCommands::default()
        },
        ..Memory::default()
    };
    assert!(told(&late, Some(is("True")), 9));
    assert!(!told(&late, Some(is("True")), 10));
    assert!(!told(&late, Some(is("True")), 11));
}
