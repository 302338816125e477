//! Two replicas: one fences, the other stands by. Whatever befalls the leader, and wherever it is in a fence, the other one finishes it, and
//! what the first still has on its way, or does when it comes back, changes nothing.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Setup, available_to_test};
use e2e::machine::Ailment;
use e2e::operator::{self, Operator};
use e2e::point::{Held, Point};
use e2e::proxy::{Matcher, Record};
use e2e::real::Wire;
use e2e::taints;
use fencing_testbed::eventually::eventually;
use serde_json::json;

use crate::scene::{POD, Scene};

/// What befalls the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Its machine loses its power, or the kernel kills it.
    Killed,
    /// It stands still (SIGSTOP), and goes on when all is over.
    Frozen,
    /// The kernel loses every packet between it and the API server until all is over; it reaches the devices as before.
    Cut,
}

/// Two machines and the leader, which can be lost.
struct Stage {
    scene: Scene,
    loss: Loss,
    /// Between the leader and the API server, where it is to be cut.
    wire: Option<Wire>,
}

impl Stage {
    /// `None` where there are no network namespaces to cut a wire with.
    async fn set(mode: &str, loss: Loss) -> Result<Option<Self>> {
        if loss == Loss::Cut && !available_to_test(Kind::Real, "replicas")? {
            return Ok(None);
        }
        let lab = Lab::start(Setup::new("replicas", 2)).await?;
        let (proxy, wire) = if loss == Loss::Cut {
            let (proxy, wire) = lab.proxy_behind_a_wire().await?;
            (proxy, Some(wire))
        } else {
            (lab.proxy()?, None)
        };
        let scene = Scene::behind(proxy, lab, mode, json!({})).await?;
        Ok(Some(Self { scene, loss, wire }))
    }

    fn strike(&self) -> Result<()> {
        match (self.loss, &self.wire) {
            (Loss::Killed, _) => self.scene.operator.kill(),
            (Loss::Frozen, _) => self.scene.operator.pause(),
            (Loss::Cut, wire) => wire.as_ref().context("no wire")?.cut(true),
        }
    }

    /// It is over: the replica is there again, and what it had under way goes on.
    async fn heal(&self) -> Result<()> {
        match (self.loss, &self.wire) {
            (Loss::Killed, _) => self.scene.operator.start_again().await,
            (Loss::Frozen, _) => self.scene.operator.resume(),
            (Loss::Cut, wire) => wire.as_ref().context("no wire")?.cut(false),
        }
    }
}

async fn standby(lab: &Lab) -> Result<Operator> {
    standby_by(lab, None).await
}

/// The same, which finds the API server there.
pub async fn standby_by(lab: &Lab, server: Option<String>) -> Result<Operator> {
    let options = operator::Options {
        name: "standby".to_owned(),
        node_name: "lab-standby-host".to_owned(),
        server,
        ..operator::Options::default()
    };
    lab.operator_with(options).await
}

/// Waits until it has the Lease, or has it no more.
pub async fn wait_leads(operator: &Operator, leads: bool) -> Result<()> {
    eventually(&format!("leads: {leads}"), LIMIT, async || {
        let now = operator.leads().await?;
        ensure!(now == leads, "the metrics say {now}");
        Ok(())
    })
    .await
}

async fn taken_over(point: Point, loss: Loss) -> Result<()> {
    let Some(stage) = Stage::set(point.mode(), loss).await? else {
        return Ok(());
    };
    let scene = &stage.scene;
    let standby = standby(&scene.lab).await?;
    wait_leads(&scene.operator, true).await?;
    wait_leads(&standby, false).await?;

    let held = scene.strike_and_hold(point).await?;
    let struck = Instant::now();
    stage.strike()?;
    // The last that the leader sent lands at once, but for a write that comes late, and a detach that hangs for both of them.
    let is_late =
        matches!(point, Point::PatchInFlight | Point::Detaching) || point.outlived().is_some();
    let late = if is_late {
        Some(held)
    } else {
        held.release().await?;
        None
    };
    wait_leads(&standby, true).await?;
    let took = struck.elapsed().as_secs_f64();
    eprintln!("{point:?}, {loss:?}: the standby leads after {took:.1} s (a lease is 15 s)");
    finished_by_the_standby(scene, point, late).await?;

    let writes = scene.lab.writes().await?.len();
    let requests = scene.proxy.log().len();
    stage.heal().await?;
    // It is there again: it asks for the Lease, and is answered.
    eventually("it looks at the Lease again", LIMIT, async || {
        let log = scene.proxy.log();
        let mut since = log.iter().skip(requests);
        let is_lease = |record: &Record| {
            record.upstream_status == Some(200)
                && record.seen.path.ends_with("/leases/node-fencing-operator")
        };
        ensure!(since.any(is_lease), "not yet");
        Ok(())
    })
    .await?;
    wait_leads(&scene.operator, false).await?;
    let history = scene.lab.history(&scene.node).await?;
    let set = taints::set(&history).len();
    ensure!(set == 1, "tainted {set} times: {history:#?}");
    ensure!(
        standby.leads().await?,
        "the Lease has come back to the one that was lost"
    );
    let since = scene.lab.writes().await?.split_off(writes);
    let on_nodes: Vec<_> = since
        .iter()
        .filter(|write| e2e::lab::resource(write) == "nodes")
        .collect();
    ensure!(
        on_nodes.is_empty(),
        "a Node was written after all was over: {on_nodes:#?}"
    );
    scene.verdict().await
}

async fn finished_by_the_standby(scene: &Scene, point: Point, late: Option<Held>) -> Result<()> {
    if let Some(held) = late {
        if point == Point::PatchInFlight {
            scene.another_claim(1).await?;
        }
        if let Some(write) = point.outlived() {
            arrives_after_the_end(scene, held, &write).await?;
        } else {
            held.release().await?;
        }
    }
    scene.finished_once(point).await
}

/// What the lost leader had on its way arrives when another one has finished the fence, and the pod runs elsewhere under its old name: it is
/// refused, and what is there now stays.
async fn arrives_after_the_end(scene: &Scene, held: Held, write: &Matcher) -> Result<()> {
    scene.lab.wait_stage(&scene.node, "Recovered").await?;
    let pods = &scene.lab.workloads;
    let moved = pods.wait_running_elsewhere(POD, &scene.node, LIMIT).await?;
    held.release().await?;
    let landed = scene.proxy.wait_for(LIMIT, |record| {
        write.matches(&record.seen) && record.upstream_status.is_some()
    });
    let status = landed.await?.upstream_status;
    ensure!(
        status.is_some_and(|status| (400..500).contains(&status)),
        "what came too late was answered {status:?}"
    );
    let there = pods.wait_running(POD, LIMIT).await?;
    ensure!(
        there.metadata.uid == moved.metadata.uid,
        "the pod that had moved is another one now"
    );
    Ok(())
}

macro_rules! at_each_point {
    ($($name:ident: $loss:ident at $point:ident;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            taken_over(Point::$point, Loss::$loss).await
        }
    )* };
}

at_each_point! {
    leader_killed_while_detected: Killed at Detected;
    leader_killed_while_claimed: Killed at Claimed;
    leader_killed_while_quiesced: Killed at Quiesced;
    leader_killed_while_intent_stored: Killed at IntentStored;
    leader_killed_while_off_sent: Killed at OffSent;
    leader_killed_while_proved: Killed at Proved;
    leader_killed_while_evicting: Killed at Evicting;
    leader_killed_while_patch_in_flight: Killed at PatchInFlight;
    leader_killed_while_tainted: Killed at Tainted;
    leader_killed_while_detaching: Killed at Detaching;
    leader_killed_while_releasing: Killed at Releasing;
    leader_killed_while_closing: Killed at Closing;
    leader_frozen_while_detected: Frozen at Detected;
    leader_frozen_while_claimed: Frozen at Claimed;
    leader_frozen_while_quiesced: Frozen at Quiesced;
    leader_frozen_while_intent_stored: Frozen at IntentStored;
    leader_frozen_while_off_sent: Frozen at OffSent;
    leader_frozen_while_proved: Frozen at Proved;
    leader_frozen_while_evicting: Frozen at Evicting;
    leader_frozen_while_patch_in_flight: Frozen at PatchInFlight;
    leader_frozen_while_tainted: Frozen at Tainted;
    leader_frozen_while_detaching: Frozen at Detaching;
    leader_frozen_while_releasing: Frozen at Releasing;
    leader_frozen_while_closing: Frozen at Closing;
    leader_cut_off_while_detected: Cut at Detected;
    leader_cut_off_while_claimed: Cut at Claimed;
    leader_cut_off_while_quiesced: Cut at Quiesced;
    leader_cut_off_while_intent_stored: Cut at IntentStored;
    leader_cut_off_while_off_sent: Cut at OffSent;
    leader_cut_off_while_proved: Cut at Proved;
    leader_cut_off_while_evicting: Cut at Evicting;
    leader_cut_off_while_patch_in_flight: Cut at PatchInFlight;
    leader_cut_off_while_tainted: Cut at Tainted;
    leader_cut_off_while_detaching: Cut at Detaching;
    leader_cut_off_while_releasing: Cut at Releasing;
    leader_cut_off_while_closing: Cut at Closing;
}

/// Nobody waits for a lease that was given back: a new version takes over from the old one in seconds, and the old one has ended in time (L8).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_to_end_gives_its_lease_back() -> Result<()> {
    let lab = Lab::start(e2e::lab::Setup::new("rollout", 1)).await?;
    let first = lab.operator().await?;
    wait_leads(&first, true).await?;
    let second = standby(&lab).await?;
    wait_leads(&second, false).await?;
    let told = Instant::now();
    first.stop(std::time::Duration::from_secs(5)).await?;
    wait_leads(&second, true).await?;
    ensure!(
        told.elapsed() < std::time::Duration::from_secs(15),
        "it waited for the end of the lease"
    );
    eprintln!(
        "a successor leads {:.1} s after SIGTERM",
        told.elapsed().as_secs_f64()
    );
    lab.verdict().await
}

/// F15: the times in a Lease mean nothing, and neither does who is said to have it: what counts is that nobody renews it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_deleted_or_forged_is_taken_again() -> Result<()> {
    let lab = Lab::start(e2e::lab::Setup::new("forged", 1)).await?;
    let operator = lab.operator().await?;
    wait_leads(&operator, true).await?;
    let kubectl = &lab.control_plane;
    let lease = ["lease", "node-fencing-operator", "-n", operator::NAMESPACE];
    kubectl
        .kubectl_text(&[&["delete"], &lease[..]].concat())
        .await?;
    eventually("the Lease is there again", LIMIT, async || {
        kubectl.kubectl_text(&[&["get"], &lease[..]].concat()).await
    })
    .await?;
    ensure!(operator.leads().await?, "nobody else was there to lead");

    let forged =
        r#"{"spec":{"holderIdentity":"nobody","renewTime":"2099-01-01T00:00:00.000000Z"}}"#;
    let patch = ["--type", "merge", "-p", forged];
    kubectl
        .kubectl_text(&[&["patch"], &lease[..], &patch].concat())
        .await?;
    wait_leads(&operator, false).await?;
    wait_leads(&operator, true).await?;
    let holder = ["-o", "jsonpath={.spec.holderIdentity}"];
    let holder = kubectl
        .kubectl_text(&[&["get"], &lease[..], &holder].concat())
        .await?;
    ensure!(holder == "operator", "{holder} has it");
    lab.verdict().await
}

/// A leader cannot fence the node that it runs on, and one whose kubelet hangs would go on renewing its Lease: it makes room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_own_node_is_to_be_fenced_makes_room() -> Result<()> {
    let lab = Lab::start(e2e::lab::Setup::new("own-node", 2)).await?;
    let node = lab.rig(1).machine.name();
    let first = lab.operator_with(operator::Options {
        node_name: node.to_owned(),
        ..operator::Options::default()
    });
    let first = first.await?;
    lab.wait_protected().await?;
    lab.policy("PowerOff", json!({})).await?;
    let second = standby(&lab).await?;
    wait_leads(&first, true).await?;
    lab.rig(1).machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    wait_leads(&second, true).await?;
    lab.wait_stage(node, "Recovered").await?;
    ensure!(!first.leads().await? && second.leads().await?);
    lab.verdict().await
}
