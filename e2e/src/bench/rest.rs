//! `make bench-rest`: a thousand devices in peace time, and what looking at each of them every minute costs the operator.
//!
//! The operator's own binary on a lab with a real API server and a thousand Nodes that stand still; so nothing happens but the probes and
//! what follows from them. First without a device, then the same process with all of them. When it has found all of them well, their
//! statuses are made to look as old as they would in the long run, one a second due for its times to be written again: without
//! that, nothing would be written for a quarter of an hour.

use crate::audit::OPERATOR;
use crate::control_plane::Component;
use crate::lab::{Lab, Setup};
use crate::operator::{NAMESPACE, Operator};
use anyhow::{Context, Result, ensure};
use fencing_testbed::bench::awake::Awake;
use fencing_testbed::bench::emulators::{Emulated, Emulators};
use fencing_testbed::bench::table::Table;
use fencing_testbed::bench::{Cores, mib};
use fencing_testbed::bmc::{Credentials, Plug};
use fencing_testbed::power::Power;
use fencing_testbed::snmpd::{AUTHENTICATION_PASSWORD, Feed, PRIVACY_PASSWORD, Pdu, USER};
use fencing_testbed::usage::Usage;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// IPMI BMCs, suite 17.
const IPMI: usize = 475;
/// Redfish BMCs, their certificates signed by a CA of a ConfigMap.
const REDFISH: usize = 475;
/// Outlets of a PDU, SNMPv3 with SHA-256 and AES.
const OUTLETS: u32 = 50;
/// Each of them is looked at so often.
const PERIOD_SECONDS: u64 = 60;

/// Until what its start has set off is over.
const SETTLE: Duration = Duration::from_secs(10);
/// Nodes that have not changed for so long stand still.
const STILL: Duration = Duration::from_secs(5);
/// How long the operator is watched, without devices and with them: two periods.
const WATCH: Duration = Duration::from_secs(2 * PERIOD_SECONDS);
/// Until the Nodes stand still.
const STILL_MAX: Duration = Duration::from_secs(60);
/// Until all devices are ready.
const ENROL_MAX: Duration = Duration::from_secs(300);
/// Requests of ours to the API server at the same time.
pub(super) const PARALLEL: usize = 16;
/// Name of the Secrets, the ConfigMap and the nodes.
pub(super) const NAME: &str = "bench";

/// The operator over some time.
struct Watched {
    /// Of a core.
    cpu_percent: f64,
    usage: Usage,
    probes: f64,
    /// Of devices' statuses.
    writes: usize,
}

/// Prints both, as a block of Markdown.
pub async fn run() -> Result<()> {
    let awake = Awake::every_core()?;
    let before = Cores::now();
    let table = measure().await?;
    awake.check()?;
    println!(
        "Emulated devices in a process of their own; {} cores for all of it, kept awake;\n{}.\n",
        std::thread::available_parallelism()?,
        Cores::now().since(&before)
    );
    println!("{table}");
    Ok(())
}

/// With and without, as a table.
async fn measure() -> Result<String> {
    let lab = Lab::start(setup("bench-rest")).await?;
    let emulators = Emulators::start(IPMI, REDFISH).await?;
    let fleet = &emulators.fleet;
    let pdu = pdu(&lab).await?;
    let mut specs: Vec<Value> = Vec::new();
    specs.extend(fleet.ipmi.iter().map(ipmi));
    specs.extend(fleet.redfish.iter().map(redfish));
    specs.extend((1..=OUTLETS).map(|outlet| outlet_of(&pdu, outlet)));
    let known = fleet.ipmi.iter().chain(&fleet.redfish);
    let mut uuids: Vec<String> = known.map(|bmc| bmc.system_uuid.clone()).collect();
    // An outlet does not say whose it is, so that these are asked for by nobody.
    uuids.extend((1..=OUTLETS).map(|outlet| format!("5c4c4544-0042-3510-8054-{outlet:012x}")));
    secrets(&lab, &fleet.ca_pem).await?;
    let nodes: Api<Node> = Api::all(lab.control_plane.admin());
    create(
        &nodes,
        uuids
            .iter()
            .enumerate()
            .map(|(number, uuid)| node(number, uuid)),
    )
    .await?;

    until_still(&nodes).await?;
    let operator = lab.operator().await?;
    tokio::time::sleep(SETTLE).await;
    let alone = watch(&lab, &operator, WATCH).await?;
    eprintln!("at rest, no devices: {:.2} %", alone.cpu_percent);

    let begun = Instant::now();
    let devices = lab.api("FenceDevice");
    let objects = specs
        .into_iter()
        .enumerate()
        .map(|(number, spec)| device(number, spec));
    create(&devices, objects).await?;
    until_ready(&devices, uuids.len()).await?;
    eprintln!("at rest, all devices are ready after {:?}", begun.elapsed());
    age(&devices, uuids.len()).await?;
    tokio::time::sleep(Duration::from_secs(PERIOD_SECONDS)).await;
    let with = watch(&lab, &operator, WATCH).await?;
    operator.check()?;
    table(&alone, &with)
}

/// A control plane for Nodes that nobody speaks for.
pub(super) fn setup(name: &str) -> Setup {
    let mut setup = Setup::new(name, 0).alone();
    setup.control_plane.node_monitor_grace = Duration::from_secs(3600);
    setup.control_plane.node_startup_grace = Duration::from_secs(3600);
    // Its controllers have some four things to write about each new Node, which at 20 requests a second takes minutes.
    let hurry = (
        Component::ControllerManager,
        "--kube-api-qps=500".to_owned(),
    );
    setup.control_plane.extra_arguments.push(hurry);
    setup
}

async fn pdu(lab: &Lab) -> Result<Pdu> {
    let outlets = (1..=OUTLETS).map(|outlet| {
        let plug: Arc<dyn Power> = Arc::new(Plug::new("fed by the PDU", ""));
        (outlet, Feed::new(plug))
    });
    lab.pdu(outlets.collect::<BTreeMap<_, _>>()).await
}

pub(super) async fn secrets(lab: &Lab, ca_pem: &str) -> Result<()> {
    let client = lab.control_plane.admin();
    let login = Credentials::default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let of_bmcs = json!({"username": login.username, "password": login.password});
    let of_pdu = json!({"username": USER, "authPassword": AUTHENTICATION_PASSWORD, "privPassword": PRIVACY_PASSWORD});
    let secret = |name: String, data| json!({"metadata": {"name": name}, "stringData": data});
    create(
        &secrets,
        [
            secret(NAME.to_owned(), of_bmcs),
            secret(format!("{NAME}-pdu"), of_pdu),
        ],
    )
    .await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    create(
        &maps,
        [json!({"metadata": {"name": NAME}, "data": {"ca.crt": ca_pem}})],
    )
    .await
}

pub(super) async fn create<K>(api: &Api<K>, objects: impl IntoIterator<Item = Value>) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    let created = stream::iter(objects).map(|object| async move {
        let object = serde_json::from_value(object)?;
        anyhow::Ok(
            api.create(&PostParams::default(), &object)
                .await
                .map(drop)?,
        )
    });
    let all = created.buffer_unordered(PARALLEL).try_collect::<Vec<()>>();
    all.await.map(drop)
}

/// The Node of this number.
pub fn name(number: usize) -> String {
    format!("{NAME}-{number:04}")
}

/// About as large as a real one's.
pub(super) fn node(number: usize, system_uuid: &str) -> Value {
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|kind| {
        let status = if kind == "Ready" { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": "Stands", "message": "nothing to say"})
    });
    let images: Vec<Value> = (0..20)
        .map(|image| json!({"names": [format!("registry.example.com/image-{image}:1.0.0")], "sizeBytes": 100_000_000}))
        .collect();
    json!({
        "metadata": {"name": name(number), "labels": {"kubernetes.io/hostname": name(number), "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": conditions,
            "images": images,
            "nodeInfo": {
                "architecture": "amd64", "bootID": system_uuid, "containerRuntimeVersion": "none://1",
                "kernelVersion": "none", "kubeProxyVersion": "", "kubeletVersion": "v1.36.0", "machineID": "",
                "operatingSystem": "linux", "osImage": "none", "systemUUID": system_uuid,
            },
        },
    })
}

pub(super) fn device(number: usize, mut spec: Value) -> Value {
    spec["nodeName"] = json!(name(number));
    spec["probe"] = json!({"periodSeconds": PERIOD_SECONDS});
    json!({"apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": name(number)}, "spec": spec})
}

fn ipmi(bmc: &Emulated) -> Value {
    json!({
        "ipmi": {"address": bmc.address.ip(), "port": bmc.address.port()},
        "credentialsRef": {"name": NAME},
    })
}

pub(super) fn redfish(bmc: &Emulated) -> Value {
    let tls = json!({"verification": "Full", "caRef": {"name": NAME, "key": "ca.crt"}});
    json!({
        "redfish": {"address": format!("https://{}", bmc.address), "tls": tls},
        "credentialsRef": {"name": NAME},
    })
}

fn outlet_of(pdu: &Pdu, outlet: u32) -> Value {
    let address = pdu.address();
    json!({
        "identityCheck": "Skip",
        "pdu": {"address": address.ip(), "port": address.port(), "model": "APCRackPDU2", "outlets": [outlet]},
        "credentialsRef": {"name": format!("{NAME}-pdu")},
    })
}

/// Waits until Kubernetes' controllers have said all that they have to say about new Nodes.
pub(super) async fn until_still(nodes: &Api<Node>) -> Result<()> {
    let begun = Instant::now();
    let mut before = Vec::new();
    loop {
        let all = nodes.list_metadata(&ListParams::default()).await?.items;
        let versions = all.into_iter().map(|node| node.metadata.resource_version);
        let versions: Vec<_> = versions.collect();
        if versions == before {
            return Ok(());
        }
        before = versions;
        ensure!(begun.elapsed() < STILL_MAX, "the Nodes do not stand still");
        tokio::time::sleep(STILL).await;
    }
}

/// Waits until so many devices are ready.
pub(super) async fn until_ready(devices: &Api<DynamicObject>, wanted: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let all = devices.list(&ListParams::default()).await?.items;
        let waits: Vec<_> = all.iter().filter(|device| !is_ready(device)).collect();
        if all.len() == wanted && waits.is_empty() {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < ENROL_MAX,
            "{} of {wanted} devices are not ready, such as {:?}",
            waits.len(),
            waits.first()
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn is_ready(device: &DynamicObject) -> bool {
    let conditions = device.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Makes the times in the statuses as old as they are in the long run: evenly spread over as many seconds as there are devices.
async fn age(devices: &Api<DynamicObject>, count: usize) -> Result<()> {
    let now = Timestamp::now();
    let aged = stream::iter(0..count).map(|number| async move {
        let age = SignedDuration::from_secs(i64::try_from(number)?);
        let time = (now - age).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({"status": {"lastProbeTime": time, "lastSuccessTime": time}});
        let params = PatchParams::default();
        devices
            .patch_status(&name(number), &params, &Patch::Merge(&patch))
            .await?;
        anyhow::Ok(())
    });
    let all = aged.buffer_unordered(PARALLEL).try_collect::<Vec<()>>();
    all.await.map(drop)
}

async fn watch(lab: &Lab, operator: &Operator, time: Duration) -> Result<Watched> {
    let (begun, wall) = (Instant::now(), Timestamp::now());
    let (before, probes_before) = (operator.usage()?, probes(operator).await?);
    tokio::time::sleep(time).await;
    let usage = operator.usage()?;
    let took = begun.elapsed();
    let probes = probes(operator).await? - probes_before;
    let audit = lab.control_plane.audit();
    audit.settled().await?;
    let mut writes = audit.requests_of(OPERATOR)?;
    writes.retain(|request| {
        request.is_write()
            && request.object_ref.resource == "fencedevices"
            && request.received >= wall
    });
    let cpu = usage.cpu - before.cpu;
    Ok(Watched {
        cpu_percent: 100.0 * cpu.as_secs_f64() / took.as_secs_f64(),
        usage,
        probes,
        writes: writes.len(),
    })
}

/// How many probes have ended.
async fn probes(operator: &Operator) -> Result<f64> {
    let (_, text) = operator.get("/metrics").await?;
    let counts = text
        .lines()
        .filter(|line| line.contains("probe_duration_seconds_count"));
    let counts = counts.map(|line| {
        line.rsplit(' ')
            .next()
            .context("no number")?
            .parse::<f64>()
            .context("no number")
    });
    counts.sum()
}

fn table(alone: &Watched, with: &Watched) -> Result<String> {
    let count = IPMI + REDFISH + usize::try_from(OUTLETS)?;
    let title = format!(
        "the operator in peace time, {count} nodes, each device looked at every {PERIOD_SECONDS} s, over {} s",
        WATCH.as_secs()
    );
    let devices = format!("{IPMI} IPMI, {REDFISH} Redfish, {OUTLETS} SNMPv3 outlets");
    let mut table = Table::new(
        &title,
        ["no devices".to_owned(), devices, "difference".to_owned()],
    );
    let mut row = |name: &str, unit: &str, digits: usize, value: fn(&Watched) -> f64| {
        let (alone, with) = (value(alone), value(with));
        let cells = [alone, with, with - alone].map(|value| format!("{value:.digits$} {unit}"));
        table.words(name, cells.map(|cell| cell.trim_end().to_owned()));
    };
    row("CPU time, of one core", "%", 2, |watched| {
        watched.cpu_percent
    });
    row("resident memory", "MiB", 1, |watched| {
        mib(watched.usage.resident_bytes)
    });
    row(
        "peak memory, their first look included",
        "MiB",
        1,
        |watched| mib(watched.usage.peak_bytes),
    );
    row("probes", "", 0, |watched| watched.probes);
    row("writes of a status", "", 0, |watched| watched.writes as f64);
    Ok(table.to_string())
}
