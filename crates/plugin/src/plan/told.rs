//! The plan for people: the verdict first, then when what happens, then the pods, those that need somebody before those that do not.

use super::super::table::{table, wrapped};
use super::Plan;
use super::pods::{Outcome, PodPlan, counted};
use super::timeline::{Basis, Step, Timeline};
use super::verdict::Verdict;
use super::volumes::Fate;
use fencing_cluster::text::listed;

/// Names in a line of those that nobody has to care for.
const NAMED_MAX: usize = 8;

/// All of it.
pub fn told(plan: &Plan) -> String {
    let mut text = summary(plan);
    text += "\n";
    text += &verdict(&plan.verdict);
    text += "\n";
    text += &timeline(&plan.timeline);
    text += "\n";
    text += &pods(plan);
    if !plan.unknown.is_empty() {
        text += "\nNot known\n";
    }
    for words in &plan.unknown {
        text += &wrapped(words, 2);
    }
    text
}

/// What a reader in a hurry wants.
fn summary(plan: &Plan) -> String {
    let node = &plan.node;
    let missing = plan.pods.iter().filter(|it| !it.outcome.is_well()).count();
    // Those of the node itself do not go elsewhere.
    let is_lost = |it: &&PodPlan| {
        it.outcome == Outcome::Recovers && it.volumes.iter().any(|it| it.fate == Fate::Lost)
    };
    let lost = plan.pods.iter().filter(is_lost).count();
    let pods = match missing {
        0 if lost == 0 => "everything on it would recover".to_owned(),
        0 => format!(
            "everything on it would run again, {} without data that was on the node alone",
            fencing_core::quiesce::counted(lost, "pod")
        ),
        some => format!(
            "{some} of its {} pods would not recover by themselves",
            plan.pods.len()
        ),
    };
    let (now, when) = match &plan.present {
        Some(present) => (
            wrapped(&present.message, 0) + "\n",
            format!("At its next power loss, once Node {node} has been Ready again"),
        ),
        None => (String::new(), format!("If Node {node} lost power now")),
    };
    let words = match (
        plan.verdict.obstacles.len(),
        plan.timeline.recovered_seconds,
    ) {
        // With none that runs elsewhere there is no last one.
        (0, Some(_)) if !plan.pods.iter().any(runs_again) => {
            format!("{when}, it would be fenced, and {pods}")
        }
        (0, Some(seconds)) => format!(
            "{when}, it would be fenced, and {pods}, the last pod about {} after the power loss",
            time(seconds)
        ),
        (0, None) => format!("{when}, it would be fenced, and {pods}"),
        (obstacles, _) => format!(
            "{when}, it would NOT be fenced by itself ({}), and Kubernetes would replace only pods without its volumes, after five minutes. Without obstacles, {pods}",
            fencing_core::quiesce::counted(obstacles, "obstacle")
        ),
    };
    now + &wrapped(&words, 0)
}

fn runs_again(pod: &PodPlan) -> bool {
    matches!(pod.outcome, Outcome::Recovers | Outcome::WithoutData)
}

fn verdict(verdict: &Verdict) -> String {
    let mut text = "Verdict\n".to_owned();
    if let (Some(policy), Some(mode), Some(approval)) =
        (&verdict.policy, verdict.mode, verdict.approval_mode)
    {
        let window = verdict.window.as_ref().map(|it| format!(", window {it}"));
        let words = format!(
            "policy {policy}: mode {mode:?}, approval {approval:?}{}",
            window.unwrap_or_default()
        );
        text += &wrapped(&words, 2);
    }
    for level in &verdict.levels {
        let is = if level.ready { "ready" } else { "NOT READY" };
        let devices = level.devices.iter().map(|it| {
            let message = it.message.as_ref().map(|it| format!(", {it}"));
            format!(
                "{} ({}, {}{})",
                it.name,
                it.driver,
                it.readiness,
                message.unwrap_or_default()
            )
        });
        let devices: Vec<String> = devices.collect();
        let devices = match devices.is_empty() {
            true => "no device serves this node".to_owned(),
            false => devices.join("; "),
        };
        text += &wrapped(&format!("level {}: {is}: {devices}", level.name), 2);
    }
    if let Some(budget) = &verdict.budget {
        text += &wrapped(&format!("budget {budget}"), 2);
    }
    for note in &verdict.notes {
        text += &wrapped(&format!("note: {note}"), 2);
    }
    for obstacle in &verdict.obstacles {
        text += &wrapped(
            &format!("HELD {}: {}", obstacle.reason, obstacle.message),
            2,
        );
    }
    text
}

fn timeline(timeline: &Timeline) -> String {
    let rows: Vec<_> = timeline.steps.iter().map(row).collect();
    let mut text = table(["AT", "STEP", "TAKES", "KNOWN FROM"], &rows);
    let range = timeline.earliest_seconds.zip(timeline.latest_seconds);
    if let Some((earliest, latest)) = range {
        let words = format!(
            "The last step ends between {} and {}, where bounded; -o json shows the source of each number",
            time(earliest),
            time(latest)
        );
        text += &wrapped(&words, 0);
    }
    if let Some(after) = timeline.after_hold_seconds {
        let words = format!(
            "The last pod would run about {} after the hold is lifted",
            time(after)
        );
        text += &wrapped(&words, 0);
    }
    text
}

fn row(step: &Step) -> [String; 4] {
    let known = match step.basis {
        _ if step.takes_seconds.is_none() => "as long as it is held",
        Basis::Policy => field(step.step),
        Basis::Flag => "--grace",
        Basis::ControlPlane => "kube-controller-manager's flag",
        Basis::Default => "Kubernetes' default",
        Basis::Records => "past incidents and starts",
        Basis::Measured => "our benchmark",
        Basis::Computed => "computed from Kubernetes' limits",
        Basis::Assumed => "a guess",
    };
    [
        step.at_seconds.map_or_else(|| "?".to_owned(), time),
        step.step.to_owned(),
        step.takes_seconds.map_or_else(|| "?".to_owned(), time),
        known.to_owned(),
    ]
}

/// Which of the policy's fields says so.
fn field(step: &str) -> &'static str {
    match step {
        "PolicyWait" => "policy: unhealthyConditions",
        "Delay" => "policy: minUptimeSeconds, cooldownSeconds",
        "EarlierLevels" => "policy: fence.levels[].timeoutSeconds",
        "Verify" => "policy: fence.verification",
        _ => "the policy",
    }
}

/// Seconds, with a tenth where that is not nothing beside them.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds > 0.0 && seconds < 0.05 => "<0.1s".to_owned(),
        _ if seconds < 10.0 && seconds.fract() > 0.05 => format!("{seconds:.1}s"),
        _ => format!("{seconds:.0}s"),
    }
}

fn pods(plan: &Plan) -> String {
    let counts = counted(&plan.pods);
    let counts = counts
        .iter()
        .map(|(outcome, count)| format!("{count} {}", called(*outcome)));
    let counts: Vec<String> = counts.collect();
    if counts.is_empty() {
        return "No pod is on the node\n".to_owned();
    }
    let mut text = wrapped(&format!("Pods ({})", counts.join(", ")), 0);
    let (quiet, told): (Vec<&PodPlan>, Vec<&PodPlan>) = plan
        .pods
        .iter()
        .partition(|it| matches!(it.outcome, Outcome::OfTheNode | Outcome::Finished));
    for pod in told {
        text += &told_of(pod);
    }
    for outcome in [Outcome::OfTheNode, Outcome::Finished] {
        let names = quiet.iter().filter(|it| it.outcome == outcome);
        let names: Vec<String> = names.map(|it| it.full_name()).collect();
        if !names.is_empty() {
            text += &wrapped(
                &format!("{}: {}", called(outcome), listed(&names, "", NAMED_MAX)),
                2,
            );
        }
    }
    text
}

fn told_of(pod: &PodPlan) -> String {
    let owner = pod.owner.as_ref().map(|it| format!(" ({it})"));
    let after = pod.after_seconds.map(|it| format!(", after {}", time(it)));
    let line = format!(
        "{}: {}{}{}",
        called(pod.outcome),
        pod.full_name(),
        owner.unwrap_or_default(),
        after.unwrap_or_default()
    );
    let mut text = wrapped(&line, 2) + &wrapped(&pod.message, 6);
    let volumes = pod.volumes.iter().map(|it| &it.message);
    // What is the reason has been said, and a volume that begins empty is a note.
    let volumes = volumes.filter(|it| **it != pod.message && !pod.notes.contains(it));
    for words in volumes.chain(&pod.notes) {
        text += &wrapped(&format!("- {words}"), 6);
    }
    text
}

fn called(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Gone => "GONE",
        Outcome::Hangs => "HANGS",
        Outcome::Waits => "WAITS",
        Outcome::WithoutData => "WITHOUT ITS DATA",
        Outcome::Stays => "STAYS",
        Outcome::Unknown => "NOT KNOWN",
        Outcome::Recovers => "recovers",
        Outcome::OfTheNode => "of the node",
        Outcome::Finished => "ended",
    }
}

#[cfg(test)]
mod tests;
