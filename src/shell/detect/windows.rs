//! A window of a policy opens or closes: nothing in the cluster changes, and every node may have to be fenced by now, or otherwise.

use super::wanted::PAUSE_LOOK;
use super::{Detector, now};
use fencing_core::window::next_change;
use std::time::Duration;

impl Detector {
    /// Works out when the next window opens or closes.
    pub(super) fn watch_windows(&mut self) {
        let (policies, now) = (self.context.caches.policies(), now());
        let change = next_change(&policies, now.wall);
        let ahead = change.map(|change| change.duration_since(now.wall));
        self.windows = ahead.map(|ahead| {
            let ahead = Duration::try_from(ahead).unwrap_or_default();
            now.boot + ahead.min(PAUSE_LOOK)
        });
    }

    /// Looks at every node again if one may have opened or closed by `now` (time since boot).
    pub(super) fn heed_windows(&mut self, now: Duration) {
        if self.windows.is_none_or(|at| now < at) {
            return;
        }
        let policies = self.context.caches.policies();
        for node in self.context.caches.nodes.state() {
            self.schedule(&node.view, &policies);
        }
        self.watch_windows();
    }
}
