//! How much a probe looks at, how new what it is made of has to be, and what is kept of it beside what it found.

use super::{CLOCK_PERIOD, Known, open_request};
use crate::shell::devices::{Freshness, Upkeep};
use fencing_api::device::FenceDevice;
use fencing_drivers::tls::Expiry;
use fencing_drivers::{DeviceError, Extent, Probe};
use std::time::Duration;

/// How much the next probe looks at, at this time since boot. The Node is Ready in this boot; none: it is not.
pub(super) fn extent(
    device: &FenceDevice,
    known: Option<&Known>,
    ready_in: Option<&str>,
    now: Duration,
) -> Extent {
    let clock_read = known.and_then(|known| known.clock);
    let is_recent = clock_read.is_some_and(|(at, _)| now.saturating_sub(at) < CLOCK_PERIOD);
    if !is_recent || open_request(device).is_some() {
        return Extent::Whole;
    }
    // What shows that the device can tell a running machine from one that is off is read as a proof is (S25), and a list may be older than a silence.
    let is_shown = |boot_id| known.is_some_and(|known| known.has_shown_on(boot_id));
    match ready_in.is_some_and(is_shown) {
        true => Extent::Listed,
        false => Extent::Needed,
    }
}

/// How new the Secret has to be for it. Where something is corrected, or somebody asks, it counts at once; a device that was well
/// is looked at with what another's look has read.
pub(super) fn freshness(known: Option<&Known>, extent: Extent) -> Freshness {
    let finding = known.and_then(|known| known.finding.as_deref());
    let is_well = finding.is_some_and(|finding| finding.outcome.is_ok());
    match extent {
        Extent::Listed | Extent::Needed if is_well => Freshness::Recent,
        _ => Freshness::Now,
    }
}

impl Known {
    /// What is known beside the finding: the clock, which only a whole look reads, goes into each. What the device did not tell this time stays.
    pub(super) fn note(
        &mut self,
        outcome: &mut Result<Probe, DeviceError>,
        upkeep: Option<Upkeep>,
        extent: Extent,
        now: Duration,
    ) {
        if let Some(upkeep) = upkeep {
            self.upkeep = upkeep;
        }
        let Ok(probe) = outcome else {
            return;
        };
        self.certificate_expiry = probe.certificate_expiry.or(self.certificate_expiry);
        match extent {
            Extent::Whole => self.clock = Some((now, probe.clock)),
            Extent::Listed | Extent::Needed => {
                probe.clock = self.clock.and_then(|(_, shown)| shown);
            }
        }
    }

    /// How far its clock is ahead of ours, in seconds; none: it shows none.
    pub(super) fn clock_ahead_seconds(&self) -> Option<i64> {
        let (_, shown) = self.clock?;
        shown.map(|clock| clock.ahead_seconds())
    }

    /// When what it is known by, and what opens it, expires: by what that is.
    pub(super) fn expiries(&self) -> Vec<(&'static str, Expiry)> {
        let own = self.certificate_expiry.map(|at| ("DeviceCertificate", at));
        own.into_iter()
            .chain(self.upkeep.expiries.iter().copied())
            .collect()
    }
}
