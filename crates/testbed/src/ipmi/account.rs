//! Who may use an IPMI BMC, and what for.

use crate::bmc::Credentials;

/// Privilege levels of IPMI (section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// May do next to nothing.
    Callback = 1,
    /// May read.
    User = 2,
    /// May switch the power.
    Operator = 3,
    /// May do everything.
    Administrator = 4,
}

impl Privilege {
    pub(super) fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Callback),
            2 => Some(Self::User),
            3 => Some(Self::Operator),
            4 => Some(Self::Administrator),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A user of a BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name, of at most 16 bytes, and password, of at most 20.
    pub credentials: Credentials,
    /// The highest level that the user can have.
    pub privilege: Privilege,
}

impl Default for Account {
    /// The lab's usual user, who may switch the power and no more.
    fn default() -> Self {
        Self {
            credentials: Credentials::default(),
            privilege: Privilege::Operator,
        }
    }
}
