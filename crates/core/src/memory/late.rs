//! Commands that may still take effect, whoever has sent them (S23).

use crate::settings::ForeignCommands;
use std::time::Duration;

/// Commands that may still take effect, each until a time since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LateCommands {
    /// An off of this incident (S23).
    pub own_off_until: Option<Duration>,
    /// An off that another NodeFence has sent, or one whose record is gone (S23).
    pub others_off_until: Option<Duration>,
    /// An on of another NodeFence.
    pub on_until: Option<Duration>,
    /// What of others is waited for by these two.
    pub known: ForeignCommands,
}

impl LateCommands {
    /// An off of this incident may still land until then (time since boot), or until a later moment that is known already.
    pub fn note_own_off(&mut self, until: Duration) {
        self.own_off_until = self.own_off_until.max(Some(until));
    }

    /// The same of one that another NodeFence has sent, or that no record names.
    pub fn note_others_off(&mut self, until: Duration) {
        self.others_off_until = self.others_off_until.max(Some(until));
    }

    /// Until when an off may still land (time since boot), whoever has sent it.
    pub fn may_land_until(&self) -> Option<Duration> {
        self.own_off_until.max(self.others_off_until)
    }

    /// The same, as long as that moment is still to come.
    pub fn pending_off_until(&self, now: Duration) -> Option<Duration> {
        self.may_land_until().filter(|until| now < *until)
    }

    /// That off, in words.
    pub fn off_message(&self) -> &'static str {
        match self.own_off_until >= self.others_off_until {
            true => "an earlier power-off may still take effect (`status.attempts`)",
            false => {
                "a power-off by another NodeFence, or one without a record, may still take effect"
            }
        }
    }

    /// May an off of this incident still land?
    pub fn own_off_may_land(&self, now: Duration) -> bool {
        self.own_off_until.is_some_and(|until| now < until)
    }
}
