//! Pods that come to a node under the mark: those that are being deleted, and those that tolerate everything.

use super::*;
use crate::memory::UnderTaint;

fn late() -> PodView {
    PodView {
        attachable: true,
        ..pod("db-0")
    }
}

fn seen(pods: Vec<PodView>) -> (Memory, Observed) {
    let mut o = observed(marked());
    o.pods = Read::Present(pods);
    let memory = Memory {
        taint: UnderTaint {
            terminating: [late().uid].into(),
            ..memory().taint
        },
        ..memory()
    };
    (memory, o)
}

/// S2: what was bound late and is being deleted goes by force, if Off was read since it was seen to be deleted. Each of these alone keeps it.
#[test]
fn a_pod_that_came_late_goes_by_uid_when_off_was_read_after_it_was_seen_to_go() {
    let (mut m, o) = seen(vec![late()]);
    let decision = decide(&of_deletion(), &mut m, &o);
    let Effect::Evict(eviction) = decision.effect else {
        panic!("{decision:?}");
    };
    assert_eq!(eviction.pods, [late()]);
    assert_eq!(eviction.valid_until, seconds(13) + PROOF_LIFE);
    type Change = fn(&mut Memory, &mut NodeView, &mut Vec<PodView>);
    let changes: [(&str, Change); 8] = [
        ("seen for the first time", |m, _, _| {
            m.taint.terminating.clear()
        }),
        ("another one has come", |_, _, pods| {
            pods.push(PodView {
                attachable: true,
                ..pod("db-1")
            });
        }),
        ("one is not being deleted", |_, _, pods| {
            pods.push(PodView {
                attachable: true,
                deleting: false,
                ..pod("db-1")
            });
        }),
        ("it tolerates everything", |_, _, pods| {
            pods[0].tolerates_out_of_service = true;
        }),
        ("it has finalizers", |_, _, pods| pods[0].finalizers = true),
        ("the Node is Ready", |_, node, _| {
            "True".clone_into(&mut node.conditions[0].status);
        }),
        ("the device reads On", |m, _, _| {
            if let Ok(reading) = &mut m.under_claim.answers[0].reading {
                reading.state = PowerState::On;
            }
        }),
        ("the reading is older", |m, _, _| {
            m.taint.pods_gone_at = Some(seconds(14))
        }),
    ];
    for (what, change) in changes {
        let (mut m, _) = seen(Vec::new());
        let (mut node, mut pods) = (marked(), vec![late()]);
        change(&mut m, &mut node, &mut pods);
        let (_, mut o) = seen(pods);
        o.node = Read::Present(node);
        let decision = decide(&of_deletion(), &mut m, &o);
        assert!(!matches!(decision.effect, Effect::Evict(_)), "{what}");
    }
}

/// S2: in another boot that is off again it is the same, and a machine that runs handles its pods itself.
#[test]
fn a_pod_that_came_late_goes_from_a_machine_that_is_off_again_and_not_from_one_that_runs() {
    for (ready, evicts) in [("Unknown", true), ("True", false)] {
        let (mut m, mut o) = seen(vec![late()]);
        let mut node = marked();
        "boot-2".clone_into(&mut node.boot_id);
        ready.clone_into(&mut node.conditions[0].status);
        o.node = Read::Present(node);
        let decision = decide(&of_deletion(), &mut m, &o);
        assert_eq!(matches!(decision.effect, Effect::Evict(_)), evicts);
    }
}

/// L3: of a machine that is back a pod that tolerates everything may stay. Its VolumeAttachment may not, nor the pod while it is dark.
#[test]
fn what_tolerates_everything_may_stay_on_a_machine_that_is_back() {
    let waits_for = |ready: &str, is_attached: bool| {
        let (mut m, mut o) = emptied();
        let mut node = marked();
        "boot-2".clone_into(&mut node.boot_id);
        ready.clone_into(&mut node.conditions[0].status);
        o.node = Read::Present(node);
        o.pods = Read::Present(vec![PodView {
            attachable: true,
            deleting: false,
            tolerates_out_of_service: true,
            ..pod("log-0")
        }]);
        o.tolerated_volumes = vec!["pv-1".to_owned()];
        if is_attached {
            o.attachments_cached = vec![attachment(false)];
        }
        let decision = decide(&of_deletion(), &mut m, &o);
        match decision.effect {
            Effect::Release(_) => "nothing",
            _ if decision.message.contains("pod") => "the pod",
            _ => "its volume",
        }
    };
    assert_eq!(waits_for("True", false), "nothing");
    assert_eq!(waits_for("True", true), "its volume");
    assert_eq!(waits_for("Unknown", true), "the pod");
}
