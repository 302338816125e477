//! What a round reads: not less than its decision rests on, and not more, because each read costs the API server.

use super::super::needs::ONE_BY_ONE_MAX;
use super::*;
use crate::memory::{Commands, UnderTaint};
use fencing_api::settings::RecoveryStrategy;

/// Under the claim, with the Lease noted and all pods listed: nothing is left to read.
fn quiet() -> Memory {
    Memory {
        claim: Some(own_claim(CLAIM_VALUE)),
        under_claim: ClaimScoped {
            lease_before: Some(lease()),
            quiesce: Quiesce {
                since: Some(seconds(10)),
                listed: Some(Default::default()),
                ..Quiesce::default()
            },
            ..ClaimScoped::default()
        },
        ..Memory::default()
    }
}

/// The same, with some pods that could still start.
fn starting(count: usize) -> Memory {
    let mut memory = quiet();
    memory.under_claim.quiesce.since = None;
    memory.under_claim.quiesce.starting = vec![pod("db-0"); count];
    memory
}

/// The same, with readings to judge and the pods listed beside them.
fn judging() -> Memory {
    Memory {
        under_claim: ClaimScoped {
            readings: Some(off_readings()),
            pods: Some(Vec::new()),
            ..quiet().under_claim
        },
        ..quiet()
    }
}

fn commanded() -> Memory {
    let mut attempt = attempt();
    let result = super::super::super::attempt::OffResult::Accepted;
    attempt.results.insert("bmc".to_owned(), result);
    Memory {
        commands: Commands {
            attempt: Some(attempt),
            ..judging().commands
        },
        ..judging()
    }
}

fn under_the_claim(memory: &Memory) -> Needs {
    needs(&settings(), memory, Some(&claimed(CLAIM_VALUE)))
}

/// S23: once under each claim, and only where others are told.
#[test]
fn what_others_have_sent_is_listed_once_under_the_claim() {
    let only_proves = crate::fixtures::asking(settings(), |it| {
        it.recovery.strategy = RecoveryStrategy::None
    });
    let listed = |s: &Settings, change: &dyn Fn(&mut Memory), node: NodeView| {
        let mut memory = quiet();
        memory.claim = Some(own_claim(CLAIM_VALUE));
        change(&mut memory);
        needs(s, &memory, Some(&node)).foreign_commands
    };
    let nothing = |_: &mut Memory| {};
    assert!(listed(&only_proves, &nothing, claimed(CLAIM_VALUE)));
    assert!(!listed(&only_proves, &nothing, node()));
    assert!(!listed(&settings(), &nothing, claimed(CLAIM_VALUE)));
    let once = |m: &mut Memory| m.under_claim.others_listed = true;
    assert!(!listed(&only_proves, &once, claimed(CLAIM_VALUE)));
    // The first look, which tells whether the condition has held, is not held up.
    let first = |m: &mut Memory| m.claim.as_mut().expect("a claim").seen = false;
    assert!(!listed(&only_proves, &first, claimed(CLAIM_VALUE)));
}

#[test]
fn nothing_is_read_that_is_known() {
    assert_eq!(under_the_claim(&quiet()), Needs::default());
    assert_eq!(foresee(&Memory::default()), Needs::default());
    assert_eq!(
        needs(&settings(), &quiet(), Some(&node())),
        Needs::default()
    );
}

#[test]
fn what_is_read_beside_the_node_is_what_is_needed_once_it_was_read() {
    for memory in [quiet(), starting(3), judging(), commanded()] {
        assert_eq!(foresee(&memory), under_the_claim(&memory));
    }
    // What a device has answered meanwhile is judged beside the Lease.
    let mut busy = quiet();
    busy.commands.begin(false);
    assert!(foresee(&busy).lease);
    let mut first = quiet();
    first.under_claim.lease_before = None;
    assert!(foresee(&first).lease);
    let mut tainted = Memory {
        taint: UnderTaint {
            seen: true,
            ..quiet().taint
        },
        ..quiet()
    };
    assert!(foresee(&tainted).pods);
    tainted.taint.releasing = true;
    assert_eq!(foresee(&tainted), Needs::default());
    // L2: a release that failed is tried again, and by what was read after a device's answer that answer would be old each time.
    tainted.writes.failures = 1;
    assert!(foresee(&tainted).pods);
}

/// A deleted Node leaves its pods and volumes behind only where it was fenced.
#[test]
fn of_a_node_that_is_gone_the_rest_is_read_if_it_was_fenced() {
    let gone = |tainted, evidence| {
        let mut s = settings();
        s.record.evidence = evidence;
        let memory = Memory {
            taint: UnderTaint {
                seen: tainted,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        needs(&s, &memory, None).pods
    };
    assert!(!gone(false, false));
    assert!(gone(true, false) && gone(false, true));
}

#[test]
fn up_to_sixteen_pods_are_read_one_by_one_and_more_are_listed() {
    let few = under_the_claim(&starting(ONE_BY_ONE_MAX));
    assert_eq!((few.starting.len(), few.pods), (ONE_BY_ONE_MAX, false));
    let many = under_the_claim(&starting(ONE_BY_ONE_MAX + 1));
    assert_eq!((many.starting.len(), many.pods), (0, true));
    // Once quiesced, what could start before is read no more.
    let mut quiesced = starting(3);
    quiesced.under_claim.quiesce.since = Some(seconds(10));
    assert!(under_the_claim(&quiesced).starting.is_empty());
}

#[test]
fn pods_are_listed_once_under_the_claim_and_once_beside_the_readings() {
    let mut unlisted = starting(0);
    unlisted.under_claim.quiesce.listed = None;
    assert!(under_the_claim(&unlisted).pods);
    assert!(!under_the_claim(&starting(0)).pods);
    assert!(!under_the_claim(&judging()).pods);
    let mut none = judging();
    none.under_claim.pods = None;
    assert!(under_the_claim(&none).pods);
    let mut again = judging();
    again.under_claim.relist = true;
    assert!(under_the_claim(&again).pods);
}

/// S22: after a command, unless it was asked while the power was read, and not again once that has proven it; what an older one has proven is another matter.
#[test]
fn the_kubelet_is_asked_beside_the_readings_after_a_command() {
    assert!(under_the_claim(&commanded()).kubelet);
    assert!(!under_the_claim(&judging()).kubelet);
    for answered in [false, true] {
        let mut asked = commanded();
        asked.under_claim.kubelet_answered = Some(answered);
        assert!(!under_the_claim(&asked).kubelet);
    }
    assert!(!under_the_claim(&quiet()).kubelet);
    let proven = Memory {
        under_claim: ClaimScoped {
            judged_down: true,
            ..commanded().under_claim
        },
        ..commanded()
    };
    assert!(!under_the_claim(&proven).kubelet);
    let read_again = Memory {
        under_claim: ClaimScoped {
            evidence: true,
            ..commanded().under_claim
        },
        ..commanded()
    };
    assert!(under_the_claim(&read_again).kubelet);
    let unread = Memory {
        under_claim: ClaimScoped {
            readings: None,
            ..commanded().under_claim
        },
        ..commanded()
    };
    assert!(!under_the_claim(&unread).kubelet);
}

#[test]
fn pods_are_deleted_next_if_any_is_stuck_and_the_policy_wants_it() {
    let stuck = Memory {
        under_claim: ClaimScoped {
            pods: Some(vec![pod("db-0")]),
            ..judging().under_claim
        },
        ..judging()
    };
    assert!(evicts_next(&settings(), &stuck));
    assert!(!evicts_next(&settings(), &judging()));
}

/// The off command leaves next, and a Lease that has moved forbids it.
#[test]
fn the_lease_is_read_right_before_the_off_command() {
    let mut memory = Memory {
        commands: Commands {
            attempt: Some(attempt()),
            ..quiet().commands
        },
        ..quiet()
    };
    assert!(under_the_claim(&memory).lease && foresee(&memory).lease);
    memory
        .commands
        .attempt
        .as_mut()
        .expect("an attempt")
        .recorded = false;
    assert!(!under_the_claim(&memory).lease);
}
