//! The scene of cases 5 and 6: an outage in the middle of which the operator is held, and the two ways in which it may end.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, has_taint};
use e2e::point::{Held, Point};
use e2e::proxy::writes::{CLAIM, OUT_OF_SERVICE, QUARANTINE};
use e2e::taints::{self, State};
use e2e::volume::journal::Happening;
use fencing_testbed::eventually::eventually;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

pub use crate::outage::{Outage as Scene, POD};

impl Scene {
    /// Breaks the machine, and returns with the operator held at the point.
    pub async fn strike_and_hold(&self, point: Point) -> Result<Held> {
        let held = point.hold(&self.lab, &self.proxy, self.rig()?).await?;
        point.strike(self.rig()?);
        held.wait_arrived()
            .await
            .with_context(|| format!("the operator did not come to {point:?}"))?;
        Ok(held)
    }

    /// The fence was given up in time: no claim is left, and `out-of-service` never was there, nor did anybody lose a pod
    /// that was not replaced.
    pub async fn given_up(&self) -> Result<DynamicObject> {
        let fence = self
            .lab
            .wait_fence(&self.node, |fence| {
                ["SelfRecovered", "Aborted"].contains(&e2e::lab::stage(fence))
            })
            .await?;
        let free = |node: &_| !has_taint(node, CLAIM) && !has_taint(node, QUARANTINE);
        self.lab
            .wait_node(&self.node, "the claim is gone", free)
            .await?;
        let history = self.lab.history(&self.node).await?;
        ensure!(
            !history.iter().any(|state| state.out_of_service),
            "it was put out of service: {history:#?}"
        );
        self.lab.workloads.wait_running(POD, LIMIT).await?;
        Ok(fence)
    }

    /// The fence went through: `out-of-service` was set once and removed once, the latter through the release gate.
    pub async fn released_by_the_gate(&self) -> Result<DynamicObject> {
        let fence = self.lab.wait_stage(&self.node, "Recovered").await?;
        let clean = |node: &_| !has_taint(node, CLAIM) && !has_taint(node, OUT_OF_SERVICE);
        ensure!(
            clean(&self.lab.node(&self.node).await?),
            "taints of ours are left"
        );
        let history = self.lab.history(&self.node).await?;
        let (set, released) = (taints::set(&history), taints::released(&history));
        ensure!(
            set.len() == 1 && released.len() == 1,
            "set {} and removed {} times",
            set.len(),
            released.len()
        );
        let evidence = &fence.data["status"]["evidence"];
        ensure!(
            evidence["claim"] == json!(set[0].claims[0]),
            "the evidence is another claim's: {evidence:#}"
        );
        let fenced_boot = evidence["nodeBootID"]
            .as_str()
            .context("the evidence names no boot")?;
        self.lab.verdict().await?;
        self.through_the_gate(released[0], fenced_boot)?;
        self.lab.silent_after_proof(&fence).await?;
        self.lab.workloads.wait_running(POD, LIMIT).await?;
        Ok(fence)
    }

    /// The fence was finished by a process that was not the first: the pod runs elsewhere, and the outage has one record, one taint
    /// and at most one repeated power command (L4).
    pub async fn finished_once(&self, point: Point) -> Result<()> {
        let workloads = &self.lab.workloads;
        workloads
            .wait_running_elsewhere(POD, &self.node, LIMIT)
            .await?;
        let fence = self.released_by_the_gate().await?;
        let fences = self.lab.api("NodeFence").list(&Default::default()).await?;
        let names: Vec<_> = fences.items.iter().map(ResourceExt::name_any).collect();
        ensure!(
            names == [fence.name_any()],
            "one outage has one record, not {names:?}"
        );
        let commands = self.rig()?.bmc.power_commands();
        let allowed = if point.mode() == "PowerOff" { 2 } else { 0 };
        ensure!(
            commands.len() <= allowed,
            "more power commands than {allowed}: {commands:#?}"
        );
        Ok(())
    }

    /// Waits until a claim stands on the node that is not among the first `before`.
    pub async fn another_claim(&self, before: usize) -> Result<()> {
        eventually("the new operator claims", LIMIT, async || {
            let history = self.lab.history(&self.node).await?;
            let claims = taints::claims(&history);
            ensure!(claims.len() > before, "there were {claims:?}");
            Ok(())
        })
        .await
    }

    /// When `out-of-service` went, nothing was attached to the node any more, and its machine was off (then the quarantine
    /// came) or had booted anew.
    fn through_the_gate(&self, release: &State, fenced_boot: &str) -> Result<()> {
        let (mut attached, mut is_on) = (0, true);
        let mut entries = self.lab.volumes.journal().entries();
        entries.sort_by_key(|(at, _)| at.monotonic_ns);
        let before = entries
            .iter()
            .filter(|(at, what)| at.wall < release.at && what.node() == self.node);
        for (_, what) in before {
            match what {
                Happening::Attached { .. } => attached += 1,
                Happening::Detached { .. } => attached -= 1,
                Happening::PowerOn { .. } | Happening::Resumed { .. } => is_on = true,
                Happening::PowerOff { .. } | Happening::Suspended { .. } => is_on = false,
            }
        }
        ensure!(
            attached == 0,
            "{attached} volume(s) were attached when the taint went"
        );
        let anew = release.boot_id != fenced_boot;
        ensure!(
            anew || !is_on,
            "released with the machine on, and no new boot: {release:#?}"
        );
        ensure!(
            anew != release.quarantine,
            "quarantined though booted anew, or the other way round: {release:#?}"
        );
        Ok(())
    }
}
