//! What a fence device said about a machine's power, at one moment.
//!
//! A reading is evidence, never proof: only [`crate::core`]'s proof rule weighs several of them. Everything that is not
//! exactly "off" stays something else here, because a guess in this place would let two nodes write one volume.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

pub use fencing_api::device::PowerState;

/// Who the device says it is: compared with the value that was pinned while the node was Ready (S5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// SMBIOS system UUID as the device gives it; byte order differs between vendors, see [`Identity::is_system`].
    pub system_uuid: Option<String>,
    /// Serial number of the system, for the record.
    pub serial_number: Option<String>,
}

impl Identity {
    /// Could this name one machine?
    #[must_use]
    pub fn usable(&self) -> bool {
        self.system_uuid.as_deref().and_then(usable_uuid).is_some()
    }

    /// Is this the system with UUID `expected`? Compared as 16 bytes in any of the orders that are found: of RFC 4122, of SMBIOS
    /// (the first three fields little-endian), and of IPMI (v2.0 §20.8, all bytes backwards). Firmware updates change one into the
    /// other (go-hal issue 57). An unusable UUID on either side is nobody's.
    #[must_use]
    pub fn is_system(&self, expected: &str) -> bool {
        let found = self.system_uuid.as_deref();
        found.is_some_and(|found| same_system(found, expected))
    }
}

/// Do two UUIDs name one system, in whichever byte order each is printed? Unusable ones never do.
pub fn same_system(one: &str, other: &str) -> bool {
    match (usable_uuid(one), usable_uuid(other)) {
        (Some(one), Some(other)) => orderless(one) == orderless(other),
        _ => false,
    }
}

/// The 16 bytes of a UUID in text form, with or without hyphens and braces; none when it is malformed, or one of the values
/// that makers leave in unconfigured boards, so that many machines share them: all zeros, all ones, the firmware maker's own.
#[must_use]
pub fn usable_uuid(text: &str) -> Option<[u8; 16]> {
    /// Delivered with a widely used firmware, and left there by many makers of boards.
    const FACTORY: [u8; 16] = 0x0300_0200_0400_0500_0006_0007_0008_0009_u128.to_be_bytes();
    let text = text.trim().trim_matches(['{', '}']);
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    let well_placed = matches!(*hyphens, [] | [8, 13, 18, 23]);
    if !well_placed || digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let uuid = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    let shared = uuid == [0; 16] || uuid == [0xff; 16] || orderless(uuid) == orderless(FACTORY);
    (!shared).then_some(uuid)
}

/// The same UUID with its first three fields in the other byte order (SMBIOS 7.2.1).
pub fn smbios_order([a, b, c, d, e, f, g, h, rest @ ..]: [u8; 16]) -> [u8; 16] {
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

/// The same bytes for a UUID in whichever order it arrived: the least of all. Backwards and SMBIOS order together lead to eight
/// orders, some of which nobody uses; that no two machines have the same UUID holds for all of them.
pub fn orderless(uuid: [u8; 16]) -> [u8; 16] {
    let backwards = |mut uuid: [u8; 16]| {
        uuid.reverse();
        uuid
    };
    let tail_order = |uuid| backwards(smbios_order(backwards(uuid)));
    let orders = [
        uuid,
        smbios_order(uuid),
        tail_order(uuid),
        tail_order(smbios_order(uuid)),
    ];
    let both = orders.map(|one| one.min(backwards(one)));
    both.into_iter().min().unwrap_or(uuid)
}

/// One answer of a fence device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    /// What the answer means.
    pub state: PowerState,
    /// What the device said, word for word (at most 64 characters), for the record.
    pub raw: String,
    /// Who answered.
    pub identity: Identity,
    /// Names of fault or interlock indications that forbid to believe an off (empty: none).
    pub faults: Vec<String>,
    /// Parts of the device (outlets of a PDU) that read off while the whole does not: each of them has yet to show that it can read on.
    /// Empty: no part, or the device has none.
    pub off_parts: Vec<String>,
    /// When the question was sent: time since boot of this host on a clock that counts suspend. The state is no newer
    /// than the answer and no older than this.
    pub asked: Duration,
    /// When the answer had arrived, same clock.
    pub answered: Duration,
    /// Wall clock of the answer, for the record only.
    pub wall: Timestamp,
}

impl Reading {
    /// Off, without a fault indication beside it (S4).
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state == PowerState::Off && self.faults.is_empty()
    }

    /// The same state of the same parts, of the same machine, with the same faults; only the moment may be another.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let (ours, theirs) = ((self.state, &self.identity), (other.state, &other.identity));
        ours == theirs && self.faults == other.faults && self.off_parts == other.off_parts
    }

    /// Why a device that says only this proves nothing, with the way out; none: it reads On or Off, or is between the two.
    pub fn unreadable(&self) -> Option<String> {
        if self.state == PowerState::Unknown {
            return Some(format!(
                "the device reads power `{}`, and On or Off is required; check the BMC, then try again",
                self.raw
            ));
        }
        let faults = (!self.faults.is_empty()).then(|| self.faults.join(", "))?;
        Some(format!(
            "the device reports {faults}, which invalidates a reading of Off; check the BMC, then try again"
        ))
    }
}

/// What the device said, with the indications that forbid to believe an off.
impl fmt::Display for Reading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.raw)?;
        match self.faults.is_empty() {
            true => Ok(()),
            false => write!(
                formatter,
                ", but the device reports {}",
                self.faults.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(uuid: &str) -> Identity {
        Identity {
            system_uuid: Some(uuid.to_owned()),
            serial_number: None,
        }
    }

    #[test]
    fn both_byte_orders_name_the_same_machine() {
        let identity = named("4C4C4544-0042-3510-8052-B4C04F4A4D32");
        assert!(identity.is_system("4c4c4544-0042-3510-8052-b4c04f4a4d32"));
        assert!(identity.is_system("44454c4c-4200-1035-8052-b4c04f4a4d32"));
        assert!(identity.is_system(" 4c4c4544004235108052b4c04f4a4d32\n"));
        assert!(!identity.is_system("44454c4c-4200-1035-8052-b4c04f4a4d33"));
        // As IPMI prescribes, of either of them.
        assert!(identity.is_system("324d4a4f-c0b4-5280-1035-420044454c4c"));
        assert!(identity.is_system("324d4a4f-c0b4-5280-3510-00424c4c4544"));
        assert!(!identity.is_system("4c4c4544-0042-3510-8052-4d4ac04fb432"));
    }

    /// A device that only says again what it has said wakes nobody; another state, machine or fault is news.
    #[test]
    fn what_says_the_same_may_have_been_asked_later() {
        let devices = super::super::fixtures::off_readings();
        let mut readings = devices.iter().flat_map(|device| &device.readings);
        let reading = readings.next().expect("a reading");
        let mut later = reading.clone();
        later.asked += std::time::Duration::from_secs(1);
        assert!(reading.says_the_same(&later));
        let changes: [fn(&mut Reading); 4] = [
            |it| it.state = PowerState::On,
            |it| it.identity = named("another"),
            |it| it.faults = vec!["a fault".to_owned()],
            |it| it.off_parts = vec!["outlet 2".to_owned()],
        ];
        for change in changes {
            let mut other = reading.clone();
            change(&mut other);
            assert!(!reading.says_the_same(&other), "{other:?}");
        }
    }

    #[test]
    fn what_many_machines_share_names_none() {
        for uuid in [
            "",
            "Not Specified",
            "00000000-0000-0000-0000-000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "ffffffffffffffffffffffffffffffff",
            "03000200-0400-0500-0006-000700080009",
            "00020003-0004-0005-0006-000700080009",
            "4c4c4544-0042-3510-8052-b4c04f4a4d3",
            "4c4c-4544-0042-3510-8052-b4c04f4a4d32",
            "+c4c4544-0042-3510-8052-b4c04f4a4d32",
        ] {
            assert!(!named(uuid).usable(), "{uuid}");
            assert!(!named(uuid).is_system(uuid), "{uuid}");
        }
        assert!(!Identity::default().usable());
        assert!(!Identity::default().is_system("4c4c4544-0042-3510-8052-b4c04f4a4d32"));
    }

    #[test]
    fn only_what_is_neither_on_nor_off_or_is_doubted_says_nothing() {
        let says = |state, faults: &[&str]| {
            let reading = Reading {
                state,
                raw: "PoweringOff?".to_owned(),
                identity: Identity::default(),
                faults: faults.iter().map(|it| (*it).to_owned()).collect(),
                off_parts: Vec::new(),
                asked: Duration::ZERO,
                answered: Duration::ZERO,
                wall: Timestamp::UNIX_EPOCH,
            };
            reading.unreadable()
        };
        for state in [PowerState::On, PowerState::Off, PowerState::Transitional] {
            assert_eq!(says(state, &[]), None, "{state:?}");
        }
        let message = says(PowerState::Unknown, &[]).expect("unreadable");
        assert!(message.contains("`PoweringOff?`"), "{message}");
        let message = says(PowerState::Off, &["interlock", "power fault"]).expect("unreadable");
        assert!(message.contains("interlock, power fault"), "{message}");
    }

    mod properties {
        use super::*;
        use crate::fixtures::cases;

        proptest! {
            #![proptest_config(cases())]

            #[test]
            fn the_order_of_bytes_never_changes_the_machine(bytes: [u8; 16], other: [u8; 16]) {
                let text = |bytes: [u8; 16]| format!("{:032x}", u128::from_be_bytes(bytes));
                let identity = named(&text(bytes));
                prop_assume!(identity.usable());
                prop_assert_eq!(smbios_order(smbios_order(bytes)), bytes);
                prop_assert!(identity.is_system(&text(bytes)));
                prop_assert!(identity.is_system(&text(smbios_order(bytes))));
                let mut backwards = bytes;
                backwards.reverse();
                prop_assert!(identity.is_system(&text(backwards)));
                prop_assert!(identity.is_system(&text(smbios_order(backwards))));
                prop_assert!(!identity.is_system(&text(other)) || orderless(other) == orderless(bytes));
                let mut sorted = [bytes, orderless(bytes)];
                sorted.iter_mut().for_each(|one| one.sort_unstable());
                prop_assert_eq!(sorted[0], sorted[1], "only the order changes");
            }

            #[test]
            fn no_text_panics(one in ".{0,64}", other in ".{0,64}") {
                let _ = named(&one).is_system(&other);
            }
        }
    }
}
