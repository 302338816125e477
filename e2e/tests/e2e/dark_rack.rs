//! Most of a cluster is silent, and so are its BMCs: whoever can still be fenced is, with few open files (L5).
//!
//! `cargo test --package e2e --test e2e -- dark_rack:: --include-ignored --nocapture` has 500 silent nodes, too, and prints how long a fence takes
//! beside them, and how long without.

use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, SECRET, Setup, stage};
use e2e::operator::{NAMESPACE, Operator, Options};
use fencing_testbed::eventually::eventually;
use futures::{TryStreamExt, stream};
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rustix::net::listen;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The silent nodes have their devices, two each, in so many subnets.
const SUBNETS: u8 = 2;
/// Objects that are written at the same time.
const WRITES: usize = 16;
/// The operator works for all of them in one thread, and a debug build of it for long: with 200 of them beside eleven other clusters on two cores
/// it took some seven minutes, and half a minute of waiting for the fence where the machine had less to do.
const PATIENCE: Duration = Duration::from_secs(800);
/// The kubelet ends whoever has not answered three times, 10 s apart.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Two ports at which no address of this host answers: what is sent to either is dropped.
struct Dark {
    tcp: TcpListener,
    udp: UdpSocket,
    _queue: Vec<TcpStream>,
}

impl Dark {
    fn new() -> Result<Self> {
        let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // A queue of length 0 holds one connection; when it is full the kernel drops each SYN.
        listen(&tcp, 0)?;
        let address = (Ipv4Addr::LOCALHOST, tcp.local_addr()?.port()).into();
        let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok();
        Ok(Self {
            _queue: (0..16).map_while(fill).collect(),
            tcp,
            udp: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?,
        })
    }

    /// The drivers of the two devices of a node: at one address each.
    fn drivers(&self, subnet: u8, host: u8) -> Result<[(&'static str, Value); 2]> {
        let bmc = Ipv4Addr::new(127, 90, subnet, host);
        let url = format!("https://{bmc}:{}", self.tcp.local_addr()?.port());
        let redfish = json!({"address": url, "tls": {"verification": "None"}});
        let pdu = Ipv4Addr::new(127, 91, subnet, host);
        let ipmi = json!({"address": pdu, "port": self.udp.local_addr()?.port()});
        Ok([("redfish", redfish), ("ipmi", ipmi)])
    }
}

/// A Node whose kubelet has fallen silent, and its two devices.
async fn silent_node(lab: &Lab, dark: &Dark, subnet: u8, host: u8) -> Result<()> {
    let name = format!("silent-{subnet}-{host}");
    for (driver, settings) in dark.drivers(subnet, host)? {
        let mut spec = json!({"nodeName": name, "credentialsRef": {"name": SECRET}});
        spec[driver] = settings;
        lab.apply("FenceDevice", &format!("{name}-{driver}"), spec)
            .await?;
    }
    let nodes: Api<Node> = Api::all(lab.control_plane.admin());
    let node = json!({"metadata": {"name": name}});
    nodes
        .create(&PostParams::default(), &serde_json::from_value(node)?)
        .await?;
    let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": since, "lastTransitionTime": since,
    });
    let info = json!({
        "machineID": name, "systemUUID": uuid::Uuid::new_v4().to_string(), "bootID": uuid::Uuid::new_v4().to_string(), "kernelVersion": "6", "osImage": "lab",
        "containerRuntimeVersion": "lab", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
    });
    let status = Patch::Merge(json!({"status": {"conditions": [ready], "nodeInfo": info}}));
    nodes
        .patch_status(&name, &PatchParams::default(), &status)
        .await
        .map(drop)
        .context(name)
}

async fn silent_nodes(lab: &Lab, dark: &Dark, in_each: u8) -> Result<()> {
    let all = (0..SUBNETS).flat_map(|subnet| (1..=in_each).map(move |host| (subnet, host)));
    let all = stream::iter(all.map(|(subnet, host)| Ok::<_, anyhow::Error>((subnet, host))));
    let make = |(subnet, host)| silent_node(lab, dark, subnet, host);
    all.try_for_each_concurrent(WRITES, make).await
}

/// The power of this machine goes, and its node is put out of service: how long that took from the end of the policy's wait.
async fn fence(lab: &Lab, number: usize) -> Result<Duration> {
    let machine = &lab.rig(number).machine;
    machine.set_power(false);
    eventually("its volumes are free", PATIENCE, async || {
        let fence = lab
            .fence_of(machine.name())
            .await?
            .context("no NodeFence")?;
        ensure!(stage(&fence) == "Recovered", "{}", stage(&fence));
        Ok(())
    })
    .await?;
    let history = lab.history(machine.name()).await?;
    let out = history.iter().find(|state| state.out_of_service);
    let out = out.context("it was never out of service")?.at;
    let fence = lab
        .fence_of(machine.name())
        .await?
        .context("no NodeFence")?;
    let due = fence.data["spec"]["trigger"]["dueTime"].as_str();
    let due: Timestamp = due.context("no dueTime")?.parse()?;
    Ok(out.duration_since(due).try_into().unwrap_or_default())
}

/// What the kubelet and Prometheus ask of the operator has an answer each time: the longest wait, and the most files that were open.
pub async fn answers(operator: &Operator, worst: &Mutex<(Duration, u64)>) -> Result<Infallible> {
    loop {
        for path in ["/livez", "/metrics"] {
            let begin = Instant::now();
            let answer = timeout(ANSWER_TIME_MAX, operator.get(path)).await;
            let (status, words) = answer.with_context(|| format!("{path} is silent"))??;
            ensure!(status == StatusCode::OK, "{path}: {status} {words}");
            let (files, _) = operator.holds()?;
            let mut worst = worst.lock().expect("no panic");
            *worst = (worst.0.max(begin.elapsed()), worst.1.max(files));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Who leads, and how often that has changed.
pub async fn lease(lab: &Lab) -> Result<(Option<String>, Option<i32>)> {
    let leases: Api<Lease> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let lease = leases.get("node-fencing-operator").await?;
    let spec = lease.spec.unwrap_or_default();
    Ok((spec.holder_identity, spec.lease_transitions))
}

/// All incidents are open within this time, also on a machine that has other work: it begins what is tested here, and is no part of it.
const OPENED_WITHIN: Duration = LIMIT.saturating_mul(5);

/// Fences a node without the silent ones and one beside them, by an operator whose shell had this `ulimit`.
async fn beside_silent_nodes(name: &str, in_each: u8, ulimit: &'static str) -> Result<()> {
    let lab = Lab::start(Setup::new(name, 2).alone()).await?;
    let options = Options {
        ulimit: Some(ulimit),
        ..Options::default()
    };
    let operator = lab.operator_with(options).await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    let before = lease(&lab).await?;
    let alone = fence(&lab, 1).await?;

    let dark = Dark::new()?;
    silent_nodes(&lab, &dark, in_each).await?;
    let silent = usize::from(in_each) * usize::from(SUBNETS);
    let worst = Mutex::default();
    let beside = async {
        eventually(
            "each silent node has an incident",
            OPENED_WITHIN,
            async || {
                let open = lab.api("NodeFence").list(&Default::default()).await?;
                let open = open.items.len();
                ensure!(open > silent, "{open}");
                Ok(())
            },
        )
        .await?;
        fence(&lab, 2).await
    };
    let beside = tokio::select! {
        beside = beside => beside?,
        failed = answers(&operator, &worst) => match failed? {},
    };
    let (slowest, files) = *worst.lock().expect("no panic");
    println!(
        "ulimit {ulimit}: out-of-service {:.1} s after the policy's wait, {:.1} s without {silent} silent nodes; /livez and /metrics within {} ms; \
         {files} open files, {} MiB at most",
        beside.as_secs_f64(),
        alone.as_secs_f64(),
        slowest.as_millis(),
        operator.usage()?.peak_bytes >> 20,
    );
    let log = std::fs::read_to_string(operator.log())?;
    ensure!(
        !log.contains("Too many open files"),
        "it has run out of files"
    );
    ensure!(lease(&lab).await? == before, "another leader: {before:?}");
    operator.check()?;
    lab.verdict().await
}

/// The hard limit is as low as the soft one, and lower than what all devices at a time would take: the looks take turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_fenced_beside_100_silent_ones_with_512_files() -> Result<()> {
    beside_silent_nodes("dark-rack-512", 50, "-n 512").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for its figures: it takes minutes of both cores"]
async fn a_node_is_fenced_beside_500_silent_ones_with_1024_files() -> Result<()> {
    beside_silent_nodes("dark-rack-1024", 250, "-n 1024").await
}

/// As most containers run: all devices are looked at at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for its figures: it takes minutes of both cores"]
async fn a_node_is_fenced_beside_500_silent_ones() -> Result<()> {
    beside_silent_nodes("dark-rack", 250, "-S -n 1024").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_open_files_is_raised_to_the_hard_one() -> Result<()> {
    let lab = Lab::start(Setup::new("open-files", 1)).await?;
    let options = Options {
        ulimit: Some("-S -n 1024"),
        ..Options::default()
    };
    let operator = lab.operator_with(options).await?;
    let (soft, hard) = operator.open_files_max()?;
    ensure!(soft == hard, "{soft} of {hard}");
    operator.check()
}
