//! What the tests of other hands, storms, stuck volumes, deleted nodes and release modes have in common: a database whose
//! node loses its power, a human with kubectl, and what the operator wrote to Nodes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::audit::Request;
use e2e::lab::{Kind, LIMIT, Lab, Rig, Setup, has_taint, resource, stage};
use e2e::operator::Operator;
use e2e::proxy::writes::{self, CLAIM};
use e2e::proxy::{Action, Fate, Hold, Proxy, Rule};
use e2e::workload::{Template, node_of, wait_node_ready};
use fencing_testbed::bmc::Which;
use fencing_testbed::eventually::eventually;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// The StatefulSet's one pod.
pub const POD: &str = "db-0";
/// Number of the machine that runs no pods and only ever fails as somebody else: see [`Outage::stays`].
pub const BYSTANDER: usize = 3;

/// A lab whose pod `db-0` runs on `node`, under an operator and a policy.
pub struct Outage {
    /// The lab.
    pub lab: Lab,
    /// The operator.
    pub operator: Operator,
    /// In front of the API server, for the operator only.
    pub proxy: Proxy,
    /// `db-0` as it was before the outage.
    pub pod: Pod,
    /// Its volume.
    pub volume: String,
    /// Its node.
    pub node: String,
}

impl Outage {
    /// Two simulated machines and the bystander, `db-0` Running, a policy of this mode for all nodes.
    pub async fn prepare(name: &str, mode: &str, policy: Value) -> Result<Self> {
        let (outage, ()) = Self::by(name, mode, policy, async |_| Ok(())).await?;
        Ok(outage)
    }

    /// The same, with other BMCs that are put before the machines first.
    pub async fn by<T>(
        name: &str,
        mode: &str,
        mut policy: Value,
        bmcs: impl AsyncFnOnce(&Lab) -> Result<T>,
    ) -> Result<(Self, T)> {
        let lab = Lab::start(Setup::new(name, BYSTANDER)).await?;
        let bmcs = bmcs(&lab).await?;
        let bystander = lab.rig(BYSTANDER).machine.name();
        let no_pods = ["taint", "node", bystander, "lab/bystander=:NoSchedule"];
        lab.control_plane.kubectl_text(&no_pods).await?;
        // The bystander waits for nobody.
        policy["budget"] = json!({"maxConcurrent": 2});
        let outage = Self::of(lab, mode, policy).await?;
        Ok((outage, bmcs))
    }

    /// The same on two machines of this kind, without the bystander. `None` where there are no such machines.
    pub async fn set(name: &str, kind: Kind, mode: &str) -> Result<Option<Self>> {
        match Lab::start_if_available(Setup::new(name, 2).on(kind)).await? {
            Some(lab) => Self::of(lab, mode, json!({})).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same on the machines and BMCs of this lab.
    pub async fn of(lab: Lab, mode: &str, policy: Value) -> Result<Self> {
        let proxy = lab.proxy()?;
        Self::behind(proxy, lab, mode, policy).await
    }

    /// The same with the operator behind this proxy.
    pub async fn behind(proxy: Proxy, lab: Lab, mode: &str, policy: Value) -> Result<Self> {
        let operator = lab.operator_behind(&proxy).await?;
        lab.wait_protected().await?;
        lab.policy(mode, policy).await?;
        let template = Template::default();
        let volume = lab.workloads.stateful_set("db", &template).await?;
        let pod = lab.workloads.wait_running(POD, LIMIT).await?;
        let node = node_of(&pod).to_owned();
        Ok(Self {
            lab,
            operator,
            proxy,
            pod,
            volume,
            node,
        })
    }

    /// The machine that carried the pod, and its BMC.
    pub fn rig(&self) -> Result<&Rig> {
        self.lab.rig_of(&self.node)
    }

    /// Cuts or restores the power of the node's machine.
    pub fn power(&self, on: bool) -> Result<()> {
        self.rig()?.machine.set_power(on);
        Ok(())
    }

    /// Cuts the power, and waits until Kubernetes has noticed.
    pub async fn cut(&self) -> Result<()> {
        self.power(false)?;
        wait_node_ready(self.lab.control_plane.admin(), &self.node, "Unknown", LIMIT)
            .await
            .map(drop)
    }

    /// Restores the power, and waits until the node is Ready.
    pub async fn restore(&self) -> Result<()> {
        self.power(true)?;
        wait_node_ready(self.lab.control_plane.admin(), &self.node, "True", LIMIT)
            .await
            .map(drop)
    }

    /// The same, and waits until its device has read On of it in this boot (S25): the next outage is fenced again.
    pub async fn restore_and_probe(&self) -> Result<()> {
        self.restore().await?;
        let nodes: Api<Node> = Api::all(self.lab.control_plane.admin());
        let status = nodes.get(&self.node).await?.status;
        let boot = status.and_then(|it| it.node_info).map(|it| it.boot_id);
        let device = format!("{}-bmc", self.node);
        eventually("the device has read On in this boot", LIMIT, async || {
            let device = self.lab.api("FenceDevice").get(&device).await?;
            let rows = &device.data["status"]["positiveControls"];
            ensure!(
                rows[0]["bootID"] == json!(boot) && rows[0]["powerState"] == "On",
                "{rows}, and the node is in boot {boot:?}"
            );
            Ok(())
        })
        .await
    }

    /// Cuts the power, and holds the operator in front of its power command: the intent is stored, and what the device answers to the last look
    /// at it is on its way.
    pub async fn cut_and_hold_before_the_command(&self) -> Result<Hold> {
        let intent = self.proxy.hold(writes::intent());
        self.power(false)?;
        intent.wait_arrived(LIMIT).await?;
        let look = self.rig()?.bmc.hold_answer(Which::SystemRead);
        intent.release();
        look.wait_arrived(LIMIT).await?;
        Ok(look)
    }

    /// See [`keep_before_the_evidence`].
    pub async fn keep_before_the_evidence(&self) -> Result<Rule> {
        keep_before_the_evidence(&self.proxy).await
    }

    /// Waits until the node has no taint with this key.
    pub async fn wait_no_taint(&self, key: &str) -> Result<()> {
        self.lab
            .wait_node(&self.node, &format!("no taint {key}"), |node| {
                !has_taint(node, key)
            })
            .await
            .map(drop)
    }

    /// `kubectl taint node`, as a human.
    pub async fn kubectl_taint(&self, taint: &str) -> Result<()> {
        self.lab
            .control_plane
            .kubectl_text(&["taint", "node", &self.node, taint])
            .await
            .map(drop)
    }

    /// The node keeps this up for as long as it takes the operator to see to the bystander's outage, from its beginning to
    /// the taint: what it has not done by then, it does not do.
    pub async fn stays(&self, what: &str, holds: impl Fn(&Node) -> bool) -> Result<()> {
        let bystander = &self.lab.rig(BYSTANDER).machine;
        let earlier = self.lab.fence_of(bystander.name()).await?;
        let earlier = earlier.and_then(|fence| fence.metadata.uid);
        let is_done = |fence: &DynamicObject| {
            fence.metadata.uid != earlier
                && ["Recovered", "AwaitingRelease"].contains(&stage(fence))
        };
        bystander.set_power(false);
        let done = self.lab.wait_fence(bystander.name(), is_done);
        tokio::pin!(done);
        loop {
            let is_over = tokio::time::timeout(Duration::from_millis(100), &mut done).await;
            let node = self.lab.node(&self.node).await?;
            ensure!(holds(&node), "not any more: {what}");
            if let Ok(fence) = is_over {
                fence.context("the bystander's outage")?;
                break;
            }
        }
        bystander.set_power(true);
        let admin = self.lab.control_plane.admin();
        wait_node_ready(admin, bystander.name(), "True", LIMIT).await?;
        Ok(())
    }

    /// The operator's writes to this node that the API server did.
    pub async fn node_writes(&self) -> Result<Vec<Request>> {
        let mut writes = node_writes(&self.lab).await?;
        writes.retain(|write| write.object_ref.name == self.node);
        Ok(writes)
    }

    /// Nothing broke, nothing was written that must not be.
    pub async fn verdict(&self) -> Result<()> {
        self.operator.check()?;
        self.lab.verdict().await
    }
}

/// Keeps the operator just before the evidence, claimed and without proof on record, until the returned rule is removed.
pub async fn keep_before_the_evidence(proxy: &Proxy) -> Result<Rule> {
    let refuse = Action::Before(Fate::Status(503, None));
    let kept = proxy.rule(writes::evidence(), refuse);
    eventually("evidence is to be written", LIMIT, async || {
        ensure!(kept.hits() > 0, "it is not");
        Ok(())
    })
    .await?;
    Ok(kept)
}

/// A lab without a workload, and the operator behind a proxy.
pub struct Watched {
    /// The lab.
    pub lab: Lab,
    /// The operator.
    pub operator: Operator,
    /// In front of the API server, for the operator only.
    pub proxy: Proxy,
}

impl Watched {
    /// A policy in mode ConfirmOnly for all nodes, and all of them protected.
    pub async fn set(setup: Setup, policy: Value) -> Result<Self> {
        let lab = Lab::start(setup).await?;
        let proxy = lab.proxy()?;
        let operator = lab.operator_behind(&proxy).await?;
        lab.wait_protected().await?;
        lab.policy("ConfirmOnly", policy).await?;
        Ok(Self {
            lab,
            operator,
            proxy,
        })
    }

    /// Cuts or restores the power of this machine, and waits until Kubernetes has noticed.
    pub async fn power(&self, number: usize, on: bool) -> Result<()> {
        let machine = &self.lab.rig(number).machine;
        machine.set_power(on);
        let ready = if on { "True" } else { "Unknown" };
        wait_node_ready(self.lab.control_plane.admin(), machine.name(), ready, LIMIT)
            .await
            .map(drop)
    }
}

/// The operator's writes to Nodes that the API server did.
pub async fn node_writes(lab: &Lab) -> Result<Vec<Request>> {
    let writes = lab.writes().await?.into_iter();
    Ok(writes
        .filter(|write| resource(write) == "nodes" && write.succeeded())
        .collect())
}

/// The claim on the Node after a write.
pub fn claim_after(write: &Request) -> Option<String> {
    let taints = write.response_object["spec"]["taints"].as_array()?;
    let claim = taints.iter().find(|taint| taint["key"] == CLAIM)?;
    claim["value"].as_str().map(str::to_owned)
}

/// The name of one of our objects.
pub fn name(object: &DynamicObject) -> Result<&str> {
    object.metadata.name.as_deref().context("it has a name")
}

/// Approves a NodeFence, as a human.
pub async fn approve(lab: &Lab, fence: &str) -> Result<()> {
    answer(lab, fence, "Approved", "seen dark in the data centre").await
}

/// Denies a NodeFence for this reason, as a human.
pub async fn deny(lab: &Lab, fence: &str, reason: &str) -> Result<()> {
    answer(lab, fence, "Denied", reason).await
}

async fn answer(lab: &Lab, fence: &str, decision: &str, reason: &str) -> Result<()> {
    let approval = json!({
        "decision": decision, "user": "admin", "reason": reason, "time": Timestamp::now().to_string(),
    });
    edit_fence(lab, fence, json!({"approval": approval})).await
}

/// Lets a node go, as a human.
pub async fn let_go(lab: &Lab, fence: &str) -> Result<()> {
    edit_fence(lab, fence, json!({"desiredState": "Released"})).await
}

async fn edit_fence(lab: &Lab, fence: &str, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    lab.api("NodeFence")
        .patch(fence, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("failed to edit NodeFence {fence}"))
        .map(drop)
}
