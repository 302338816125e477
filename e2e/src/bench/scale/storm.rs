//! Some Nodes die at the same moment: when each of them was out of service, and what that took.

use super::cluster::Cluster;
use crate::audit::{OPERATOR, Request};
use crate::bench::cut::{is_tainted, ms};
use crate::bench::policy::Policy;
use crate::bench::rest;
use crate::lab::has_taint;
use crate::operator::Operator;
use crate::proxy::writes::{OUT_OF_SERVICE, QUARANTINE};
use anyhow::{Context, Result, ensure};
use fencing_testbed::bench::table::{median, spread};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What is written once the last Node has recovered: it counts too.
const AFTERMATH: Duration = Duration::from_secs(2);

/// One storm.
pub struct Storm {
    /// Nodes that died.
    pub count: usize,
    /// From the policy's deadline to the taint of each, without the proof's window, in seconds, in their order.
    pub delays: Vec<f64>,
    /// CPU time of the operator from the cut until all had recovered, without what it takes at rest.
    pub cpu: Duration,
    /// Its requests to the API server in that time, by what they were.
    pub requests: BTreeMap<String, Count>,
    /// Those of them that were writes and failed.
    pub failed_writes: usize,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    /// Until the last Node was out of service.
    pub before_taint: usize,
    /// From then on.
    pub after_taint: usize,
}

impl Storm {
    /// Cuts the power of so many, and waits until they have recovered.
    pub async fn measure(
        cluster: &mut Cluster,
        operator: &Operator,
        count: usize,
        idle_percent: f64,
    ) -> Result<Self> {
        let (begun, before) = (Instant::now(), operator.usage()?.cpu);
        let detaches = cluster.detach();
        let (range, since) = cluster.cut(count).await?;
        let is_out = |node: &_| has_taint(node, OUT_OF_SERVICE) || has_taint(node, QUARANTINE);
        cluster.wait(&range, "out of service", is_out).await?;
        let is_released = |node: &_| !has_taint(node, OUT_OF_SERVICE);
        cluster.wait(&range, "released", is_released).await?;
        cluster.boot(&range).await?;
        let is_free = |node: &_| !has_taint(node, QUARANTINE);
        cluster
            .wait(&range, "free of the quarantine", is_free)
            .await?;
        tokio::time::sleep(AFTERMATH).await;
        detaches.abort();
        let at_rest = begun.elapsed().mul_f64(idle_percent / 100.0);
        let cpu = (operator.usage()?.cpu - before).saturating_sub(at_rest);
        cluster.lab.control_plane.audit().settled().await?;
        Self::of_audit(cluster, &range, since, cpu)
    }

    fn of_audit(
        cluster: &Cluster,
        range: &Range<usize>,
        since: Timestamp,
        cpu: Duration,
    ) -> Result<Self> {
        let audit = cluster.lab.control_plane.audit();
        let names: BTreeSet<String> = range.clone().map(rest::name).collect();
        let mut statuses = audit.writes_to("nodes")?;
        statuses.retain(|it| it.received >= since && it.object_ref.subresource == "status");
        let mut ours = audit.requests_of(OPERATOR)?;
        ours.retain(|it| it.received >= since && is_of_storm(it, &names));
        let tainted = out_of_service(&names, &ours)?;
        let last = tainted.values().max().copied().unwrap_or(since);
        let delays = tainted.iter();
        let delays = delays.map(|(name, tainted)| delay(name, &statuses, *tainted));
        let mut delays = delays.collect::<Result<Vec<f64>>>()?;
        delays.sort_by(f64::total_cmp);
        let requests = counted(&ours, last);
        let failed = ours.iter().filter(|it| it.is_write() && !it.succeeded());
        Ok(Self {
            count: range.len(),
            delays,
            cpu,
            requests,
            failed_writes: failed.count(),
        })
    }

    /// CPU time of each fence, in seconds.
    pub fn cpu_each(&self) -> f64 {
        self.cpu.as_secs_f64() / self.count as f64
    }

    /// Requests of each fence until the last taint, and from then on.
    pub fn requests_each(&self) -> [f64; 2] {
        let sum = |of: fn(&Count) -> usize| self.requests.values().map(of).sum::<usize>() as f64;
        [sum(|it| it.before_taint), sum(|it| it.after_taint)].map(|it| it / self.count as f64)
    }

    /// The first, the median and the last taint, in seconds.
    pub fn first_median_last(&self) -> Option<[f64; 3]> {
        first_median_last(&self.delays)
    }
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delays = spread("s", 2, self.delays.iter().copied());
        let (cpu, [before, after]) = (self.cpu_each(), self.requests_each());
        write!(
            f,
            "{} at once: {delays} to the taint, {cpu:.3} s of CPU and {before:.1} + {after:.1} requests each",
            self.count
        )
    }
}

/// The first, the median and the last of what is in its order.
pub fn first_median_last(sorted: &[f64]) -> Option<[f64; 3]> {
    let (first, last) = (sorted.first()?, sorted.last()?);
    Some([*first, median(sorted)?, *last])
}

/// What was asked until the last taint, and from then on, by what it was.
pub fn counted<'a>(
    ours: impl IntoIterator<Item = &'a Request>,
    last: Timestamp,
) -> BTreeMap<String, Count> {
    let mut requests: BTreeMap<String, Count> = BTreeMap::new();
    for request in ours {
        let count = requests.entry(kind(request)).or_default();
        match request.received <= last {
            true => count.before_taint += 1,
            false => count.after_taint += 1,
        }
    }
    requests
}

/// Neither of the leader's own Lease and of watches, which go on whatever happens, nor about the Node or device of a machine that lives.
pub fn is_of_storm(request: &Request, names: &BTreeSet<String>) -> bool {
    let of = &request.object_ref;
    let is_of_leader = of.resource == "leases" && of.namespace == crate::operator::NAMESPACE;
    // A watch that begins lists in pages, a decision reads everything at once.
    let is_of_watch = request.verb == "watch" || request.uri.contains("limit=");
    let is_about_machine = matches!(of.resource.as_str(), "nodes" | "leases" | "fencedevices");
    let is_of_other = is_about_machine && !of.name.is_empty() && !names.contains(&of.name);
    !of.resource.is_empty() && !is_of_leader && !is_of_watch && !is_of_other
}

/// `VERB RESOURCE[/SUBRESOURCE]`.
fn kind(request: &Request) -> String {
    let of = &request.object_ref;
    let sub = match of.subresource.as_str() {
        "" => String::new(),
        sub => format!("/{sub}"),
    };
    format!("{} {}{sub}", request.verb, of.resource)
}

/// When the taint of each of these Nodes was stored first.
pub fn out_of_service(
    names: &BTreeSet<String>,
    ours: &[Request],
) -> Result<BTreeMap<String, Timestamp>> {
    let mut tainted = BTreeMap::new();
    for write in ours {
        if write.succeeded() && is_tainted(write, OUT_OF_SERVICE) {
            let name = write.object_ref.name.clone();
            tainted.entry(name).or_insert(write.answered);
        }
    }
    tainted.retain(|name, _| names.contains(name));
    let missing: Vec<_> = names
        .iter()
        .filter(|it| !tainted.contains_key(*it))
        .collect();
    ensure!(
        missing.is_empty(),
        "the operator has not tainted {missing:?}"
    );
    Ok(tainted)
}

/// From the policy's deadline to the taint, without the proof's window, in seconds.
fn delay(node: &str, statuses: &[Request], tainted: Timestamp) -> Result<f64> {
    let mut statuses = statuses.iter();
    let unknown = statuses.find(|it| it.object_ref.name == node && it.succeeded());
    let unknown = unknown.with_context(|| format!("the status of {node} was not written"))?;
    let deadline: Timestamp = unknown.answered + Policy::Shortest.wait();
    Ok(ms(deadline, tainted) / 1000.0 - Policy::Shortest.window().as_secs_f64())
}
