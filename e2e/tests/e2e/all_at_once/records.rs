//! What the audit log says of the storm, and the bounds of the protocol that are held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::audit::{OPERATOR, Request};
use e2e::bench::scale::storm::{first_median_last, out_of_service};
use e2e::lab::Lab;
use e2e::taints;
use fencing_testbed::bench::table::spread;
use jiff::Timestamp;

use super::{DEAD, Volumes};

/// What the shortest policy waits for before it claims, and reads for its proof.
const WAIT: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(1);
/// L1 and L2 say 1 s and 10 s. All of the storm runs on the two cores of a debug build: 6 s and 3 s were measured.
const SOON: f64 = 30.0;
/// Twice what L7 grants a fence to which nothing else happens: each that waits for others says so in its record.
const WRITES_MAX: usize = 16;
/// Ten a second are tried, one after the other.
const OTHERS_WRITES_MIN: f64 = 3.0;

/// What the audit log says of one storm.
pub struct Told {
    /// All writes to Nodes.
    nodes: Vec<Request>,
    /// All of the operator's.
    ours: Vec<Request>,
    attachments: Vec<Request>,
}

impl Told {
    pub async fn since(lab: &Lab, since: Timestamp) -> Result<Self> {
        let audit = lab.control_plane.audit();
        audit.settled().await?;
        let mut told = Self {
            nodes: audit.writes_to("nodes")?,
            ours: audit.writes_of(OPERATOR)?,
            attachments: audit.writes_to("volumeattachments")?,
        };
        for requests in [&mut told.nodes, &mut told.ours, &mut told.attachments] {
            requests.retain(|it| it.received >= since);
        }
        Ok(told)
    }

    /// L1: from the end of the policy's wait to the taint of each, without the proof's window, in seconds.
    fn to_the_taint(
        &self,
        lab: &Lab,
        since: Timestamp,
        dead: &BTreeSet<String>,
    ) -> Result<Vec<f64>> {
        let unknown = lab.control_plane.audit().all_became_unknown(since)?;
        let tainted = out_of_service(dead, &self.ours)?;
        let delay = |(node, at): (&String, &Timestamp)| {
            let unknown = unknown.get(node).context("its Ready was not Unknown")?;
            let due = unknown.answered + WAIT + WINDOW;
            Ok(at.duration_since(due).as_secs_f64())
        };
        tainted.iter().map(delay).collect()
    }

    /// L2: from the last write about the volumes of each to its release, in seconds.
    fn to_the_release(&self, volumes: &Volumes) -> Result<Vec<f64>> {
        let histories = taints::histories(&self.nodes);
        let of_node = |(node, volumes): (&String, &Vec<String>)| {
            let mut histories = histories.iter();
            let history = histories.find(|((name, _), _)| name == node);
            let (_, history) = history.context("it has no history")?;
            let (set, released) = (taints::set(history), taints::released(history));
            ensure!(
                set.len() == 1 && released.len() == 1,
                "{node}: set {} and removed {} times",
                set.len(),
                released.len()
            );
            let of_volumes = self.attachments.iter();
            let of_volumes = of_volumes.filter(|it| volumes.contains(&it.object_ref.name));
            let detached = of_volumes.map(|it| it.answered).max();
            let detached = detached.with_context(|| format!("{node} was not detached from"))?;
            Ok(released[0].at.duration_since(detached).as_secs_f64())
        };
        volumes.iter().map(of_node).collect()
    }

    /// L7: of each fence, to its Node and its NodeFence.
    fn writes_each(&self, dead: &BTreeSet<String>) -> BTreeMap<String, Vec<String>> {
        let mut writes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for write in &self.ours {
            let of = &write.object_ref;
            let node = match of.resource.as_str() {
                "nodes" => of.name.clone(),
                "nodefences" => {
                    let fence = &write.response_object;
                    fence["spec"]["nodeName"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned()
                }
                _ => continue,
            };
            writes.entry(node).or_default().push(write.summary());
        }
        writes.retain(|node, _| dead.contains(node));
        writes
    }

    /// L6: others wrote this Node all the while until it was out of service, which it was as soon as the rest.
    pub fn others_wrote(&self, lab: &Lab, since: Timestamp, node: &str) -> Result<()> {
        let unknown = lab.control_plane.audit().became_unknown(node, since)?;
        let tainted = out_of_service(&BTreeSet::from([node.to_owned()]), &self.ours)?;
        let tainted = *tainted.get(node).context("it was not tainted")?;
        let is_others = |it: &&Request| {
            let is_between = it.received > unknown.answered && it.received < tainted;
            is_between && it.object_ref.name == node && it.user.username != OPERATOR
        };
        let writes = self.nodes.iter().filter(is_others).count();
        let each_second = writes as f64 / tainted.duration_since(unknown.answered).as_secs_f64();
        println!("others wrote {node} {each_second:.1} times a second");
        ensure!(each_second > OTHERS_WRITES_MIN, "{each_second:.1}");
        Ok(())
    }
}

/// Prints the spread, and returns the longest.
fn longest(what: &str, mut seconds: Vec<f64>) -> Result<f64> {
    seconds.sort_by(f64::total_cmp);
    let [first, median, last] = first_median_last(&seconds).context("none")?;
    println!("{what}: {first:.1} / {median:.1} / {last:.1} s (first, median, last)");
    Ok(last)
}

/// The bounds of the protocol, as far as a machine with other work shows them.
pub fn within_bounds(log: &Told, lab: &Lab, since: Timestamp, volumes: &Volumes) -> Result<()> {
    let dead = volumes.keys().cloned().collect();
    let tainted = log.to_the_taint(lab, since, &dead)?;
    let tainted = longest("from the policy's deadline to the taint", tainted)?;
    let released = log.to_the_release(volumes)?;
    let released = longest("from the detach to the release", released)?;
    ensure!(tainted < SOON && released < SOON);
    let writes = log.writes_each(&dead);
    let counts = writes.values().map(|it| it.len() as f64);
    println!("writes of a fence: {}", spread("", 0, counts));
    let most = writes.values().max_by_key(|it| it.len()).context("none")?;
    ensure!(most.len() <= WRITES_MAX, "{most:#?}");
    // A write whose answer came too late, and that had landed, is sent again in vain; another leader's writes would be of this kind too, and many.
    let failed = log.ours.iter().filter(|it| !it.succeeded());
    let (conflicts, others): (Vec<_>, Vec<_>) =
        failed.partition(|it| matches!(it.response_status.code, 404 | 409 | 422));
    let words = |it: Vec<&Request>| it.into_iter().map(Request::summary).collect::<Vec<_>>();
    let (conflicts, others) = (words(conflicts), words(others));
    println!("{} conflicts", conflicts.len());
    ensure!(others.is_empty(), "writes failed: {others:#?}");
    ensure!(conflicts.len() < DEAD / 3, "{conflicts:#?}");
    Ok(())
}
