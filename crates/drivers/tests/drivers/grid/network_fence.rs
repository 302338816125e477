//! The faults of a storage behind CSI-Addons: it is the operator's own API server that answers, and what stands there means something or nothing.

use super::cell::Cell;
use super::rows::Fault;

const STATES: &str = "crates/drivers/src/network_fence/tests.rs";
const CALLS: &str = "crates/drivers/src/network_fence/tests/calls.rs";
const CLIENT: &str = "src/shell/own_cluster/tests.rs";

/// How the fault comes about, if it does.
pub fn provoke(fault: Fault) -> Cell {
    match fault {
        Fault::OffIgnored | Fault::OffLandsLate | Fault::AlreadyOff => {
            Cell::Elsewhere(CALLS, "without_an_object_the_storage_lets_the_node_in")
        }
        Fault::Privilege | Fault::NoForceOff => Cell::Elsewhere(
            CALLS,
            "a_creation_without_an_answer_is_unknown_and_a_refused_one_is_not",
        ),
        Fault::StaleReadings | Fault::Restored => Cell::Elsewhere(
            STATES,
            "it_is_fenced_only_by_the_words_of_a_fencing_on_what_nobody_has_changed",
        ),
        Fault::Flapping | Fault::PowerFaultBit | Fault::ControlFaultBit | Fault::InterlockBit => {
            Cell::Elsewhere(CALLS, "an_unfenced_object_of_others_speaks_against_an_off")
        }
        Fault::WrongSystem | Fault::TwoNodes | Fault::AlreadyOffSaysARunningMachine => {
            Cell::Elsewhere(
                CALLS,
                "an_object_of_another_fence_boot_or_node_is_never_off",
            )
        }
        Fault::BadJson
        | Fault::Html
        | Fault::Empty
        | Fault::Truncated
        | Fault::Deep
        | Fault::DuplicateKeys => Cell::Elsewhere(CALLS, "what_cannot_be_read_is_no_reading"),
        Fault::Status503 | Fault::Status429 | Fault::Status500 => Cell::Elsewhere(
            CLIENT,
            "a_creation_is_sent_once_and_unknown_unless_it_was_refused",
        ),
        Fault::Lies | Fault::Sleeping | Fault::Reboot | Fault::AllDark => {
            Cell::Elsewhere("crates/core/src/plan/storage/tests.rs", "")
        }
        Fault::ZeroUuid => Cell::Never("it reads no machine: `identityCheck` is Skip"),
        Fault::WrongUser
        | Fault::WrongPassword
        | Fault::LockedAccount
        | Fault::SessionsExhausted
        | Fault::OneSession
        | Fault::NodeBusy => Cell::Never("the operator is let in by its own account"),
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
        | Fault::Huge
        | Fault::Endless
        | Fault::Packed
        | Fault::Redirect
        | Fault::LinkElsewhere
        | Fault::EndlessNextLink
        | Fault::CertificateChanged
        | Fault::CertificateExpired
        | Fault::Plaintext => Cell::Never("the operator's client of the API server sees to it"),
    }
}
