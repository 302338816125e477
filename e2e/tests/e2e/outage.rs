//! What the tests of other hands, storms, stuck volumes, deleted nodes and release modes have in common: a database whose
//! node loses its power, a human with kubectl, and what the operator wrote to Nodes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::audit::Request;
use e2e::lab::{LIMIT, Lab, Setup, has_taint, resource};
use e2e::operator::Operator;
use e2e::proxy::writes::{self, CLAIM};
use e2e::proxy::{Action, Fate, Proxy, Rule};
use e2e::workload::{Template, node_of, wait_node_ready};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// A lab whose pod `db-0` runs on `node`, under an operator and a policy.
pub struct Outage {
    /// The lab.
    pub lab: Lab,
    /// The operator.
    pub operator: Operator,
    /// In front of the API server, for the operator only.
    pub proxy: Proxy,
    /// The node of `db-0`.
    pub node: String,
}

impl Outage {
    /// Two machines, `db-0` Running, a policy of this mode for all nodes.
    pub async fn prepare(name: &str, mode: &str, policy: Value) -> Result<Self> {
        let lab = Lab::start(Setup::new(name, 2)).await?;
        let proxy = lab.proxy()?;
        let operator = lab.operator_behind(&proxy).await?;
        lab.wait_protected().await?;
        lab.policy(mode, policy).await?;
        lab.workloads
            .stateful_set("db", &Template::default())
            .await?;
        let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
        let node = node_of(&pod).to_owned();
        Ok(Self {
            lab,
            operator,
            proxy,
            node,
        })
    }

    /// Cuts or restores the power of the node's machine.
    pub fn power(&self, on: bool) -> Result<()> {
        self.lab.rig_of(&self.node)?.machine.set_power(on);
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

    /// Keeps the operator just before the evidence, claimed and without proof on record, until the returned rule is removed.
    pub async fn keep_before_the_evidence(&self) -> Result<Rule> {
        let refuse = Action::Before(Fate::Status(503, None));
        let kept = self.proxy.rule(writes::evidence(), refuse);
        let begin = Instant::now();
        while kept.hits() == 0 {
            ensure!(begin.elapsed() < LIMIT, "no evidence was written");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(kept)
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

    /// The node keeps this up for a while: for what must not happen.
    pub async fn stays(
        &self,
        what: &str,
        seconds: u64,
        holds: impl Fn(&k8s_openapi::api::core::v1::Node) -> bool,
    ) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            let node = self.lab.node(&self.node).await?;
            ensure!(holds(&node), "not any more: {what}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The operator's writes to Nodes that the API server did.
    pub async fn node_writes(&self) -> Result<Vec<Request>> {
        node_writes(&self.lab).await
    }

    /// Nothing broke, nothing was written that must not be.
    pub async fn finish(self) -> Result<()> {
        self.operator.check()?;
        self.lab.verdict().await
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

/// Waits for an Event about this object, and returns its message.
pub async fn wait_event(lab: &Lab, about: &str, reason: &str) -> Result<String> {
    let events: Api<Event> = Api::namespaced(lab.control_plane.admin(), "default");
    let begin = Instant::now();
    loop {
        let all = events.list(&Default::default()).await?;
        let of_it = |event: &&Event| {
            event
                .regarding
                .as_ref()
                .is_some_and(|it| it.name.as_deref() == Some(about))
        };
        let told: Vec<_> = all.items.iter().filter(of_it).collect();
        let found = told
            .iter()
            .find(|event| event.reason.as_deref() == Some(reason));
        if let Some(event) = found {
            return Ok(event.note.clone().unwrap_or_default());
        }
        if begin.elapsed() > LIMIT {
            let reasons: Vec<_> = told.iter().map(|event| &event.reason).collect();
            bail!("no Event {reason} about {about}; there are {reasons:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The name of one of our objects.
pub fn name(object: &DynamicObject) -> Result<&str> {
    object.metadata.name.as_deref().context("it has a name")
}

/// Approves a NodeFence, as a human.
pub async fn approve(lab: &Lab, fence: &str) -> Result<()> {
    let approval = json!({
        "decision": "Approved", "user": "alice", "reason": "seen dark in the data centre",
        "time": Timestamp::now().to_string(),
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
