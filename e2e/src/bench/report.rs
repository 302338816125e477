//! The figures as one block of Markdown.

use std::fmt::Write;

use anyhow::Result;
use jiff::Timestamp;

use super::cut::{Cut, ms, sorts};
use super::policy::Policy;
use crate::lab::Kind;
use crate::operator;
use crate::times::Times;
use crate::toolchain::kubernetes_version;
use fencing_testbed::bench::table::{Table, spread};
use fencing_testbed::bench::{Cores, mib};

/// What a fence writes about itself and its node, the quarantine's end included.
const OF_A_FENCE: [&str; 2] = ["nodes", "nodefences"];

/// The figures of one kind of node, with these times and under this policy.
pub(super) struct Column {
    /// The kind of node.
    pub kind: Kind,
    /// The times of the control plane and of the kubelets.
    pub times: Times,
    /// The operator's policy.
    pub policy: Policy,
    /// What became of the pod without the operator.
    pub alone: String,
    /// The operator's memory before the first cut.
    pub idle_bytes: u64,
    /// The cuts with the operator.
    pub cuts: Vec<Cut>,
}

/// All of it.
pub(super) fn render(columns: &[Column], runs: usize, before: &Cores) -> Result<String> {
    let binary = operator::binary()?;
    let profile = binary.parent().and_then(|parent| parent.file_name());
    let profile = profile.unwrap_or_default().to_string_lossy().into_owned();
    let cores = std::thread::available_parallelism()?;
    let cuts = match runs {
        1 => "1 power cut".to_owned(),
        _ => format!("{runs} power cuts"),
    };
    let mut text = String::new();
    writeln!(
        text,
        "{cuts} for each column, two nodes, Kubernetes {}, {profile} build of the operator; {cores} \
         cores for all of it, kept awake;\n{}. Median (minimum to maximum).\n",
        kubernetes_version(),
        Cores::now().since(before)
    )?;
    writeln!(text, "{}", figures(columns))?;
    writeln!(text, "{}", settings(columns))?;
    write!(text, "{}", writes(columns))?;
    Ok(text)
}

fn titles(columns: &[Column]) -> impl Iterator<Item = String> {
    let title = |column: &Column| {
        let kind = match column.kind {
            Kind::Simulated => "simulated kubelets",
            Kind::Real => "real kubelets",
        };
        let (times, policy) = (column.times.name(), column.policy.name());
        format!("{times} times, {policy}, {kind}")
    };
    columns.iter().map(title)
}

/// What the columns stand for, as a list.
fn settings(columns: &[Column]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for column in columns {
        let (times, policy) = (column.times, column.policy);
        for (name, words) in [
            (format!("{} times", times.name()), times.words()),
            (policy.name().to_owned(), policy.words()),
        ] {
            let line = format!("- **{name}:** {words}.\n");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.concat()
}

/// As [`spread`], with what lies between the least and the most.
fn with_range(values: impl Iterator<Item = f64> + Clone) -> String {
    let most = values.clone().fold(f64::MIN, f64::max);
    let least = values.clone().fold(f64::MAX, f64::min);
    format!("{}, spread {:.2} s", spread("s", 2, values), most - least)
}

fn figures(columns: &[Column]) -> Table {
    let mut table = Table::new("", titles(columns));
    stages(&mut table, columns);
    costs(&mut table, columns);
    table
}

/// Where the seconds go.
fn stages(table: &mut Table, columns: &[Column]) {
    let mut stage = |name: &str, from: fn(&Cut) -> Timestamp, to: fn(&Cut) -> Timestamp| {
        let cell = |column: &Column| {
            let seconds = column
                .cuts
                .iter()
                .map(|cut| ms(from(cut), to(cut)) / 1000.0);
            match name.starts_with("**") {
                true => with_range(seconds),
                false => spread("s", 2, seconds),
            }
        };
        table.words(name, columns.iter().map(cell));
    };
    stage(
        "power loss to `Ready=Unknown`",
        |cut| cut.cut,
        |cut| cut.unknown,
    );
    stage(
        "to the policy's deadline; none for a machine that reads Off, but under the shortest policy",
        |cut| cut.unknown,
        |cut| cut.deadline,
    );
    stage("to the claim", |cut| cut.deadline, |cut| cut.claimed);
    stage("to the taint", |cut| cut.claimed, |cut| cut.tainted);
    stage(
        "**power loss to the taint**",
        |cut| cut.cut,
        |cut| cut.tainted,
    );
    stage(
        "taint to the dead node's VolumeAttachment gone",
        |cut| cut.tainted,
        |cut| cut.detached,
    );
    stage(
        "VolumeAttachment gone to Running elsewhere",
        |cut| cut.detached,
        |cut| cut.running,
    );
    stage(
        "of it until the receiving kubelet's status has the volume (`volumesInUse`)",
        |cut| cut.detached,
        |cut| cut.in_use,
    );
    stage(
        "**power loss to Running elsewhere**",
        |cut| cut.cut,
        |cut| cut.running,
    );
    let alone = columns.iter().map(|column| column.alone.clone());
    table.words("the same without the operator", alone);
}

/// What they are made of, and what the operator takes for them.
fn costs(table: &mut Table, columns: &[Column]) {
    let seconds = |seconds: f64| format!("{seconds} s");
    let windows = columns.iter().map(|column| column.policy.window());
    let windows = windows.map(|window| seconds(window.as_secs_f64()));
    table.words("the proof's window, by its definition", windows);
    let statuses = columns.iter().map(|column| column.times.status_period());
    let statuses = statuses.map(|period| seconds(period.as_secs_f64()));
    table.words("the receiving kubelet's status period", statuses);

    let mut row = |name: &str, unit: &str, digits: usize, value: fn(&Cut) -> f64| {
        let cell = |column: &Column| spread(unit, digits, column.cuts.iter().map(value));
        table.words(name, columns.iter().map(cell));
    };
    row(
        "operator's own: deadline to taint, less the window",
        "ms",
        0,
        Cut::overhead_ms,
    );
    row(
        "of it from the claim until Kubernetes has evicted the pod",
        "ms",
        0,
        |cut| cut.evicting_ms,
    );
    row(
        "of it the API server's, answering the claim, the evidence, the pod's deletion and the taint",
        "ms",
        0,
        |cut| cut.answering_ms,
    );
    row(
        "API writes while the NodeFence is open, except Events, the leader's Lease and the pods' deletions",
        "",
        0,
        |cut| cut.writes_while_open as f64,
    );
    row("API writes to the Node and the NodeFence", "", 0, |cut| {
        cut.writes.to(&OF_A_FENCE) as f64
    });
    row(
        "other API writes, except Events, the leader's Lease and the pods' deletions",
        "",
        0,
        |cut| (cut.writes.all() - cut.writes.to(&OF_A_FENCE) - cut.writes.to(&["pods"])) as f64,
    );
    row(
        "deletions of the replacement pod, by anybody",
        "",
        0,
        |cut| cut.replacement_deletions as f64,
    );
    row(
        "operator's resident memory after a fence",
        "MiB",
        1,
        |cut| mib(cut.resident_bytes),
    );
    let idle = |column: &Column| format!("{:.1} MiB", mib(column.idle_bytes));
    table.words("the same before the first", columns.iter().map(idle));
}

/// Each sort of write: those of the fence first.
fn writes(columns: &[Column]) -> Table {
    let mut table = Table::new(
        "API writes from the power loss until 2 s after the quarantine is lifted",
        titles(columns),
    );
    let all = columns.iter().flat_map(|column| sorts(&column.cuts));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|sort| (!OF_A_FENCE.contains(&sort.0.as_str()), sort.clone()));
    all.dedup();
    for sort in all {
        let cell = |column: &Column| {
            let counts = column.cuts.iter().map(|cut| cut.writes.of(&sort) as f64);
            spread("", 0, counts)
        };
        table.words(&format!("`{}`", sort.1), columns.iter().map(cell));
    }
    table
}
