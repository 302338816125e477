//! One run of an agent: what it is given, how it ends, and why it may not. The same on every system, also where no agent is started.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "nothing is run, so most of it is never made")
)]

use super::turns::Turn;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// What an agent may print, standard output and error together, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What is run, and for how long.
pub struct Run {
    /// The agent.
    pub program: PathBuf,
    /// What it reads.
    pub input: Zeroizing<String>,
    /// The time that it has.
    pub time: Duration,
    /// Kept until nothing of it is left.
    pub turn: Turn,
}

/// How an agent has ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; none: a signal has ended it.
    pub code: Option<i32>,
    /// That signal.
    pub signal: Option<i32>,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub stderr: Vec<u8>,
}

/// Why it did not end by itself.
#[derive(Debug)]
pub enum Failure {
    /// It was never started.
    NotStarted(io::Error),
    /// Its time was over.
    Late,
    /// It printed more than it may.
    Flooded,
    /// It was started, and the operating system failed on the way.
    Lost(io::Error),
}
