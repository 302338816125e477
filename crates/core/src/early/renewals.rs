//! Which kubelets have not renewed their Leases for too long? By what a watch tells, and by the clock of this process alone (F14).

use crate::observed::LeaseView;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A kubelet renews its Lease each quarter of its duration (`pkg/kubelet/kubelet.go`, `nodeLeaseRenewIntervalFraction`, v1.36), with a little
/// jitter. So three tenths are a renewal that is missed by a twentieth of the duration, 2 of 40 s.
const SILENT_TENTHS: u32 = 3;
/// A shorter duration is taken for this one: the watch itself takes its time.
const DURATION_MIN: Duration = Duration::from_secs(4);
/// KubeletConfiguration's default, for a Lease that names none.
const DURATION_DEFAULT: Duration = Duration::from_secs(40);
/// Whoever has renewed nothing for so long beside a Node that is Ready does not renew.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// The last renewal that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// `spec.renewTime` as the API server prints it. Compared for equality only.
    pub time: String,
    /// When this process saw it (time since boot), or began to watch.
    pub seen: Duration,
    /// `spec.leaseDurationSeconds`.
    pub lasts: Duration,
}

impl Renewal {
    /// When its silence is suspicious (time since boot).
    pub fn due(&self) -> Duration {
        self.seen + self.lasts() * SILENT_TENTHS / 10
    }

    fn lasts(&self) -> Duration {
        match self.lasts.is_zero() {
            true => DURATION_DEFAULT,
            false => self.lasts.max(DURATION_MIN),
        }
    }

    /// Is it at `now` (time since boot)?
    pub fn is_silent(&self, now: Duration) -> bool {
        now >= self.due()
    }
}

/// The last renewals of all kubelets.
#[derive(Debug, Default)]
pub struct Renewals(BTreeMap<String, Renewal>);

impl Renewals {
    /// The Lease of this node, which `lasts` so long, was seen at `now` (time since boot). Only another `renewTime` is a renewal.
    pub fn note(&mut self, node: &str, lease: &LeaseView, lasts: Duration, now: Duration) {
        let known = self
            .0
            .get(node)
            .filter(|known| known.time == lease.renew_time);
        let seen = known.map_or(now, |known| known.seen);
        let renewal = Renewal {
            time: lease.renew_time.clone(),
            seen,
            lasts,
        };
        self.0.insert(node.to_owned(), renewal);
    }

    /// The Lease is gone: a node without one is not watched.
    pub fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// The watch has begun anew: what it has not told meanwhile is no silence.
    pub fn begin_anew(&mut self, now: Duration) {
        for renewal in self.0.values_mut() {
            renewal.seen = now;
        }
    }

    /// That of this node.
    pub fn of(&self, node: &str) -> Option<&Renewal> {
        self.0.get(node)
    }

    /// Has another kubelet renewed its Lease half a renewal's time or more after `renewal` of `node`? What has stopped both of them at once would
    /// else look as if it had stopped one. Not a whole renewal's: where there are few nodes, it is waited for.
    pub fn others_since(&self, node: &str, renewal: &Renewal) -> bool {
        let since = renewal.seen + renewal.lasts() / 8;
        let mut others = self.0.iter().filter(|(name, _)| *name != node);
        others.any(|(_, other)| other.seen >= since)
    }

    /// Nodes that have fallen silent before `now` (time since boot).
    pub fn silent(&self, now: Duration) -> impl Iterator<Item = (&str, &Renewal)> {
        let all = self.0.iter().map(|(node, it)| (node.as_str(), it));
        all.filter(move |(_, it)| it.is_silent(now) && now < it.seen + SILENCE_MAX)
    }

    /// Only these nodes have Leases.
    pub fn retain(&mut self, nodes: &BTreeSet<String>) {
        self.0.retain(|node, _| nodes.contains(node));
    }

    /// When the next one will be (time since boot), of those that are not.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let due = self.0.values().map(Renewal::due);
        due.filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn note(renewals: &mut Renewals, node: &str, time: &str, lasts: u64, now: u64) {
        let lease = LeaseView {
            renew_time: time.to_owned(),
        };
        renewals.note(node, &lease, seconds(lasts), seconds(now));
    }

    fn silent(renewals: &Renewals, now: u64) -> Vec<&str> {
        renewals
            .silent(seconds(now))
            .map(|(node, _)| node)
            .collect()
    }

    /// S24: by what this process saw itself, whatever the clocks of the nodes say.
    #[test]
    fn a_lease_is_silent_three_tenths_of_its_duration_after_its_last_change() {
        let mut renewals = Renewals::default();
        note(&mut renewals, "stock", "1", 40, 100);
        note(&mut renewals, "tuned", "9", 8, 100);
        note(&mut renewals, "odd", "9", 1, 100);
        note(&mut renewals, "nameless", "9", 0, 100);
        assert_eq!(silent(&renewals, 101), [""; 0]);
        assert_eq!(silent(&renewals, 103), ["odd", "tuned"]);
        assert_eq!(silent(&renewals, 111), ["odd", "tuned"]);
        assert_eq!(
            silent(&renewals, 112),
            ["nameless", "odd", "stock", "tuned"]
        );
        renewals.forget("nameless");
        assert_eq!(renewals.next_due(seconds(103)), Some(seconds(112)));
        // The same again is no renewal, and another one is.
        note(&mut renewals, "stock", "1", 40, 112);
        note(&mut renewals, "tuned", "8", 8, 112);
        assert_eq!(silent(&renewals, 112), ["odd", "stock"]);
        renewals.forget("odd");
        assert_eq!(silent(&renewals, 112), ["stock"]);
        // One that does not renew at all beside a Node that is Ready.
        assert_eq!(silent(&renewals, 400), ["tuned"]);
        renewals.retain(&["tuned".to_owned()].into());
        assert_eq!(renewals.of("stock"), None);
    }

    /// S24: an API server that was away for a while, and its watch with it, is no silence of a kubelet.
    #[test]
    fn a_watch_that_begins_anew_begins_all_silences_anew() {
        let mut renewals = Renewals::default();
        note(&mut renewals, "a", "1", 40, 100);
        renewals.begin_anew(seconds(115));
        note(&mut renewals, "a", "1", 40, 115);
        assert_eq!(silent(&renewals, 126), [""; 0]);
        assert_eq!(silent(&renewals, 127), ["a"]);
        // Nor is it one while no other Lease is renewed either.
        let is_alone = |renewals: &Renewals| {
            !renewals.others_since("a", renewals.of("a").expect("it is known"))
        };
        assert!(is_alone(&renewals));
        note(&mut renewals, "b", "1", 40, 115);
        assert!(is_alone(&renewals));
        // Nor if that was renewed just after this one: whatever stopped this one may have stopped all.
        note(&mut renewals, "b", "2", 40, 119);
        assert!(is_alone(&renewals));
        note(&mut renewals, "b", "3", 40, 120);
        assert!(!is_alone(&renewals));
    }
}
