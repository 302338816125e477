//! Where the chaos takes place: a lab, two replicas of the operator behind a proxy each, two pods with a volume each.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::sleep;

use super::{Kills, Plan};
use crate::lab::{Lab, Rig, Setup, condition, taints};
use crate::operator::{self, Operator};
use crate::proxy::Proxy;
use crate::proxy::writes::{CLAIM, OUT_OF_SERVICE, QUARANTINE};
use crate::workload::{Template, node_of, ready_status};
use fencing_testbed::eventually::eventually;
use fencing_testbed::ipmi::{IpmiBmc, Suite};

pub(super) const MACHINES: usize = 3;
/// The machine whose BMC speaks IPMI; those of the others speak Redfish.
const BY_IPMI: usize = 2;
/// The pods, by number.
pub(super) const PODS: [&str; 2] = ["db-0", "log-0"];
/// Until the lab must be whole again after everything was healed. Incidents end by waits of the policy, the longest of which is a
/// minute, and a machine that is turned off again meanwhile has to boot once more.
pub(super) const WHOLE: Duration = Duration::from_secs(300);
/// Less than half of the default. A fence that nothing holds up is over in ten seconds: within a lease of fifteen hardly anybody would take one
/// over. It is fair because it is the harder case: whoever was stopped or cut off is replaced while it is still at work, and more often; and
/// no argument of safety rests on the lease.
const LEASE: [&str; 6] = [
    "--leader-elect-lease-duration-seconds",
    "6",
    "--leader-elect-renew-deadline-seconds",
    "4",
    "--leader-elect-retry-period-seconds",
    "1",
];
/// Between two looks at whether the lab is whole.
const LOOK: Duration = Duration::from_millis(500);

/// A replica of the operator, and what is between it and the API server.
pub(super) struct Replica {
    pub(super) operator: Operator,
    pub(super) proxy: Proxy,
}

pub(super) struct Scene {
    pub(super) replicas: [Replica; 2],
    /// The BMCs that are no Redfish ones, by the nodes of their machines.
    pub(super) ipmi: BTreeMap<String, IpmiBmc>,
    pub(super) kills: Kills,
    pub(super) lab: Lab,
}

impl Scene {
    pub(super) async fn set(plan: &Plan) -> Result<Self> {
        let lab = Lab::start(Setup::new(&plan.name, MACHINES).on(plan.kind)).await?;
        let node = lab.rig(BY_IPMI).machine.name().to_owned();
        let ipmi = BTreeMap::from([(node, lab.ipmi(BY_IPMI, Suite::Seventeen).await?)]);
        let replicas = [replica(&lab, 1).await?, replica(&lab, 2).await?];
        lab.wait_protected().await?;
        lab.policy("PowerOff", json!({})).await?;
        for pod in PODS {
            let set = pod.trim_end_matches("-0");
            lab.workloads
                .stateful_set(set, &Template::default())
                .await?;
        }
        let scene = Self {
            replicas,
            ipmi,
            kills: plan.kills,
            lab,
        };
        scene.is_whole().await?;
        Ok(scene)
    }

    /// The replica that has the Lease.
    pub(super) async fn leader(&self) -> Result<usize> {
        let [one, other] = &self.replicas;
        let leads = tokio::try_join!(one.operator.leads(), other.operator.leads())?;
        match leads {
            (true, false) => Ok(0),
            (false, true) => Ok(1),
            leads => anyhow::bail!("who leads: {leads:?}"),
        }
    }

    /// Every incident has ended, no taint of the operator's is left, each node is Ready in the boot that its machine is in, each pod
    /// runs, and one replica leads.
    pub(super) async fn is_whole(&self) -> Result<()> {
        eventually("the lab is whole", WHOLE, async || {
            sleep(LOOK).await;
            for rig in &self.lab.rigs {
                self.is_free(rig).await?;
            }
            let fences = self.lab.api("NodeFence").list(&Default::default()).await?;
            for fence in &fences.items {
                let succeeded = condition(fence, "Succeeded");
                let has_ended = succeeded.is_some_and(|it| it["status"] != "Unknown");
                let status = serde_json::to_string_pretty(&fence.data["status"])?;
                ensure!(has_ended, "an incident goes on: {status}");
            }
            for pod in PODS {
                self.lab.workloads.wait_running(pod, LOOK).await?;
            }
            self.leader().await
        })
        .await
        .map(drop)
    }

    async fn is_free(&self, rig: &Rig) -> Result<()> {
        let name = rig.machine.name();
        let node = self.lab.node(name).await?;
        let taints = taints(&node);
        let has = |keys: &[&str]| taints.iter().any(|key| keys.contains(&key.as_str()));
        // Nobody comes to a machine while the operator is at work on it; afterwards whoever finds it dark turns it on. (An off command
        // that was on its way may have landed only now.)
        if !has(&[CLAIM, OUT_OF_SERVICE]) {
            rig.machine.set_power(true);
        }
        ensure!(
            !has(&[CLAIM, OUT_OF_SERVICE, QUARANTINE]),
            "{name} has {taints:?}"
        );
        let ready = ready_status(&node);
        ensure!(ready == Some("True"), "{name} is Ready {ready:?}");
        let info = node.status.and_then(|status| status.node_info);
        let boot = info.context("no nodeInfo")?.boot_id;
        ensure!(
            boot == rig.machine.boot_id(),
            "{name} is Ready in an earlier boot"
        );
        Ok(())
    }

    /// The nodes of the pods.
    pub(super) async fn homes(&self) -> Result<Vec<String>> {
        let mut homes = Vec::new();
        for pod in PODS {
            let pod = self.lab.workloads.wait_running(pod, WHOLE).await?;
            homes.push(node_of(&pod).to_owned());
        }
        Ok(homes)
    }
}

async fn replica(lab: &Lab, number: usize) -> Result<Replica> {
    let proxy = lab.proxy()?;
    let options = operator::Options {
        name: format!("replica-{number}"),
        node_name: format!("lab-host-{number}"),
        server: Some(proxy.url()),
        arguments: LEASE.map(str::to_owned).to_vec(),
        ..operator::Options::default()
    };
    let operator = lab.operator_with(options).await?;
    Ok(Replica { operator, proxy })
}
