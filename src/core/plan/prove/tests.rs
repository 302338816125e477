//! What may follow from a proof dies with it.

use super::*;
use crate::core::fixtures::{claimed, drained, lease, off_readings, settings};
use crate::core::incident::OwnClaim;
use crate::core::proof::IdentityRule;

const CLAIM_VALUE: &str = "fence-n1";

fn confirm_only() -> Settings {
    Settings {
        mode: FenceMode::ConfirmOnly,
        ..settings()
    }
}

/// Claimed, quiesced at 10 s, read Off until 13 s, the evidence stored, and one pod of the node still there.
fn decided_at(settings: &Settings, seconds: u64) -> Effect {
    let mut memory = Memory {
        claim: Some(OwnClaim {
            value: CLAIM_VALUE.to_owned(),
            uid: "uid-1".to_owned(),
            boot_id: "boot-1".to_owned(),
            seen: true,
        }),
        quiesced: Some(Duration::from_secs(10)),
        lease_before: Some(lease()),
        readings: Some(off_readings()),
        evidence: true,
        ..Memory::default()
    };
    let pod = PodView {
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
        uid: "uid-db-0".to_owned(),
        deleting: true,
        finished: false,
        finalizers: false,
        mirror: false,
        tolerates_out_of_service: false,
        claims: Vec::new(),
    };
    let observed = Observed {
        node: Seen::Present(claimed(CLAIM_VALUE)),
        lease: Seen::Present(lease()),
        pods: Seen::Present(vec![pod]),
        ..drained()
    };
    let moment = Moment {
        now: Duration::from_secs(seconds),
        nonce: "n2".to_owned(),
    };
    crate::core::plan::step(settings, &mut memory, &observed, &moment).effect
}

#[test]
fn pods_may_be_deleted_until_the_proof_dies() {
    for seconds in [14, 28] {
        match decided_at(&confirm_only(), seconds) {
            Effect::Evict(eviction) => {
                assert_eq!(eviction.valid_until, Duration::from_secs(28));
                assert_eq!(eviction.pods.len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(decided_at(&confirm_only(), 29), Effect::Wait);
}

/// S5: the machine behind the device was pinned, or its pin corrected, while the readings were taken.
#[test]
fn readings_that_were_taken_for_another_identity_are_taken_anew() {
    let mut settings = confirm_only();
    settings.levels[0].devices[0].identity = IdentityRule::NotPinned;
    let effect = decided_at(&settings, 14);
    assert!(matches!(effect, Effect::Device { .. }), "{effect:?}");
}
