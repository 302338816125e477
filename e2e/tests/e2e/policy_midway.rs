//! The policy changes while fences run under it (S15, F52): before the taint that only ever stops or narrows them, after it nothing
//! holds up the release.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Setup, condition, has_taint, stage};
use e2e::proxy::writes::{self, CLAIM, OUT_OF_SERVICE};
use e2e::proxy::{Action, Fate, Rule};
use fencing_testbed::eventually::eventually;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::outage::{Outage, Watched as Scene};

/// A fence that cannot go on.
pub struct Kept {
    /// Lets it go on once removed.
    pub rule: Rule,
    fence: String,
}

impl Scene {
    /// Fails this machine, and waits until it is claimed and cannot be proven down on record.
    pub async fn claimed(&self, number: usize) -> Result<Kept> {
        let refuse = Action::Before(Fate::Status(503, None));
        let kept = self.proxy.rule(writes::evidence(), refuse);
        self.lab.rig(number).machine.set_power(false);
        eventually("evidence is to be written", LIMIT, async || {
            ensure!(kept.hits() > 0, "it is not");
            Ok(())
        })
        .await?;
        let node = self.lab.rig(number).machine.name();
        let fence = self.lab.fence_of(node).await?.context("it has a record")?;
        Ok(Kept {
            rule: kept,
            fence: fence.name_any(),
        })
    }

    /// Its fence has been given up for this reason, without a trace on the Node.
    pub async fn given_up(&self, number: usize, kept: Kept, why: &str) -> Result<()> {
        let machine = &self.lab.rig(number).machine;
        // By its name: what the policy says by then may begin another one.
        let what = format!("{} is given up", kept.fence);
        let ended = eventually(&what, LIMIT, async || {
            let fence = self.lab.api("NodeFence").get(&kept.fence).await?;
            ensure!(stage(&fence) == "Aborted", "it is {}", stage(&fence));
            Ok(fence)
        })
        .await?;
        kept.rule.remove();
        let words = condition(&ended, "Succeeded").map(|ended| ended["message"].to_string());
        ensure!(
            words.as_ref().is_some_and(|words| words.contains(why)),
            "{words:?}"
        );
        let free = |node: &_| !has_taint(node, CLAIM) && !has_taint(node, OUT_OF_SERVICE);
        self.lab
            .wait_node(machine.name(), "no taint of ours", free)
            .await?;
        ensure!(self.lab.times_tainted(machine.name()).await? == 0);
        self.power(number, true).await
    }

    async fn edit(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let policies = self.lab.api("NodeFencingPolicy");
        policies
            .patch("lab", &PatchParams::default(), &patch)
            .await
            .map(drop)
            .map_err(Into::into)
    }

    async fn delete(&self) -> Result<()> {
        let policies = self.lab.api("NodeFencingPolicy");
        policies.delete("lab", &Default::default()).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_changes_midway_stops_a_fence_and_holds_up_no_release() -> Result<()> {
    let scene = Scene::set(Setup::new("policy-midway", 4), json!({})).await?;

    // Narrowed below the node.
    let kept = scene.claimed(1).await?;
    let others =
        json!([{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1"]}]);
    scene
        .edit(json!({"nodeSelector": {"matchExpressions": others}}))
        .await?;
    scene
        .given_up(1, kept, "no longer selects the node")
        .await?;
    // Narrowed in what may be done.
    scene
        .edit(json!({"nodeSelector": {"matchExpressions": null}}))
        .await?;
    let kept = scene.claimed(2).await?;
    scene.edit(json!({"fence": {"mode": "Observe"}})).await?;
    scene.given_up(2, kept, "to Observe").await?;
    // Deleted.
    scene
        .edit(json!({"fence": {"mode": "ConfirmOnly"}}))
        .await?;
    let kept = scene.claimed(3).await?;
    scene.delete().await?;
    scene.given_up(3, kept, "was deleted").await?;

    // Widened, which does not count, and deleted under the taint, which does not either.
    scene.lab.policy("ConfirmOnly", json!({})).await?;
    let kept = scene.claimed(4).await?;
    scene.edit(json!({"fence": {"mode": "PowerOff"}})).await?;
    let release = scene.proxy.hold(writes::release());
    kept.rule.remove();
    release.wait_arrived(LIMIT).await?;
    scene.delete().await?;
    release.release();
    scene.lab.wait_stage("node-4", "Recovered").await?;
    ensure!(scene.lab.rig(4).bmc.power_commands().is_empty());
    ensure!(scene.lab.times_tainted("node-4").await? == 1);
    scene.operator.check()?;
    scene.lab.verdict().await
}

/// L3: what was only observed does not keep the node down once its policy says more, in the outage that goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_observed_is_fenced_when_its_policy_says_more() -> Result<()> {
    let outage = Outage::prepare("observed", "Observe", json!({})).await?;
    let (lab, node) = (&outage.lab, &outage.node);
    outage.cut().await?;
    let observed = lab.wait_stage(node, "Observing").await?;
    let spec = json!({"spec": {"fence": {"mode": "PowerOff"}}});
    lab.api("NodeFencingPolicy")
        .patch("lab", &PatchParams::default(), &Patch::Merge(spec))
        .await?;
    lab.wait_stage(node, "Recovered").await?;
    let ended = lab.api("NodeFence").get(&observed.name_any()).await?;
    let words = condition(&ended, "Succeeded").map(|ended| ended["message"].to_string());
    ensure!(words.is_some_and(|words| words.contains("a new NodeFence is opened")));
    outage.restore().await?;
    outage.verdict().await
}
