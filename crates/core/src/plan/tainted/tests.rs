//! What the words and the power commands are while `out-of-service` stands.

use super::*;
use crate::control::Control;
use crate::decision::DeviceOrder;
use crate::device::Device;
use crate::device::DeviceAnswer;
use crate::escalation::Escalation;
use crate::fixtures;
use crate::identity_rule::IdentityRule;
use crate::memory::{ClaimScoped, LateCommands, Memory, UnderTaint};
use crate::observed::{AttachmentView, CLAIM, NodeView, OUT_OF_SERVICE, Observed, Read, TaintView};
use crate::plan::HeldBy;
use crate::plan::Moment;
use crate::plan::round::Round;
use crate::reading::{PowerState, Reading};
use crate::settings::Settings;
use fencing_api::settings::FenceMode;

mod gone;
mod release;
mod watch;

const CLAIM_VALUE: &str = "node-1-abcd-00000001";

fn looked(answers: Vec<DeviceAnswer>) -> ClaimScoped {
    ClaimScoped {
        answers,
        ..ClaimScoped::default()
    }
}

fn settings(mode: FenceMode) -> Settings {
    let device = Device {
        name: "bmc".to_owned(),
        version: fixtures::bmc().version,
        identity: IdentityRule::Skip,
        manual: false,
        outlets: false,
        covers: None,
        control: Control::Shown,
    };
    Settings {
        fence: "node-1-abcd".to_owned(),
        node: "node-1".to_owned(),
        node_uid: Some("uid".to_owned()),
        boot_id: Some("boot".to_owned()),
        levels: vec![Level {
            timeout: Duration::from_secs(60),
            devices: vec![device],
            ..fixtures::level()
        }],
        ..fixtures::asking(fixtures::settings(), |it| {
            it.fence.mode = mode;
            it.fence.verification.late_effect_seconds = 5;
            it.release.mode = ReleaseMode::AfterRecovery;
        })
    }
}

fn taint(key: &str, value: &str) -> TaintView {
    fixtures::dated(fixtures::taint(key, value, "NoExecute"))
}

fn observed(attachments: Vec<AttachmentView>) -> Observed {
    let node = NodeView {
        name: "node-1".to_owned(),
        uid: "uid".to_owned(),
        taints: vec![
            taint(CLAIM, CLAIM_VALUE),
            taint(OUT_OF_SERVICE, "nodeshutdown"),
        ],
        boot_id: "boot".to_owned(),
        ..fixtures::node()
    };
    Observed {
        node: Read::Present(node),
        attachments: Read::NotRead,
        attachments_cached: attachments,
        ..fixtures::drained()
    }
}

fn stuck() -> Vec<AttachmentView> {
    vec![AttachmentView {
        name: "csi-1".to_owned(),
        uid: String::new(),
        attacher: "driver".to_owned(),
        volume: "data".to_owned(),
        deleting: true,
        detach_error: Some("the array is on fire".to_owned()),
    }]
}

fn answer(state: PowerState, at: u64) -> DeviceAnswer {
    let at = Duration::from_secs(at);
    DeviceAnswer {
        device: fixtures::bmc(),
        reading: Ok(Reading {
            state,
            raw: String::new(),
            identity: Default::default(),
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked: at,
            answered: at,
            wall: jiff::Timestamp::UNIX_EPOCH,
        }),
    }
}

fn decide(s: &Settings, m: &mut Memory, o: &Observed, seconds: u64) -> Decision {
    crate::plan::step(s, m, o, &moment(seconds))
}

fn moment(seconds: u64) -> Moment {
    Moment {
        now: Duration::from_secs(seconds),
        nonce: "00000002".to_owned(),
        date: fixtures::DATE.to_owned(),
    }
}

#[test]
fn a_look_at_the_power_hides_neither_what_is_stuck_nor_the_call_for_a_human() {
    let (s, o) = (settings(FenceMode::ConfirmOnly), observed(stuck()));
    let mut m = Memory {
        claim: Some(held(CLAIM_VALUE)),
        stage: Some((Stage::Detaching, Duration::ZERO)),
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let decision = decide(&s, &mut m, &o, 100);
    assert!(matches!(decision.effect, Effect::Device { .. }));
    let (reason, message) = decision.escalation.expect("60 s are over");
    assert_eq!(reason, Escalation::DetachStuck);
    assert!(message.contains("csi-1") && message.contains("the array is on fire"));
}

#[test]
fn a_machine_that_comes_back_is_turned_off_again_while_something_is_attached_to_it() {
    let (s, o) = (settings(FenceMode::PowerOff), observed(stuck()));
    let mut m = Memory {
        claim: Some(held(CLAIM_VALUE)),
        read_at: Duration::from_secs(99),
        under_claim: looked(vec![answer(PowerState::On, 99)]),
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let decision = decide(&s, &mut m, &o, 100);
    assert!(matches!(decision.effect, Effect::RecordIntent(_)));
    assert!(
        decision
            .escalation
            .is_some_and(|(reason, _)| reason == Escalation::FenceRegressed)
    );
}

#[test]
fn a_machine_that_comes_back_once_everything_has_detached_is_left_on() {
    let (s, o) = (settings(FenceMode::PowerOff), observed(Vec::new()));
    let mut m = Memory {
        claim: Some(held(CLAIM_VALUE)),
        read_at: Duration::from_secs(99),
        under_claim: looked(vec![answer(PowerState::On, 99)]),
        taint: UnderTaint {
            seen: true,
            detached_at: Some(Duration::from_secs(50)),
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let decision = decide(&s, &mut m, &o, 100);
    assert_eq!(
        (decision.effect, decision.stage, decision.escalation),
        (Effect::Wait, Stage::AwaitingRelease, None)
    );
    // Nor does a list that cannot be read take back what was seen.
    let unread = Observed {
        pods: Read::Failed("no answer".to_owned()),
        ..observed(Vec::new())
    };
    let decision = decide(&s, &mut m, &unread, 101);
    assert!(matches!(decision.effect, Effect::Wait));
    assert_eq!(m.taint.detached_at, Some(Duration::from_secs(50)));
}

/// A claim of this process.
fn held(value: &str) -> OwnClaim {
    OwnClaim {
        value: value.to_owned(),
        uid: "uid".to_owned(),
        boot_id: "boot".to_owned(),
        seen: true,
    }
}

#[test]
fn a_taint_that_another_process_has_set_is_seen_to_once_the_record_is_known() {
    let (s, mut o) = (settings(FenceMode::PowerOff), observed(Vec::new()));
    // Not before the NodeFence was read again: another process may have stored the evidence since.
    o.evidence = Read::Failed("no answer".to_owned());
    let decision = decide(&s, &mut Memory::default(), &o, 100);
    assert_eq!(decision.effect, Effect::Wait);
    assert_eq!(
        decision.escalation, None,
        "what could not be read is not missing"
    );
    // Nor if this process has proven it too, under a claim that the other one has replaced.
    let mut m = Memory {
        claim: Some(held("node-1-abcd-00000002")),
        under_claim: ClaimScoped {
            evidence: true,
            ..ClaimScoped::default()
        },
        ..Memory::default()
    };
    assert_eq!(decide(&s, &mut m, &o, 100).effect, Effect::Wait);
    o.evidence = Read::Present(true);
    let decision = decide(&s, &mut Memory::default(), &o, 100);
    assert!(matches!(decision.effect, Effect::Device { .. }));
    // A record that was made anew knows nothing of what was sent, nor what it was about.
    o.evidence = Read::Present(false);
    let decision = decide(&s, &mut Memory::default(), &o, 100);
    assert_eq!(decision.effect, Effect::Wait);
    let reason = decision.escalation.map(|(reason, _)| reason);
    assert_eq!(reason, Some(Escalation::Held(HeldBy::OutOfServiceUnproven)));
    assert_eq!(decision.wake, Some(Duration::from_secs(110)));
    // Under this process's own claim nobody else can have set it, whatever is proven: another controller has, in the same second.
    for proven in [false, true] {
        o.evidence = Read::Present(proven);
        let mut m = Memory {
            claim: Some(held(CLAIM_VALUE)),
            ..Memory::default()
        };
        let decision = decide(&s, &mut m, &o, 100);
        assert!(matches!(decision.effect, Effect::DropClaim(_)));
    }
    // What this incident has proven under an older claim is no proof of what stands under this one.
    o.evidence = Read::Present(false);
    let mut after_crash = s;
    after_crash.record.evidence = true;
    let decision = decide(&after_crash, &mut Memory::default(), &o, 100);
    let reason = decision.escalation.map(|(reason, _)| reason);
    assert_eq!(reason, Some(Escalation::Held(HeldBy::OutOfServiceUnproven)));
    // One that was made to release it has nothing to prove.
    after_crash.adopted = true;
    let decision = decide(&after_crash, &mut Memory::default(), &o, 100);
    assert!(matches!(decision.effect, Effect::Device { .. }));
    // Nor is it released without the NodeFence, which tells what was sent before it.
    o.evidence = Read::Failed("no answer".to_owned());
    let decision = decide(&after_crash, &mut Memory::default(), &o, 100);
    assert_eq!(decision.effect, Effect::Wait);
}

/// S23: what another process has proven and sent stands in the NodeFence alone, whatever this one has proven itself.
#[test]
fn the_record_is_read_under_a_taint_that_this_process_does_not_see_to() {
    let o = observed(Vec::new());
    // Whose claim this process holds, whether it has stored evidence, and whether the record is read.
    let table = [
        (None, false, true),
        (None, true, true),
        (Some("node-1-abcd-00000002"), true, true),
        // Under its own claim it has set the taint, or gives way.
        (Some(CLAIM_VALUE), false, false),
        (Some(CLAIM_VALUE), true, false),
    ];
    for (claim, evidence, is_read) in table {
        let memory = Memory {
            claim: claim.map(held),
            under_claim: ClaimScoped {
                evidence,
                ..ClaimScoped::default()
            },
            ..Memory::default()
        };
        let needs = crate::plan::needs(&settings(FenceMode::PowerOff), &memory, o.node.present());
        assert_eq!(needs.record, is_read, "{claim:?} {evidence}");
    }
}

/// A machine between on and off has power, and it is this one's unless the device names another: one that can name none is heard.
#[test]
fn whoever_says_that_the_machine_has_power_is_heard_unless_it_is_another_machine() {
    let other = || Some("99999999-2222-4333-8444-555555555555".to_owned());
    let own = || Some(fixtures::MACHINE.to_owned());
    let is = || IdentityRule::Is(fixtures::MACHINE.to_owned());
    let table = [
        (PowerState::On, is(), own(), true),
        (PowerState::Transitional, is(), own(), true),
        (PowerState::On, is(), None, true),
        (PowerState::On, IdentityRule::NotPinned, own(), true),
        (PowerState::On, is(), other(), false),
        (PowerState::Unknown, is(), own(), false),
        (PowerState::Off, is(), own(), false),
    ];
    for (state, identity, named, heard) in table {
        let mut s = settings(FenceMode::ConfirmOnly);
        s.levels.push(Level {
            name: "second".to_owned(),
            ..fixtures::level()
        });
        s.levels[1].devices[0].name = "witness".to_owned();
        s.levels[1].devices[0].identity = identity;
        let mut said = answer(state, 99);
        said.device = s.levels[1].devices[0].clone();
        if let Ok(reading) = &mut said.reading {
            reading.identity.system_uuid = named.clone();
        }
        let mut m = Memory {
            claim: Some(held(CLAIM_VALUE)),
            read_at: Duration::from_secs(99),
            under_claim: looked(vec![answer(PowerState::Off, 99), said]),
            taint: UnderTaint {
                seen: true,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let came_back = decide(&s, &mut m.clone(), &observed(stuck()), 100).escalation;
        let came_back = came_back.is_some_and(|(reason, _)| reason == Escalation::FenceRegressed);
        assert_eq!(came_back, heard, "{state:?} {named:?}");
        // Nor does it let the taint go, once everything has detached.
        m.taint.detached_at = Some(Duration::from_secs(98));
        let off = off_now(&s, &m, s.levels.first(), &moment(100));
        assert_eq!(off.is_err(), heard, "{state:?} {named:?}: {off:?}");
    }
}
