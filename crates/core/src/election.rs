//! Which of several replicas works, judged by what this one has seen of the Lease, and when.
//!
//! Election saves double work and double power commands, and nothing else: whoever takes itself for the leader, the claim on the Node
//! decides (docs/protocol.md). As in client-go's `leaderelection`, nobody compares clocks: a Lease that has not changed for so long
//! *while this replica watched* is free, whatever times stand in it. Unlike there a leader's time begins with the last write that succeeded,
//! when it was sent, and is the time since boot, which counts suspend: one that slept has lost, and fences no further (shell/lease).

use std::time::Duration;

/// A Lease is respected for no longer than this, whatever duration somebody writes into it.
pub const LEASE_MAX: Duration = Duration::from_secs(300);

/// How long everything takes. `retry` is at most a third of `renew`, and that is less than `lease` (`args`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// A Lease that has not changed for so long is free.
    pub lease: Duration,
    /// A leader that has not renewed its Lease for so long stops.
    pub renew: Duration,
    /// Pause between two tries.
    pub retry: Duration,
}

impl Default for Times {
    /// client-go's.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// What a Lease says. Compared as a whole: any change is a sign of life.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// UID of the Lease: one that was deleted and created anew is another one.
    pub uid: String,
    /// Who has it; empty: nobody.
    pub holder: String,
    /// For how long, as its holder says.
    pub duration: Duration,
    /// Since when, word for word.
    pub acquired: String,
    /// When it was renewed last, word for word.
    pub renewed: String,
    /// How often it has changed hands.
    pub transitions: i32,
}

/// What to do about the Lease now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Leave it to its holder.
    Wait,
    /// Write this replica into it, or create it.
    Take {
        /// `leaseTransitions` from then on.
        transitions: i32,
    },
    /// Write the time into it: it is ours.
    Renew,
}

/// One replica's view of the election.
#[derive(Debug, Clone)]
pub struct Election {
    own: String,
    times: Times,
    /// What the Lease said last, and when it was first seen to say that.
    seen: Option<(Record, Duration)>,
    /// When the write was sent that made or kept this replica the leader.
    held: Option<Duration>,
}

impl Election {
    /// A candidate of this name, which no other replica has.
    #[must_use]
    pub fn new(own: String, times: Times) -> Self {
        Self {
            own,
            times,
            seen: None,
            held: None,
        }
    }

    /// The Lease was read; none: there is none. Whoever finds somebody else in it has lost it.
    pub fn saw(&mut self, lease: Option<Record>, now: Duration) {
        let Some(record) = lease else {
            self.seen = None;
            return;
        };
        if record.holder != self.own {
            self.held = None;
        }
        let is_known = self
            .seen
            .as_ref()
            .is_some_and(|(known, _)| *known == record);
        if !is_known {
            self.seen = Some((record, now));
        }
    }

    /// Our write of this Lease succeeded. It holds from the moment it was sent: whoever reads it begins to count later.
    pub fn wrote(&mut self, lease: Record, sent: Duration) {
        self.held = (lease.holder == self.own).then_some(sent);
        self.seen = Some((lease, sent));
    }

    /// What to do now.
    #[must_use]
    pub fn decide(&self, now: Duration) -> Turn {
        let Some((record, since)) = &self.seen else {
            return Turn::Take { transitions: 0 };
        };
        if record.holder == self.own {
            return match self.leads(now) {
                true => Turn::Renew,
                // By a process of the same name that has ended, or by this one before it lost it.
                false => Turn::Take {
                    transitions: record.transitions,
                },
            };
        }
        let respected = record.duration.min(LEASE_MAX).max(self.times.lease);
        match record.holder.is_empty() || now >= *since + respected {
            true => Turn::Take {
                transitions: record.transitions.saturating_add(1),
            },
            false => Turn::Wait,
        }
    }

    /// May this replica work?
    #[must_use]
    pub fn leads(&self, now: Duration) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Until when it may work if it does not renew its Lease (time since boot); none: it does not lead.
    #[must_use]
    pub fn until(&self) -> Option<Duration> {
        self.held.map(|sent| sent + self.times.renew)
    }

    /// Who has the Lease, as far as this replica has seen.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let (record, _) = self.seen.as_ref()?;
        Some(record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Its name in the Lease.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Its times.
    #[must_use]
    pub fn times(&self) -> Times {
        self.times
    }

    /// It stops, whatever the Lease says.
    pub fn step_down(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests;
