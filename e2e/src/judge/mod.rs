//! An independent judge of a run: it replays what was written down in time order, and holds it against the rules.
//!
//! It shares nothing with the operator, not even a type: it reads the API server's audit log, the logs of the fence devices and the
//! volumes (see [`run`]), and knows the protocol only from the words in [`rules`]. What the operator says of itself (the evidence in
//! a NodeFence) is compared with what the devices said.
//!
//! Three clocks order the records. Writes to the API server by their resource versions, which are etcd's and the same for all
//! kinds; where there is none, by when a request arrived and was answered, between which it took effect. Lines of volumes by the
//! kernel's monotonic clock. Devices against the API server by the wall clock, which is the same machine's.

mod commands;
mod deletions;
pub mod devices;
mod keep;
mod nodes;
mod pods;
mod power;
mod proofs;
mod releases;
mod replay;
pub mod rules;
pub mod run;
mod volumes;

use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};

use self::replay::Replay;
use self::rules::Rule;
use self::run::{Run, Texts};

/// How long a power command, or a write to the API server, may be on its way. What allows it is looked at right before it is sent, and whoever
/// changes that does not call it back. A connection that has to be made anew under load takes no longer.
const ON_ITS_WAY: SignedDuration = SignedDuration::from_secs(5);

/// A rule that was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which.
    pub rule: &'static Rule,
    /// What it was about, such as `Node node-1`.
    pub object: String,
    /// When.
    pub at: Timestamp,
    /// The two records that contradict each other.
    pub records: [String; 2],
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            object,
            at,
            records: [one, other],
        } = self;
        let at = at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
        write!(
            f,
            "{}: {object} at {at}: {one} | {other} | {}",
            rule.name, rule.words
        )
    }
}

macro_rules! counts {
    ($($field:ident: $words:literal,)*) => {
        /// How much was there to be judged: nothing wrong in an empty log means nothing.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts {
            $(#[doc = $words] pub $field: usize,)*
        }

        impl fmt::Display for Counts {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let counts = [$((self.$field, $words)),*];
                let words = counts.map(|(count, words)| format!("{count} {words}"));
                f.write_str(&words.join(", "))
            }
        }
    };
}

counts! {
    writes: "writes to the API server",
    of_the_operator: "of them by the operator",
    node_states: "states of Nodes",
    claims: "claims",
    waits: "of them after the wait of a policy",
    taints: "out-of-service taints set",
    deletions: "pods deleted by force",
    releases: "releases",
    attachments_deleted: "VolumeAttachments deleted",
    nodes_deleted: "Nodes deleted",
    commands: "power commands",
    readings: "readings told by devices",
    readings_compared: "readings in evidence found with their devices",
    readings_believed: "readings in evidence of devices without a log, held against the power of their machines",
    ages: "ages of proofs",
    attaches: "attaches",
    power_changes: "changes of power",
    volume_lines: "lines in volumes",
}

/// What the judge found.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Rules that were broken, oldest first.
    pub violations: Vec<Violation>,
    /// How much was judged.
    pub counts: Counts,
}

impl Judgement {
    fn broken(
        &mut self,
        rule: &'static Rule,
        object: impl Into<String>,
        at: Timestamp,
        one: impl Into<String>,
        other: impl Into<String>,
    ) {
        self.violations.push(Violation {
            rule,
            object: object.into(),
            at,
            records: [one.into(), other.into()],
        });
    }

    /// What of it stands though writes may be missing in the audit log: what volumes say, and what a single record shows by itself.
    #[must_use]
    pub fn of_single_records(mut self) -> Self {
        let whole = [
            &rules::ONE_WRITER,
            &rules::ATTACHED,
            &rules::SILENT,
            &rules::VERSIONED,
            &rules::POD_UID,
            &rules::HARD_OFF,
        ];
        let is_whole = |it: &Violation| whole.iter().any(|rule| rule.name == it.rule.name);
        self.violations.retain(is_whole);
        self
    }

    /// Fails with every broken rule, and if there was nothing to be judged.
    pub fn ensure_good(&self) -> Result<()> {
        let lines: Vec<String> = self.violations.iter().map(ToString::to_string).collect();
        ensure!(lines.is_empty(), "{}", lines.join("\n"));
        ensure!(
            self.counts.of_the_operator > 0,
            "there is nothing to be judged: {}",
            self.counts
        );
        Ok(())
    }
}

/// Judges the run in this directory.
pub fn judge(directory: &Path) -> Result<Judgement> {
    Ok(judge_run(&Texts::read(directory)?.parse()?))
}

/// Judges a run that was read.
pub fn judge_run(run: &Run) -> Judgement {
    let replay = Replay::of(run);
    let mut judgement = Judgement::default();
    replay.count(run, &mut judgement.counts);
    nodes::check(&replay, &mut judgement);
    proofs::check(&replay, &mut judgement);
    commands::check(&replay, &mut judgement);
    releases::check(&replay, &mut judgement);
    deletions::check(&replay, &mut judgement);
    volumes::check(run, &mut judgement);
    judgement
        .violations
        .sort_by_key(|violation| (violation.at, violation.rule.name));
    judgement
}

#[cfg(test)]
mod tests;
