//! Judges the writes: two machines wrote to one volume, or they did not.
//!
//! Three rules, each on the kernel's monotonic clock. A write by a node while the storage had last attached the volume to
//! another node is data loss. So is a write by a container after a container on another node began to write (this one
//! needs no attach log, and holds for volumes that are never attached). And a fenced boot must be silent after the proof
//! that its machine is off ([`VolumeOracle::check_silent_since`]). What is found is printed with both nodes' timelines.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::journal::Happening;
use super::{Volumes, Write};
use crate::csi::Array;
use fencing_testbed::moment::Moment;

/// Holds the files of the volumes against the journal.
#[derive(Debug, Clone)]
pub struct VolumeOracle {
    volumes: Arc<Volumes>,
}

/// What the oracle found. Printed as a table of what each node did, in time order.
#[derive(Debug, thiserror::Error)]
pub enum DataLoss {
    /// Writes that must not have happened.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Writes(Vec<VolumeLoss>),
    /// The file of a volume is not as its writers left it.
    #[error("a volume cannot be judged: {0:#}")]
    Unreadable(#[from] anyhow::Error),
}

/// The wrong writes to one volume.
#[derive(Debug)]
pub struct VolumeLoss {
    /// The CSI volume handle.
    pub volume: String,
    /// Every wrong write, oldest first; never empty.
    pub wrong: Vec<(Write, Rule)>,
    story: Story,
}

/// The rule that a write broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The storage had attached the volume to `node` at `at`, and not back since.
    AttachedElsewhere {
        /// The Node that the volume was attached to.
        node: String,
        /// When.
        at: Moment,
    },
    /// A container on `node` had begun to write at `at`, later than the container that broke the rule.
    TakenOver {
        /// The Node of the container that took over.
        node: String,
        /// When it began to write.
        at: Moment,
    },
    /// The machine had been proved off at `at`.
    ProvedOff {
        /// When.
        at: Moment,
    },
}

impl VolumeOracle {
    /// An oracle over `volumes` and their journal.
    pub fn new(volumes: &Arc<Volumes>) -> Self {
        Self {
            volumes: Arc::clone(volumes),
        }
    }

    /// Takes in what the storage array has done until now, and judges every volume by the first two rules.
    pub async fn check_with(&self, array: &Array) -> Result<(), DataLoss> {
        self.volumes.journal().read_array(array).await?;
        self.check()
    }

    /// Judges every volume by the first two rules, on what the journal holds.
    pub fn check(&self) -> Result<(), DataLoss> {
        self.judge(|volume, writes, journal| {
            let attaches = attaches(volume, journal);
            let containers = containers(writes);
            let broken = |write: &&Write| {
                attached_elsewhere(write, &attaches).or_else(|| taken_over(write, &containers))
            };
            writes
                .iter()
                .filter_map(|write| Some((write.clone(), broken(&write)?)))
                .collect()
        })
    }

    /// Checks that `boot` of a machine wrote to no volume after `proved_at`.
    pub fn check_silent_since(&self, boot: &str, proved_at: Moment) -> Result<(), DataLoss> {
        self.judge(|_, writes, _| {
            let late = writes
                .iter()
                .filter(|write| write.boot == boot && write.at > proved_at);
            late.map(|write| (write.clone(), Rule::ProvedOff { at: proved_at }))
                .collect()
        })
    }

    fn judge(
        &self,
        rule: impl Fn(&str, &[Write], &[(Moment, Happening)]) -> Vec<(Write, Rule)>,
    ) -> Result<(), DataLoss> {
        let journal = self.volumes.journal().entries();
        let mut losses = Vec::new();
        for volume in self.volumes.handles()? {
            let writes = self.volumes.writes(&volume)?;
            let wrong = rule(&volume, &writes, &journal);
            if !wrong.is_empty() {
                let story = Story::new(&volume, &writes, &journal, &wrong);
                losses.push(VolumeLoss {
                    volume,
                    wrong,
                    story,
                });
            }
        }
        if losses.is_empty() {
            Ok(())
        } else {
            Err(DataLoss::Writes(losses))
        }
    }
}

/// When `volume` was attached to which node, oldest first.
fn attaches(volume: &str, journal: &[(Moment, Happening)]) -> Vec<(Moment, String)> {
    let attach = |(at, happening): &(Moment, Happening)| match happening {
        Happening::Attached { volume: of, node } if of == volume => Some((*at, node.clone())),
        _ => None,
    };
    journal.iter().filter_map(attach).collect()
}

fn attached_elsewhere(write: &Write, attaches: &[(Moment, String)]) -> Option<Rule> {
    let (at, holder) = attaches.iter().rev().find(|(at, _)| *at < write.at)?;
    (*holder != write.node).then(|| Rule::AttachedElsewhere {
        node: holder.clone(),
        at: *at,
    })
}

/// One run of one pod's container, as far as a volume can tell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Container {
    node: String,
    boot: String,
    pod: String,
}

impl Container {
    fn of(write: &Write) -> Self {
        Self {
            node: write.node.clone(),
            boot: write.boot.clone(),
            pod: write.pod.clone(),
        }
    }
}

/// The first and the last write of each container, and how many there were.
fn containers(writes: &[Write]) -> BTreeMap<Container, (Moment, Moment, usize)> {
    let mut containers = BTreeMap::new();
    for write in writes {
        let (first, last, count) = containers
            .entry(Container::of(write))
            .or_insert((write.at, write.at, 0));
        *first = write.at.min(*first);
        *last = write.at.max(*last);
        *count += 1;
    }
    containers
}

fn taken_over(
    write: &Write,
    containers: &BTreeMap<Container, (Moment, Moment, usize)>,
) -> Option<Rule> {
    let (began, ..) = containers.get(&Container::of(write))?;
    let took_over = |other: &Container, first: Moment| {
        other.node != write.node && first > *began && first < write.at
    };
    let (other, (at, ..)) = containers
        .iter()
        .find(|(other, (first, ..))| took_over(other, *first))?;
    Some(Rule::TakenOver {
        node: other.node.clone(),
        at: *at,
    })
}

/// What each node did to a volume: one column a node, one row an event.
#[derive(Debug)]
struct Story {
    nodes: Vec<String>,
    rows: Vec<(Moment, String, String)>,
}

impl Story {
    fn new(
        volume: &str,
        writes: &[Write],
        journal: &[(Moment, Happening)],
        wrong: &[(Write, Rule)],
    ) -> Self {
        let mut rows = Vec::new();
        for (Container { node, boot, pod }, (first, last, count)) in containers(writes) {
            let name = format!("pod {} boot {}", short(&pod), short(&boot));
            rows.push((first, node.clone(), format!("first write, {name}")));
            rows.push((last, node, format!("last write, {name}, {count} lines")));
        }
        if let [(write, _), ..] = wrong {
            rows.push((write.at, write.node.clone(), "FIRST WRONG WRITE".to_owned()));
        }
        let mut nodes: Vec<String> = rows.iter().map(|(_, node, _)| node.clone()).collect();
        for (at, happening) in journal {
            let node = happening.node().to_owned();
            let of_this_volume = happening.volume() == Some(volume);
            if of_this_volume || (happening.volume().is_none() && nodes.contains(&node)) {
                rows.push((*at, node.clone(), describe(happening)));
                nodes.push(node);
            }
        }
        if let Some((_, Rule::ProvedOff { at })) = wrong.first() {
            rows.push((*at, wrong[0].0.node.clone(), "proved off".to_owned()));
        }
        rows.sort();
        nodes.sort();
        nodes.dedup();
        Self { nodes, rows }
    }
}

fn describe(happening: &Happening) -> String {
    match happening {
        Happening::Attached { .. } => "volume attached".to_owned(),
        Happening::Detached { .. } => "volume detached".to_owned(),
        Happening::PowerOn { boot, .. } => format!("power on, boot {}", short(boot)),
        Happening::PowerOff { .. } => "power cut".to_owned(),
        Happening::Suspended { .. } => "suspended".to_owned(),
        Happening::Resumed { boot, .. } => format!("resumed, boot {}", short(boot)),
    }
}

/// The first eight characters: enough to tell two UUIDs apart.
fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Width of a node's column in [`Story`], in characters.
const COLUMN: usize = 46;

impl std::fmt::Display for Story {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.rows.first().map(|(at, ..)| *at);
        let header: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("{node:<COLUMN$}"))
            .collect();
        writeln!(f, "  {:>9}  {}", "seconds", header.join("  ").trim_end())?;
        for (at, node, text) in &self.rows {
            let column = self
                .nodes
                .iter()
                .position(|other| other == node)
                .unwrap_or_default();
            let seconds = start.map_or(0.0, |start| at.seconds_since(start));
            writeln!(
                f,
                "  {seconds:>9.3}  {:indent$}{text}",
                "",
                indent = column * (COLUMN + 2)
            )?;
        }
        Ok(())
    }
}

impl std::fmt::Display for VolumeLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            volume,
            wrong,
            story,
        } = self;
        let Some(((first, rule), (last, _))) = wrong.first().zip(wrong.last()) else {
            return Ok(());
        };
        let (why, since) = match rule {
            Rule::AttachedElsewhere { node, at } => {
                (format!("after the storage attached it to {node}"), *at)
            }
            Rule::TakenOver { node, at } => {
                (format!("after a container on {node} took it over"), *at)
            }
            Rule::ProvedOff { at } => ("after its machine was proved off".to_owned(), *at),
        };
        let (count, node, boot) = (wrong.len(), &first.node, short(&first.boot));
        writeln!(
            f,
            "DATA LOSS on volume {volume}: {count} writes by {node} (boot {boot}) {why},"
        )?;
        let (begin, end) = (first.at.seconds_since(since), last.at.seconds_since(since));
        writeln!(
            f,
            "the first {begin:.3} s after that (at {}), the last {end:.3} s after it.",
            first.at
        )?;
        write!(f, "{story}")
    }
}

#[cfg(test)]
mod tests;
