//! At which steps of the protocol an operator dies, and a machine is turned on.

use crate::network::{Moment, Step};
use crate::plan::Plan;

/// A step, when of it, and the fault that it is.
type PowerOn = (Step, Moment, &'static str);

/// What somebody may turn a machine on at.
const POWER_ONS: [PowerOn; 7] = [
    (Step::Record, Moment::AfterAnswer, "F33 on when detected"),
    (Step::Claim, Moment::AfterAnswer, "F34 on when claimed"),
    (Step::Intent, Moment::AfterAnswer, "F35 on when quiesced"),
    (Step::Off, Moment::BeforeAnswer, "F36 on when off is sent"),
    (Step::Evidence, Moment::AfterAnswer, "F37 on when proved"),
    (
        Step::Taint,
        Moment::BeforeSending,
        "F38 on with the taint in flight",
    ),
    (Step::Taint, Moment::AfterAnswer, "F39 on when tainted"),
];
/// The same where the operator takes volumes and Node by itself.
const WHILE_DELETING: [PowerOn; 3] = [
    (Step::Detach, Moment::BeforeSending, WITH_A_DELETION),
    (Step::Release, Moment::BeforeSending, WITH_A_DELETION),
    (Step::Release, Moment::BeforeAnswer, WITH_A_DELETION),
];
const WITH_A_DELETION: &str = "F40 on with a deletion in flight";
/// That is no step.
pub(crate) const ON_WHILE_DETACHING: &str = "F40 on while detaching";

/// What an operator may die at where it takes volumes and Node by itself. What comes before is in every other seed as well.
const OF_DELETION: [Step; 13] = [
    Step::Claim,
    Step::Off,
    Step::Evidence,
    Step::Taint,
    // One VolumeAttachment, or another.
    Step::Detach,
    Step::Detach,
    Step::Detach,
    Step::Detach,
    Step::Detach,
    Step::Status,
    Step::Release,
    Step::Release,
    Step::End,
];

/// When a machine may be turned on.
pub(super) fn power_ons(plan: &Plan) -> Vec<PowerOn> {
    let mut all = POWER_ONS.to_vec();
    // Their moments last for milliseconds, and few incidents come so far.
    let short = [Step::Evidence, Step::Taint];
    all.extend(
        POWER_ONS
            .into_iter()
            .filter(|(step, _, _)| short.contains(step)),
    );
    if plan.deletes_node {
        // More often than the others: such a plan is rare, and the seeds of every test have to meet these moments.
        all.extend([WHILE_DELETING; 4].concat());
    }
    all
}

/// What an operator may die at.
pub(super) fn deaths(plan: &Plan) -> &'static [Step] {
    match plan.deletes_node {
        true => &OF_DELETION,
        false => &Step::ALL,
    }
}

/// As the summary names them.
pub(super) fn names() -> Vec<&'static str> {
    let mut all = Step::ALL.map(Step::death).to_vec();
    all.push(Step::Detach.death());
    all.extend(POWER_ONS.map(|(_, _, name)| name));
    all.extend([WITH_A_DELETION, ON_WHILE_DETACHING]);
    all
}
