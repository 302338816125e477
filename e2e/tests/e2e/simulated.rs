//! The simulated nodes and the volume oracle, on the real control plane, without the operator.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::Options;
use e2e::control_plane::pool::{self, Lent};
use e2e::machine::{Ailment, Boot, Machine};
use e2e::simulated::{Fleet, FleetOptions, MachineSpec};
use e2e::timeline::{Entry, Timeline, What};
use e2e::volume::Volumes;
use e2e::volume::oracle::VolumeOracle;
use e2e::workload::{Template, Workloads, node_of, ready_status, wait_node_ready};
use fencing_testbed::eventually::eventually;
use fencing_testbed::moment::Moment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, ResourceExt};
use serde_json::json;

/// Long enough for a busy machine; nothing waits for it when all is well.
const PATIENCE: Duration = Duration::from_secs(120);

/// A control plane with simulated nodes that have power and are Ready.
pub struct Cluster {
    /// Their volumes.
    pub volumes: Arc<Volumes>,
    /// Workloads in namespace `work`.
    pub workloads: Workloads,
    /// What happened, for whoever has to find out why.
    pub timeline: Timeline,
    machines: Vec<Arc<dyn Machine>>,
    _fleet: Fleet,
    /// The control plane.
    pub plane: Lent,
    _directory: tempfile::TempDir,
}

impl Cluster {
    async fn start(
        name: &str,
        specs: Vec<MachineSpec>,
        fleet: FleetOptions,
        options: Options,
    ) -> Result<Self> {
        let plane = pool::take(Options {
            name: name.to_owned(),
            ..options
        })
        .await?;
        let directory = tempfile::tempdir()?;
        let volumes = Volumes::new(directory.path())?;
        let fleet = Fleet::new(plane.admin(), Arc::clone(&volumes), fleet);
        let mut machines = Vec::new();
        for spec in specs {
            machines.push(fleet.add(spec.with_credentials(&plane).await?));
        }
        machines.iter().for_each(|machine| machine.set_power(true));
        for machine in &machines {
            wait_node_ready(plane.admin(), machine.name(), "True", PATIENCE).await?;
        }
        Ok(Self {
            workloads: Workloads::create(plane.admin(), "work").await?,
            timeline: Timeline::start(&plane.admin(), &["work"]).await,
            plane,
            volumes,
            machines,
            _fleet: fleet,
            _directory: directory,
        })
    }

    /// Nodes of these names, on a control plane called so.
    pub async fn of(name: &str, nodes: &[&str]) -> Result<Self> {
        let specs = nodes.iter().map(|node| MachineSpec::new(*node)).collect();
        Self::start(name, specs, FleetOptions::default(), Options::default()).await
    }

    /// The machine of this name.
    pub fn machine(&self, name: &str) -> Result<&dyn Machine> {
        let machine = self.machines.iter().find(|machine| machine.name() == name);
        Ok(machine
            .with_context(|| format!("no machine {name}"))?
            .as_ref())
    }

    /// Starts a StatefulSet that writes, and returns the machine that its pod runs on.
    async fn database(&self) -> Result<&dyn Machine> {
        self.workloads
            .stateful_set("db", &Template::default())
            .await?;
        let pod = self.workloads.wait_running("db-0", PATIENCE).await?;
        self.machine(node_of(&pod))
    }

    /// Waits until this pod's container has written a while: had another one still been writing, it would have shown.
    async fn wait_writes(&self, pod: &Pod) -> Result<()> {
        eventually("the new container writes", PATIENCE, async || {
            let mut writes = self.volumes.writes("work-db")?;
            writes.retain(|write| write.node == node_of(pod));
            ensure!(writes.len() >= 25, "{} times", writes.len());
            Ok(())
        })
        .await
    }

    /// Waits until as many pods as `count` have been seen running.
    async fn wait_running(&self, what: &str, count: usize) -> Result<()> {
        let is_running = |entry: &Entry| matches!(entry.what, What::Running(_));
        eventually(what, PATIENCE, async || {
            let entries = self.timeline.entries();
            let running = entries.iter().filter(|entry| is_running(entry)).count();
            ensure!(running >= count, "{running} of {count}\n{}", self.timeline);
            Ok(())
        })
        .await
    }

    async fn wait_unknown(&self, node: &str) -> Result<Node> {
        wait_node_ready(self.plane.admin(), node, "Unknown", PATIENCE).await
    }

    /// What a human does by hand: the out-of-service taint, and the forced deletion of the pod.
    async fn out_of_service(&self, node: &str, pod: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.plane.admin());
        let mut taints = nodes
            .get(node)
            .await?
            .spec
            .unwrap_or_default()
            .taints
            .unwrap_or_default();
        let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
        taints.push(serde_json::from_value(taint)?);
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        nodes.patch(node, &PatchParams::default(), &patch).await?;
        self.timeline.note(
            "test",
            format!("{node} is declared out of service by hand"),
            false,
        );
        self.workloads.delete_pod(pod, Some(0)).await
    }

    /// Fails if two nodes had a volume at once. Otherwise another test may use the control plane after this one.
    pub async fn check_volumes(&self) -> Result<()> {
        let oracle = VolumeOracle::new(&self.volumes);
        oracle.check_with(&self.plane.array()).await?;
        self.plane.give_back_at_end();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oracle_trips_when_a_partitioned_node_is_force_detached_by_hand() -> Result<()> {
    let cluster = Cluster::of("oracle-trips", &["sim-1", "sim-2"]).await?;
    let old = cluster.database().await?;
    old.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    cluster.wait_unknown(old.name()).await?;
    cluster.check_volumes().await?;
    cluster.out_of_service(old.name(), "db-0").await?;
    let pod = cluster
        .workloads
        .wait_running_elsewhere("db-0", old.name(), PATIENCE)
        .await?;
    cluster.wait_writes(&pod).await?;
    let loss = cluster
        .check_volumes()
        .await
        .expect_err("two nodes write to one volume")
        .to_string();
    eprintln!("{loss}");
    for part in [
        "DATA LOSS on volume work-db",
        old.name(),
        node_of(&pod),
        "FIRST WRONG WRITE",
        "volume attached",
    ] {
        assert!(loss.contains(part), "{part:?} is missing in\n{loss}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oracle_is_silent_when_the_power_was_cut_first() -> Result<()> {
    let cluster = Cluster::of("oracle-silent", &["sim-1", "sim-2"]).await?;
    let old = cluster.database().await?;
    let boot_id = old.boot_id();
    old.set_power(false);
    let dark = cluster.timeline.note(old.name(), "power cut", true);
    cluster.wait_unknown(old.name()).await?;
    cluster.out_of_service(old.name(), "db-0").await?;
    let pod = cluster
        .workloads
        .wait_running_elsewhere("db-0", old.name(), PATIENCE)
        .await?;
    cluster.wait_writes(&pod).await?;
    eprintln!("{}", cluster.timeline);
    VolumeOracle::new(&cluster.volumes).check_silent_since(&boot_id, dark)?;
    cluster.check_volumes().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_needs_a_daemonset_is_not_ready_before_that_runs() -> Result<()> {
    let cluster = Cluster::of("daemonset", &["sim-1"]).await?;
    let machine = cluster.machine("sim-1")?;
    cluster
        .workloads
        .daemon_set("network", &Template::network_plugin())
        .await?;
    cluster.wait_running("the DaemonSet's pod", 1).await?;

    machine.set_power(false);
    cluster.wait_unknown("sim-1").await?;
    let barrier = json!([{"key": "test.nodefencing.io/barrier", "effect": "NoExecute"}]);
    taint(&cluster, "sim-1", &barrier).await?;
    machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/network".to_owned()),
        ..Boot::default()
    });
    machine.set_power(true);
    let nodes: Api<Node> = Api::all(cluster.plane.admin());
    let new_boot = |node: &Node| {
        node.status.as_ref().is_some_and(|status| {
            status
                .node_info
                .as_ref()
                .is_some_and(|info| info.boot_id == machine.boot_id())
        })
    };
    wait_node(&nodes, "sim-1", "report its new boot ID", new_boot).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        ready_status(&nodes.get("sim-1").await?),
        Some("False"),
        "{}",
        cluster.timeline
    );

    taint(&cluster, "sim-1", &json!([])).await?;
    wait_node_ready(cluster.plane.admin(), "sim-1", "True", PATIENCE)
        .await
        .inspect_err(|_| eprintln!("{}", cluster.timeline))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn static_pods_are_mirrored_and_survive_their_deletion() -> Result<()> {
    let spec = MachineSpec {
        static_pods: vec!["etcd".to_owned()],
        ..MachineSpec::new("sim-1")
    };
    let cluster = Cluster::start(
        "static",
        vec![spec],
        FleetOptions::default(),
        Options::default(),
    )
    .await?;
    let pods: Api<Pod> = Api::namespaced(cluster.plane.admin(), "default");
    let runs = |pod: Option<&Pod>| pod.is_some_and(e2e::workload::is_ready);
    let wait = async || -> Result<Pod> {
        let pod = kube::runtime::wait::await_condition(pods.clone(), "etcd-sim-1", runs);
        tokio::time::timeout(PATIENCE, pod)
            .await??
            .context("no mirror pod")
    };
    let first = wait().await?.uid();
    let now = kube::api::DeleteParams {
        grace_period_seconds: Some(0),
        ..Default::default()
    };
    pods.delete("etcd-sim-1", &now).await?;
    ensure!(
        wait().await?.uid() != first,
        "the kubelet should have made a new mirror pod"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_nodes_fit_into_one_process() -> Result<()> {
    let specs = (1..=100).map(|n| MachineSpec {
        zone: Some(format!("z{}", n % 3)),
        ..MachineSpec::new(format!("sim-{n}"))
    });
    let fleet = FleetOptions {
        lease_period: Duration::from_secs(4),
        ..FleetOptions::default()
    };
    let options = Options {
        node_monitor_grace: Duration::from_secs(20),
        ..Options::default()
    };
    let begin = Moment::now();
    let cluster = Cluster::start("hundred", specs.collect(), fleet, options).await?;
    eprintln!(
        "100 nodes Ready after {:.1} s, control plane included",
        Moment::now().seconds_since(begin)
    );
    cluster
        .workloads
        .deployment("many", 100, &Template::default())
        .await?;
    cluster.wait_running("the Deployment's pods", 100).await?;
    let dark: Vec<_> = cluster.machines.iter().take(30).collect();
    dark.iter().for_each(|machine| machine.set_power(false));
    for machine in &dark {
        wait_node_ready(cluster.plane.admin(), machine.name(), "Unknown", PATIENCE).await?;
    }
    let ready = Api::<Node>::all(cluster.plane.admin())
        .list(&Default::default())
        .await?;
    assert_eq!(
        ready
            .iter()
            .filter(|node| ready_status(node) == Some("True"))
            .count(),
        70
    );
    Ok(())
}

async fn taint(cluster: &Cluster, node: &str, taints: &serde_json::Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    Api::<Node>::all(cluster.plane.admin())
        .patch(node, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn wait_node(
    nodes: &Api<Node>,
    name: &str,
    what: &str,
    condition: impl Fn(&Node) -> bool,
) -> Result<()> {
    let holds = |node: Option<&Node>| node.is_some_and(&condition);
    let seen = tokio::time::timeout(
        PATIENCE,
        kube::runtime::wait::await_condition(nodes.clone(), name, holds),
    )
    .await;
    seen.with_context(|| format!("{name} should {what}"))??;
    Ok(())
}
