//! The bounds L1, L2 and L4 to L7, in seeds where nothing else is in the way.

use crate::faults::Fault;
use crate::libc::elapsed;
use crate::plan::Plan;
use crate::play::WARM_UP;
use crate::stage::Stage;
use crate::tally::{Course, Life, Tally};
use crate::world::World;
use std::time::Duration;

/// L2.
const RELEASE_MAX: Duration = Duration::from_secs(10);
/// A stage that lasts longer is written down by itself.
const QUICK: Duration = Duration::from_secs(2);
/// L4: a Lease lasts so long, and a successor takes it within 10 s more.
const LEASE_TIME: Duration = Duration::from_secs(15);
const SUCCESSION_MAX: Duration = Duration::from_secs(25);
/// A replica stands by when it has been there for so long.
const WARM: Duration = Duration::from_secs(10);
/// L7.
const WRITES_MAX: u32 = 8;

/// L1: what the world needs besides the policy's wait and the window: eviction of the pods, four calls of the BMC, and the second.
const TAINT_MAX: Duration = Duration::from_millis(1500 + 4 * 250 + 1000);

/// The same in place of the policy's wait, where the machine is off: the changes are gathered, the device is asked, and the incident is opened.
const LOOK_MAX: Duration = Duration::from_millis(250 + 4 * 250 + 500);

/// A call of the BMC.
const CALL: Duration = Duration::from_millis(250);
/// What the readings of one that was opened or reported early span where no command of ours shows what the device says of it.
const UNSTEADY: Duration = Duration::from_secs(10);

/// Holds what was counted against the bounds.
pub fn judge(stage: &Stage) {
    let tally = stage.judge.tally();
    let (world, plan) = (&stage.world, &stage.plan);
    let deaths = tally.lives.iter().filter(|life| life.to.is_some()).count();
    let deaths = u32::try_from(deaths).unwrap_or(u32::MAX);
    if plan.only(&[Fault::Crash, Fault::Storm, Fault::Terminate]) {
        for problem in successions(world, &tally) {
            world.violation(problem);
        }
    }
    for (name, course) in &tally.courses {
        world.log.note("TALLY", format!("{name} {course:?}"));
        let mut found = Vec::new();
        if plan.only(&[Fault::Storm]) {
            found.extend(released(world, course, plan));
        }
        if plan.is_calm() {
            found.extend(clean(world, course, plan));
        }
        let silent = stage.silent.lock().expect("the names");
        if plan.only(&[Fault::Storm, Fault::BmcHangs]) && !silent.contains(&course.node) {
            found.extend(soon(world, course, plan));
        }
        if plan.only(&[Fault::Crash, Fault::Storm]) && !course.commands.is_empty() {
            world.judged("L4 commands");
            found.extend(repeated(course, deaths));
        }
        for problem in found {
            world.violation(format!("{problem} ({name}: {course:?})"));
        }
    }
}

/// L4: a machine is turned off once, and once more by each successor. One that somebody turns on again is another matter.
fn repeated(course: &Course, deaths: u32) -> Option<String> {
    let (boot, commands) = course
        .commands
        .iter()
        .max_by_key(|(_, commands)| **commands)?;
    (*commands > 1 + deaths)
        .then(|| format!("L4: {commands} commands to boot {boot}, {deaths} deaths"))
}

/// L4: whoever stands by leads within the Lease's time and 10 s of the leader's death.
fn successions(world: &World, tally: &Tally) -> Vec<String> {
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
        world.judged("L4 successor");
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

/// L1; L5 where another device hangs, L6 where somebody writes a Node again and again.
fn soon(world: &World, course: &Course, plan: &Plan) -> Option<String> {
    let wait = match plan.skips_if_off() {
        true => LOOK_MAX,
        false => Duration::from_secs(plan.wait),
    };
    let is_unsteady = plan.skips_if_off() || plan.is_early;
    let window = match is_unsteady && plan.mode == "ConfirmOnly" {
        // They end with the first reading that is asked for when that is over: a period and a call later at most.
        true => UNSTEADY + Duration::from_secs(plan.read_period) + CALL,
        false => Duration::from_secs(plan.read_period),
    };
    let bound = wait + window + TAINT_MAX;
    // A budget that is used up holds the next one; and what begins too late may not be over when the machine is turned on.
    let is_early = course.opened + bound < WARM_UP + plan.trouble;
    if plan.outages > plan.concurrent || !is_early {
        return None;
    }
    let id = match plan.faults.first() {
        None => "L1",
        Some(Fault::BmcHangs) => "L5",
        Some(_) => "L6",
    };
    world.judged(id);
    let Some(tainted) = course.tainted else {
        return Some(format!("{id}: never out of service"));
    };
    let took = tainted.saturating_sub(course.unknown);
    (took > bound).then(|| format!("{id}: out of service after {took:?}, {bound:?} are allowed"))
}

fn released(world: &World, course: &Course, plan: &Plan) -> Option<String> {
    let (free, released) = course.free.zip(course.released)?;
    if plan.release != "AfterDetach" {
        return None;
    }
    world.judged("L2");
    let took = released.saturating_sub(free);
    (took > RELEASE_MAX).then(|| format!("L2: released after {took:?}"))
}

fn clean(world: &World, course: &Course, plan: &Plan) -> Option<String> {
    // What lasts is written down: that is no clean fence.
    let (free, tainted) = course.free.zip(course.tainted)?;
    let is_quick =
        free.saturating_sub(tainted) < QUICK && tainted.saturating_sub(course.opened) < QUICK * 2;
    if !is_quick || plan.release != "AfterDetach" || course.commanded() > 1 {
        return None;
    }
    // What is written after the release is no part of a clean fence.
    if plan.power_on.is_some() {
        return None;
    }
    world.judged("L7");
    // That everything has detached is written down before the Node goes, and what was read with it.
    let most = WRITES_MAX + u32::from(plan.deletes_node);
    (course.writes > most).then(|| format!("L7: {} writes", course.writes))
}

#[test]
fn a_command_counts_as_repeated_for_one_boot_of_the_machine() {
    let broken = |commands: &[(u32, u32)], deaths| {
        let course = Course {
            commands: commands.iter().copied().collect(),
            ..Course::default()
        };
        repeated(&course, deaths)
    };
    assert_eq!(broken(&[(1, 1), (2, 1), (3, 1), (4, 1)], 0), None);
    assert_eq!(broken(&[(1, 2)], 1), None);
    let words = "L4: 2 commands to boot 3, 0 deaths";
    assert_eq!(broken(&[(1, 1), (3, 2)], 0).as_deref(), Some(words));
}
