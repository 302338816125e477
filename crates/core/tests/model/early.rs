//! May a machine that runs be reported as off before Kubernetes has noticed (`earlyDetection`, S24)?
//!
//! What the protocol does with such a report the rest of the model shows: there Ready turns Unknown at any moment, right or wrong. Here is what stands
//! before it: one kubelet, its device, a watch that tells of its Lease, and the operator that judges by the real `core::early`. Time is a part of it,
//! in steps of [`TICK`]; the Lease lasts 4 s, so that it is silent after five and renewed after four of them.
//!
//! A device that lies for good beside a node that is cut off altogether is believed (R2). So each [`World`] is a way in which things go wrong, and the
//! guard that is there for it: with it no report is wrong whatever happens in which order, without it one is (`early_guards`).

use crate::early_guards::Guard;
use crate::early_operator::operator;
use crate::early_state::{Broken, Device, Event, OLD, Report, Said, State, World};
use fencing_core::early::renewals::Renewals;
use fencing_core::observed::LeaseView;
use std::time::Duration;

/// One step of time.
pub const TICK: Duration = Duration::from_millis(250);
/// A kubelet renews its Lease after so many.
const RENEWAL: u8 = 4;
/// A BMC that restarts reads Off for so many: less than lies between two Offs that count.
const MOMENT: u8 = 1;
/// Every moment is counted back from here.
pub const NOW: Duration = Duration::from_secs(1000);
/// How long the Lease lasts.
const LASTS: Duration = Duration::from_secs(4);

/// When that was.
pub fn ago(ticks: u8) -> Duration {
    NOW - TICK * u32::from(ticks)
}

fn ticks(at: Duration) -> u8 {
    let ticks = (NOW - at).as_millis() / TICK.as_millis();
    u8::try_from(ticks).unwrap_or(OLD).min(OLD)
}

/// The kubelet can reach the API server, and would.
fn is_able(s: &State) -> bool {
    s.on && !s.hangs && !s.cut && s.api
}

/// The renewal that the watch has told of last, or a newer one.
pub fn lease(is_newer: bool) -> LeaseView {
    LeaseView {
        renew_time: if is_newer { "newer" } else { "told" }.to_owned(),
    }
}

/// What the watch has told, in the core's own words. `other` is a kubelet that is well.
pub fn renewals(s: &State) -> Renewals {
    let mut renewals = Renewals::default();
    renewals.note("worker-1", &lease(false), LASTS, ago(s.seen));
    renewals.note("other", &lease(false), LASTS, ago(s.seen_other));
    renewals
}

fn take_in(s: &mut State, renewals: &Renewals) {
    let seen = |node| renewals.of(node).map_or(OLD, |it| ticks(it.seen));
    (s.seen, s.seen_other) = (seen("worker-1"), seen("other"));
}

/// Everything that can happen next.
pub fn steps(
    world: &World,
    s: &State,
    missing: Option<Guard>,
) -> Vec<(Event, State, Option<Broken>)> {
    let mut steps = Vec::new();
    let mut can =
        |event: Event, is_possible: bool, change: &dyn Fn(&mut State) -> Option<Broken>| {
            if is_possible {
                let mut next = *s;
                let broken = change(&mut next);
                steps.push((event, next, broken));
            }
        };
    passes(world, s, &mut can);
    machine(world, s, &mut can);
    ways(world, s, missing, &mut can);
    operator(world, s, missing, &mut can);
    steps
}

/// What happens to a state.
pub type Change<'a> = &'a dyn Fn(&mut State) -> Option<Broken>;

/// Time, which waits for what is not late.
fn passes(world: &World, s: &State, can: &mut impl FnMut(Event, bool, Change<'_>)) {
    let is_due = is_able(s) && s.idle >= RENEWAL;
    let is_to_tell = s.untold && s.api && !world.late_watch;
    let is_over = s.lies && world.device == Device::LiesForAMoment && s.lied >= MOMENT;
    can(Event::Passes, !is_due && !is_to_tell && !is_over, &|n| {
        let older = |age: &mut u8| *age = (*age + 1).min(OLD);
        older(&mut n.seen);
        older(&mut n.seen_other);
        if is_able(n) {
            n.idle += 1;
        }
        if n.lies && world.device == Device::LiesForAMoment {
            n.lied += 1;
        }
        if let Said::Off { first, last, .. } = &mut n.said {
            older(first);
            older(last);
        }
        if let Report::Judged(captured) = &mut n.report {
            older(&mut captured.last);
        }
        if world.steady && n.api {
            n.seen_other = 0;
        }
        None
    });
}

/// Power, kubelet and device.
fn machine(world: &World, s: &State, can: &mut impl FnMut(Event, bool, Change<'_>)) {
    can(Event::PowerLoss, s.on && s.losses > 0, &|n| {
        n.losses -= 1;
        (n.on, n.lies, n.idle, n.hangs) = (false, false, 0, false);
        None
    });
    can(Event::PowerOn, !s.on && s.boot < 2, &|n| {
        (n.on, n.boot) = (true, n.boot + 1);
        None
    });
    // A kubelet that is early by its jitter, or that could not before.
    can(Event::Renews, is_able(s) && s.idle + 1 >= RENEWAL, &|n| {
        (n.idle, n.untold) = (0, true);
        None
    });
    let is_news = !s.ready || s.node_boot != s.boot;
    can(
        Event::Reports,
        is_able(s) && s.reports > 0 || is_able(s) && is_news,
        &|n| {
            n.reports = n.reports.saturating_sub(1);
            n.beat = (n.beat + 1).min(9);
            (n.ready, n.node_boot) = (true, n.boot);
            None
        },
    );
    can(Event::Hangs(true), world.hangs && s.on && !s.hangs, &|n| {
        (n.hangs, n.idle) = (true, 0);
        None
    });
    can(Event::Hangs(false), s.hangs, &|n| {
        n.hangs = false;
        None
    });
    let may_lie = matches!(world.device, Device::Lies | Device::LiesForAMoment);
    can(
        Event::Lies(true),
        may_lie && s.on && !s.lies && s.lies_left > 0,
        &|n| {
            (n.lies, n.lied) = (true, 0);
            n.lies_left -= 1;
            None
        },
    );
    let is_moment = world.device == Device::LiesForAMoment;
    can(Event::Lies(false), s.lies && is_moment, &|n| {
        (n.lies, n.lied) = (false, 0);
        None
    });
    can(Event::Copied, world.copies && s.uid == 1, &|n| {
        n.uid = 2;
        None
    });
}

/// The ways between kubelet, API server and operator.
fn ways(
    world: &World,
    s: &State,
    missing: Option<Guard>,
    can: &mut impl FnMut(Event, bool, Change<'_>),
) {
    let begins_anew = missing != Some(Guard::BeginAnew);
    can(Event::Cut(true), world.cuts && !s.cut, &|n| {
        (n.cut, n.idle) = (true, 0);
        None
    });
    can(Event::Cut(false), s.cut, &|n| {
        n.cut = false;
        None
    });
    can(Event::Told, s.untold && s.api, &|n| {
        n.untold = false;
        let mut renewals = renewals(n);
        renewals.note("worker-1", &lease(true), LASTS, NOW);
        if world.in_step {
            renewals.note("other", &lease(true), LASTS, NOW);
        }
        take_in(n, &renewals);
        None
    });
    let is_up = s.api && s.outages > 0;
    can(
        Event::Outage(true),
        is_up && (world.outages || world.stands_still),
        &|n| {
            n.outages -= 1;
            (n.api, n.idle) = (false, 0);
            None
        },
    );
    can(Event::Outage(false), !s.api, &|n| {
        n.api = true;
        // The watch ends with an outage and lists anew. An API server that stood still goes on where it was.
        if world.outages {
            let mut renewals = renewals(n);
            if begins_anew {
                renewals.begin_anew(NOW);
            }
            if n.untold {
                renewals.note("worker-1", &lease(true), LASTS, NOW);
                n.untold = false;
            }
            take_in(n, &renewals);
            if world.steady {
                n.seen_other = 0;
            }
        }
        None
    });
}
