//! Case 14: each guarded write fails in each way that writes fail, and the fence still ends as it should (F19 to F21).
//!
//! One test a way to fail. What does not reach the API server fails twice, which it must survive as well. Eight machines lose their power at once, and each of them has another of its writes fail: the
//! creation of its NodeFence, its claim, and so on to the status that closes it. A write that failed is never repeated by
//! itself: the Node is read again first. One that was committed, although nobody said so, is found and not sent again.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition};
use e2e::proxy::{Action, Fate, Matcher, Proxy, Record, Rule, Seen, writes};
use e2e::workload::Template;
use http::Method;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

/// The guarded writes of one fence, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guarded {
    Create,
    Claim,
    Intent,
    Evidence,
    DeletePod,
    Taint,
    Release,
    Close,
}

const GUARDED: [Guarded; 8] = [
    // First, because its machine must have a pod, and the first has one for certain.
    Guarded::DeletePod,
    Guarded::Create,
    Guarded::Claim,
    Guarded::Intent,
    Guarded::Evidence,
    Guarded::Taint,
    Guarded::Release,
    Guarded::Close,
];

impl Guarded {
    /// This write of the fence of this node, where these pods are.
    fn of(self, node: &str, pods: &[String]) -> Matcher {
        let status = |matcher: Matcher| {
            let fences = format!("/nodefences/{node}-");
            matcher.when(move |seen| seen.path.contains(&fences))
        };
        match self {
            Self::Create => {
                let node = node.to_owned();
                writes::create_fence().when(move |seen| seen.body["spec"]["nodeName"] == *node)
            }
            Self::Claim => writes::claim().of(node),
            Self::Intent => status(writes::intent()),
            Self::Evidence => status(writes::evidence()),
            Self::DeletePod => {
                let pods = pods.to_vec();
                writes::delete_pod()
                    .when(move |seen| pods.iter().any(|pod| seen.segments().contains(&&**pod)))
            }
            Self::Taint => writes::taint().of(node),
            Self::Release => writes::release().of(node),
            Self::Close => status(writes::close()),
        }
    }

    /// Written to the Node, or created or deleted: what was committed is seen by whoever looks, and not sent again. (The
    /// record is written again when nobody knows whether it was: it must be there before the next step.)
    fn is_seen(self) -> bool {
        !matches!(self, Self::Intent | Self::Evidence | Self::Close)
    }
}

/// A machine that is to die, and what is to fail meanwhile.
struct Victim {
    node: String,
    write: Guarded,
    matcher: Matcher,
    /// One after the other.
    rules: Vec<Rule>,
}

async fn writes_fail(name: &str, faults: &[Action]) -> Result<()> {
    let setup = Setup::new(name, GUARDED.len() + 2);
    let lab = Lab::start(setup).await?;
    let proxy = lab.proxy()?;
    let operator = lab.operator_behind(&proxy).await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({"budget": {"maxConcurrent": 100}}))
        .await?;
    let names: Vec<_> = lab
        .rigs
        .iter()
        .map(|rig| rig.machine.name().to_owned())
        .collect();
    let (nodes, spares) = names.split_at(GUARDED.len());
    for spare in spares {
        lab.schedulable(spare, false).await?;
    }
    for number in 1..=nodes.len() {
        let template = Template::default();
        lab.workloads
            .stateful_set(&format!("db{number}"), &template)
            .await?;
    }
    for number in 1..=nodes.len() {
        lab.workloads
            .wait_running(&format!("db{number}-0"), LIMIT)
            .await?;
    }
    let victims = victims(&lab, &proxy, nodes, faults).await?;
    for spare in spares {
        lab.schedulable(spare, true).await?;
    }

    for victim in &victims {
        lab.rig_of(&victim.node)?.machine.set_power(false);
    }
    for victim in &victims {
        let fence = lab
            .wait_stage(&victim.node, "Recovered")
            .await
            .with_context(|| format!("{:?} of {} fails", victim.write, victim.node))?;
        went_well(&lab, victim, &fence)
            .await
            .with_context(|| format!("{:?} of {} failed", victim.write, victim.node))?;
    }
    for number in 1..=nodes.len() {
        lab.workloads
            .wait_running(&format!("db{number}-0"), LIMIT)
            .await?;
    }
    for victim in &victims {
        was_decided_again(&proxy.log(), victim, faults)
            .with_context(|| format!("{:?} of {} failed", victim.write, victim.node))?;
    }
    each_in_its_form(&proxy.log())?;
    operator.check()?;
    lab.verdict().await
}

/// Gives each of these nodes another write that fails.
async fn victims(
    lab: &Lab,
    proxy: &Proxy,
    nodes: &[String],
    faults: &[Action],
) -> Result<Vec<Victim>> {
    let mut pods = BTreeMap::new();
    for node in nodes {
        pods.insert(node.clone(), lab.pods_on(node).await?);
    }
    let mut nodes: Vec<_> = pods.keys().cloned().collect();
    nodes.sort_by_key(|node| pods[node].is_empty());
    let victim = |(node, write): (String, Guarded)| {
        let matcher = write.of(&node, &pods[&node]);
        let befalls = |fault: &Action| proxy.rule(matcher.clone().once(), *fault);
        Victim {
            rules: faults.iter().map(befalls).collect(),
            node,
            write,
            matcher,
        }
    };
    Ok(nodes.into_iter().zip(GUARDED).map(victim).collect())
}

/// The outcome of one fence is what it would have been without the fault.
async fn went_well(lab: &Lab, victim: &Victim, fence: &DynamicObject) -> Result<()> {
    let node = &victim.node;
    let hits: Vec<_> = victim.rules.iter().map(Rule::hits).collect();
    ensure!(!hits.contains(&0), "not all of it failed: {hits:?}");
    let fences = lab.api("NodeFence").list(&ListParams::default()).await?;
    let of_node = |fence: &&DynamicObject| fence.data["spec"]["nodeName"] == **node;
    ensure!(
        fences.items.iter().filter(of_node).count() == 1,
        "one outage is one NodeFence"
    );
    ensure!(condition(fence, "Succeeded").is_some_and(|end| end["status"] == "True"));
    for time in ["taintAppliedTime", "taintRemovedTime", "completionTime"] {
        ensure!(
            fence.data["status"][time].is_string(),
            "the record lacks {time}: {:#}",
            fence.data["status"]
        );
    }
    let tainted = lab.times_tainted(node).await?;
    ensure!(tainted == 1, "out-of-service was set {tainted} times");
    let commands = lab.rig_of(node)?.bmc.power_commands();
    ensure!(
        commands.len() <= 1,
        "at most one power command: {commands:?}"
    );
    lab.silent_after_proof(fence).await
}

/// No client waits for an answer less than this; what is read beside a write is read at once.
const GIVEN_UP_NS: u64 = 1_000_000_000;

/// Between the end of a write that failed and the next to the same Node or record, the Node was read anew; and what had been
/// committed was not written again.
fn was_decided_again(log: &[Record], victim: &Victim, faults: &[Action]) -> Result<()> {
    let mine: Vec<usize> = (0..log.len())
        .filter(|index| victim.matcher.matches(&log[*index].seen))
        .collect();
    let committed = matches!(faults[0], Action::After(_) | Action::Twice);
    if committed && victim.write.is_seen() && victim.write != Guarded::DeletePod {
        ensure!(
            mine.len() == 1,
            "it was committed, and sent {} times",
            mine.len()
        );
    }
    // The NodeFence is made anew under the same name: the API server itself says whether it is there.
    if victim.write == Guarded::Create {
        return Ok(());
    }
    each_after_a_look(log, &mine, &victim.node)
}

/// Between the end of each of these writes, which failed, and the next of the same, the Node was read anew.
pub fn each_after_a_look(log: &[Record], mine: &[usize], node: &str) -> Result<()> {
    let reads = writes::read_node().of(node);
    for pair in mine.windows(2) {
        let [before, after] = pair else { continue };
        let same = |seen: &Seen| (seen.path.clone(), seen.method.clone());
        if same(&log[*before].seen) != same(&log[*after].seen) {
            continue; // another pod of the same node
        }
        // What was read beside it, before it had failed, does not count.
        let failed = &log[*before];
        let is_anew = |record: &Record| match failed.ended {
            Some(ended) => record.at > ended,
            None => record.at.monotonic_ns > failed.at.monotonic_ns + GIVEN_UP_NS,
        };
        ensure!(
            log[*before..*after]
                .iter()
                .any(|record| reads.matches(&record.seen) && is_anew(record)),
            "it was sent again without a look at the Node"
        );
    }
    Ok(())
}

/// S20: no write ever takes another form than its own.
pub fn each_in_its_form(log: &[Record]) -> Result<()> {
    for record in log {
        let seen = &record.seen;
        if !writes::any_write().matches(seen) {
            continue;
        }
        let tests_uid = |body: &Value| {
            body.as_array()
                .into_iter()
                .flatten()
                .any(|one| one["op"] == "test" && one["path"] == "/metadata/uid")
        };
        let fine = match (&seen.method, seen.segments().as_slice()) {
            (&Method::PATCH, ["api", "v1", "nodes", _]) => {
                seen.content_type.starts_with("application/json-patch+json")
                    && tests_uid(&seen.body)
            }
            (&Method::DELETE, ["api", "v1", "namespaces", _, "pods", _]) => {
                seen.body["preconditions"]["uid"].is_string()
                    && seen.body["gracePeriodSeconds"] == 0
            }
            (&Method::POST, ["apis", "nodefencing.io", "v1alpha1", "nodefences"]) => true,
            (&Method::PATCH, ["apis", "nodefencing.io", "v1alpha1", _, _, "status"]) => seen
                .content_type
                .starts_with("application/merge-patch+json"),
            _ => false,
        };
        ensure!(
            fine,
            "a write in another form: {} {} {} {}",
            seen.method,
            seen.path,
            seen.content_type,
            seen.body
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_with_a_timeout_after_commit() -> Result<()> {
    writes_fail("write-timeout", &[Action::After(Fate::Silence)]).await
}

/// What the operator hears of is the refusal of the second one, of a write that was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_because_a_proxy_has_sent_them_twice() -> Result<()> {
    writes_fail("write-twice", &[Action::Twice]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_with_409() -> Result<()> {
    let twice = [Action::Before(Fate::Status(409, None)); 2];
    writes_fail("write-409", &twice).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_with_429() -> Result<()> {
    let faults = [1, 600].map(|wait| Action::Before(Fate::Status(429, Some(wait))));
    writes_fail("write-429", &faults).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_with_503_and_504() -> Result<()> {
    let faults = [503, 504].map(|status| Action::Before(Fate::Status(status, None)));
    writes_fail("write-503", &faults).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_with_500_and_502() -> Result<()> {
    let faults = [500, 502].map(|status| Action::Before(Fate::Status(status, None)));
    writes_fail("write-500", &faults).await
}
