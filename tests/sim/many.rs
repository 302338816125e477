//! Many seeds, each in a process of its own, as many at a time as there are cores; and what came of them all.

use crate::play::Outcome;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

/// Names the seed to the process that plays it.
pub const SEED: &str = "SIMULATED_SEED";
/// Asks that process for its log: `story` or `detail`.
pub const LOG: &str = "SIMULATED_LOG";
/// Stands before what that process has to say.
pub const MARK: &str = "\u{1}";

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
    let (left, summary) = (Mutex::new(seeds), Mutex::new(Summary::default()));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(seed) = left.lock().expect("the seeds").next() else {
                        return;
                    };
                    let outcome = outcome(seed);
                    let mut summary = summary.lock().expect("the summary");
                    summary.add(outcome);
                    if summary.violations.len() >= VIOLATIONS_MAX {
                        return;
                    }
                    if summary.seeds.is_multiple_of(1000) {
                        eprintln!("{summary}");
                    }
                }
            });
        }
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

fn process(seed: u64, log: Option<&str>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    // What a seed does follows from the seed alone.
    command.env_clear();
    command.args([
        "one_seed",
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(SEED, seed.to_string());
    if let Some(log) = log {
        command.env(LOG, log);
    }
    command
}

fn outcome(seed: u64) -> Outcome {
    let output = process(seed, None).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.split(MARK).nth(1).and_then(|rest| rest.lines().next());
    said.and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| {
            let error = String::from_utf8_lossy(&output.stderr);
            let error: Vec<&str> = error.lines().take(6).collect();
            Outcome {
                seed,
                violations: vec![format!("it did not come to an end: {}", error.join(" "))],
                ..Outcome::default()
            }
        })
}

fn told(command: &mut Command) -> (String, Output) {
    let output = command.output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text, output)
}

/// All that happens in a seed.
pub fn whole_log(seed: u64) -> String {
    let (text, output) = told(&mut process(seed, Some("detail")));
    let log = text.split(MARK).nth(1).unwrap_or_default();
    log.to_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What is worth telling of a seed; with `DETAIL` all of it, with `RUST_LOG` what the operator says itself, too.
pub fn story(seed: u64) -> String {
    let log = match std::env::var_os("DETAIL") {
        Some(_) => "detail",
        None => "story",
    };
    let mut command = process(seed, Some(log));
    let filter = std::env::var_os("RUST_LOG");
    if let Some(filter) = &filter {
        command.env("RUST_LOG", filter);
    }
    let (text, output) = told(&mut command);
    let story = text.split(MARK).nth(1).unwrap_or_default().to_owned();
    match filter {
        Some(_) => text.replace(MARK, "\n"),
        None => story + &String::from_utf8_lossy(&output.stderr),
    }
}
