//! A whole lab: a control plane, machines with BMCs and volumes, the operator, and what a test asks of them.
//!
//! [`Lab::start`] brings everything up but the operator; [`Lab::operator`] starts it with exactly the rights of `deploy/`.
//! A test then breaks something, waits for what must follow, and ends with [`Lab::verdict`]: no volume was written by
//! two machines, and the API server's audit log shows no write of the operator that its protocol does not know.

mod ask;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

pub use self::ask::escalation;
use crate::audit::Request;
use crate::bmc::{Bmc, BmcCa, Credentials};
use crate::control_plane::{ControlPlane, Options};
use crate::machine::{Machine, Power};
use crate::moment::Moment;
use crate::operator::{self, NAMESPACE, Operator, SERVICE_ACCOUNT};
use crate::proxy::Proxy;
use crate::real::{self, RealMachine};
use crate::simulated::{Fleet, FleetOptions, MachineSpec};
use crate::taints;
use crate::volume::{Volumes, oracle::VolumeOracle};
use crate::workload::{Workloads, wait_node_ready};

/// Long enough for anything on a busy machine; nothing waits for it when all is well.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Name of the Secret with the BMCs' credentials.
const SECRET: &str = "bmc";
/// Name of the ConfigMap with the authority of the BMCs' certificates.
const CA: &str = "bmc-ca";

/// Which kind of node runs on the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In this process.
    Simulated,
    /// Kubelets and containers in namespaces.
    Real,
}

/// How to set up a lab.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Name of the test.
    pub name: String,
    /// Number of machines, all on.
    pub machines: usize,
    /// What runs on them.
    pub kind: Kind,
    /// The control plane's settings.
    pub control_plane: Options,
    /// How fast simulated nodes are.
    pub fleet: FleetOptions,
    /// Labels of the nodes, by number from 1.
    pub labels: fn(usize) -> BTreeMap<String, String>,
}

impl Setup {
    /// Simulated machines, times for tests.
    pub fn new(name: &str, machines: usize) -> Self {
        Self {
            name: name.to_owned(),
            machines,
            kind: Kind::Simulated,
            control_plane: Options::named(name),
            fleet: FleetOptions {
                lease_period: Duration::from_secs(1),
                ..FleetOptions::default()
            },
            labels: |_| BTreeMap::new(),
        }
    }

    /// The same on machines of this kind.
    pub fn on(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }
}

/// A machine and its BMC.
pub struct Rig {
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// Its BMC.
    pub bmc: Bmc,
}

/// A running lab. Dropping it ends everything.
pub struct Lab {
    /// Machines and BMCs: `node-1` is the first.
    pub rigs: Vec<Rig>,
    /// Workloads in namespace `work`.
    pub workloads: Workloads,
    /// The volumes.
    pub volumes: Arc<Volumes>,
    /// The control plane.
    pub control_plane: ControlPlane,
    ca: BmcCa,
    _fleet: Option<Fleet>,
}

/// Each lab of a process has BMC addresses of its own.
static LABS: AtomicU8 = AtomicU8::new(1);

impl Lab {
    /// Starts everything but the operator; all nodes are Ready, all devices exist.
    pub async fn start(setup: Setup) -> Result<Self> {
        let control_plane = ControlPlane::start(setup.control_plane.clone()).await?;
        control_plane.apply_deploy().await?;
        let client = control_plane.admin();
        let workloads = Workloads::create(client.clone(), "work").await?;
        let volumes = Volumes::new(control_plane.files().directory().join("volumes"))?;
        let fleet = (setup.kind == Kind::Simulated)
            .then(|| Fleet::new(client.clone(), volumes.clone(), setup.fleet.clone()));
        let ca = BmcCa::new("lab BMCs")?;
        let lab = LABS.fetch_add(1, Ordering::Relaxed);
        let mut rigs = Vec::new();
        for number in 1..=setup.machines {
            let name = format!("node-{number}");
            let labels = (setup.labels)(number);
            let machine: Arc<dyn Machine> = match &fleet {
                Some(fleet) => {
                    let spec = MachineSpec {
                        labels,
                        ..MachineSpec::new(name.clone())
                    };
                    fleet.add(spec.with_credentials(&control_plane).await?)
                }
                None => RealMachine::new(&control_plane, &volumes, &name, &labels)?,
            };
            let address = bmc_address(lab, number)?;
            let power: Arc<dyn Power> = machine.clone();
            let bmc = Bmc::start(address, power, Credentials::default(), &ca)?;
            machine.set_power(true);
            rigs.push(Rig { machine, bmc });
        }
        let this = Self {
            rigs,
            workloads,
            volumes,
            control_plane,
            ca,
            _fleet: fleet,
        };
        for rig in &this.rigs {
            wait_node_ready(client.clone(), rig.machine.name(), "True", LIMIT).await?;
        }
        this.credentials().await?;
        for rig in &this.rigs {
            this.device(rig, &rig.bmc.url()).await?;
        }
        Ok(this)
    }

    /// The same, or nothing (and a line that says why) when this kind of machine cannot be had here.
    pub async fn start_if_available(setup: Setup) -> Result<Option<Self>> {
        if let Err(reason) = available(setup.kind) {
            eprintln!(
                "SKIPPED: no machines of kind {:?} here: {reason}",
                setup.kind
            );
            return Ok(None);
        }
        Self::start(setup).await.map(Some)
    }

    /// The rig of this number, from 1.
    pub fn rig(&self, number: usize) -> &Rig {
        &self.rigs[number - 1]
    }

    /// The rig whose node is called so.
    pub fn rig_of(&self, node: &str) -> Result<&Rig> {
        self.rigs
            .iter()
            .find(|rig| rig.machine.name() == node)
            .with_context(|| format!("no machine is called {node}"))
    }

    /// Starts the operator, with exactly the rights of `deploy/`.
    pub async fn operator(&self) -> Result<Operator> {
        self.operator_with(operator::Options::default()).await
    }

    /// Starts the operator with these options; device addresses on loopback are allowed.
    pub async fn operator_with(&self, mut options: operator::Options) -> Result<Operator> {
        options
            .arguments
            .extend(["--allow-device-cidr".to_owned(), "127.0.0.0/8".to_owned()]);
        Operator::start(&self.control_plane, options).await
    }

    /// Starts the operator behind a proxy.
    pub async fn operator_behind(&self, proxy: &Proxy) -> Result<Operator> {
        let server = Some(proxy.url());
        self.operator_with(operator::Options {
            server,
            ..operator::Options::default()
        })
        .await
    }

    /// A proxy in front of the API server.
    pub fn proxy(&self) -> Result<Proxy> {
        let identity = self.control_plane.serving_identity()?;
        Proxy::start(
            &self.control_plane.url(),
            &self.control_plane.ca_pem(),
            &identity,
        )
    }

    /// Applies an object of `nodefencing.io/v1alpha1`.
    pub async fn apply(&self, kind: &str, name: &str, spec: Value) -> Result<DynamicObject> {
        let object = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let params = PatchParams::apply("lab").force();
        let api = self.api(kind);
        api.patch(name, &params, &Patch::Apply(&object))
            .await
            .with_context(|| format!("failed to apply {kind} {name}"))
    }

    /// Objects of a kind of ours.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("nodefencing.io", "v1alpha1", kind));
        let plural = match kind {
            "NodeFencingPolicy" => "nodefencingpolicies".to_owned(),
            other => format!("{}s", other.to_lowercase()),
        };
        Api::all_with(
            self.control_plane.admin(),
            &ApiResource { plural, ..resource },
        )
    }

    /// A policy for all nodes with the shortest times the API allows; `changes` are merged over its spec.
    pub async fn policy(&self, mode: &str, changes: Value) -> Result<()> {
        let mut spec = json!({
            "nodeSelector": {},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
            "fence": {
                "mode": mode,
                "levels": [{"name": "bmc", "retryPeriodSeconds": 1}],
                "verification": {"readPeriodSeconds": 1, "lateEffectSeconds": 5},
            },
            "budget": {"minHealthy": 0, "maxPerHour": 1000},
            "exclusions": {"minUptimeSeconds": 0},
        });
        merge(&mut spec, &changes);
        self.apply("NodeFencingPolicy", "lab", spec).await.map(drop)
    }

    /// The newest NodeFence of a node.
    pub async fn fence_of(&self, node: &str) -> Result<Option<DynamicObject>> {
        let all = self.api("NodeFence").list(&Default::default()).await?;
        let of_node = all
            .items
            .into_iter()
            .filter(|fence| fence.data["spec"]["nodeName"] == node);
        Ok(of_node.max_by_key(|fence| fence.metadata.creation_timestamp.clone()))
    }

    /// Waits until the newest NodeFence of a node is as wanted, and returns it.
    pub async fn wait_fence(
        &self,
        node: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        let begin = Instant::now();
        loop {
            let fence = self.fence_of(node).await?;
            match fence {
                Some(fence) if wanted(&fence) => return Ok(fence),
                fence if begin.elapsed() > LIMIT => {
                    let shown = fence
                        .map(|fence| serde_json::to_string_pretty(&fence.data).unwrap_or_default());
                    bail!(
                        "the NodeFence of {node} did not become as wanted; it is {}",
                        shown.unwrap_or_else(|| "not there".to_owned())
                    )
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Waits until the newest NodeFence of a node is in this stage.
    pub async fn wait_stage(&self, node: &str, wanted: &str) -> Result<DynamicObject> {
        let wanted = wanted.to_owned();
        let waiting_for = wanted.clone();
        self.wait_fence(node, move |fence| stage(fence) == wanted)
            .await
            .with_context(|| format!("waited for stage {waiting_for}"))
    }

    /// The Node.
    pub async fn node(&self, name: &str) -> Result<Node> {
        Ok(Api::<Node>::all(self.control_plane.admin())
            .get(name)
            .await?)
    }

    /// Waits until the Node is as wanted.
    pub async fn wait_node(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Node) -> bool,
    ) -> Result<Node> {
        let begin = Instant::now();
        loop {
            let node = self.node(name).await?;
            if wanted(&node) {
                return Ok(node);
            }
            ensure!(
                begin.elapsed() < LIMIT,
                "{name}: {what} did not come true; taints {:?}",
                taints(&node)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Successful and failed writes of the operator, without Events, which tell and change nothing.
    pub async fn writes(&self) -> Result<Vec<Request>> {
        let audit = self.control_plane.audit();
        audit.settled().await?;
        let user = format!("system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}");
        let writes = audit.writes_of(&user)?;
        Ok(writes
            .into_iter()
            .filter(|write| {
                resource(write) != "events" && resource(write) != "selfsubjectaccessreviews"
            })
            .collect())
    }

    /// No volume was written by two machines, and the operator wrote nothing that its protocol does not know.
    pub async fn verdict(&self) -> Result<()> {
        let oracle = VolumeOracle::new(&self.volumes);
        oracle.check_with(&self.control_plane.array()).await?;
        for write in self.writes().await? {
            let known = matches!(
                (write.verb.as_str(), resource(&write).as_str()),
                (
                    "patch",
                    "nodes" | "nodefences" | "fencedevices" | "nodefencingpolicies"
                ) | ("create", "nodefences")
                    | ("delete", "pods")
            );
            ensure!(
                known,
                "the operator sent a write that its protocol does not know: {}",
                write.summary()
            );
        }
        let nodes = self.control_plane.audit().writes_to("nodes")?;
        taints::check(&taints::histories(&nodes))
    }

    /// The fenced boot wrote nothing after the proof in this NodeFence.
    pub async fn silent_after_proof(&self, fence: &DynamicObject) -> Result<()> {
        let evidence = &fence.data["status"]["evidence"];
        let boot = evidence["nodeBootID"]
            .as_str()
            .context("the evidence names no boot")?;
        let last = evidence["readings"]
            .as_array()
            .and_then(|readings| readings.last())
            .context("no readings")?;
        let at = last["time"]
            .as_str()
            .context("a reading has a time")?
            .parse()?;
        VolumeOracle::new(&self.volumes).check_silent_since(boot, Moment::at_wall(at))?;
        Ok(())
    }

    async fn credentials(&self) -> Result<()> {
        let client = self.control_plane.admin();
        let bmc = Credentials::default();
        let secret = json!({"metadata": {"name": SECRET}, "stringData": {"username": bmc.username, "password": bmc.password}});
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        secrets
            .create(&PostParams::default(), &serde_json::from_value(secret)?)
            .await?;
        let map = json!({"metadata": {"name": CA}, "data": {"ca.crt": self.ca.pem()}});
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client, NAMESPACE);
        maps.create(&PostParams::default(), &serde_json::from_value(map)?)
            .await?;
        Ok(())
    }

    async fn device(&self, rig: &Rig, url: &str) -> Result<()> {
        let name = format!("{}-bmc", rig.machine.name());
        let spec = json!({
            "nodeName": rig.machine.name(),
            "redfish": {"address": url, "tls": {"verification": "Full", "caRef": {"name": CA, "key": "ca.crt"}}},
            "credentialsRef": {"name": SECRET},
            "probe": {"periodSeconds": 30},
        });
        self.apply("FenceDevice", &name, spec).await.map(drop)
    }

    /// Waits until the operator has pinned the identity of every machine: it is protected from now on.
    pub async fn wait_protected(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            let devices = self.api("FenceDevice").list(&Default::default()).await?;
            let pinned = |device: &&DynamicObject| {
                device.data["status"]["systems"]
                    .as_array()
                    .is_some_and(|systems| !systems.is_empty())
            };
            if devices.items.iter().filter(pinned).count() >= self.rigs.len() {
                return Ok(());
            }
            ensure!(
                begin.elapsed() < LIMIT,
                "not all identities were pinned: {:#?}",
                devices
                    .items
                    .iter()
                    .map(|device| &device.data["status"])
                    .collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn bmc_address(lab: u8, number: usize) -> Result<IpAddr> {
    // Several test processes run side by side: the process id keeps their addresses apart.
    let process = u8::try_from(std::process::id() % 200)?;
    Ok(Ipv4Addr::new(127, 100 + process / 2, lab, u8::try_from(number)?).into())
}

/// Resource and subresource of a request, as `nodefences` or `pods`.
pub fn resource(request: &Request) -> String {
    request.object_ref.resource.clone()
}

/// The stage of a NodeFence: the reason of its condition `Succeeded`.
pub fn stage(fence: &DynamicObject) -> &str {
    condition(fence, "Succeeded")
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

/// A condition of one of our objects.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    object.data["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Keys of a Node's taints.
pub fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    taints.into_iter().map(|taint| taint.key).collect()
}

/// Does the Node carry a taint with this key?
pub fn has_taint(node: &Node, key: &str) -> bool {
    taints(node).iter().any(|taint| taint == key)
}

/// Merges `changes` over `base`, as a JSON merge patch does.
fn merge(base: &mut Value, changes: &Value) {
    match (base, changes) {
        (Value::Object(base), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, changes) => *base = changes.clone(),
    }
}

/// Can this kind of machine be had here? The error says why not.
pub fn available(kind: Kind) -> Result<(), String> {
    match kind {
        Kind::Simulated => Ok(()),
        Kind::Real => real::available(),
    }
}

/// A Secret's value, as the API shows it.
pub fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}
