//! What a process may not begin anew that finds nothing of the incident on the Node.

use super::*;
use crate::core::fixtures::{drained, node, settings};
use crate::core::incident::Record;
use crate::core::observed::Seen;

/// The first decision of a new process.
fn decided(settings: &Settings) -> Decision {
    let observed = Observed {
        node: Seen::Present(node()),
        ..drained()
    };
    let moment = Moment {
        now: Duration::from_secs(100),
        nonce: "n1".to_owned(),
    };
    crate::core::plan::step(settings, &mut Memory::default(), &observed, &moment)
}

#[test]
fn a_new_incident_asks_its_device() {
    assert_eq!(decided(&settings()).stage, Stage::Checking);
}

/// S8: the process before this one has set it, and somebody has taken it away since.
#[test]
fn a_taint_that_the_record_tells_of_is_not_set_again() {
    let record = Record {
        evidence: true,
        tainted: true,
        ..Record::default()
    };
    let decision = decided(&Settings {
        record,
        ..settings()
    });
    assert_eq!(
        (decision.effect, decision.stage),
        (Effect::Close, Stage::Aborted)
    );
}

/// S8: there is nothing left that it could release.
#[test]
fn an_adopted_taint_that_is_gone_is_not_followed_by_a_fence() {
    let decision = decided(&Settings {
        adopted: true,
        ..settings()
    });
    assert_eq!(
        (decision.effect, decision.stage),
        (Effect::Close, Stage::Aborted)
    );
}
