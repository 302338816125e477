//! What can go wrong between us and a fence device, in the words that end up in conditions and events.
//!
//! Each message names the endpoint (the host only, never a user, never a query), what was seen, the rule, and the way out.
//! Each error says what to do about it ([`Advice`]) and has a stable [`DeviceError::reason`] for conditions and metrics.
//! None of them ever means that a machine is down: a BMC that does not answer shares its power with its host.

mod advice;

pub use advice::Advice;

use super::Command;
use super::address::AddressError;
use super::credentials::CredentialsError;
use fencing_api::drivers::supported;
use std::time::Duration;

/// The way out where something else seems to answer.
pub const CHECK_ADDRESS: &str = "check that the address is that of the device";
/// The way out where the device answers, and not as its protocol has it.
pub const UPDATE_FIRMWARE: &str = "update the device's firmware, or use another driver";
/// `probe.timeoutSeconds`, at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// Advice for a device that is slow, where it can be followed.
fn if_slow(waited: Duration) -> &'static str {
    match waited < TIMEOUT_MAX {
        true => "; if the device is always that slow, raise `probe.timeoutSeconds`",
        false => "",
    }
}

/// Failure of one call to a fence device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No connection, or it broke before an answer.
    #[error(
        "cannot reach {endpoint}: {problem}; check the address and that the operator's pods may connect to it"
    )]
    Unreachable {
        /// Host and port.
        endpoint: String,
        /// What the network said.
        problem: String,
    },
    /// No complete answer within the time allowed for the whole call.
    #[error(
        "{endpoint} gave no complete answer within {waited:?}{}",
        if_slow(*waited)
    )]
    Timeout {
        /// Host and port.
        endpoint: String,
        /// The time allowed.
        waited: Duration,
    },
    /// No answer at all, or none in a session, within the time allowed for the whole call. Only a driver that knows what it has heard
    /// tells this from [`DeviceError::Timeout`].
    #[error(
        "{endpoint} did not answer within {waited:?}: {way_out}{}",
        if_slow(*waited)
    )]
    NoAnswer {
        /// Host and port.
        endpoint: String,
        /// The time allowed.
        waited: Duration,
        /// What a human can look at.
        way_out: String,
    },
    /// No complete answer to a power command within the time that it has, which no setting changes (F12).
    #[error(
        "{endpoint} gave no complete answer to the {command} within {waited:?} (fixed limit); its outcome is read from the power"
    )]
    CommandUnanswered {
        /// Host and port.
        endpoint: String,
        /// Which command.
        command: &'static str,
        /// The time allowed.
        waited: Duration,
    },
    /// The device refused user or password.
    #[error(
        "{endpoint} refused the credentials ({said}); correct the Secret named by `credentialsRef`, or unlock the account (renew an expired token) on the device"
    )]
    AuthFailed {
        /// Host and port.
        endpoint: String,
        /// How it said so.
        said: String,
    },
    /// The device refused the login, and does not say that it takes logins of this kind.
    #[error(
        "{endpoint} refused the login and does not offer HTTP Basic ({said}); enable Basic (sessions are not supported), check user and password, or use another driver"
    )]
    BasicNotOffered {
        /// Host and port.
        endpoint: String,
        /// How it said so.
        said: String,
    },
    /// The account may do nothing before its password is another one.
    #[error(
        "{endpoint} reports that the password has expired ({said}); set a new one on the device, and write it into the Secret named by `credentialsRef`"
    )]
    PasswordExpired {
        /// Host and port.
        endpoint: String,
        /// How it said so.
        said: String,
    },
    /// The device knows no such user. Only devices that speak IPMI tell this from a wrong password.
    #[error(
        "{endpoint} reports no such user for login ({said}); correct `username` in the Secret named by `credentialsRef`, or check that the user is enabled for IPMI over LAN and not locked or expired"
    )]
    UnknownUser {
        /// Host and port.
        endpoint: String,
        /// How it said so.
        said: String,
    },
    /// The device refused what it took a moment ago, in the middle of readings, which do not go on in a session with other credentials.
    #[error(
        "{endpoint} refused credentials that it accepted before, and the Secret named by `credentialsRef` has new ones: reading again with those"
    )]
    CredentialsRenewed {
        /// Host and port.
        endpoint: String,
    },
    /// The device began the login and then fell silent.
    #[error(
        "{endpoint} did not answer the login within {waited:?} (user, privilege or cipher suite refused); check `username` in the Secret named by `credentialsRef`, its IPMI over LAN access, `ipmi.privilege` and `ipmi.cipherSuite`"
    )]
    LoginUnanswered {
        /// Host and port.
        endpoint: String,
        /// The time allowed.
        waited: Duration,
    },
    /// The device offers no login, or no session, that is safe.
    #[error("{endpoint} offers no usable session: {problem}")]
    NoSecureLogin {
        /// Host and port.
        endpoint: String,
        /// What it offers, and the way out.
        problem: String,
    },
    /// All sessions of the device are taken.
    #[error(
        "{endpoint} has no session left ({said}), trying again later; end stale sessions on the device, or restart its BMC"
    )]
    SessionsExhausted {
        /// Host and port.
        endpoint: String,
        /// How it said so.
        said: String,
    },
    /// The account may not do this.
    #[error("{endpoint} denied {request} to this account ({said}); give it {right} on the device")]
    PermissionDenied {
        /// Host and port.
        endpoint: String,
        /// What was asked for.
        request: String,
        /// How it said so.
        said: String,
        /// What the account lacks.
        right: &'static str,
    },
    /// What was asked for is not there (HTTP 404). Never a proof of anything.
    #[error("{endpoint} has no {path} (404); {way_out}")]
    NotFound {
        /// Host and port.
        endpoint: String,
        /// The path that was asked for.
        path: String,
        /// What to look at, by who has named the path.
        way_out: &'static str,
    },
    /// The device has no time now.
    #[error("{endpoint} answered {said} to {request}: busy or restarting, trying again later")]
    Busy {
        /// Host and port.
        endpoint: String,
        /// What was asked for.
        request: String,
        /// The status, or the completion code and its name.
        said: String,
        /// How long the device asks us to wait, at most [`super::http::RETRY_AFTER_MAX`].
        retry_after: Option<Duration>,
    },
    /// The answer cannot be understood, or breaks a limit or a rule of the protocol.
    #[error("{endpoint} returned an invalid answer: {problem}; {way_out}")]
    Protocol {
        /// Host and port.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        way_out: &'static str,
    },
    /// The device answered as its protocol has it, and declined without naming one cause: what to try stands beside it.
    #[error("{endpoint}: {problem}; {way_out}")]
    Declined {
        /// Host and port.
        endpoint: String,
        /// What was asked for, and its answer.
        problem: String,
        /// What to try.
        way_out: String,
    },
    /// The device did not prove to be the one that the settings name. Nothing was sent to it.
    #[error("{endpoint} did not prove its identity: {problem}; nothing was sent to it")]
    TlsIdentity {
        /// Host and port.
        endpoint: String,
        /// What is wrong with its certificate, and the way out.
        problem: String,
    },
    /// The address is not one that credentials may be sent to. Nothing was sent.
    #[error(transparent)]
    AddressNotAllowed(#[from] AddressError),
    /// The device cannot or will not do what we need, and nothing else is done instead.
    #[error(
        "{endpoint} refused the power-off: {problem}, and no weaker command is tried; see the device's log, or add another level that can turn the machine off"
    )]
    Refused {
        /// Host and port.
        endpoint: String,
        /// What it said.
        problem: String,
    },
    /// Some outlets took a command, and one may not have.
    #[error(
        "{endpoint}: {taken} took the command to switch {word}, and {failed} may not have: {error}"
    )]
    PartlySwitched {
        /// Host and port.
        endpoint: String,
        /// `off` or `on`.
        word: &'static str,
        /// The outlets that took the command.
        taken: String,
        /// The outlet that ended it.
        failed: String,
        /// What happened there.
        error: Box<DeviceError>,
    },
    /// Several systems, and the settings do not say which.
    #[error("{endpoint} has {found}; set `redfish.systemID` to the one that is this node")]
    AmbiguousSystem {
        /// Host and port.
        endpoint: String,
        /// How many systems, and which.
        found: String,
    },
    /// The Secret cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// This version has no such driver.
    #[error(
        "driver `{driver}` is not supported by this version of the operator; use {}, or upgrade to a version that has it",
        supported()
    )]
    Unsupported {
        /// Name of the driver, as in the API.
        driver: &'static str,
    },
    /// What is needed to talk to the device could not be read from the API server. Nothing was sent to the device.
    #[error(
        "cannot read {object} from the API server: {problem}, trying again; check that the operator may read it (deploy/rbac.yaml)"
    )]
    Cluster {
        /// Kind and name.
        object: String,
        /// What the API server, or the network on the way to it, said; never anything of a Secret's values.
        problem: String,
    },
    /// The operator lacks a right in its own cluster that one kind of device takes, and that is granted separately.
    #[error(
        "{endpoint}: the operator may not {request}; set `{value}` in the chart, or add {component}"
    )]
    NotGranted {
        /// What it is for.
        endpoint: String,
        /// Verb and resource.
        request: String,
        /// The value of the chart that grants it.
        value: &'static str,
        /// The component of `deploy/` that does.
        component: &'static str,
    },
    /// Only a human can answer for this device, and nobody has, or not for this machine.
    #[error("{words}")]
    HumanNeeded {
        /// What is wanted, or what is wrong with the word that was given.
        words: String,
    },
    /// The settings of the device cannot be used.
    #[error("`{field}` cannot be used: {problem}")]
    Settings {
        /// The field of the FenceDevice.
        field: &'static str,
        /// Value, rule and way out.
        problem: String,
    },
}

impl DeviceError {
    /// The same of a power command that may have been sent: nobody can give it more time.
    #[must_use]
    pub(super) fn of_command(self, command: Command) -> Self {
        let command = command.word();
        match self {
            Self::Timeout { endpoint, waited }
            | Self::NoAnswer {
                endpoint, waited, ..
            } => Self::CommandUnanswered {
                endpoint,
                command,
                waited,
            },
            error => error,
        }
    }

    /// Stable name for conditions, events and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "Unreachable",
            Self::Timeout { .. } | Self::NoAnswer { .. } | Self::CommandUnanswered { .. } => {
                "Timeout"
            }
            Self::AuthFailed { .. }
            | Self::BasicNotOffered { .. }
            | Self::PasswordExpired { .. } => "AuthFailed",
            Self::UnknownUser { .. } => "UnknownUser",
            Self::CredentialsRenewed { .. } => "CredentialsRenewed",
            Self::LoginUnanswered { .. } => "LoginUnanswered",
            Self::NoSecureLogin { .. } => "NoSecureLogin",
            Self::SessionsExhausted { .. } => "SessionsExhausted",
            Self::PermissionDenied { .. } | Self::NotGranted { .. } => "PermissionDenied",
            Self::NotFound { .. } => "NotFound",
            Self::Busy { .. } => "Busy",
            Self::Protocol { .. } | Self::Declined { .. } => "ProtocolError",
            Self::TlsIdentity { .. } => "TlsIdentity",
            Self::AddressNotAllowed(error) => error.reason(),
            Self::Refused { .. } => "Refused",
            Self::PartlySwitched { word: "on", .. } => "PartlyOn",
            Self::PartlySwitched { .. } => "PartlyOff",
            Self::AmbiguousSystem { .. } => "AmbiguousSystem",
            Self::Credentials(_) => "CredentialsInvalid",
            Self::Unsupported { .. } => "Unsupported",
            Self::Cluster { .. } => "ClusterUnavailable",
            Self::HumanNeeded { .. } => "HumanNeeded",
            Self::Settings { .. } => "SettingsInvalid",
        }
    }

    /// How long the device itself asks us to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Text of a device, safe to show: control characters become spaces, and at most `characters_max` are kept.
#[must_use]
pub fn printable(text: &str, characters_max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(characters_max).map(clean).collect();
    if text.chars().nth(characters_max).is_some() {
        shown.push('…');
    }
    shown
}
