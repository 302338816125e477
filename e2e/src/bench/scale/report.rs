//! The figures of all clusters side by side, as a block of Markdown.

use super::storm::{Count, Storm};
use super::{Measured, Plan};
use anyhow::Result;
use fencing_testbed::bench::table::{Table, spread};
use fencing_testbed::bench::{Cores, mib};
use std::collections::BTreeSet;

/// One column a cluster.
pub(super) fn render(columns: &[Measured], plan: &Plan, before: &Cores) -> Result<String> {
    let name = |it: &Measured| {
        let with = match it.controllers {
            true => "with",
            false => "without",
        };
        format!("{}, {with} kube-controller-manager", it.size)
    };
    let mut table = Table::new("", columns.iter().map(name));
    let mut row = |name: &str, cell: &dyn Fn(&Measured) -> String| {
        table.words(name, columns.iter().map(cell));
    };
    row("resident at rest / peak at the end", &|it| {
        let (idle, peak) = (mib(it.idle.resident_bytes), mib(it.end.peak_bytes));
        format!("{idle:.1} / {peak:.1} MiB")
    });
    row("CPU at rest, of one core", &|it| {
        format!("{:.2} %", it.idle_percent)
    });
    row("one node: deadline to taint, without the window", &|it| {
        spread(
            "s",
            2,
            it.single.iter().flat_map(|storm| storm.delays.clone()),
        )
    });
    row("one node: CPU", &|it| {
        spread("s", 3, it.single.iter().map(Storm::cpu_each))
    });
    row("one node: requests to the taint + after it", &|it| {
        let part = |part: usize| spread("", 0, it.single.iter().map(|it| it.requests_each()[part]));
        format!("{} + {}", part(0), part(1))
    });
    for count in &plan.storms {
        let cell = |of: &dyn Fn(&Storm) -> String| {
            let of_column = |it: &Measured| {
                let storm = it.storms.iter().find(|storm| storm.count == *count);
                storm.map_or_else(|| "-".to_owned(), of)
            };
            columns.iter().map(of_column).collect::<Vec<_>>()
        };
        let times = cell(&|storm| match storm.first_median_last() {
            Some(times) => times.map(|it| format!("{it:.2}")).join(" / ") + " s",
            None => "-".to_owned(),
        });
        table.words(
            &format!("{count} at once: first / median / last taint"),
            times,
        );
        let cpu = cell(&|storm| {
            format!(
                "{:.1} s ({:.3} s)",
                storm.cpu.as_secs_f64(),
                storm.cpu_each()
            )
        });
        table.words(&format!("{count} at once: CPU (of each)"), cpu);
        let requests = cell(&|storm| {
            let [before, after] = storm.requests_each();
            format!("{:.1}, {}", before + after, storm.failed_writes)
        });
        table.words(
            &format!("{count} at once: requests each, failed writes"),
            requests,
        );
    }
    table.words(
        "terms as leader lost",
        columns.iter().map(|it| it.terms_lost.to_string()),
    );
    let kinds = kinds(columns, plan);
    Ok(format!(
        "Release build, {} cores for everything, kept awake; {}.\n\n{table}\nRequests of each fence, its Node's return included:\n\n{kinds}",
        std::thread::available_parallelism()?,
        Cores::now().since(before)
    ))
}

/// The requests of a fence by what they were, alone and in the last storm.
fn kinds(columns: &[Measured], plan: &Plan) -> Table {
    let last = |it: &Measured| it.storms.last().map_or(1, |storm| storm.count);
    let titles = columns.iter().flat_map(|it| {
        let nodes = it.size.nodes;
        [
            format!("{nodes} nodes, one: to the taint + after it"),
            format!("{nodes} nodes, {} at once", last(it)),
        ]
    });
    let mut table = Table::new("request", titles);
    let all = columns
        .iter()
        .flat_map(|it| it.single.iter().chain(&it.storms));
    let names: BTreeSet<&String> = all.flat_map(|storm| storm.requests.keys()).collect();
    for name in names {
        let of = |storm: &Storm, part: fn(&Count) -> usize| {
            let count = storm.requests.get(name).copied().unwrap_or_default();
            part(&count) as f64 / storm.count as f64
        };
        let cells = columns.iter().flat_map(|it| {
            let mean = |part| {
                let all = it.single.iter().map(|storm| of(storm, part));
                all.sum::<f64>() / plan.runs.max(1) as f64
            };
            let (before, after) = (mean(|it| it.before_taint), mean(|it| it.after_taint));
            let storm = it.storms.last().map_or_else(
                || "-".to_owned(),
                |storm| format!("{:.1}", of(storm, |it| it.before_taint + it.after_taint)),
            );
            [format!("{before:.1} + {after:.1}"), storm]
        });
        table.words(name, cells);
    }
    table
}
