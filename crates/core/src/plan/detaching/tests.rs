//! What is asked for before a volume, or the Node, is taken from a machine.

use super::super::step;
use super::*;
use crate::device::DeviceAnswer;
use crate::escalation::Escalation;
use crate::fixtures::{
    DATE, bmc, dated, drained, node, off_readings, own_claim, pod, settings, taint as taint_of,
};
use crate::hold::HeldBy;
use crate::memory::{ClaimScoped, UnderTaint};
use crate::observed::{AttachmentView, CLAIM, DETACHING, Read};
use crate::plan::Moment;
use crate::plan::Observed;
use crate::reading::PowerState;
use crate::settings::Record;
use crate::settings::Settings;
use fencing_api::settings::{FenceMode, RecoveryStrategy};

mod late;
mod looks;

const CLAIM_VALUE: &str = "fence-n1";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn of_deletion() -> Settings {
    crate::fixtures::asking(settings(), |it| {
        it.fence.mode = FenceMode::ConfirmOnly;
        it.recovery.strategy = RecoveryStrategy::DeleteNode;
    })
}

/// The Node under our claim and its mark.
fn marked() -> NodeView {
    NodeView {
        taints: vec![
            dated(taint_of(CLAIM, CLAIM_VALUE, "NoExecute")),
            dated(taint_of(DETACHING, "boot-1", "NoExecute")),
        ],
        resource_version: "7".to_owned(),
        ..node()
    }
}

fn attachment(deleting: bool) -> AttachmentView {
    AttachmentView {
        name: "csi-1".to_owned(),
        uid: "uid-va".to_owned(),
        attacher: "driver".to_owned(),
        volume: "pv-1".to_owned(),
        deleting,
        detach_error: None,
    }
}

/// Everything was seen that has to be: no pod since second 10, Off asked for at second 13 and answered at once.
fn memory() -> Memory {
    let reading = off_readings().remove(0).readings.remove(1);
    Memory {
        claim: Some(own_claim(CLAIM_VALUE)),
        read_at: seconds(13),
        under_claim: ClaimScoped {
            evidence: true,
            answers: vec![DeviceAnswer {
                device: bmc(),
                reading: Ok(reading),
            }],
            ..ClaimScoped::default()
        },
        taint: UnderTaint {
            seen: true,
            pods_gone_at: Some(seconds(10)),
            lists_attachments: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    }
}

fn observed(node: NodeView) -> Observed {
    Observed {
        node: Read::Present(node),
        attachments: Read::Present(vec![attachment(false)]),
        attachments_cached: vec![attachment(false)],
        ..drained()
    }
}

fn decide(s: &Settings, m: &mut Memory, o: &Observed) -> Decision {
    step(s, m, o, &moment(seconds(14)))
}

fn moment(now: Duration) -> Moment {
    Moment {
        now,
        nonce: "f0000002".to_owned(),
        date: DATE.to_owned(),
    }
}

#[test]
fn a_volume_is_taken_by_uid_until_the_reading_is_too_old() {
    let decision = decide(&of_deletion(), &mut memory(), &observed(marked()));
    let Effect::Detach(detachment) = decision.effect else {
        panic!("{decision:?}");
    };
    assert_eq!(detachment.attachments, [attachment(false)]);
    assert_eq!(detachment.valid_until, seconds(13) + PROOF_LIFE);
}

/// S1: each of these alone keeps every volume where it is.
#[test]
fn no_volume_is_taken_while_anything_speaks_against_it() {
    type Change = fn(&mut Memory, &mut Observed);
    let changes: [(&str, Change); 8] = [
        ("a pod is left", |_, o| {
            o.pods = Read::Present(vec![PodView {
                attachable: true,
                ..pod("db-0")
            }]);
        }),
        ("a pod that tolerates everything is left", |_, o| {
            o.pods = Read::Present(vec![PodView {
                attachable: true,
                deleting: false,
                tolerates_out_of_service: true,
                ..pod("db-0")
            }]);
        }),
        ("the pods are not known", |_, o| {
            o.pods = Read::Failed("503".to_owned());
        }),
        ("the Node is Ready", |_, o| {
            let mut node = marked();
            "True".clone_into(&mut node.conditions[0].status);
            o.node = Read::Present(node);
        }),
        ("the Node has no Ready", |_, o| {
            let mut node = marked();
            node.conditions.clear();
            o.node = Read::Present(node);
        }),
        ("the device reads On", |m, _| {
            if let Ok(reading) = &mut m.under_claim.answers[0].reading {
                reading.state = PowerState::On;
            }
        }),
        ("the reading is older than the last pod", |m, _| {
            m.taint.pods_gone_at = Some(seconds(14));
        }),
        ("there is none", |m, _| m.under_claim.answers.clear()),
    ];
    for (what, change) in changes {
        let (mut m, mut o) = (memory(), observed(marked()));
        change(&mut m, &mut o);
        let decision = decide(&of_deletion(), &mut m, &o);
        assert!(!matches!(decision.effect, Effect::Detach(_)), "{what}");
    }
}

/// L3: what booted anew and is dark again before its volumes have left it starts nothing in that boot either.
#[test]
fn a_machine_that_is_dark_again_is_read_and_its_volumes_are_taken() {
    let anew = || NodeView {
        boot_id: "boot-2".to_owned(),
        ..marked()
    };
    let decision = decide(&of_deletion(), &mut memory(), &observed(anew()));
    assert!(matches!(decision.effect, Effect::Detach(_)), "{decision:?}");
    let looks = |m: &mut Memory, node: NodeView| {
        let decision = decide(&of_deletion(), m, &observed(node));
        matches!(decision.effect, Effect::Device { .. })
    };
    let unread = || Memory {
        under_claim: ClaimScoped {
            answers: Vec::new(),
            ..memory().under_claim
        },
        ..memory()
    };
    assert!(looks(&mut unread(), anew()));
    // One that runs is not asked, and nothing is taken from it.
    let mut runs = anew();
    "True".clone_into(&mut runs.conditions[0].status);
    assert!(!looks(&mut unread(), runs.clone()));
    let decision = decide(&of_deletion(), &mut memory(), &observed(runs));
    assert_eq!(decision.effect, Effect::Wait);
    // A reading from before the last pod had gone is made anew, one that failed not at once.
    let old = || Memory {
        taint: UnderTaint {
            pods_gone_at: Some(seconds(14)),
            ..memory().taint
        },
        ..memory()
    };
    assert!(looks(&mut old(), anew()));
    let mut failed = memory();
    failed.under_claim.answers[0].reading = Err("no route".to_owned());
    assert!(!looks(&mut failed, anew()));
}

/// A pod without a volume waits for pod GC, and what somebody has deleted already is not deleted again.
#[test]
fn what_is_in_nobody_s_way_is_not_waited_for() {
    let mut o = observed(marked());
    o.pods = Read::Present(vec![pod("web-0")]);
    let decision = decide(&of_deletion(), &mut memory(), &o);
    assert!(matches!(decision.effect, Effect::Detach(_)), "{decision:?}");
    o.attachments_cached = vec![attachment(true)];
    let decision = decide(&of_deletion(), &mut memory(), &o);
    assert!(decision.message.contains("csi-1"), "{decision:?}");
    assert_eq!(decision.effect, Effect::Wait);
}

/// Nothing is attached any more, and everybody has been heard.
fn emptied() -> (Memory, Observed) {
    let memory = Memory {
        taint: UnderTaint {
            detached_at: Some(seconds(11)),
            last_check: true,
            ..memory().taint
        },
        ..memory()
    };
    let observed = Observed {
        attachments: Read::Present(Vec::new()),
        attachments_cached: Vec::new(),
        ..observed(marked())
    };
    (memory, observed)
}

#[test]
fn the_node_is_deleted_as_it_was_read_and_last() {
    let (mut m, o) = emptied();
    let decision = decide(&of_deletion(), &mut m, &o);
    let Effect::DeleteNode(deletion) = decision.effect else {
        panic!("{decision:?}");
    };
    assert_eq!(
        (deletion.uid.as_str(), deletion.resource_version.as_str()),
        ("uid-1", "7")
    );
    assert_eq!(deletion.valid_until, seconds(13) + PROOF_LIFE);
}

/// Whoever has released it, or put it out of service by hand, finds it again.
#[test]
fn a_node_that_somebody_wants_to_keep_is_released() {
    let released = Settings {
        released: true,
        ..of_deletion()
    };
    let (mut m, o) = emptied();
    let decision = decide(&released, &mut m, &o);
    assert!(
        matches!(decision.effect, Effect::Release(_)),
        "{decision:?}"
    );
    let (mut m, mut o) = emptied();
    let mut node = marked();
    let by_hand = taint_of(crate::observed::OUT_OF_SERVICE, "nodeshutdown", "NoExecute");
    node.taints.push(by_hand);
    o.node = Read::Present(node);
    let decision = decide(&of_deletion(), &mut m, &o);
    assert!(
        matches!(decision.effect, Effect::Release(_)),
        "{decision:?}"
    );
}

/// What the end is called when the name of the Node is another one's.
#[test]
fn a_node_of_another_uid_is_left_alone() {
    let end = |boot: &str, releasing: bool, tainted: bool| {
        let back = NodeView {
            uid: "uid-2".to_owned(),
            boot_id: boot.to_owned(),
            ..node()
        };
        let settings = Settings {
            record: Record {
                tainted,
                ..Record::default()
            },
            ..of_deletion()
        };
        let mut m = Memory {
            taint: UnderTaint {
                releasing,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let decision = decide(&settings, &mut m, &observed(back));
        assert_eq!(decision.effect, Effect::Close);
        (
            decision.stage,
            decision.escalation.map(|(reason, _)| reason),
        )
    };
    assert_eq!(end("boot-2", true, true), (Stage::Recovered, None));
    // A process before this one may have deleted it, or somebody else.
    assert_eq!(end("boot-2", false, true), (Stage::Aborted, None));
    assert_eq!(end("boot-2", false, false), (Stage::Aborted, None));
    for releasing in [true, false] {
        let lied = (Stage::Aborted, Some(Escalation::FenceContradiction));
        assert_eq!(end("boot-1", releasing, true), lied);
    }
    assert_eq!(end("boot-1", false, false), (Stage::Aborted, None));
    // What a process before this one has written down before it deleted the Node.
    let detached = Settings {
        record: Record {
            tainted: true,
            detached: true,
            ..Record::default()
        },
        ..of_deletion()
    };
    let mut back = node();
    (back.uid, back.boot_id) = ("uid-2".to_owned(), "boot-2".to_owned());
    let decision = decide(&detached, &mut Memory::default(), &observed(back));
    assert_eq!(decision.stage, Stage::Recovered);
}

/// S1, L3: the mark without its claim. Who can have set it calls a human and leaves it there, also who was made for it and does not know its
/// strategy; who cannot is held, and so is everybody while another NodeFence sees to it.
#[test]
fn a_mark_without_its_claim_is_waited_for() {
    let adopted = Settings {
        adopted: true,
        ..settings()
    };
    let released = Settings {
        released: true,
        ..of_deletion()
    };
    let tainted = || Memory {
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let table = [
        (
            of_deletion(),
            tainted(),
            false,
            (None, Some(Escalation::ClaimRemoved)),
        ),
        (
            adopted,
            Memory::default(),
            false,
            (None, Some(Escalation::ClaimRemoved)),
        ),
        (released, tainted(), false, (None, None)),
        (
            settings(),
            Memory::default(),
            false,
            (Some(HeldBy::ForeignOutOfService), None),
        ),
        (
            settings(),
            Memory::default(),
            true,
            (Some(HeldBy::OtherNodeFence), None),
        ),
    ];
    for (settings, mut memory, is_of_other, expected) in table {
        let mut node = marked();
        match is_of_other {
            true => node.taints[0].value = Some("other-n1".to_owned()),
            false => node.taints.retain(|taint| taint.key != CLAIM),
        }
        let seen = Observed {
            claim_of_other_fence: is_of_other,
            ..observed(node)
        };
        let decision = decide(&settings, &mut memory, &seen);
        let called = decision.escalation.map(|(reason, _)| reason);
        assert_eq!((decision.held, called), expected, "{}", decision.message);
        let effect = match settings.released {
            true => Effect::Close,
            false => Effect::Wait,
        };
        assert_eq!(decision.effect, effect, "{}", decision.message);
    }
}
