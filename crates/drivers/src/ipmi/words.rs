//! What a BMC's refusals mean for whoever reads a condition: which error it is, in which words.

use super::codec::command::Completion;
use super::codec::rakp::{Algorithms, Status};
use super::crypto::Suite;
use super::session::{Failure, Stage, Standing};
use crate::DeviceError;
use crate::error::UPDATE_FIRMWARE;
use std::time::Duration;

/// Why a cipher suite of the settings cannot be used.
pub fn unusable_suite(number: u32) -> String {
    let why = match number {
        0 => "cipher suite 0 requires no password".to_owned(),
        1 | 2 | 6 | 7 | 11 | 15 | 16 => {
            format!("cipher suite {number} does not both authenticate and encrypt")
        }
        _ => format!("cipher suite {number} is not supported by this operator"),
    };
    format!("{why}; use 17 (HMAC-SHA256), or 3 (HMAC-SHA1) where the BMC has nothing better")
}

/// The BMC's list of cipher suites does not have the one of the settings.
pub fn suite_not_offered(suite: Suite, offered: &[u8]) -> String {
    let way_out = if offered.contains(&suite_other_than(suite).number()) {
        format!(
            "set `ipmi.cipherSuite: {}`",
            suite_other_than(suite).number()
        )
    } else {
        "allow it on the BMC, or update its firmware".to_owned()
    };
    let mut offered: Vec<String> = offered.iter().map(u8::to_string).collect();
    offered.truncate(SUITES_LISTED_MAX);
    format!(
        "its list of cipher suites ({}) does not have {}, and no other is ever used; {way_out}",
        offered.join(", "),
        suite.number()
    )
}

/// Suites named in a message, at most.
const SUITES_LISTED_MAX: usize = 20;

fn suite_other_than(suite: Suite) -> Suite {
    match suite {
        Suite::Sha256 => Suite::Sha1,
        Suite::Sha1 => Suite::Sha256,
    }
}

/// The BMC cannot open sessions of IPMI 2.0.
pub const IPMI_1_5_ONLY: &str = "it speaks IPMI 1.5 only, whose sessions are not encrypted; update its firmware, or use `redfish`";

/// The BMC has a key of its own.
pub const BMC_KEY: &str = "a BMC key (K_g) is set on it, which is not supported; clear it on the BMC (`ipmitool lan set 1 bmckey` with zeros)";

/// What an account needs, here and in its settings on the BMC.
pub const RIGHT: &str = "the Operator role (or that of `ipmi.privilege`) for IPMI over LAN";

/// Nothing ever came back.
const NOT_REACHED: &str = "check the address, IPMI over LAN on the BMC, and that no firewall between the operator's pods and this UDP port (normally 623) drops packets";

/// A failed login, as an error.
pub fn failure(endpoint: String, suite: Suite, failure: Failure) -> DeviceError {
    match failure {
        Failure::Refused(stage, status) => refused(endpoint, suite, stage, status),
        Failure::OtherSuite(algorithms) => DeviceError::NoSecureLogin {
            endpoint,
            problem: other_suite(suite, algorithms),
        },
        Failure::WrongPassword => DeviceError::AuthFailed {
            endpoint,
            said: "its password for this user differs".to_owned(),
        },
        Failure::BmcKey => DeviceError::NoSecureLogin {
            endpoint,
            problem: format!("its session key differs, so {BMC_KEY}"),
        },
        Failure::NoSession => DeviceError::Protocol {
            endpoint,
            problem: "no session is open".to_owned(),
            way_out: UPDATE_FIRMWARE,
        },
        Failure::Unsendable(problem) => DeviceError::Unreachable {
            endpoint,
            problem: problem.to_owned(),
        },
    }
}

fn refused(endpoint: String, suite: Suite, stage: Stage, status: Status) -> DeviceError {
    let stage = match stage {
        Stage::OpenSession => "Open Session",
        Stage::Rakp2 => "RAKP message 1",
        Stage::Rakp4 => "RAKP message 3",
    };
    let said = format!("{stage}: {status}");
    match status {
        Status::NO_RESOURCES | Status::NO_RESOURCES_FOR_ROLE => {
            DeviceError::SessionsExhausted { endpoint, said }
        }
        Status::UNAUTHORIZED_NAME => DeviceError::UnknownUser { endpoint, said },
        Status::INVALID_ROLE | Status::UNAUTHORIZED_ROLE => DeviceError::PermissionDenied {
            endpoint,
            request: "the session".to_owned(),
            said,
            right: RIGHT,
        },
        Status::INVALID_INTEGRITY_CHECK => DeviceError::AuthFailed { endpoint, said },
        status if status.refuses_algorithms() => DeviceError::NoSecureLogin {
            endpoint,
            problem: format!(
                "it refuses cipher suite {} ({said}), and no other is ever used; {}",
                suite.number(),
                other_way(suite)
            ),
        },
        status => DeviceError::Declined {
            endpoint,
            problem: format!("it refuses the login ({said})"),
            way_out: refused_way_out(status, suite),
        },
    }
}

/// What to try about a status that leaves open which of the settings it is about.
fn refused_way_out(status: Status, suite: Suite) -> String {
    let other = suite_other_than(suite).number();
    match status {
        Status::INVALID_SESSION | Status::INACTIVE_SESSION => {
            "restart the BMC or update its firmware if this lasts: it loses sessions while they are opened".to_owned()
        }
        Status::INVALID_PAYLOAD => "update the BMC's firmware, or use `redfish`".to_owned(),
        Status::INVALID_NAME_LENGTH => {
            "use a shorter `username`, this BMC has no room for it".to_owned()
        }
        Status::UNAUTHORIZED_GUID => {
            "restart the BMC or update its firmware, it reports another GUID for itself".to_owned()
        }
        _ => format!(
            "check that `username` may log in over LAN with the privilege of `ipmi.privilege`, or try `ipmi.cipherSuite: {other}`"
        ),
    }
}

/// What a human may do about a BMC that cannot use this suite.
fn other_way(suite: Suite) -> &'static str {
    match suite {
        Suite::Sha256 => {
            "update its firmware, or set `ipmi.cipherSuite: 3` if HMAC-SHA1 is good enough for you"
        }
        Suite::Sha1 => {
            "update its firmware or allow the suite there, or set `ipmi.cipherSuite: 17`"
        }
    }
}

fn other_suite(suite: Suite, algorithms: Algorithms) -> String {
    let Algorithms {
        authentication,
        integrity,
        confidentiality,
    } = algorithms;
    let way_out = if algorithms == suite_other_than(suite).algorithms() {
        other_way(suite)
    } else {
        "update its firmware"
    };
    format!(
        "for cipher suite {}, it chose algorithms {authentication}/{integrity}/{confidentiality} (authentication, integrity, confidentiality; 0 is none), which are never used; {way_out}",
        suite.number()
    )
}

/// A call whose time is up.
pub fn late(endpoint: String, suite: Suite, waited: Duration, standing: Standing) -> DeviceError {
    match standing {
        Standing::Unanswered => DeviceError::Timeout { endpoint, waited },
        Standing::Unsent => DeviceError::NoAnswer {
            endpoint,
            waited,
            way_out:
                "nothing could be sent; check the address, and the name service if it is a name"
                    .to_owned(),
        },
        Standing::Silent => DeviceError::NoAnswer {
            endpoint,
            waited,
            way_out: NOT_REACHED.to_owned(),
        },
        // What a BMC does whose own check of our datagrams fails.
        Standing::SessionUnanswered => DeviceError::NoAnswer {
            endpoint,
            waited,
            way_out: format!(
                "it accepted the login with cipher suite {}, and then answered nothing in the session (its firmware may not support this suite); {}",
                suite.number(),
                other_way(suite)
            ),
        },
        Standing::Forged => DeviceError::NoSecureLogin {
            endpoint,
            problem: format!(
                "it accepted the login with cipher suite {}, and then every answer failed its integrity check (its firmware does not support this suite); {}",
                suite.number(),
                other_way(suite)
            ),
        },
        Standing::LoginUnanswered => DeviceError::LoginUnanswered { endpoint, waited },
        Standing::Refused(refusal) => failure(endpoint, suite, refusal),
        Standing::Busy(completion) => busy(endpoint, "the last command", completion),
    }
}

/// A command that the BMC has no time for.
pub fn busy(endpoint: String, request: &str, completion: Completion) -> DeviceError {
    DeviceError::Busy {
        endpoint,
        request: request.to_owned(),
        said: completion.to_string(),
        retry_after: None,
    }
}

/// The BMC's own answer, which no setting of ours explains.
pub fn declined(endpoint: String, problem: String) -> DeviceError {
    DeviceError::Declined {
        endpoint,
        problem,
        way_out: "see the BMC's event log, or update its firmware".to_owned(),
    }
}

/// A command that was not carried out.
pub fn not_done(endpoint: String, request: &str, completion: Completion) -> DeviceError {
    match completion {
        Completion::NO_PRIVILEGE => DeviceError::PermissionDenied {
            endpoint,
            request: request.to_owned(),
            said: completion.to_string(),
            right: RIGHT,
        },
        completion if completion.is_busy() => busy(endpoint, request, completion),
        _ => declined(endpoint, format!("{request} ended with {completion}")),
    }
}
