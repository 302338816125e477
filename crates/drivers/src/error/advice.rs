//! What to do about an error: whether to try again, and whether that may lock an account.

use super::DeviceError;

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Advice {
    /// It may work at once on a new connection.
    Retry,
    /// It may work after the device's or our own pause.
    Wait,
    /// It will not work until a human changes something; trying again may lock the account.
    Human,
}

impl DeviceError {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            Self::PartlySwitched { error, .. } => error.advice(),
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::NoAnswer { .. }
            | Self::CommandUnanswered { .. }
            | Self::CredentialsRenewed { .. }
            | Self::LoginUnanswered { .. }
            | Self::Protocol { .. }
            | Self::Declined { .. } => Advice::Retry,
            // A BMC that has just restarted knows its systems only after a while.
            Self::Busy { .. }
            | Self::SessionsExhausted { .. }
            | Self::NotFound { .. }
            | Self::Cluster { .. } => Advice::Wait,
            Self::AuthFailed { .. }
            | Self::BasicNotOffered { .. }
            | Self::PasswordExpired { .. }
            | Self::UnknownUser { .. }
            | Self::NoSecureLogin { .. }
            | Self::PermissionDenied { .. }
            | Self::NotGranted { .. }
            | Self::TlsIdentity { .. }
            | Self::AddressNotAllowed(_)
            | Self::Refused { .. }
            | Self::AmbiguousSystem { .. }
            | Self::Credentials(_)
            | Self::Unsupported { .. }
            | Self::HumanNeeded { .. }
            | Self::Settings { .. } => Advice::Human,
        }
    }

    /// Did the device refuse user or password?
    #[must_use]
    pub fn refuses_credentials(&self) -> bool {
        matches!(
            self,
            Self::AuthFailed { .. }
                | Self::BasicNotOffered { .. }
                | Self::PasswordExpired { .. }
                | Self::UnknownUser { .. }
        )
    }

    /// Has the device said nothing at all? Whatever else it is asked it will hardly answer.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Timeout { .. }
                | Self::NoAnswer { .. }
                | Self::LoginUnanswered { .. }
        )
    }
}
