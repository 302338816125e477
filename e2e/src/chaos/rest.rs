//! What a replica holds when nothing happens: after the chaos as before it, or something leaks.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::scene::Scene;
use crate::operator::Operator;
use fencing_testbed::eventually::eventually;

/// Connections are kept for a while after their last use, and threads too.
const REST: Duration = Duration::from_secs(120);

/// What a process holds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    mebibytes: u64,
    files: u64,
    tasks: u64,
    threads: u64,
}

/// How much more than before is no leak. A cycle is an outage, with some fifty requests to the API server, ten to the device, and as many
/// timers. At rest the numbers differ by a probe that is under way, a watch that is being made anew, or which of the replicas leads, which
/// is a handful. So whatever leaks one file or task a cycle is found within twenty cycles, and whatever leaks one a request within one.
/// Memory is the allocator's to keep: a debug build that has seen its first incidents has grown by a few MiB and stays there; the bound is
/// that of one answer of the largest size that is taken (1 MiB) kept in each of twenty cycles.
const MORE: Held = Held {
    mebibytes: 20,
    files: 16,
    tasks: 16,
    threads: 8,
};

impl Held {
    async fn by(operator: &Operator) -> Result<Self> {
        let (files, threads) = operator.holds()?;
        Ok(Self {
            mebibytes: operator.usage()?.resident_bytes >> 20,
            files,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            tasks: operator.metric("node_fencing_tasks").await? as u64,
            threads,
        })
    }

    /// The most of each.
    fn max(self, other: Self) -> Self {
        Self {
            mebibytes: self.mebibytes.max(other.mebibytes),
            files: self.files.max(other.files),
            tasks: self.tasks.max(other.tasks),
            threads: self.threads.max(other.threads),
        }
    }

    fn is_within(self, before: Self) -> bool {
        self.mebibytes <= before.mebibytes + MORE.mebibytes
            && self.files <= before.files + MORE.files
            && self.tasks <= before.tasks + MORE.tasks
            && self.threads <= before.threads + MORE.threads
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mebibytes,
            files,
            tasks,
            threads,
        } = self;
        write!(
            f,
            "{mebibytes} MiB, {files} files, {tasks} tasks, {threads} threads"
        )
    }
}

impl Scene {
    /// What each replica holds now.
    pub(super) async fn held(&self) -> Result<[Held; 2]> {
        let [one, other] = &self.replicas;
        Ok([
            Held::by(&one.operator).await?,
            Held::by(&other.operator).await?,
        ])
    }

    /// What each replica holds once neither holds more than it may: the one that led before, and may not lead now, says how much.
    pub(super) async fn nothing_leaks(&self, before: [Held; 2]) -> Result<[Held; 2]> {
        let most = before[0].max(before[1]);
        eventually("nothing leaks", REST, async || {
            let after = self.held().await?;
            for held in after {
                ensure!(
                    held.is_within(most),
                    "it holds {held}, and at most {most} before"
                );
            }
            Ok(after)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_more_of_each_are_no_leak_and_too_many_of_any_are() {
        let before = Held {
            mebibytes: 26,
            files: 30,
            tasks: 40,
            threads: 1,
        };
        assert!(before.is_within(before));
        let most = Held {
            mebibytes: before.mebibytes + MORE.mebibytes,
            files: before.files + MORE.files,
            tasks: before.tasks + MORE.tasks,
            threads: before.threads + MORE.threads,
        };
        assert!(most.is_within(before));
        let more: [fn(&mut Held); 4] = [
            |it| it.mebibytes += 1,
            |it| it.files += 1,
            |it| it.tasks += 1,
            |it| it.threads += 1,
        ];
        for one_more in more {
            let mut held = most;
            one_more(&mut held);
            assert!(!held.is_within(before), "{held}");
        }
    }
}
