//! The bounds L1, L2, L4 and L7, in seeds where nothing else is in the way.

use crate::faults::Fault;
use crate::libc::elapsed;
use crate::plan::Plan;
use crate::stage::Stage;
use crate::tally::{Course, Life, Tally};
use std::time::Duration;

/// L2.
const RELEASE_MAX: Duration = Duration::from_secs(10);
/// A stage that lasts longer is written down by itself.
const QUICK: Duration = Duration::from_secs(2);
/// A machine that is turned on under the taint is turned off again so often.
const REOFFS_MAX: u32 = 2;
/// L4: a Lease lasts so long, and a successor takes it within 10 s more.
const LEASE_TIME: Duration = Duration::from_secs(15);
const SUCCESSION_MAX: Duration = Duration::from_secs(25);
/// A replica stands by when it has been there for so long.
const WARM: Duration = Duration::from_secs(10);
/// L7.
const WRITES_MAX: u32 = 8;

/// L1: what the world needs besides the policy's wait and the window: eviction of the pods, four calls of the BMC, and the second.
const TAINT_MAX: Duration = Duration::from_millis(1500 + 4 * 250 + 1000);

/// Holds what was counted against the bounds.
pub fn judge(stage: &Stage) {
    let tally = stage.judge.tally();
    let (world, plan) = (&stage.world, &stage.plan);
    let died = stage
        .happened
        .lock()
        .expect("the counts")
        .get(Fault::Crash.name())
        .copied();
    // Each time up to three of its lives.
    let deaths = died.unwrap_or_default() * 3;
    if plan.only(&[Fault::Crash, Fault::Storm, Fault::Terminate]) {
        successions(&tally)
            .into_iter()
            .for_each(|problem| world.violation(problem));
    }
    for (name, course) in &tally.courses {
        world.log.note("TALLY", format!("{name} {course:?}"));
        let mut found = Vec::new();
        if plan.only(&[Fault::Storm]) {
            found.extend(calm(course, plan));
        }
        let is_silent = stage
            .silent
            .lock()
            .expect("the names")
            .contains(&course.node);
        if plan.only(&[Fault::Storm, Fault::BmcHangs]) && !is_silent {
            found.extend(soon(course, plan));
        }
        // One for the fence, one by each successor.
        if plan.only(&[Fault::Crash, Fault::Storm]) && course.commands > 1 + deaths + REOFFS_MAX {
            found.push(format!("L4: {} commands, {deaths} deaths", course.commands));
        }
        for problem in found {
            world.violation(format!("{problem} ({name}: {course:?})"));
        }
    }
}

/// L4: whoever stands by leads within the Lease's time and 10 s of the leader's death.
fn successions(tally: &Tally) -> Vec<String> {
    let mut found = Vec::new();
    for dead in &tally.lives {
        let Some(end) = dead.to else { continue };
        let last = tally.terms.iter().rfind(|term| term.from <= end);
        let led = last.is_some_and(|term| term.name == dead.name && end < term.to + LEASE_TIME);
        let stands_by = |life: &Life| {
            life.name != dead.name
                && life.from + WARM < end
                && life.to.is_none_or(|to| to > end + SUCCESSION_MAX)
        };
        let within = elapsed() > end + SUCCESSION_MAX;
        if !led || !within || !tally.lives.iter().any(stands_by) {
            continue;
        }
        let mut later = tally.terms.iter().filter(|term| term.from > end);
        if !later.any(|term| term.from <= end + SUCCESSION_MAX) {
            found.push(format!(
                "L4: {} died at {end:?} and nobody took the Lease in time",
                dead.name
            ));
        }
    }
    found
}

/// L1, and L5 and L6 where another device hangs or somebody writes the Node again and again.
fn soon(course: &Course, plan: &Plan) -> Option<String> {
    // A budget that is used up holds the next one.
    if plan.outages > plan.concurrent {
        return None;
    }
    let bound = Duration::from_secs(plan.wait + plan.read_period) + TAINT_MAX;
    let took = course.tainted?.saturating_sub(course.unknown);
    (took > bound).then(|| format!("L1: out of service after {took:?}, {bound:?} are allowed"))
}

fn calm(course: &Course, plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    let released = course.free.zip(course.released);
    if let Some((free, released)) = released
        && plan.release == "AfterDetach"
        && released.saturating_sub(free) > RELEASE_MAX
    {
        found.push(format!(
            "L2: released after {:?}",
            released.saturating_sub(free)
        ));
    }
    // What lasts is written down: that is no clean fence.
    let times = course.free.zip(course.tainted);
    let is_clean = times.is_some_and(|(free, tainted)| {
        free.saturating_sub(tainted) < QUICK && tainted.saturating_sub(course.opened) < QUICK * 2
    });
    if is_clean
        && plan.is_calm()
        && plan.release == "AfterDetach"
        && course.commands <= 1
        && course.writes > WRITES_MAX
    {
        found.push(format!("L7: {} writes", course.writes));
    }
    found
}
