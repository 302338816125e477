//! S22, L3: a lie that outlives the release. Nothing can be taken back then, so people are called: by a count, a gauge, the ended record, and the first
//! line of `kubectl fence status`, until the machine has booted.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, condition, has_taint};
use e2e::machine::Ailment;
use e2e::proxy::writes::QUARANTINE;
use e2e::workload::wait_node_ready;
use fencing_testbed::bmc::{Effect, Reading};
use fencing_testbed::eventually::eventually;
use serde_json::json;

use crate::outage::{Outage, POD};
use crate::plugin::typed;

const COUNTED: &str = r#"node_fencing_contradictions_total{policy="lab"} 1"#;

impl Outage {
    /// The gauge of the machine that lives in the boot that was proven down.
    fn stranded(&self) -> String {
        let node = &self.node;
        format!(r#"node_fencing_node_stranded{{node="{node}",reason="SameBoot"}} 1"#)
    }

    /// Everybody who can look sees it, and the node takes no pods.
    async fn calls_people(&self) -> Result<()> {
        let Self { lab, node, .. } = self;
        let series = self.stranded();
        eventually("its gauge is set", LIMIT, async || {
            let (_, metrics) = self.operator.get("/metrics").await?;
            ensure!(metrics.contains(&series), "no {series} in\n{metrics}");
            Ok(())
        })
        .await?;
        let is_refuted = |fence: &kube::api::DynamicObject| {
            condition(fence, "NodeConfirmedDown").is_some_and(|it| it["status"] == "False")
        };
        lab.wait_fence(node, is_refuted).await?;
        let (_, said, complained) = typed(lab, "status").await?;
        let lead = format!("ACTION REQUIRED: Node {node} (SameBoot)");
        ensure!(said.starts_with(&lead), "{said}{complained}");
        ensure!(has_taint(&lab.node(node).await?, QUARANTINE));
        Ok(())
    }

    /// From when the node is Ready in the boot that was proven down and released, until its machine has booted.
    pub async fn calls_people_until_it_boots(&self) -> Result<()> {
        let Self { lab, node, .. } = self;
        wait_node_ready(lab.control_plane.admin(), node, "True", LIMIT).await?;
        self.calls_people().await?;
        let told = lab.wait_told_of(node, "FenceContradiction").await?;
        ensure!(told.contains("it never went down"), "{told}");
        let (_, metrics) = self.operator.get("/metrics").await?;
        ensure!(metrics.contains(COUNTED), "no {COUNTED} in\n{metrics}");

        // Another process knows it again, and counts it no second time.
        self.operator.stop(LIMIT).await?;
        self.operator.start_again().await?;
        self.calls_people().await?;
        let (_, metrics) = self.operator.get("/metrics").await?;
        ensure!(!metrics.contains(COUNTED), "counted again:\n{metrics}");

        self.rig()?.bmc.heal()?;
        self.power(false)?;
        self.restore().await?;
        self.wait_no_taint(QUARANTINE).await?;
        let series = self.stranded();
        eventually("its gauge is gone", LIMIT, async || {
            let (_, metrics) = self.operator.get("/metrics").await?;
            ensure!(!metrics.contains(&series), "{series}");
            Ok(())
        })
        .await?;
        let (_, said, _) = typed(lab, "status").await?;
        ensure!(!said.contains("ACTION REQUIRED"), "{said}");
        let ended = lab.fence_of(node).await?.context("its record")?;
        ensure!(condition(&ended, "Succeeded").is_some_and(|it| it["reason"] == "Recovered"));
        self.operator.check()
    }
}

/// The device has read On of the machine for as long as it was well, and reads Off from the partition on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lie_that_outlives_the_release_calls_people_until_the_machine_has_booted() -> Result<()> {
    let outage = Outage::prepare("outlived-lie", "ConfirmOnly", json!({})).await?;
    let Outage { lab, node, .. } = &outage;
    let rig = outage.rig()?;
    rig.machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    rig.bmc.faults(|faults| {
        faults.power_state = Reading::Says(json!("Off"));
        faults.effect = Effect::Ignored;
    });
    lab.wait_stage(node, "Recovered").await?;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    // That this is what it is about, the oracle says: nobody could have known better, and the data of two writers is damaged.
    eventually("two machines have written", LIMIT, async || {
        ensure!(lab.volumes_are_whole().await.is_err());
        Ok(())
    })
    .await?;

    rig.machine.ail(Ailment::default());
    outage.calls_people_until_it_boots().await
}
