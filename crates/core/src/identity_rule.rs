//! Which machine has to answer: what was pinned for the node, against what the device says of its machine.

use super::not_proven::NotProven;
use super::reading::Identity;

/// How the machine behind a device is recognised (S5).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IdentityRule {
    /// The device must name this system UUID, in either byte order.
    Is(String),
    /// The device should name this system UUID; one that names none is believed.
    IsOrSilent(String),
    /// The same, and the provider of an instance must call it by this id as well: a copy has the system UUID of its original.
    Instance(Box<Self>, String),
    /// Nothing is compared: the user said so for this device.
    Skip,
    /// An identity is required and none was pinned while the node was Ready.
    NotPinned,
    /// Whoever answers cannot be told apart from another machine, for this reason: two nodes on one system, or a Node whose
    /// own system UUID is no longer the pinned one.
    Refused(String),
}

impl IdentityRule {
    /// Does the device name another machine than this? A UUID that many machines share names none, and a copy may be the machine.
    pub fn is_another(&self, identity: &Identity) -> bool {
        match self {
            Self::Is(uuid) | Self::IsOrSilent(uuid) => {
                identity.usable() && !identity.is_system(uuid)
            }
            Self::Instance(rule, _) => rule.is_another(identity),
            Self::Skip | Self::NotPinned | Self::Refused(_) => false,
        }
    }

    /// Is this the machine? The error says what was expected, what was found and what to do.
    pub fn check(&self, device: &str, identity: &Identity) -> Result<(), NotProven> {
        let found = identity.system_uuid.clone();
        let (expected, silent_is_fine) = match self {
            Self::Skip => return Ok(()),
            Self::NotPinned => {
                return Err(NotProven::IdentityNotPinned {
                    device: device.to_owned(),
                });
            }
            Self::Refused(why) => {
                return Err(NotProven::IdentityRefused {
                    device: device.to_owned(),
                    why: why.clone(),
                });
            }
            Self::Instance(rule, id) => {
                rule.check(device, identity)?;
                return rule.check_instance(device, id, identity.serial_number.as_deref());
            }
            Self::Is(uuid) => (uuid, false),
            Self::IsOrSilent(uuid) => (uuid, true),
        };
        match found {
            None if silent_is_fine => Ok(()),
            Some(_) if identity.is_system(expected) => Ok(()),
            Some(found) if identity.usable() => Err(NotProven::WrongMachine {
                device: device.to_owned(),
                expected: expected.clone(),
                found,
            }),
            // No identity is not a wrong one.
            found => {
                let named = found.map_or_else(
                    || "no system UUID".to_owned(),
                    |found| format!("system UUID `{found}`, which identifies no machine"),
                );
                Err(NotProven::IdentityRefused {
                    device: device.to_owned(),
                    why: format!(
                        "it reports {named}, the pinned one is {expected}; correct it in its firmware, or set `identityCheck` to what you vouch for"
                    ),
                })
            }
        }
    }

    /// Has the provider this id for it?
    fn check_instance(
        &self,
        device: &str,
        expected: &str,
        found: Option<&str>,
    ) -> Result<(), NotProven> {
        match found {
            Some(found) if found == expected => Ok(()),
            None if matches!(self, Self::IsOrSilent(_)) => Ok(()),
            found => Err(NotProven::IdentityRefused {
                device: device.to_owned(),
                why: format!(
                    "its provider calls the machine `{}`, the pinned one is `{expected}`; create the FenceDevice again if the Node has moved there",
                    found.unwrap_or_default()
                ),
            }),
        }
    }
}
