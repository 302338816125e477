//! The screen: who leads, the policies, the open incidents, and the nodes that are down without one.

use super::{Incident, Operator, Policy, ReadyNode, Status};
use crate::control::Lack;
use crate::fences;
use crate::leader::is_silent;
use crate::name::Name;
use crate::table::{age, bar, duration, or_none, quoted, table, wrapped};
use fencing_api::fence_status::{PowerOf, PowerReading};
use fencing_cluster::text::listed;
use fencing_core::control::OFF_WHILE_RUNNING;
use fencing_core::hold::HeldBy;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Names in one line.
const NAMED_MAX: usize = 5;

/// Columns of the policies; the last [`WIDE`] of them are further ones.
const POLICY: [&str; 9] = [
    "POLICY",
    "MODE",
    "NODES",
    "PROTECTED",
    "OPEN",
    "HELD",
    "BUDGET",
    "READY",
    "REASON",
];
const WIDE: usize = 2;

/// All of it; `is_wide`: with further columns of the policies, and what devices have said.
pub(super) fn screen(
    status: &Status,
    about: Option<&Name>,
    is_wide: bool,
    now: Timestamp,
) -> String {
    let operator = &status.operator;
    let stranded = status.stranded.iter().map(|it| {
        let words = format!(
            "ACTION REQUIRED: Node {} ({}) {}",
            it.node, it.reason, it.message
        );
        wrapped(&words, 0)
    });
    let mut text: String = stranded.collect();
    text += &wrapped(&format!("Operator: {}", leads(operator, now)), 0);
    text += "\n";
    match about {
        _ if !status.policies.is_empty() => {}
        Some(name) => {
            text += &wrapped(
                &format!(
                    "No policy governs {name}; see `kubectl fence status` and `spec.nodeSelector`"
                ),
                0,
            )
        }
        None => {
            text += "No policy: no node is protected (see `kubectl explain nodefencingpolicy`)\n"
        }
    }
    text += &policies(&status.policies, is_wide);
    for words in status.policies.iter().filter_map(aside) {
        text += &wrapped(&words, 2);
    }
    for policy in &status.policies {
        text += &bare(policy);
    }
    let lacks = status.without_positive_control.iter().flatten();
    text += &unproving(lacks, is_wide);
    text += "\n";
    for incident in &status.incidents {
        text += &told(incident, is_wide, now);
    }
    text + &without_incident(status, about, now)
}

/// Who leads, as far as that is known.
fn leads(operator: &Operator, now: Timestamp) -> String {
    match (&operator.leader, operator.renew_time) {
        (Some(leader), Some(renewed)) if is_silent(operator.silent_from, now) => format!(
            "NO LEADER, or its clock is behind: {leader} renewed its Lease {} ago, nothing is fenced; see kubectl fence check",
            age(renewed, now)
        ),
        (Some(leader), Some(renewed)) => format!(
            "{leader} leads, its Lease was renewed {} ago",
            age(renewed, now)
        ),
        (Some(leader), None) => format!("{leader} leads"),
        (None, _) => or_none(operator.unknown.as_ref()),
    }
}

fn policies(policies: &[Policy], is_wide: bool) -> String {
    let columns = match is_wide {
        true => POLICY.len(),
        false => POLICY.len() - WIDE,
    };
    let rows = policies.iter().map(policy_row);
    let rows: Vec<Vec<String>> = rows
        .map(|it| it.into_iter().take(columns).collect())
        .collect();
    table(POLICY.get(..columns).unwrap_or(&POLICY), &rows)
}

fn policy_row(policy: &Policy) -> [String; 9] {
    let count = |it: Option<u32>| it.map_or_else(|| "<unknown>".to_owned(), |it| it.to_string());
    let ready = match policy.ready {
        true => "True",
        false if policy.reason.is_none() => "<unknown>",
        false => "False",
    };
    [
        policy.name.clone(),
        format!("{:?}", policy.mode),
        count(policy.selected),
        count(policy.protected),
        count(policy.open),
        count(policy.held),
        count(policy.budget_remaining),
        ready.to_owned(),
        or_none(policy.reason.as_ref()),
    ]
}

/// Why the policy does not act as its row says.
fn aside(policy: &Policy) -> Option<String> {
    let name = &policy.name;
    if let Some(paused) = &policy.paused {
        // Lines are wrapped at blanks, where a name that has some would be torn.
        let (which, whose) = match policy.paused_by.as_slice() {
            [only] if !only.contains(char::is_whitespace) => ("it", quoted(only)),
            _ => ("a pause", "WHOSE".to_owned()),
        };
        return Some(format!(
            "{name}: PAUSED by {paused}, no new incident begins; to remove {which}: kubectl fence resume {name} --name {whose} --reason WHY"
        ));
    }
    let is_over = policy.reason.as_deref() == Some(HeldBy::Paused.as_str());
    let message = policy.message.as_ref();
    let message = message.filter(|_| !policy.ready && !is_over);
    message.map(|it| format!("{name}: {it}"))
}

/// Who is not among the protected, unless the words above name them all.
fn bare(policy: &Policy) -> String {
    let nodes = &policy.unprotected_nodes;
    let aside = aside(policy).unwrap_or_default();
    let is_of_a_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
    let words = aside.split(|it| !is_of_a_name(it));
    let said: BTreeSet<&str> = words.map(|it| it.trim_end_matches('.')).collect();
    match nodes.iter().all(|it| said.contains(it.as_str())) {
        true => String::new(),
        false => wrapped(
            &format!(
                "{}: not protected: {}; see `kubectl fence plan NODE`",
                policy.name,
                listed(nodes, "", NAMED_MAX)
            ),
            2,
        ),
    }
}

/// The devices whose Off proves nothing, the first of them by name. One that has only not been probed since the node booted mends itself.
fn unproving<'a>(lacks: impl Iterator<Item = &'a Lack>, is_wide: bool) -> String {
    let lacks: Vec<&Lack> = lacks
        .filter(|it| is_wide || it.reason == OFF_WHILE_RUNNING)
        .collect();
    let first = lacks.iter().take(NAMED_MAX);
    let mut text: String = first.map(|it| wrapped(&it.message, 2)).collect();
    let more = lacks.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        text += &wrapped(&format!("and {more} more: kubectl fence check"), 2);
    }
    text
}

/// An incident, with its way and what it waits for.
fn told(incident: &Incident, is_wide: bool, now: Timestamp) -> String {
    let since = incident.stage_start_time;
    let lasts = since.map(|it| format!(" for {}", age(it, now)));
    // Who is called already is told so below.
    let is_calling = incident.escalated.is_some();
    let deadline = incident.stage_deadline_time.filter(|_| !is_calling);
    let left = deadline.map(|at| match at >= now {
        true => format!(", escalates in {}", duration(at.duration_since(now))),
        false => format!(", late for {}", duration(now.duration_since(at))),
    });
    let mut text = wrapped(
        &format!(
            "Node {} (nodefence/{}): {}{}{}",
            incident.node,
            incident.fence,
            incident.stage,
            lasts.unwrap_or_default(),
            left.unwrap_or_default()
        ),
        0,
    );
    text += &wrapped(&bar(&incident.stage, incident.mode), 2);
    if let Some(message) = fences::beside(&incident.message, &incident.warnings) {
        text += &wrapped(message, 2);
    }
    text += &fences::warned(&incident.warnings);
    for said in &incident.said {
        let words = format!("{} ago {}", age(said.time, now), said.words);
        text += &wrapped(&words, 2);
    }
    // What keeps a word from being taken is always shown.
    let is_shown = |it: &&PowerReading| is_wide || it.speaks_against_a_word();
    for read in incident.power_readings.iter().filter(is_shown) {
        let of = match read.reads {
            PowerOf::Machine => "",
            PowerOf::Outlets => ", of outlets",
        };
        let on = read.last_on_time.filter(|_| !read.speaks_against_a_word());
        let on = on.map(|at| format!(", and read On {} ago", age(at, now)));
        let words = format!(
            "FenceDevice {} reads {:?}{of} for {}{}",
            read.device,
            read.power_state,
            age(read.since_time, now),
            on.unwrap_or_default()
        );
        text += &wrapped(&words, 2);
    }
    for words in incident.before_commands() {
        text += &wrapped(&words, 2);
    }
    let commands = incident.commands.iter();
    text + &commands.map(|it| format!("    {it}\n")).collect::<String>()
}

/// The nodes that are down and have no incident, or that there is none.
fn without_incident(status: &Status, about: Option<&Name>, now: Timestamp) -> String {
    let is_quiet = status.incidents.is_empty();
    let many = status.unfenced.len();
    // The counts of a policy that stand above are of all its nodes.
    let of = about.map_or_else(String::new, |it| format!(" of {it}"));
    let mut text = match (is_quiet, many) {
        (true, 0) => format!("No incident{of} is open\n"),
        (true, 1) => format!("No incident{of} is open, and 1 node is NotReady\n"),
        (true, _) => format!("No incident{of} is open, and {many} nodes are NotReady\n"),
        (false, _) => String::new(),
    };
    if let Some(ready) = &status.ready {
        text += &wrapped(&well(ready), 0);
    }
    for unfenced in &status.unfenced {
        text += &wrapped(
            &format!("Node {}: {}", unfenced.node, unfenced.words(now)),
            0,
        );
    }
    if let Some(unknown) = &status.unfenced_unknown {
        text += &wrapped(&format!("Other NotReady nodes are unknown: {unknown}"), 0);
    }
    text
}

/// A node of which nothing else is to be said.
fn well(ready: &ReadyNode) -> String {
    let node = &ready.node;
    if let Some(conflict) = &ready.conflict {
        return format!("Node {node}: Ready; not protected: {conflict}");
    }
    let governed = ready.policy.as_ref();
    let governed = governed.map(|it| format!("; governed by policy {it}"));
    let bare = match ready.is_unprotected {
        Some(true) => format!("; not protected: see kubectl fence plan {node}"),
        None if governed.is_some() => {
            format!("; see kubectl fence plan {node} for whether it can be fenced")
        }
        Some(false) | None => String::new(),
    };
    format!("Node {node}: Ready{}{bare}", governed.unwrap_or_default())
}

#[cfg(test)]
mod tests;
