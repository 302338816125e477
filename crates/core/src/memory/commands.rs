//! The orders to the devices: the off command of the current try, and device work under way.

use crate::attempt::{Attempt, OffResult};

/// The orders to the devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Commands {
    /// The off command of this try.
    pub attempt: Option<Attempt>,
    /// Off commands under any claim of this process.
    pub attempts: u32,
    /// A command of an earlier try has turned the machine off, or may have.
    pub has_commanded: bool,
    /// Device work that is under way; an answer to an older order is not listened to.
    pub busy: Option<Busy>,
    /// Number of the last order.
    pub orders: u64,
}

/// Device work under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Busy {
    /// Number of the order.
    pub order: u64,
    /// A command that may change the machine, not just a question.
    pub commands: bool,
}

impl Commands {
    /// Device work begins: its answer has to carry this order's number.
    pub fn begin(&mut self, commands: bool) {
        self.orders += 1;
        self.busy = Some(Busy {
            order: self.orders,
            commands,
        });
    }

    /// A command has gone out, or may have, and has not answered yet.
    pub fn under_way(&self) -> bool {
        self.busy.is_some_and(|busy| busy.commands)
    }

    /// Is the off command of this try under way, or was it accepted without a reading since that shows its effect?
    pub fn is_unsettled(&self) -> bool {
        self.under_way() || self.results().any(|it| *it == OffResult::Accepted)
    }

    /// An off command of this try has turned off what this device tells of, or may have: an outlet by its own command, the machine by
    /// anybody's.
    pub fn may_have_turned_off(&self, device: &str, is_outlet: bool) -> bool {
        let results = self.attempt.iter().flat_map(|it| &it.results);
        let mut results = results.filter(|(name, _)| !is_outlet || *name == device);
        let own = self.attempt.iter().find_map(|it| it.results.get(device));
        own != Some(&OffResult::AlreadyOff) && results.any(|(_, it)| it.may_turn_off())
    }

    /// Has an off command of this process turned something off, or may one have?
    pub fn may_have_turned_off_something(&self) -> bool {
        self.has_commanded || self.under_way() || self.results().any(OffResult::may_turn_off)
    }

    /// What became of the off command of this try, by device.
    pub fn results(&self) -> impl Iterator<Item = &OffResult> {
        self.attempt.iter().flat_map(|it| it.results.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    /// S4: only after a command that was taken, or may have been, may a device have fallen silent with its machine.
    #[test]
    fn who_took_no_command_has_turned_nothing_off() {
        let message = || "words".to_owned();
        for (result, is_off) in [
            (OffResult::Accepted, true),
            (OffResult::Landed, true),
            (OffResult::Unknown(message()), true),
            (OffResult::Late(message()), true),
            (OffResult::AlreadyOff, false),
            (OffResult::NotSent(message()), false),
        ] {
            let attempt = Attempt {
                results: [("bmc".to_owned(), result.clone())].into(),
                ..fixtures::attempt()
            };
            let commands = Commands {
                attempt: Some(attempt),
                ..Commands::default()
            };
            assert_eq!(
                commands.may_have_turned_off("bmc", true),
                is_off,
                "{result:?}"
            );
            // The machine may be off by whatever device, an outlet by its own command only.
            assert_eq!(commands.may_have_turned_off("bmc-2", false), is_off);
            assert!(!commands.may_have_turned_off("outlet", true));
            // By another one's command, but who said that it was off already was.
            let mut both = commands.clone();
            let results = both.attempt.iter_mut().map(|it| &mut it.results);
            for results in results {
                results.insert("bmc-2".to_owned(), OffResult::AlreadyOff);
            }
            assert!(!both.may_have_turned_off("bmc-2", false));
        }
        assert!(!Commands::default().may_have_turned_off("bmc", false));
    }
}
