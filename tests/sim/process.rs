//! Processes of this program, each of which plays one seed or one case, and what they say.

use std::env;
use std::ops::{ControlFlow, Range};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// Asks a process for its log: `story` or `detail`.
pub const LOG: &str = "SIMULATED_LOG";
/// Stands before each thing that a process has to say.
pub const MARK: &str = "\u{1}";

/// What a process has said.
#[derive(Debug)]
pub struct Said {
    /// All of it.
    pub text: String,
    /// What it complained of.
    pub error: String,
}

impl Said {
    /// The first thing that it was started to say.
    pub fn answer(&self) -> Option<&str> {
        self.text.split(MARK).nth(1)
    }

    /// That, where it is one line.
    pub fn line(&self) -> Option<&str> {
        self.answer()?.lines().next()
    }
}

/// Runs a test of this program in a process of its own, which is told `what` (name and value), and finds nothing else in its environment
/// but these: what it does follows from that alone.
pub fn run(test: &str, what: (&str, &str), others: &[(&str, &str)]) -> Said {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args([
        test,
        "--exact",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env_clear().env(what.0, what.1);
    command.envs(others.iter().copied());
    // Which mutant is on (tests/mutants/switch.rs), without which none of them would be tried, and the stack that all of their switches take.
    let of_mutants = ["MUTANT", "RUST_MIN_STACK"];
    command.envs(
        of_mutants
            .into_iter()
            .filter_map(|it| Some((it, env::var_os(it)?))),
    );
    let output = command.output().expect("a process");
    Said {
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        error: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// How much of the log somebody wants to read.
pub fn wanted_log() -> &'static str {
    match env::var_os("DETAIL") {
        Some(_) => "detail",
        None => "story",
    }
}

/// Does this for each number, as many at a time as there are cores, until it says that this is enough.
pub fn each(numbers: Range<u64>, work: impl Fn(u64) -> ControlFlow<()> + Sync) {
    let left = Mutex::new(numbers);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let next = || left.lock().expect("the numbers").next();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(number) = next() {
                    if work(number).is_break() {
                        return;
                    }
                }
            });
        }
    });
}
