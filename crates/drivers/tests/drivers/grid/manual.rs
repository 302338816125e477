//! The faults of a human's word. Most of the others' have no counterpart: there is nothing to connect to and nothing to command.

use super::cell::{Bench, Cell, machine};
use super::rows::Fault;
use fencing_core::identity_rule::IdentityRule;
use fencing_core::manual_confirmation::ValidConfirmation;
use fencing_drivers::clock::{self, Clock};
use fencing_drivers::manual::Manual;
use std::sync::Arc;
use std::time::Duration;

/// How the fault comes about, if it does.
pub fn provoke(fault: Fault) -> Cell {
    match fault {
        // Whoever gave the word has looked at another machine, or does not tell the truth.
        Fault::Lies => word(true),
        Fault::AlreadyOff => word(false),
        // And nobody has looked.
        Fault::AllDark => Cell::of(async { human(Err("nobody has confirmed".to_owned())) }),
        Fault::WrongSystem => Cell::Elsewhere(
            "crates/core/tests/golden/people/111-a-word-about-another-node.txt",
            "",
        ),
        Fault::AlreadyOffSaysARunningMachine => Cell::Elsewhere(
            "crates/core/tests/golden/people/110-a-word-against-a-device.txt",
            "",
        ),
        Fault::StaleReadings => Cell::Elsewhere(
            "crates/core/src/manual_confirmation.rs",
            "a_word_counts_for_a_quarter_of_an_hour_and_no_clock_makes_it_longer",
        ),
        Fault::ClosedPort
        | Fault::BlackHole
        | Fault::NoRoute
        | Fault::NoSuchName
        | Fault::Loss
        | Fault::Duplicates
        | Fault::Reordering
        | Fault::CorruptPackets
        | Fault::WrongSource
        | Fault::Replay
        | Fault::Slow
        | Fault::ZeroTags
        | Fault::Reboot => Cell::Never("a human is on no network"),
        Fault::WrongUser
        | Fault::WrongPassword
        | Fault::LockedAccount
        | Fault::SessionsExhausted
        | Fault::OneSession
        | Fault::NodeBusy
        | Fault::Privilege => Cell::Never("who may confirm is the API server's to say"),
        Fault::OffIgnored | Fault::OffLandsLate | Fault::NoForceOff | Fault::Restored => {
            Cell::Never("nothing is sent, and nobody looks again")
        }
        Fault::Flapping
        | Fault::PowerFaultBit
        | Fault::ControlFaultBit
        | Fault::InterlockBit
        | Fault::Sleeping => Cell::Never("a word says one thing"),
        Fault::Status503
        | Fault::Status429
        | Fault::Status500
        | Fault::BadJson
        | Fault::Html
        | Fault::Empty
        | Fault::Truncated
        | Fault::Huge
        | Fault::Endless
        | Fault::Deep
        | Fault::Packed
        | Fault::DuplicateKeys
        | Fault::Redirect
        | Fault::LinkElsewhere
        | Fault::EndlessNextLink
        | Fault::CertificateChanged
        | Fault::CertificateExpired
        | Fault::Plaintext => Cell::Never("the API server's schema and TLS see to it"),
        Fault::TwoNodes | Fault::ZeroUuid => Cell::Never("a word is about a Node by its UID"),
    }
}

/// A word that counts, about a machine that runs or not.
fn word(runs: bool) -> Cell {
    Cell::of(async move {
        let heard = ValidConfirmation {
            user: "jane".to_owned(),
            valid_until: clock::since_boot() + Duration::from_secs(900),
        };
        let bench = human(Ok(heard));
        bench.machine_is(runs);
        bench
    })
}

fn human(word: Result<ValidConfirmation, String>) -> Bench {
    let manual = Manual::new(word, Clock::SYSTEM);
    let bench = Bench::new(Arc::new(manual), &machine(), Arc::new(()), Vec::new);
    Bench {
        rule: IdentityRule::Skip,
        ..bench
    }
}
