//! A report of the kubelet since its machine was proven down, in that very boot (S22), and what others are told of the proof meanwhile.

use super::confirmed::{LATER, THEN, reported};
use super::*;
use crate::attempt::OffResult;
use crate::delay::HeldCondition;
use crate::memory::{Commands, ConfirmationTurn, ProvenOff};
use crate::proof_source::ProofSource;
use fencing_api::settings::RecoveryStrategy;

fn only_proves() -> Settings {
    crate::fixtures::asking(settings(), |it| {
        it.recovery.strategy = RecoveryStrategy::None;
    })
}

/// This process has proven the machine down.
fn proven() -> Memory {
    Memory {
        proven: ProvenOff {
            by: Some(ProofSource::Devices(vec!["bmc".to_owned()])),
            report: THEN.parse().ok(),
            published: true,
            ..ProvenOff::default()
        },
        ..Memory::default()
    }
}

#[test]
fn a_report_since_the_proof_makes_it_doubtful() {
    let is_doubted = |memory: Memory, node: NodeView| {
        let mut memory = memory;
        decided(&only_proves(), &mut memory, node, seconds(100));
        memory.proven.doubted.is_some()
    };
    assert!(is_doubted(proven(), reported(node(), LATER)));
    assert!(is_doubted(proven(), reported(claimed("fence-n1"), LATER)));
    assert!(!is_doubted(proven(), reported(node(), THEN)));
    assert!(!is_doubted(Memory::default(), reported(node(), LATER)));
    let mut booted = reported(node(), LATER);
    booted.boot_id = "boot-2".to_owned();
    assert!(!is_doubted(proven(), booted));
    let mut another = reported(node(), LATER);
    another.uid = "uid-2".to_owned();
    assert!(!is_doubted(proven(), another));
    // Nobody says when.
    assert!(!is_doubted(proven(), reported(node(), "")));
}

/// S21, S22: a word that is refuted after it has proven the machine down.
#[test]
fn a_refuted_word_makes_its_proof_doubtful() {
    let devices = ProofSource::Devices(vec!["bmc".to_owned()]);
    for (proof_source, doubted) in [
        (ProofSource::Confirmation, Some("the BMC reads On")),
        (devices, None),
    ] {
        let mut memory = Memory {
            proven: ProvenOff {
                by: Some(proof_source),
                ..proven().proven
            },
            confirmation: ConfirmationTurn {
                refused: Some("the BMC reads On".to_owned()),
                ..proven().confirmation
            },
            ..proven()
        };
        let node = reported(node(), THEN);
        decided(&only_proves(), &mut memory, node, seconds(100));
        assert_eq!(memory.proven.doubted.as_deref(), doubted);
    }
}

/// Whatever ends the incident: nobody sees to it any more that whoever freed volumes by the proof is told.
#[test]
fn an_end_after_such_a_report_calls_somebody() {
    let gone = |since: &str| Settings {
        condition: Some(HeldCondition {
            type_: "Ready".to_owned(),
            status: "Unknown".to_owned(),
            since: since.parse().ok(),
        }),
        ..only_proves()
    };
    let released = Settings {
        released: true,
        ..only_proves()
    };
    for (settings, node) in [
        (gone(THEN), node()),
        (released.clone(), node()),
        (released, claimed("fence-n1")),
    ] {
        for (at, calls) in [(LATER, true), (THEN, false)] {
            let mut memory = Memory {
                claim: node.claim().map(own_claim),
                is_due: true,
                ..proven()
            };
            let node = reported(node.clone(), at);
            let decision = decided(&settings, &mut memory, node, seconds(100));
            let reason = decision.escalation.map(|(reason, _)| reason);
            assert_eq!(
                reason,
                calls.then_some(Escalation::FenceContradiction),
                "{}",
                decision.message
            );
            // The report may have been long on its way.
            assert!(!memory.proven.refuted);
            assert_eq!(memory.proven.doubted.is_some(), calls);
            assert_eq!(decision.message.contains("has reported since"), calls);
        }
    }
}

/// S11: others were told that the machine is down. The proof has died of age since, or its device was edited: nothing is read and nothing sent for it
/// again, unless something speaks against it.
#[test]
fn what_others_were_told_is_not_turned_off_again_by_the_same_process() {
    let next = |change: fn(&mut Memory), at: &str| {
        let mut memory = Memory {
            claim: Some(own_claim("fence-n1")),
            is_due: true,
            under_claim: ClaimScoped {
                lease_before: Some(lease()),
                readings: Some(off_readings()),
                ..ClaimScoped::default()
            },
            commands: Commands {
                attempt: Some(attempt()),
                ..proven().commands
            },
            ..proven()
        };
        memory.under_claim.quiesce.since = Some(seconds(10));
        change(&mut memory);
        let node = reported(claimed("fence-n1"), at);
        let mut decision = decided(&only_proves(), &mut memory, node.clone(), seconds(100));
        if decision.effect == Effect::Wait {
            decision = decided(&only_proves(), &mut memory, node, seconds(100));
        }
        decision.message.contains("requires nothing more")
    };
    let stale = |m: &mut Memory| {
        let off = &mut m.commands.attempt.as_mut().expect("an attempt").results;
        off.insert("bmc".to_owned(), OffResult::Accepted);
    };
    assert!(next(stale, THEN));
    assert!(next(|m| m.under_claim.readings = None, THEN));
    assert!(!next(|m| m.under_claim.readings = None, LATER));
    let contradicted = |m: &mut Memory| {
        m.under_claim.readings = None;
        m.trust
            .contradictions
            .push("the Lease was renewed".to_owned());
    };
    assert!(!next(contradicted, THEN));
    let doubted = |m: &mut Memory| {
        m.under_claim.readings = None;
        m.proven.doubted = Some("the kubelet has reported".to_owned());
    };
    assert!(!next(doubted, THEN));
    // It was waited for before others were told.
    let turned_on = |m: &mut Memory| {
        m.under_claim.readings = None;
        m.late.on_until = Some(seconds(90));
    };
    assert!(next(turned_on, THEN));
    let untold = |m: &mut Memory| {
        m.under_claim.readings = None;
        m.proven.published = false;
    };
    assert!(!next(untold, THEN));
}
