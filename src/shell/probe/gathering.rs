//! When all pairs are looked at again: changes that come together cost one look, and the first of them does not wait for the others.

use std::time::Duration;

/// Changes within this time of the last look are taken in together. One that comes later is taken in at once: it may be a node that has failed.
const GATHER: Duration = Duration::from_millis(250);

/// What has changed since the last look, and when the next one is due. Every time is one since boot.
#[derive(Debug)]
pub(super) struct Gathering {
    due: Option<Duration>,
    last: Option<Duration>,
}

impl Gathering {
    /// The first look is due.
    pub(super) fn new() -> Self {
        Self {
            due: Some(Duration::ZERO),
            last: None,
        }
    }

    /// Something has changed.
    pub(super) fn note(&mut self, now: Duration) {
        let next = self.last.map_or(now, |last| now.max(last + GATHER));
        self.due.get_or_insert(next);
    }

    /// Is a look due? Then it has to be made, and its end noted.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// The look is over: one that takes long leaves time to others before the next.
    pub(super) fn looked(&mut self, now: Duration) {
        self.last = Some(now);
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_looked_at_at_once_and_those_that_follow_it_together() {
        let ms = Duration::from_millis;
        let mut gathering = Gathering::new();
        assert!(gathering.take(ms(1000)), "the first look");
        gathering.looked(ms(1200));
        gathering.note(ms(5000));
        assert!(gathering.take(ms(5000)), "the last look was long before");
        gathering.looked(ms(5400));
        for at in [5410, 5420, 5600] {
            gathering.note(ms(at));
            assert!(!gathering.take(ms(at)), "at {at} ms");
        }
        assert_eq!(gathering.due(), Some(ms(5650)));
        assert!(gathering.take(ms(5650)));
        assert!(!gathering.take(ms(9000)), "nothing has changed since");
    }
}
