//! What befalls the lab so that the alerts fire, and what is done about it so that they are over.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::csi::{Fault, Faults};
use e2e::lab::{LIMIT, Rig, escalation, has_taint};
use e2e::machine::Ailment;
use e2e::proxy::writes::{self, OUT_OF_SERVICE, QUARANTINE};
use e2e::proxy::{Action, Fate, Matcher, Rule};
use fencing_testbed::bmc::{Line, Nonsense, Reading, Reply, Which};
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinHandle;

use super::scene::{Scene, device, node};
use crate::devices::{probe_again, request_probe};
use crate::outage::{approve, let_go, name};
use crate::replicas::wait_leads;
use crate::wrong_machine::STRANGER;

/// Renews the Lease of a node, as another kubelet of the same name would, until it is dropped.
struct Ghost(JoinHandle<()>);

impl Ghost {
    fn of(scene: &Scene, node: &str) -> Self {
        let admin = scene.lab.control_plane.admin();
        let leases: Api<Lease> = Api::namespaced(admin, "kube-node-lease");
        let node = node.to_owned();
        Self(tokio::spawn(async move {
            loop {
                let now = format!("{:.6}", Timestamp::now());
                let patch = Patch::Merge(json!({"spec": {"renewTime": now}}));
                // One that fails is as good as one that comes late.
                let _ = leases.patch(&node, &PatchParams::default(), &patch).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }))
    }
}

impl Drop for Ghost {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the API server refuses.
struct Refusals {
    claim: Rule,
    events: Rule,
}

impl Scene {
    /// Every alert fires; each but those that look back resolves.
    pub async fn all_are_provoked(&self) -> Result<()> {
        let refusals = self.strike().await?;
        self.somebody_meddles().await?;
        tokio::try_join!(
            self.incidents_are_told(),
            self.a_ghost_is_told(),
            self.a_refuted_report_is_told(),
            self.the_rest_is_told(),
            self.another_fencer_is_told(),
            self.readiness_is_told(),
            self.a_node_is_fenced_twice(),
            self.age_is_told(),
        )?;
        self.scrapes_are_valid().await?;
        tokio::try_join!(self.incidents_end(&refusals), self.the_rest_is_put_right())?;
        self.lab.verdict().await?;
        self.age_is_over().await?;
        self.the_leader_dies().await?;
        self.etcd_is_put_back().await
    }

    /// Everything whose alert takes its time.
    async fn strike(&self) -> Result<Refusals> {
        let refuse = Action::Before(Fate::Status(503, None));
        let claim = self
            .proxy
            .rule(writes::claim().of(node("refused")?), refuse);
        let is_event = Matcher::new("Event")
            .method(Method::POST)
            .when(|seen| seen.segments().last() == Some(&"events"));
        let forbid = Action::Before(Fate::Status(403, None));
        let events = self.proxy.rule(is_event, forbid);
        self.rig("stuck")?.bmc.set_line(Line::Dark)?;
        let faults = Faults {
            detach: Fault::hang().of_volume(&self.volume),
            ..Faults::default()
        };
        self.lab.control_plane.array().set_faults(&faults).await?;
        for case in [
            "approval", "stuck", "detach", "release", "storm", "ghost", "refused",
        ] {
            self.power(case, false)?;
        }
        Ok(Refusals { claim, events })
    }

    /// Devices, a taint, somebody else's mark and the admission policies.
    async fn somebody_meddles(&self) -> Result<()> {
        self.rig("silent")?.bmc.set_line(Line::Refused)?;
        let bmc = &self.rig("stranger")?.bmc;
        bmc.faults(|faults| faults.uuid = Some(json!(STRANGER)));
        self.devices_age().await?;
        for case in ["silent", "stranger"] {
            probe_again(&self.lab, &device(case)?, 14).await?;
        }
        let bmc = &self.rig("twin")?.bmc;
        bmc.faults(|faults| faults.power_state = Reading::Says(json!("Off")));
        request_probe(&self.lab, &device("twin")?, Timestamp::now()).await?;
        self.taint_spare("=lab:NoSchedule").await?;
        self.strand("=lab:NoSchedule").await?;
        self.mark_spare("=2026-01-01T00:00:00Z").await?;
        self.some_are_not_ready().await?;
        self.admission("delete").await
    }

    /// Our mark of a deletion, without a claim.
    async fn strand(&self, what: &str) -> Result<()> {
        let taint = format!("nodefencing.io/detaching{what}");
        let arguments = ["taint", "node", &node("stranger")?, &taint];
        let plane = &self.lab.control_plane;
        plane.kubectl_text(&arguments).await.map(drop)
    }

    async fn taint_spare(&self, what: &str) -> Result<()> {
        let taint = format!("{OUT_OF_SERVICE}{what}");
        let arguments = ["taint", "node", &node("spare")?, &taint];
        let plane = &self.lab.control_plane;
        plane.kubectl_text(&arguments).await.map(drop)
    }

    /// kured writes so when a node is to be restarted. It is no maintenance yet, and nothing follows from it.
    async fn mark_spare(&self, what: &str) -> Result<()> {
        let mark = format!("weave.works/kured-most-recent-reboot-needed{what}");
        let arguments = ["annotate", "node", &node("spare")?, &mark];
        let plane = &self.lab.control_plane;
        plane.kubectl_text(&arguments).await.map(drop)
    }

    async fn admission(&self, verb: &str) -> Result<()> {
        let path = workspace().join("deploy/admission.yaml");
        let plane = &self.lab.control_plane;
        let arguments = [verb, "-f", &path.to_string_lossy()];
        plane.kubectl_text(&arguments).await.map(drop)
    }

    async fn incidents_are_told(&self) -> Result<()> {
        let stuck = node("stuck")?;
        self.fires(
            "NodeFencingHeld",
            &[("policy", "storm"), ("reason", "MinHealthy")],
        )
        .await?;
        self.fires("NodeFencingStuck", &[("node", &stuck)]).await?;
        let failed = [("node", stuck.as_str()), ("reason", "DeviceFailed")];
        self.fires("NodeFencingEscalated", &failed).await?;
        self.fires("NodeFencingDetachStuck", &[("node", &node("detach")?)])
            .await?;
        self.fires("NodeFencingReleaseStuck", &[("node", &node("release")?)])
            .await?;
        self.fires(
            "NodeFencingAwaitingApproval",
            &[("node", &node("approval")?)],
        )
        .await
    }

    /// The incident goes on by itself once nothing of the node lives any more.
    async fn a_ghost_is_told(&self) -> Result<()> {
        let node = node("ghost")?;
        self.wait_ready("ghost", "Unknown").await?;
        let ghost = Ghost::of(self, &node);
        let contradicted = |fence: &DynamicObject| {
            escalation(fence).is_some_and(|(reason, _)| reason == "FenceContradiction")
        };
        self.lab.wait_fence(&node, contradicted).await?;
        let labels = [("node", node.as_str())];
        self.fires("NodeFencingContradiction", &labels).await?;
        drop(ghost);
        self.resolves("NodeFencingContradiction", &labels).await?;
        self.lab.wait_stage(&node, "Recovered").await.map(drop)
    }

    /// Who leads takes it for a report of the process before it, which the kubelet takes back within a second or two.
    async fn a_refuted_report_is_told(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.lab.control_plane.admin());
        let node = node("reported")?;
        let ready = json!({"type": "Ready", "status": "Unknown", "reason": "PoweredOff"});
        let report = Patch::Strategic(json!({"status": {"conditions": [ready]}}));
        let refuted = r#"node_fencing_early_reports_refuted_total{policy="reported"} 1"#;
        eventually("a report is refuted", LIMIT, async || {
            let params = PatchParams::default();
            nodes.patch_status(&node, &params, &report).await?;
            let (_, metrics) = self.replicas[0].get("/metrics").await?;
            ensure!(metrics.contains(refuted), "none is");
            Ok(())
        })
        .await?;
        let labels = [("policy", "reported")];
        self.fires("NodeFencingEarlyReportRefuted", &labels).await
    }

    async fn the_rest_is_told(&self) -> Result<()> {
        self.fires("OutOfServiceTaintOnReadyNode", &[("node", &node("spare")?)])
            .await?;
        let stranded = [("node", &*node("stranger")?), ("reason", "ClaimMissing")];
        self.fires("NodeFencingNodeStranded", &stranded).await?;
        self.fires("FenceDeviceUnreachable", &[("device", &device("silent")?)])
            .await?;
        self.fires(
            "FenceDeviceWrongMachine",
            &[("device", &device("stranger")?)],
        )
        .await?;
        self.fires(
            "FenceDeviceOffWhileRunning",
            &[("device", &device("twin")?)],
        )
        .await?;
        for case in ["silent", "stranger", "twin"] {
            self.fires("NodesWithoutFenceDevice", &[("policy", case)])
                .await?;
        }
        self.fires("NodeFencingEventsDropped", &[("reason", "Refused")])
            .await?;
        self.fires("NodeFencingAdmissionGuardMissing", &[]).await?;
        self.fires("NodeFencingReconcileErrors", &[("reason", "WriteFailed")])
            .await
    }

    /// Each time, its BMC refuses the first command.
    async fn a_node_is_fenced_twice(&self) -> Result<()> {
        let node = node("flapping")?;
        let Rig { machine, bmc } = self.rig("flapping")?;
        let mut earlier = None;
        for _ in 0..2 {
            let refusal = Reply::new(Which::Reset, Nonsense::Status(403, None)).times(1);
            bmc.faults(|faults| faults.replies = vec![refusal]);
            machine.ail(Ailment {
                kubelet_hung: true,
                ..Ailment::default()
            });
            let recovered = |fence: &DynamicObject| {
                e2e::lab::stage(fence) == "Recovered" && fence.metadata.uid != earlier
            };
            let fence = self.lab.wait_fence(&node, recovered).await?;
            earlier = fence.metadata.uid;
            machine.set_power(true);
            self.wait_ready("flapping", "True").await?;
            let is_free = |node: &_| !has_taint(node, QUARANTINE);
            self.lab.wait_node(&node, "no quarantine", is_free).await?;
        }
        self.fires("NodeFencingFlapping", &[("node", &node)]).await
    }

    async fn incidents_end(&self, refusals: &Refusals) -> Result<()> {
        refusals.claim.remove();
        refusals.events.remove();
        let (lab, stuck) = (&self.lab, node("stuck")?);
        self.rig("stuck")?.bmc.set_line(Line::Up)?;
        lab.control_plane.array().clear_faults().await?;
        for case in ["approval", "storm"] {
            let fence = lab.wait_fence(&node(case)?, |_| true).await?;
            approve(lab, name(&fence)?).await?;
        }
        let fence = lab.wait_fence(&node("release")?, |_| true).await?;
        let_go(lab, name(&fence)?).await?;
        self.resolves("NodeFencingHeld", &[]).await?;
        self.resolves("NodeFencingStuck", &[("node", &stuck)])
            .await?;
        self.resolves("NodeFencingEscalated", &[]).await?;
        self.resolves("NodeFencingAwaitingApproval", &[]).await?;
        self.resolves("NodeFencingReleaseStuck", &[]).await?;
        self.resolves("NodeFencingDetachStuck", &[]).await?;
        for case in ["approval", "stuck", "detach", "release", "storm", "refused"] {
            lab.wait_stage(&node(case)?, "Recovered").await?;
        }
        Ok(())
    }

    async fn the_rest_is_put_right(&self) -> Result<()> {
        for case in ["silent", "stranger", "twin"] {
            self.rig(case)?.bmc.heal()?;
            probe_again(&self.lab, &device(case)?, 15).await?;
        }
        self.taint_spare("-").await?;
        self.strand("-").await?;
        self.mark_spare("-").await?;
        self.admission("create").await?;
        self.all_are_ready_again().await?;
        self.resolves("OutOfServiceTaintOnReadyNode", &[]).await?;
        self.resolves("NodeFencingNodeStranded", &[]).await?;
        self.resolves("FenceDeviceUnreachable", &[]).await?;
        self.resolves("FenceDeviceWrongMachine", &[]).await?;
        self.resolves("FenceDeviceOffWhileRunning", &[]).await?;
        self.resolves("NodesWithoutFenceDevice", &[]).await
    }

    /// The other replica looks at the admission policies when it begins to lead.
    async fn the_leader_dies(&self) -> Result<()> {
        let [first, second] = &self.replicas;
        let (leader, standby) = match first.leads().await? {
            true => (first, second),
            false => (second, first),
        };
        leader.kill()?;
        self.fires("NodeFencingNoLeader", &[]).await?;
        self.fires("NodeFencingReplicasLow", &[]).await?;
        wait_leads(standby, true).await?;
        self.resolves("NodeFencingNoLeader", &[]).await?;
        self.resolves("NodeFencingAdmissionGuardMissing", &[])
            .await?;
        leader.start_again().await?;
        self.resolves("NodeFencingReplicasLow", &[]).await
    }

    /// It is put back by some hundreds of versions. The operator then does nothing for a node that dies.
    async fn etcd_is_put_back(&self) -> Result<()> {
        let plane = &self.lab.control_plane;
        let before = plane.back_up("before")?;
        let spare = node("spare")?;
        // What it has seen must be newer than what it finds when everything is up again.
        let nodes: Api<Node> = Api::all(plane.admin());
        for version in 0..VERSIONS {
            let annotation =
                json!({"metadata": {"annotations": {"lab/version": version.to_string()}}});
            let patch = Patch::Merge(annotation);
            nodes.patch(&spare, &PatchParams::default(), &patch).await?;
        }
        plane.restore(&before).await?;
        self.fires("NodeFencingFrozen", &[]).await?;
        self.power("spare", false)?;
        self.fires("NodeNotReadyNotFenced", &[("node", &spare)])
            .await?;
        ensure!(self.lab.fence_of(&spare).await?.is_none(), "it was fenced");
        for replica in &self.replicas {
            replica.kill()?;
            replica.start_again().await?;
        }
        self.resolves("NodeFencingFrozen", &[]).await?;
        self.resolves("NodeNotReadyNotFenced", &[]).await?;
        self.lab.wait_stage(&spare, "Recovered").await?;
        eventually("nothing but what looks back is left", LIMIT, async || {
            let left = self.prometheus.alerts().await?;
            let looks_back =
                |it: &e2e::prometheus::Alert| LOOK_BACK.iter().any(|(alert, _)| it.is(alert, &[]));
            ensure!(left.iter().all(looks_back), "{left:#?}");
            Ok(())
        })
        .await
    }

    /// What counts over minutes, an hour or a day is over when that is: Prometheus forgets it here.
    pub async fn a_day_goes_by(&self) -> Result<()> {
        for (alert, counter) in LOOK_BACK {
            self.prometheus.forget(counter).await?;
            self.resolves(alert, &[]).await?;
        }
        Ok(())
    }
}

/// So many writes are lost when etcd is put back.
const VERSIONS: u32 = 500;
/// Alerts over an `increase`, and of what.
const LOOK_BACK: [(&str, &str); 5] = [
    (
        "NodeFencingReconcileErrors",
        "node_fencing_reconcile_errors_total",
    ),
    (
        "NodeFencingEventsDropped",
        "node_fencing_events_dropped_total",
    ),
    ("NodeFencingFlapping", "node_fencing_node_incidents_total"),
    (
        "NodeFencingContradiction",
        "node_fencing_contradictions_total",
    ),
    (
        "NodeFencingEarlyReportRefuted",
        "node_fencing_early_reports_refuted_total",
    ),
];
