//! A storm: ninety machines lose their power in the same moment, each with a volume, under two replicas of the operator. Each of them is out of
//! service soon, its taint goes with its VolumeAttachment, its database runs elsewhere, and nothing of that costs the leader its Lease.
//!
//! L1 to L8 are held against the records. For L5 the BMC of one more dead machine hangs, and for L6 others write one of the ninety Nodes ten times a
//! second. When the storm is over the leader is killed beside the incident of the BMC that hung, which the other replica resumes (L4); while it is at
//! work, that one has to end (L8).
//!
//! The kubelets are simulated, with BMCs of the lab's own; the VolumeAttachments are those of the real attach/detach controller, and the real
//! external-attacher and the lab's storage detach them. `-- all_at_once:: --nocapture` prints what it took. It needs the machine for itself.

mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::audit::Request;
use e2e::bench::scale::terms_lost;
use e2e::control_plane::Component;
use e2e::lab::{Lab, Setup, has_taint, stage};
use e2e::operator::{NAMESPACE, Operator, Options};
use e2e::proxy::writes::{OUT_OF_SERVICE, QUARANTINE};
use e2e::workload::{Template, is_ready, node_of};
use fencing_testbed::eventually::eventually;
use fencing_testbed::https::Line;
use futures::{TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{interval, sleep};

use self::records::{Told, within_bounds};
use crate::dark_rack::lease;
use crate::replicas::wait_leads;

/// Machines that lose their power.
const DEAD: usize = 90;
/// Machines that keep it, and take the pods over.
const SURVIVORS: usize = 4;
/// Objects that are made at the same time.
const WRITES: usize = 16;
/// Between two looks at everything.
const PAUSE: Duration = Duration::from_secs(1);
/// Until everything is as it should be: how long each part took is asserted where it is a bound.
const PATIENCE: Duration = Duration::from_secs(400);

/// Others write a Node so often (L6).
const WRITTEN_EVERY: Duration = Duration::from_millis(100);
/// Another replica takes a Lease that was not renewed for so long.
const LEASE_SECONDS: f64 = 15.0;
/// L4: the Lease, and 10 s.
const TAKEOVER_MAX: Duration = Duration::from_secs(25);
/// L8: from SIGTERM until the last effect, and the end of the process.
const EFFECTS_END: Duration = Duration::from_secs(1);
const PROCESS_END: Duration = Duration::from_secs(5);

fn setup() -> Setup {
    let mut setup = Setup::new("all-at-once", DEAD + SURVIVORS + 1).alone();
    // So many kubelets with a second between two signs of life would be most of what this machine does.
    setup.control_plane.node_monitor_grace = Duration::from_secs(20);
    setup.fleet.lease_period = Duration::from_secs(4);
    setup.fleet.lease_duration_seconds = 16;
    setup.fleet.status_period = Duration::from_secs(60);
    // 20 and 5 requests a second are what a cluster of any size begins with, and what this storm would be waiting for most of the time.
    for component in [Component::ControllerManager, Component::CsiAttacher] {
        for flag in ["--kube-api-qps=500", "--kube-api-burst=500"] {
            let argument = (component, flag.to_owned());
            setup.control_plane.extra_arguments.push(argument);
        }
    }
    setup
}

fn database(number: usize) -> String {
    format!("db-{number}")
}

/// The names of VolumeAttachments, by their nodes.
type Volumes = BTreeMap<String, Vec<String>>;

async fn attached(lab: &Lab) -> Result<Volumes> {
    let attachments: Api<VolumeAttachment> = Api::all(lab.control_plane.admin());
    let mut volumes = Volumes::new();
    for attachment in attachments.list(&ListParams::default()).await?.items {
        if attachment.status.as_ref().is_some_and(|it| it.attached) {
            let name = attachment.name_any();
            let of_node = volumes.entry(attachment.spec.node_name).or_default();
            of_node.push(name);
        }
    }
    Ok(volumes)
}

/// Waits until the look at everything finds it as it should be.
async fn until(what: &str, mut look: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    eventually(what, PATIENCE, async || {
        let seen = look().await;
        if seen.is_err() {
            sleep(PAUSE).await;
        }
        seen
    })
    .await
}

/// All databases run, on these nodes.
async fn run_on(lab: &Lab, nodes: &BTreeSet<String>) -> Result<()> {
    until("all databases run", async || {
        let pods = lab.workloads.api::<Pod>();
        let pods = pods.list(&ListParams::default()).await?.items;
        let running = pods
            .iter()
            .filter(|it| is_ready(it) && nodes.contains(node_of(it)));
        let running = running.count();
        ensure!(running == DEAD, "{running} of {DEAD}");
        Ok(())
    })
    .await
}

async fn replica(lab: &Lab, name: &str) -> Result<Operator> {
    let unlimited = "--max-concurrent-fences=0".to_owned();
    let options = Options {
        name: name.to_owned(),
        node_name: format!("lab-{name}-host"),
        arguments: vec![unlimited],
        ..Options::default()
    };
    lab.operator_with(options).await
}

struct Scene {
    lab: Lab,
    leader: Operator,
    standby: Operator,
    dead: BTreeSet<String>,
    survivors: BTreeSet<String>,
    /// The node whose machine dies with the others, and whose BMC hangs. It has no pod.
    silent: String,
}

impl Scene {
    /// Each machine that will die has a database with a volume.
    async fn prepare() -> Result<Self> {
        let lab = Lab::start(setup()).await?;
        let names = lab.rigs.iter().map(|rig| rig.machine.name().to_owned());
        let names: Vec<String> = names.collect();
        let (dead, others) = names.split_at(DEAD);
        let (silent, survivors) = others.split_last().context("the survivors")?;
        for other in others {
            lab.schedulable(other, false).await?;
        }
        let leader = replica(&lab, "operator").await?;
        wait_leads(&leader, true).await?;
        let standby = replica(&lab, "standby").await?;
        lab.wait_protected().await?;
        let fence = json!({"verification": {"consecutiveOffReads": 2, "readPeriodSeconds": 1}});
        let changes = json!({"fence": fence, "budget": {"maxConcurrent": 100}});
        lab.policy("ConfirmOnly", changes).await?;
        let databases = stream::iter((0..DEAD).map(Ok::<_, anyhow::Error>));
        let template = Template::default();
        let make = async |number| {
            let name = database(number);
            let made = lab.workloads.stateful_set(&name, &template);
            made.await.map(drop)
        };
        databases.try_for_each_concurrent(WRITES, make).await?;
        let scene = Self {
            dead: dead.iter().cloned().collect(),
            survivors: survivors.iter().cloned().collect(),
            silent: silent.clone(),
            lab,
            leader,
            standby,
        };
        // The scheduler fills the emptiest node first.
        run_on(&scene.lab, &scene.dead).await?;
        for other in others {
            scene.lab.schedulable(other, true).await?;
        }
        Ok(scene)
    }

    async fn all_recover(&self) -> Result<()> {
        until("all incidents have ended", async || {
            let fences = self.lab.api("NodeFence");
            let fences = fences.list(&ListParams::default()).await?.items;
            let ended = fences.iter().filter(|it| stage(it) == "Recovered").count();
            ensure!(ended == DEAD, "{ended} of {DEAD}");
            Ok(())
        })
        .await
    }

    /// All machines but the survivors lose their power, the BMC of one hangs, and others write this Node until the incidents of the rest have ended.
    async fn strike(&self, written: &str) -> Result<()> {
        let lab = &self.lab;
        lab.rig_of(&self.silent)?.bmc.set_line(Line::BlackHole)?;
        for rig in &lab.rigs {
            if !self.survivors.contains(rig.machine.name()) {
                rig.machine.set_power(false);
            }
        }
        tokio::select! {
            recovered = self.all_recover() => recovered?,
            failed = write_often(lab, written) => match failed? {},
        }
        let silent = lab.fence_of(&self.silent).await?;
        ensure!(silent.is_some(), "no incident of the BMC that hangs");
        ensure!(lab.times_tainted(&self.silent).await? == 0, "it answered");
        Ok(())
    }

    /// The leader renewed its Lease all the while, and nobody else wrote to it.
    async fn the_lease_was_kept(&self, since: Timestamp) -> Result<()> {
        let audit = self.lab.control_plane.audit();
        let of_leader = audit.requests(|it| {
            let of = &it.object_ref;
            let is_lease = of.resource == "leases" && of.namespace == NAMESPACE;
            is_lease && it.is_write() && it.received >= since
        })?;
        let failed: Vec<_> = of_leader.iter().filter(|it| !it.succeeded()).collect();
        ensure!(failed.is_empty(), "the Lease was not renewed: {failed:?}");
        let times = [since]
            .into_iter()
            .chain(of_leader.iter().map(|it| it.received));
        let times: Vec<Timestamp> = times.chain([Timestamp::now()]).collect();
        let gaps = times
            .windows(2)
            .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64());
        let longest = gaps.fold(0.0, f64::max);
        println!(
            "the Lease was renewed {} times, after {longest:.1} s at most",
            of_leader.len()
        );
        ensure!(longest < LEASE_SECONDS, "not renewed for {longest:.1} s");
        for operator in [&self.leader, &self.standby] {
            ensure!(terms_lost(operator)? == 0, "{:?}", operator.log());
            operator.check()?;
        }
        ensure!(self.leader.leads().await? && !self.standby.leads().await?);
        Ok(())
    }

    /// L4: the leader dies, and the other replica resumes the incident that is open, without a power command: the mode is ConfirmOnly.
    async fn another_resumes(&self) -> Result<()> {
        let lab = &self.lab;
        self.leader.kill()?;
        let died = Instant::now();
        lab.rig_of(&self.silent)?.bmc.heal()?;
        eventually("the other replica leads", TAKEOVER_MAX, async || {
            ensure!(self.standby.leads().await?, "it stands by");
            Ok(())
        })
        .await?;
        let took = died.elapsed().as_secs_f64();
        println!("the other replica leads {took:.1} s after the leader's death");
        let is_out = |node: &Node| has_taint(node, OUT_OF_SERVICE) || has_taint(node, QUARANTINE);
        lab.wait_node(&self.silent, "out of service", is_out)
            .await?;
        let mut rigs = lab.rigs.iter();
        let is_commanded = rigs.any(|rig| !rig.bmc.power_commands().is_empty());
        ensure!(!is_commanded, "a machine was turned off");
        Ok(())
    }

    /// L8: SIGTERM while it is at work.
    async fn the_other_ends(&self) -> Result<()> {
        let signalled = Timestamp::now();
        self.standby.stop(PROCESS_END).await?;
        let writes = self.lab.writes().await?;
        let late = writes
            .iter()
            .filter(|it| it.received > signalled + EFFECTS_END);
        let late: Vec<_> = late.map(Request::summary).collect();
        ensure!(
            late.is_empty(),
            "more than {EFFECTS_END:?} after SIGTERM: {late:#?}"
        );
        let (holder, _) = lease(&self.lab).await?;
        let is_free = holder.is_none_or(|it| it.is_empty());
        ensure!(is_free, "the Lease was not given back");
        Ok(())
    }
}

/// Others write this Node as long as this is polled.
async fn write_often(lab: &Lab, node: &str) -> Result<Infallible> {
    let nodes: Api<Node> = Api::all(lab.control_plane.admin());
    let (mut ticks, mut count) = (interval(WRITTEN_EVERY), 0_u32);
    loop {
        ticks.tick().await;
        count += 1;
        let patch = json!({"metadata": {"annotations": {"lab/written": count.to_string()}}});
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ninety_nodes_die_at_once_and_the_leader_keeps_its_lease() -> Result<()> {
    let scene = Scene::prepare().await?;
    let Scene { lab, dead, .. } = &scene;
    let volumes = attached(lab).await?;
    ensure!(volumes.keys().eq(dead), "each has a volume: {volumes:?}");

    let (leads, since) = (lease(lab).await?, Timestamp::now());
    let written = dead.first().context("a dead node")?;
    scene.strike(written).await?;
    run_on(lab, &scene.survivors).await?;
    let left = attached(lab).await?;
    ensure!(left.keys().all(|node| !dead.contains(node)), "{left:?}");
    ensure!(lease(lab).await? == leads, "another leader: {leads:?}");
    scene.the_lease_was_kept(since).await?;
    let log = Told::since(lab, since).await?;
    within_bounds(&log, lab, since, &volumes)?;
    log.others_wrote(lab, since, written)?;
    scene.another_resumes().await?;
    scene.the_other_ends().await?;
    lab.verdict().await
}
