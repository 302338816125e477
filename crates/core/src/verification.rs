//! What a policy asks of a proof.

use std::time::Duration;

/// How many devices of a level must read off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Require {
    /// Every one: two supplies, two outlets.
    All,
    /// One is enough: two ways to the same supply.
    Any,
}

/// The policy's demands on a proof.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Verification {
    /// Consecutive Off readings, 2 at least.
    pub off_reads_min: usize,
    /// They must lie at least this far apart, first answer to last question.
    pub window: Duration,
}

/// A proof dies this long after its last reading was asked for.
pub const PROOF_LIFE: Duration = Duration::from_secs(15);
