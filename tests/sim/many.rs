//! Many seeds, each in a process of its own, as many at a time as there are cores; and what came of them all.

use crate::play::Outcome;
use crate::process::{self, LOG, MARK, Said};
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// Names the seed to the process that plays it.
pub const SEED: &str = "SIMULATED_SEED";

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// Seeds.
    pub seeds: u64,
    /// How long they took, in their own time.
    pub virtual_seconds: u64,
    /// Incidents.
    pub fences: u64,
    /// Nodes that were put out of service.
    pub tainted: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<String, u32>,
    /// How often each bound was judged.
    pub bounds: BTreeMap<String, u32>,
    /// What was broken, with the seed.
    pub violations: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.virtual_seconds / 864;
        writeln!(
            f,
            "simulation: {} seeds, {}.{:02} virtual days, {} incidents, {} nodes out of service, {} violations",
            self.seeds,
            days / 100,
            days % 100,
            self.fences,
            self.tainted,
            self.violations.len()
        )?;
        for (what, counts) in [("faults", &self.faults), ("judged", &self.bounds)] {
            let counts = counts
                .iter()
                .map(|(name, count)| format!("{name}: {count}"));
            writeln!(f, "{what}: {}", counts.collect::<Vec<_>>().join(", "))?;
        }
        for violation in self.violations.iter().take(40) {
            writeln!(f, "{violation}")?;
        }
        Ok(())
    }
}

/// So much is enough to look into.
const VIOLATIONS_MAX: usize = 10;

/// Plays all of them, or until enough is broken.
pub fn play(seeds: Range<u64>) -> Summary {
    let summary = Mutex::new(Summary::default());
    process::each(seeds, |seed| {
        let outcome = outcome(seed);
        let mut summary = summary.lock().expect("the summary");
        summary.add(outcome);
        if summary.violations.len() >= VIOLATIONS_MAX {
            return ControlFlow::Break(());
        }
        if summary.seeds.is_multiple_of(1000) {
            eprintln!("{summary}");
        }
        ControlFlow::Continue(())
    });
    let mut summary = summary.into_inner().expect("the summary");
    summary.violations.sort();
    summary
}

impl Summary {
    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.virtual_seconds += outcome.virtual_seconds;
        self.fences += outcome.fences;
        self.tainted += outcome.tainted;
        for (all, own) in [
            (&mut self.faults, outcome.faults),
            (&mut self.bounds, outcome.bounds),
        ] {
            for (name, count) in own {
                *all.entry(name).or_default() += count;
            }
        }
        let seed = outcome.seed;
        let told = outcome
            .violations
            .into_iter()
            .map(|it| format!("seed {seed:>5}: {it}"));
        self.violations.extend(told);
    }
}

fn process(seed: u64, others: &[(&str, &str)]) -> Said {
    process::run("one_seed", (SEED, &seed.to_string()), others)
}

fn outcome(seed: u64) -> Outcome {
    let said = process(seed, &[]);
    let outcome = said.line().and_then(|line| serde_json::from_str(line).ok());
    outcome.unwrap_or_else(|| {
        let error: Vec<&str> = said.error.lines().take(6).collect();
        Outcome {
            seed,
            violations: vec![format!("it did not come to an end: {}", error.join(" "))],
            ..Outcome::default()
        }
    })
}

/// All that happens in a seed.
pub fn whole_log(seed: u64) -> String {
    let said = process(seed, &[(LOG, "detail")]);
    said.answer().unwrap_or_default().to_owned() + &said.error
}

/// What is worth telling of a seed; with `DETAIL` all of it, with `RUST_LOG` what the operator says itself, too.
pub fn story(seed: u64) -> String {
    let log = (LOG, process::wanted_log());
    match env::var("RUST_LOG") {
        Ok(filter) => {
            let said = process(seed, &[log, ("RUST_LOG", &filter)]);
            said.text.replace(MARK, "\n")
        }
        Err(_) => {
            let said = process(seed, &[log]);
            said.answer().unwrap_or_default().to_owned() + &said.error
        }
    }
}
