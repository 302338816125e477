//! The verdicts, and the one judge of all cells: it fences the machine behind the device as far as the verdict needs, by the engine and
//! the rule of the product, and looks at what was read, sent and proven.
//!
//! Whatever the verdict: off is never invented. No reading says off while the machine runs unless the device itself says so, no proof
//! exists while it runs (where the device says off, a sign of life has to refute it), and no command is softer than a hard off.

use super::cell::{Bench, ENDLESS, SHORT};
use super::course::{Course, Off};
use Verdict::{
    BeginsAnew, Contradicted, Fails, FailsAtDeadline, FailsAtOnce, Hearsay, LandsLate, NeverStable,
    NotThisMachine, ReadsOn, ReadsWithin6s, Refuses, Restored, Shared, Succeeds, Unreadable,
};
use fencing_core::not_proven::NotProven;
use fencing_core::reading::PowerState;
use fencing_drivers::OffOutcome;
use fencing_drivers::confirm::Ended;
use fencing_testbed::power::Power;
use std::time::Instant;

/// How often a cell is tried where this machine, with no time for the device meanwhile, explains what was seen. A driver that never does
/// what the verdict asks for has no chance in any of them.
const CHANCES: usize = 5;

/// What must come of a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Reading and command fail for one of these reasons; nothing is sent, nothing is proven.
    Fails(&'static [&'static str]),
    /// The same for this reason, long before the call's own deadline.
    FailsAtOnce(&'static str),
    /// The same when the call's own time, [`SHORT`] here, is over, and not much later.
    FailsAtDeadline(&'static [&'static str]),
    /// Reads on, takes the command, is proven off.
    Succeeds,
    /// It is read within 6 s.
    ReadsWithin6s,
    /// It can be read, and the command fails for this reason.
    Refuses(&'static str),
    /// The command ends well, and the machine still reads on: never proven.
    ReadsOn,
    /// The same at first, and proven once the machine is off.
    LandsLate,
    /// Reads off; the command is sent all the same; a sign of life refutes it (S22).
    Contradicted,
    /// Reads off at times or with a fault: the window is never satisfied.
    NeverStable,
    /// Proven off, and the power that comes back is seen.
    Restored,
    /// An error or Unknown.
    Unreadable,
    /// It answers, and not for certain for this machine: nothing is sent, and its off is refused like this.
    NotThisMachine(&'static str),
    /// Both nodes are refused.
    Shared,
    /// "Already off" proves nothing; fresh readings do.
    Hearsay,
    /// A reading is lost, and the run of off begins anew in a new session.
    BeginsAnew,
}

/// Fails the cell with words, unless.
macro_rules! must {
    ($what:expr, $($words:tt)+) => {
        if !$what {
            return Err(format!($($words)+));
        }
    };
}

mod whose;

use whose::{not_this_machine, shared};

type Shown = Result<String, String>;

impl Verdict {
    /// Is this what becomes of it? What was seen, in a word or two, or what was seen instead.
    pub async fn shown(self, bench: &Bench) -> Shown {
        let mut course = Course::of(bench);
        let shown = match self {
            Fails(reasons) => fails(&mut course, reasons).await,
            FailsAtOnce(reason) => {
                let mut waited = None;
                for _ in 0..CHANCES {
                    let begun = Instant::now();
                    let reading = course.look().await;
                    // The resolver of this machine may have lost a question.
                    waited = (begun.elapsed() >= ENDLESS / 4).then_some(reading);
                    if waited.is_none() {
                        break;
                    }
                }
                must!(waited.is_none(), "it waited: {waited:?}");
                fails(&mut course, &[reason]).await
            }
            FailsAtDeadline(reasons) => {
                let begun = Instant::now();
                let reading = course.look().await;
                let took = begun.elapsed();
                must!(
                    (SHORT..ENDLESS).contains(&took),
                    "it took {took:?}: {reading:?}"
                );
                fails(&mut course, reasons).await
            }
            Succeeds => succeeds(&mut course).await,
            ReadsWithin6s => reads_in_time(&mut course).await,
            Refuses(reason) => refuses(&mut course, reason).await,
            ReadsOn => reads_on(&mut course).await,
            LandsLate => lands_late(&mut course).await,
            Contradicted => contradicted(&mut course).await,
            NeverStable => never_stable(&mut course).await,
            Restored => restored(&mut course).await,
            Unreadable => unreadable(&mut course).await,
            NotThisMachine(reason) => not_this_machine(&mut course, reason).await,
            Shared => shared(&mut course).await,
            Hearsay => hearsay(&mut course).await,
            BeginsAnew => begins_anew(&mut course).await,
        }?;
        let says_off_itself = matches!(self, Contradicted | NeverStable);
        must!(
            says_off_itself || course.invented.is_empty(),
            "OFF WAS INVENTED: {:?}",
            course.invented
        );
        let commands = (bench.commands)();
        must!(
            commands.iter().all(|is_hard_off| *is_hard_off),
            "another command than a hard off was sent"
        );
        if matches!(self, Succeeds) {
            course.comes_on().await?;
        }
        Ok(shown)
    }
}

/// Why it cannot be read.
async fn refusal(course: &mut Course<'_>) -> Result<&'static str, String> {
    match course.look().await {
        Ok(reading) => Err(format!("reads {:?}({})", reading.state, reading.raw)),
        Err(error) => Ok(error.reason()),
    }
}

async fn fails(course: &mut Course<'_>, reasons: &[&str]) -> Shown {
    let ran = course.bench.machine.is_on();
    let mut reason = refusal(course).await?;
    for _ in 1..CHANCES {
        // Over UDP an answer that comes after the deadline has not been heard at all.
        if reason != "Unreachable" || reasons.contains(&reason) {
            break;
        }
        reason = refusal(course).await?;
    }
    must!(reasons.contains(&reason), "fails with {reason}");
    let off = course.off().await;
    must!(
        matches!(off, Off::Failed(_)),
        "the command ends with {off:?}"
    );
    let on = course.on().await;
    must!(on.is_err(), "the on command ends with {on:?}");
    let sent = (course.bench.commands)();
    must!(sent.is_empty(), "{} commands were sent", sent.len());
    let ended = course.confirm(SHORT, usize::MAX).await;
    must!(
        matches!(ended, Ended::Deadline(_) | Ended::Failed(_)),
        "the reads end with {ended:?}"
    );
    if let Ended::Failed(error) = ended {
        must!(
            course.readings.len() == 1,
            "it was tried again after {error}"
        );
    }
    must!(course.proof(false).is_err(), "it is proven off");
    must!(course.bench.machine.is_on() == ran, "it was switched");
    Ok(reason.to_owned())
}

/// It runs, and takes the command.
async fn taken(course: &mut Course<'_>) -> Result<(), String> {
    let reading = course.look().await;
    must!(
        reading
            .as_ref()
            .is_ok_and(|one| one.state == PowerState::On),
        "at first: {reading:?}"
    );
    let off = course.off().await;
    must!(
        matches!(off, Off::Sent(OffOutcome::Accepted)),
        "the command ends with {off:?}"
    );
    Ok(())
}

async fn proven(course: &mut Course<'_>) -> Result<(), String> {
    let mut proof = None;
    for _ in 0..CHANCES {
        let ended = course.confirm(ENDLESS, usize::MAX).await;
        must!(ended == Ended::Stable, "the reads end with {ended:?}");
        let judged = course.proof(false);
        // A report that tells its age may be from before the fence, so that it does not count.
        let is_old = matches!(judged, Err(NotProven::NotOffLongEnough { .. }));
        proof = Some(judged);
        if !is_old {
            break;
        }
    }
    must!(matches!(proof, Some(Ok(_))), "no proof: {proof:?}");
    Ok(())
}

/// However often it is read: so often.
async fn never_proven(course: &mut Course<'_>, readings: usize) -> Result<(), String> {
    let ended = course.confirm(ENDLESS, readings).await;
    must!(
        matches!(ended, Ended::Stopped(_)),
        "the reads end with {ended:?}"
    );
    must!(course.proof(false).is_err(), "it is proven off");
    Ok(())
}

async fn succeeds(course: &mut Course<'_>) -> Shown {
    taken(course).await?;
    proven(course).await?;
    Ok("proven off".to_owned())
}

async fn reads(course: &mut Course<'_>) -> Shown {
    let reading = course.look().await.map_err(|error| error.to_string())?;
    must!(reading.state == PowerState::On, "reads {:?}", reading.state);
    Ok("reads on".to_owned())
}

/// The driver's deadline is 6 s.
async fn reads_in_time(course: &mut Course<'_>) -> Shown {
    for _ in 1..CHANCES {
        if let Ok(seen) = reads(course).await {
            return Ok(seen);
        }
    }
    reads(course).await
}

async fn refuses(course: &mut Course<'_>, reason: &str) -> Shown {
    reads(course).await?;
    let mut off = course.off().await;
    // The outcome of a command that had to be sent again is open by rights.
    for _ in 1..CHANCES {
        if matches!(&off, Off::Sent(OffOutcome::Unknown(error)) if error.reason() == reason) {
            off = course.off().await;
        }
    }
    must!(
        matches!(&off, Off::Failed(error) if error.reason() == reason),
        "the command ends with {off:?}"
    );
    must!(course.bench.machine.is_on(), "the machine was switched off");
    never_proven(course, 3).await?;
    Ok(reason.to_owned())
}

async fn reads_on(course: &mut Course<'_>) -> Shown {
    let off = course.off().await;
    must!(
        matches!(
            off,
            Off::Sent(
                OffOutcome::Accepted | OffOutcome::AlreadyOff { .. } | OffOutcome::Unknown(_)
            )
        ),
        "the command ends with {off:?}"
    );
    must!(course.bench.machine.is_on(), "the machine was switched off");
    never_proven(course, 3).await?;
    Ok("reads on".to_owned())
}

async fn lands_late(course: &mut Course<'_>) -> Shown {
    reads_on(course).await?;
    course.bench.machine_is(false);
    proven(course).await?;
    Ok("unresolved, proven".to_owned())
}

async fn contradicted(course: &mut Course<'_>) -> Shown {
    let reading = course.look().await.map_err(|error| error.to_string())?;
    must!(
        reading.state == PowerState::Off,
        "reads {:?}",
        reading.state
    );
    let off = course.off().await;
    let name = course.bench.driver.name(); // A human is not commanded, nor by an agent what reads off.
    let is_already = matches!(off, Off::Sent(OffOutcome::AlreadyOff { .. }));
    let is_idle = name == "manual" || name == "fenceAgent" && is_already;
    must!(
        is_idle || matches!(off, Off::Sent(OffOutcome::Accepted)),
        "the command ends with {off:?}"
    );
    must!(
        is_idle || !(course.bench.commands)().is_empty(),
        "no command was sent"
    );
    must!(course.bench.machine.is_on(), "the machine was switched off");
    let ended = course.confirm(ENDLESS, usize::MAX).await;
    must!(ended == Ended::Stable, "the reads end with {ended:?}");
    let life = course.proof(true);
    must!(
        matches!(&life, Err(refusal) if refusal.is_contradiction()),
        "with a Lease that moves: {life:?}"
    );
    Ok("contradicted".to_owned())
}

async fn never_stable(course: &mut Course<'_>) -> Shown {
    never_proven(course, 10).await?;
    let mut readings = course.readings.iter();
    must!(
        readings.any(|reading| {
            reading.state == PowerState::Off || reading.raw.to_lowercase().contains("off")
        }),
        "it never said off at all: {:?}",
        course.readings
    );
    Ok("never stable".to_owned())
}

async fn restored(course: &mut Course<'_>) -> Shown {
    taken(course).await?;
    proven(course).await?;
    course.bench.machine_is(true);
    reads(course).await?;
    Ok("seen again".to_owned())
}

async fn unreadable(course: &mut Course<'_>) -> Shown {
    let shown = match course.look().await {
        Err(error) if error.reason() == "ProtocolError" => "ProtocolError",
        Ok(reading) if reading.state == PowerState::Unknown => "Unknown",
        other => return Err(format!("{other:?}")),
    };
    never_proven(course, 3).await?;
    Ok(shown.to_owned())
}

async fn hearsay(course: &mut Course<'_>) -> Shown {
    course.bench.machine_is(false);
    let off = course.off().await;
    must!(
        matches!(off, Off::Sent(OffOutcome::AlreadyOff { .. })),
        "the command ends with {off:?}"
    );
    must!(course.proof(false).is_err(), "its word alone is a proof");
    proven(course).await?;
    Ok("hearsay, then proven".to_owned())
}

async fn begins_anew(course: &mut Course<'_>) -> Shown {
    course.bench.machine_is(false);
    proven(course).await?;
    let states: Vec<PowerState> = course.readings.iter().map(|one| one.state).collect();
    let lost = states.iter().rposition(|one| *one == PowerState::Unknown);
    let Some(lost) = lost else {
        return Err(format!("no reading was lost: {states:?}"));
    };
    let off = |states: &[PowerState]| states.iter().filter(|one| **one == PowerState::Off).count();
    must!(off(&states[..lost]) >= 2, "lost too early: {states:?}");
    must!(off(&states[lost..]) >= 3, "it went on: {states:?}");
    Ok("begins anew".to_owned())
}
