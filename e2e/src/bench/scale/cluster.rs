//! A cluster of this size: Nodes, Leases and VolumeAttachments that stand still but for reports, and machines whose power is off when they are told.

use crate::bench::policy;
use crate::bench::rest::{self, NAME, create};
use crate::control_plane::Component;
use crate::lab::{Lab, has_taint};
use crate::operator::{self, Operator};
use crate::proxy::writes::OUT_OF_SERVICE;
use crate::volume::journal::Happening;
use anyhow::{Result, ensure};
use fencing_testbed::bench::emulators::Emulators;
use fencing_testbed::moment::Moment;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// VolumeAttachments of each Node, where nothing else is said.
const VOLUMES: usize = 4;
/// Nodes that have a BMC: those that die, and some beside them.
const DEVICES_MAX: usize = 500;
/// `budget.maxConcurrent` is 100 at most, so that a larger storm is one of several policies.
const POLICIES: usize = DEVICES_MAX / 100;
/// Label of each Node: which policy is its.
const GROUP: &str = "bench.nodefencing.io/group";
/// Label of the Nodes that have a BMC.
const DIES: &str = "bench.nodefencing.io/dies";
/// Between two looks at a Node.
const PAUSE: Duration = Duration::from_millis(250);
/// Until all Nodes of a storm are as they should be.
const STORM_MAX: Duration = Duration::from_secs(300);

/// How large.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Nodes with a Redfish BMC.
    pub devices: usize,
    /// VolumeAttachments of each Node.
    pub volumes_each: usize,
}

impl Size {
    /// The benchmark's, with so many Nodes.
    pub fn of(nodes: usize) -> Self {
        Self {
            nodes,
            devices: nodes.min(DEVICES_MAX),
            volumes_each: VOLUMES,
        }
    }

    /// VolumeAttachments.
    pub fn volumes(self) -> usize {
        self.nodes * self.volumes_each
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (volumes, devices) = (self.volumes(), self.devices);
        write!(
            f,
            "{} nodes, {volumes} VolumeAttachments, {devices} BMCs",
            self.nodes
        )
    }
}

/// How a cluster is set up.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Beginning of the name of its directory.
    pub name: &'static str,
    /// How large it is.
    pub size: Size,
    /// Whether it has a kube-controller-manager once its objects are made.
    pub controllers: bool,
    /// The lab's command line, which emulates the BMCs.
    pub emulator: PathBuf,
}

/// The lab, with its objects and devices.
pub struct Cluster {
    /// The control plane.
    pub lab: Lab,
    emulators: Emulators,
    size: Size,
    /// Nodes that have died by now: each dies once.
    dead: usize,
}

impl Cluster {
    /// Everything but the operator.
    pub async fn start(setting: Setting) -> Result<Self> {
        let size = setting.size;
        let mut setup = rest::setup(setting.name);
        // These volumes are only VolumeAttachments, and it is this benchmark that detaches them.
        setup.control_plane.controllers_off = vec!["persistentvolume-attach-detach-controller"];
        let lab = Lab::start(setup).await?;
        let emulators = Emulators::start_by(&setting.emulator, 0, size.devices).await?;
        rest::secrets(&lab, &emulators.fleet.ca_pem).await?;
        let client = lab.control_plane.admin();
        let nodes = (0..size.nodes).map(|number| {
            let mut node = rest::node(number, &uuid(&emulators, number));
            let labels = &mut node["metadata"]["labels"];
            labels[GROUP] = json!((number % POLICIES).to_string());
            if number < size.devices {
                labels[DIES] = json!("");
            }
            node
        });
        create(&Api::<Node>::all(client.clone()), nodes).await?;
        let leases = Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
        let now = Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string();
        let lease =
            |number| json!({"metadata": {"name": rest::name(number)}, "spec": {"renewTime": now}});
        create(&leases, (0..size.nodes).map(lease)).await?;
        let attachments = Api::<VolumeAttachment>::all(client.clone());
        let all = (0..size.nodes)
            .flat_map(|number| (0..size.volumes_each).map(move |it| attachment(number, it)));
        create(&attachments, all).await?;
        rest::until_still(&Api::all(client)).await?;
        if !setting.controllers {
            lab.control_plane
                .stop_component(Component::ControllerManager)?;
        }
        let this = Self {
            lab,
            emulators,
            size,
            dead: 0,
        };
        let on = |number| Happening::PowerOn {
            node: rest::name(number),
            boot: uuid(&this.emulators, number),
        };
        this.happened(0..size.devices, on);
        Ok(this)
    }

    /// Notes it for the judge.
    fn happened(&self, machines: Range<usize>, what: impl Fn(usize) -> Happening) {
        let (journal, at) = (self.lab.volumes.journal(), Moment::now());
        machines.for_each(|number| journal.record(at, what(number)));
    }

    /// Starts the operator, and waits until it knows that it can read On of each machine.
    pub async fn operator(&self) -> Result<Operator> {
        let options = operator::Options::default();
        self.operator_with(options, &policy::shortest()).await
    }

    /// The same with these options, and with policies that change this of [`Lab::policy`]. No budget holds a fence.
    pub async fn operator_with(
        &self,
        mut options: operator::Options,
        changes: &Value,
    ) -> Result<Operator> {
        for group in 0..POLICIES {
            let mut spec = changes.clone();
            spec["nodeSelector"] = json!({"matchLabels": {GROUP: group.to_string()}});
            spec["budget"] = json!({"maxConcurrent": 100});
            let name = format!("{NAME}-{group}");
            self.lab.policy_named(&name, "ConfirmOnly", spec).await?;
        }
        let unlimited = "--max-concurrent-fences=0".to_owned();
        options.arguments.push(unlimited);
        let operator = self.lab.operator_with(options).await?;
        let devices = self.lab.api("FenceDevice");
        let redfish = &self.emulators.fleet.redfish;
        let objects = redfish.iter().enumerate().map(|(number, bmc)| {
            let mut device = rest::device(number, rest::redfish(bmc));
            device["spec"]
                .as_object_mut()
                .map(|spec| spec.remove("probe"));
            device
        });
        create(&devices, objects).await?;
        rest::until_ready(&devices, self.size.devices).await?;
        Ok(operator)
    }

    /// Each Node reports once in this time, spread evenly, until it is aborted.
    pub fn beat(&self, period: Duration) -> JoinHandle<()> {
        let nodes: Api<Node> = Api::all(self.client());
        let (first, count) = (self.size.devices.min(self.size.nodes / 2), self.size.nodes);
        let pause = period / u32::try_from(count).unwrap_or(u32::MAX);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(pause);
            // Those that are to die report nothing, so that no report comes after their end.
            for number in (first..count).cycle() {
                ticks.tick().await;
                let conditions = [
                    json!({"type": "Ready", "status": "True", "lastHeartbeatTime": seconds(Timestamp::now())}),
                ];
                let patch = json!({"status": {"conditions": conditions}});
                let name = rest::name(number);
                let _ = nodes
                    .patch_status(&name, &PatchParams::default(), &Patch::Strategic(&patch))
                    .await;
            }
        })
    }

    /// Are so many machines left that have not died?
    pub fn has_left(&self, count: usize) -> bool {
        self.dead + count <= self.size.devices
    }

    /// So many machines lose their power, and their Nodes are said to be unreachable. Which, and since when.
    pub async fn cut(&mut self, count: usize) -> Result<(Range<usize>, Timestamp)> {
        ensure!(
            self.has_left(count),
            "only {} machines are left",
            self.size.devices - self.dead
        );
        let range = self.dead..self.dead + count;
        self.dead = range.end;
        let since = Timestamp::now();
        let client = self.client();
        self.emulators.turn_off(range.clone()).await?;
        let off = |number| Happening::PowerOff {
            node: rest::name(number),
            boot: uuid(&self.emulators, number),
        };
        self.happened(range.clone(), off);
        each(range.clone(), |number| {
            condition(client.clone(), number, "Unknown", since, None)
        })
        .await?;
        Ok((range, since))
    }

    /// The network of all BMCs is lost, or there again.
    pub async fn set_dark(&mut self, is_dark: bool) -> Result<()> {
        self.emulators.set_dark(is_dark).await
    }

    /// Waits until each of these Nodes is so.
    pub async fn wait(
        &self,
        range: &Range<usize>,
        what: &str,
        is_so: impl Fn(&Node) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        let nodes: Api<Node> = Api::all(self.client());
        for number in range.clone() {
            let name = rest::name(number);
            while !is_so(&nodes.get(&name).await?) {
                ensure!(begun.elapsed() < STORM_MAX, "{name} is not {what}");
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// The volumes of a Node detach as soon as it is out of service, until this is aborted.
    pub fn detach(&self) -> JoinHandle<()> {
        let (client, first, volumes) = (self.client(), self.dead, self.size.volumes_each);
        tokio::spawn(async move {
            let attachments = Api::<VolumeAttachment>::all(client.clone());
            let config = watcher::Config::default().labels(DIES);
            let nodes = watcher(Api::<Node>::all(client), config).default_backoff();
            let mut nodes = std::pin::pin!(nodes.applied_objects());
            let mut done: BTreeSet<usize> = (0..first).collect();
            while let Some(node) = nodes.next().await {
                let Ok(node) = node else { continue };
                let name = node.name_any();
                let number = name.rsplit('-').next().and_then(|it| it.parse().ok());
                let Some(number) = number.filter(|_| has_taint(&node, OUT_OF_SERVICE)) else {
                    continue;
                };
                if !done.insert(number) {
                    continue;
                }
                for volume in 0..volumes {
                    let name = volume_name(number, volume);
                    // The storm does not end where one stays.
                    let _ = attachments.delete(&name, &DeleteParams::default()).await;
                }
            }
        })
    }

    /// Their machines boot.
    pub async fn boot(&self, range: &Range<usize>) -> Result<()> {
        let client = self.client();
        let now = Timestamp::now();
        each(range.clone(), |number| {
            condition(
                client.clone(),
                number,
                "True",
                now,
                Some(format!("second-boot-{number}")),
            )
        })
        .await
    }

    fn client(&self) -> Client {
        self.lab.control_plane.admin()
    }
}

/// The UUID of its machine: a Node without a BMC is not asked for one.
fn uuid(emulators: &Emulators, number: usize) -> String {
    let bmc = emulators.fleet.redfish.get(number);
    let made_up = || format!("5c4c4544-0042-3510-8054-{number:012x}");
    bmc.map_or_else(made_up, |bmc| bmc.system_uuid.clone())
}

fn volume_name(node: usize, volume: usize) -> String {
    format!("csi-{node:04}-{volume}")
}

fn attachment(node: usize, volume: usize) -> Value {
    let name = volume_name(node, volume);
    let source = json!({"persistentVolumeName": format!("pv-{node:04}-{volume}")});
    json!({
        "metadata": {"name": name},
        "spec": {"attacher": "scale.csi", "nodeName": rest::name(node), "source": source},
        "status": {"attached": true},
    })
}

/// As Kubernetes writes it, in whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes the condition Ready of a Node, and with it the boot that the Node is in.
async fn condition(
    client: Client,
    number: usize,
    status: &str,
    since: Timestamp,
    boot: Option<String>,
) -> Result<()> {
    let time = seconds(since);
    let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": time});
    let mut patch = json!({"status": {"conditions": [ready]}});
    if let Some(boot) = boot {
        patch["status"]["nodeInfo"] = json!({"bootID": boot});
    }
    let nodes: Api<Node> = Api::all(client);
    let params = PatchParams::default();
    nodes
        .patch_status(&rest::name(number), &params, &Patch::Strategic(&patch))
        .await?;
    Ok(())
}

/// Does this for each of them, some at the same time.
async fn each<F: Future<Output = Result<()>>>(
    range: Range<usize>,
    what: impl Fn(usize) -> F,
) -> Result<()> {
    let all = stream::iter(range)
        .map(what)
        .buffer_unordered(rest::PARALLEL);
    all.try_collect::<Vec<()>>().await.map(drop)
}
