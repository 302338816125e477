//! The figures as one block of Markdown.

use std::fmt::Write;

use anyhow::Result;
use jiff::Timestamp;

use super::cut::{Cut, ms, sorts};
use crate::lab::Kind;
use crate::operator;
use crate::toolchain::kubernetes_version;
use fencing_testbed::bench::table::{Table, spread};
use fencing_testbed::bench::{Cores, mib};

/// What a fence writes about itself and its node, the quarantine's end included.
const OF_A_FENCE: [&str; 2] = ["nodes", "nodefences"];

/// The figures of one kind of node.
pub(super) struct Section {
    /// Which.
    pub kind: Kind,
    /// What became of the pod without the operator.
    pub alone: String,
    /// The operator's memory before the first cut.
    pub idle_bytes: u64,
    /// The cuts with the operator.
    pub cuts: Vec<Cut>,
}

/// All of it.
pub(super) fn render(sections: &[Section], runs: usize, before: &Cores) -> Result<String> {
    let binary = operator::binary()?;
    let profile = binary.parent().and_then(|parent| parent.file_name());
    let profile = profile.unwrap_or_default().to_string_lossy().into_owned();
    let cores = std::thread::available_parallelism()?;
    let mut text = String::new();
    writeln!(
        text,
        "{runs} power cuts of each kind of node, two nodes, Kubernetes {}, {profile} build of the operator; {cores} \
         cores for all of it, kept awake;\n{}. Median (minimum to maximum).\n",
        kubernetes_version(),
        Cores::now().since(before)
    )?;
    writeln!(text, "{}", figures(sections))?;
    write!(text, "{}", writes(sections))?;
    Ok(text)
}

fn titles(sections: &[Section]) -> impl Iterator<Item = String> {
    let title = |section: &Section| match section.kind {
        Kind::Simulated => "simulated kubelets".to_owned(),
        Kind::Real => "real kubelets and containers".to_owned(),
    };
    sections.iter().map(title)
}

fn figures(sections: &[Section]) -> Table {
    let mut table = Table::new("", titles(sections));
    let mut stage = |name: &str, from: fn(&Cut) -> Timestamp, to: fn(&Cut) -> Timestamp| {
        let cell = |section: &Section| {
            let seconds = |cut: &Cut| ms(from(cut), to(cut)) / 1000.0;
            spread("s", 2, section.cuts.iter().map(seconds))
        };
        table.words(name, sections.iter().map(cell));
    };
    stage(
        "power loss to `Ready=Unknown`",
        |cut| cut.cut,
        |cut| cut.unknown,
    );
    stage(
        "to the policy's deadline",
        |cut| cut.unknown,
        |cut| cut.deadline,
    );
    stage("to the claim", |cut| cut.deadline, |cut| cut.claimed);
    stage(
        "to the taint, 1 s of it the proof's window",
        |cut| cut.claimed,
        |cut| cut.tainted,
    );
    stage("to Running elsewhere", |cut| cut.tainted, |cut| cut.running);
    stage(
        "**power loss to Running elsewhere**",
        |cut| cut.cut,
        |cut| cut.running,
    );
    let alone = sections.iter().map(|section| section.alone.clone());
    table.words("the same without the operator", alone);

    let mut row = |name: &str, unit: &str, digits: usize, value: fn(&Cut) -> f64| {
        let cell = |section: &Section| spread(unit, digits, section.cuts.iter().map(value));
        table.words(name, sections.iter().map(cell));
    };
    row(
        "operator's own: deadline to taint, less the 1 s window",
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
        "API writes while the NodeFence is open, except Events and the pods' deletions",
        "",
        0,
        |cut| cut.writes_while_open as f64,
    );
    row("API writes to the Node and the NodeFence", "", 0, |cut| {
        cut.writes.to(&OF_A_FENCE) as f64
    });
    row(
        "other API writes, except the pods' deletions",
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
    let idle = |section: &Section| format!("{:.1} MiB", mib(section.idle_bytes));
    table.words("the same before the first", sections.iter().map(idle));
    table
}

/// Each sort of write: those of the fence first.
fn writes(sections: &[Section]) -> Table {
    let mut table = Table::new(
        "API writes from the power loss until 2 s after the quarantine is lifted",
        titles(sections),
    );
    let all = sections.iter().flat_map(|section| sorts(&section.cuts));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|sort| (!OF_A_FENCE.contains(&sort.0.as_str()), sort.clone()));
    all.dedup();
    for sort in all {
        let cell = |section: &Section| {
            let counts = section.cuts.iter().map(|cut| cut.writes.of(&sort) as f64);
            spread("", 0, counts)
        };
        table.words(&format!("`{}`", sort.1), sections.iter().map(cell));
    }
    table
}
