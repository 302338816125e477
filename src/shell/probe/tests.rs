//! What a look writes into the status of a FenceDevice, and what `probe FILE` says of the same one, before there is a cluster.

use super::judge::{asked, essence};
use super::*;
use crate::args::probe::{Output, Probing};
use crate::probe_file;
use crate::shell::context::Context;
use crate::shell::fake::Cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_core::fixtures;
use fencing_core::observed::NodeView;
use fencing_core::reading::Identity;
use fencing_drivers::address::AddressRules;
use fencing_testbed::bmc::{Bmc, BmcCa, BmcFaults, Credentials as Login, Plug, Reading};
use fencing_testbed::https::Line;
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

mod extent;
mod silent;

const OTHER: &str = "4c4c4544-0000-4000-8000-00000000000b";

pub(super) fn prober(context: &Context) -> Prober {
    Prober::new(
        context.caches.clone(),
        Arc::clone(&context.devices),
        context.writes.clone(),
        Clock::SYSTEM,
        context.events.clone(),
        Arc::clone(&context.metrics),
        context.found_off.clone(),
    )
}

/// A device, and the objects that it is set up by.
struct Bench {
    plug: Arc<Plug>,
    bmc: Bmc,
    device: Value,
    secret: Value,
    ca: Value,
}

impl Bench {
    /// A machine that runs, and settings that are right.
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let address: IpAddr = [127, 88, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into();
        let authority = BmcCa::new("BMCs of a test").expect("an authority");
        let plug = Arc::new(Plug::new("worker-1", fixtures::MACHINE));
        let bmc = Bmc::start(address, plug.clone(), Login::default(), &authority);
        let bmc = bmc.expect("a BMC");
        let Login { username, password } = bmc.credentials();
        let redfish = json!({"address": bmc.url(), "tls": {"caRef": {"name": "ca"}}});
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc", "generation": 1},
            "spec": {"nodeName": "worker-1", "redfish": redfish, "credentialsRef": {"name": "bmc"}},
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
            "data": {"username": STANDARD.encode(username), "password": STANDARD.encode(password)},
        });
        let ca = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": authority.pem()},
        });
        Self {
            plug,
            bmc,
            device,
            secret,
            ca,
        }
    }

    /// What a look of the prober at the device finds beside this Node.
    async fn looked_at(&self, cluster: &Cluster, prober: &Prober, node: NodeView) -> Finding {
        let path = |kind: &str, name: &str| format!("GET /api/v1/namespaces/ns/{kind}/{name}");
        cluster.put(&path("secrets", "bmc"), 200, self.secret.clone());
        cluster.put(&path("configmaps", "ca"), 200, self.ca.clone());
        let device = self.device();
        prober.devices.survey(&[&device], &[&node]);
        let how = (Extent::Whole, Freshness::Now);
        let answer = prober.probe(&device, "worker-1", how, None).await;
        let answer = answer.expect("the device is free");
        let identity = answer.outcome.as_ref().ok();
        Finding {
            at: Clock::SYSTEM.wall(),
            node: essence(node),
            identity: identity.map(|probe| probe.reading.identity.clone()),
            outcome: answer.outcome,
            trimmed_keys: answer.trimmed_keys,
            renewed: answer.renewed,
            control: None,
            on_node: None,
            asked: asked(&device),
        }
    }

    fn device(&self) -> FenceDevice {
        serde_json::from_value(self.device.clone()).expect("a device")
    }

    /// Reason and message of the condition Ready, as the operator writes them after a look beside a Ready Node.
    async fn operator_says(&self) -> (String, String) {
        let cluster = Cluster::new().await;
        let prober = prober(&cluster.context());
        let device = self.device();
        let mut node: NodeView = fixtures::node();
        node.conditions[0].status = "True".to_owned();
        let finding = self.looked_at(&cluster, &prober, node).await;
        let row = status::Row {
            node: "worker-1",
            finding: Some(&finding),
            duplicate: None,
            awaited: false,
            fenced: false,
            last_success: None,
            last_on: None,
        };
        let status = status::render(&device, &[row], |_, _| true, Clock::SYSTEM.wall());
        let ready = conditions::find(&status.conditions, conditions::READY).expect("Ready");
        assert_eq!(ready.status == "True", ready.reason == "Probed");
        (ready.reason.clone(), ready.message.clone())
    }

    /// The same in the report of `probe FILE`: the problem, or what a clean one comes to.
    async fn file_says(&self) -> (String, String) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let objects = [&self.device, &self.secret, &self.ca].map(Value::to_string);
        std::fs::write(file.path(), objects.join("\n---\n")).expect("the file");
        let order = Probing {
            file: file.path().to_owned(),
            secret: None,
            namespace: "ns".to_owned(),
            node: None,
            node_uuid: Some(fixtures::MACHINE.to_owned()),
            node_provider_id: None,
            node_addresses: Vec::new(),
            power_off: false,
            off_time_max: Duration::from_secs(5),
            output: Output::Json,
            addresses: AddressRules::new(vec!["127.0.0.0/8".parse().expect("a range")], vec![]),
        };
        let report = probe_file::looked(&order).await.expect("files of use");
        let told = report.json();
        let text = |name: &str| {
            told["problem"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        if !report.is_clean() {
            assert!(report.to_string().contains(&text("message")), "{report}");
            return (text("reason"), text("message"));
        }
        let shown = report.to_string();
        let (_, words) = shown.split_once("verdict      clean: ").expect("clean");
        ("Probed".to_owned(), words.trim_end().to_owned())
    }
}

fn faulty(change: impl FnOnce(&mut BmcFaults)) -> Bench {
    let bench = Bench::new();
    bench.bmc.faults(change);
    bench
}

fn set_up(change: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = Bench::new();
    change(&mut bench);
    bench
}

/// What is wrong, the device, and the reason of its condition.
type Row = (&'static str, Bench, &'static str);

/// Who may log in, and who answers: the ways of both.
fn logins_and_certificates() -> Vec<Row> {
    let stranger = BmcCa::new("an unknown authority").expect("an authority");
    vec![
        ("right", Bench::new(), "Probed"),
        (
            "wrong password",
            set_up(|it| it.secret["data"]["password"] = STANDARD.encode("wrong").into()),
            "AuthFailed",
        ),
        (
            "no Secret key",
            set_up(|it| it.secret["data"] = json!({"username": STANDARD.encode("root")})),
            "CredentialsInvalid",
        ),
        (
            "wrong certificate",
            set_up(|it| it.ca["data"]["ca.crt"] = stranger.pem().into()),
            "TlsIdentity",
        ),
        (
            "expired certificate",
            faulty(|it| it.certificate = fencing_testbed::bmc::Certificate::Expired),
            "TlsIdentity",
        ),
    ]
}

fn machines_and_readings() -> Vec<Row> {
    vec![
        (
            "no identity",
            faulty(|it| it.uuid = Some(Value::Null)),
            "IdentityUnusable",
        ),
        (
            "identity of many",
            faulty(|it| it.uuid = Some("00000000-0000-0000-0000-000000000000".into())),
            "IdentityUnusable",
        ),
        (
            "wrong identity",
            faulty(|it| it.uuid = Some(OTHER.into())),
            "IdentityMismatch",
        ),
        (
            "nothing compared",
            set_up(|it| it.device["spec"]["identityCheck"] = "Skip".into()),
            "Probed",
        ),
        (
            "reads Off",
            set_up(|it| it.plug.set_power(false)),
            "NoPositiveControl",
        ),
        (
            "reads what is no state",
            faulty(|it| it.power_state = Reading::Says("Paused".into())),
            "PowerUnreadable",
        ),
        (
            "no ForceOff",
            faulty(|it| it.reset_types = Some(vec!["On".to_owned()])),
            "PowerOffDenied",
        ),
        (
            "no such system",
            set_up(|it| it.device["spec"]["redfish"]["systemID"] = "gone".into()),
            "NotFound",
        ),
        (
            "several systems",
            faulty(|it| it.decoys_after = 2),
            "AmbiguousSystem",
        ),
        (
            "silent",
            set_up(|it| {
                it.device["spec"]["probe"] = json!({"timeoutSeconds": 1});
                it.bmc.set_line(Line::BlackHole).expect("a line");
            }),
            "Timeout",
        ),
    ]
}

#[tokio::test]
async fn probe_file_says_of_a_device_what_the_operator_writes() {
    let table = logins_and_certificates().into_iter();
    for (what, bench, reason) in table.chain(machines_and_readings()) {
        let operator = bench.operator_says().await;
        assert_eq!(operator.0, reason, "{what}: {}", operator.1);
        assert_eq!(bench.file_says().await, operator, "{what}");
    }
}

/// S16: whoever registers a Node chooses its name, and with it the host of a fleet's address.
#[tokio::test]
async fn a_fleet_is_not_probed_for_a_node_before_that_was_ready() {
    let cluster = Cluster::new().await;
    let task = task::Task::new(Arc::new(prober(&cluster.context())));
    let redfish = json!({"address": "https://${node.name}.bmc.test"});
    let fleet = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc"},
        "spec": {"nodeSelector": {}, "redfish": redfish, "credentialsRef": {"name": "bmc"}},
    });
    let fleet: FenceDevice = serde_json::from_value(fleet).expect("a device");
    let mut node = fixtures::node();
    assert!(task.wanted(&fleet, &node).fenced, "it was never Ready");
    node.conditions[0].status = "True".to_owned();
    assert!(!task.wanted(&fleet, &node).fenced);
}

/// S5: what answers now is the machine of another Node, whose pin is older.
#[tokio::test]
async fn a_probe_finds_that_what_answers_is_pinned_for_another_node() {
    let prober = prober(&Cluster::new().await.context());
    let device = |number: u8, uuid: &str| -> FenceDevice {
        let (node, uid) = (format!("worker-{number}"), format!("uid-{number}"));
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": format!("bmc-{number}"), "generation": 1},
            "spec": {"nodeName": node, "redfish": {"address": format!("https://10.0.0.{number}")}},
            "status": {"observedGeneration": 1, "systems": [{"nodeName": node, "nodeUID": uid, "uuid": uuid}]},
        });
        serde_json::from_value(device).expect("a device")
    };
    let devices = [device(1, fixtures::MACHINE), device(2, OTHER)];
    let mut node = fixtures::node();
    node.conditions[0].status = "True".to_owned();
    node.system_uuid = OTHER.to_owned();
    let victim = NodeView {
        name: "worker-2".to_owned(),
        uid: "uid-2".to_owned(),
        // It was made anew, and its kubelet has not reported yet.
        system_uuid: String::new(),
        ..node.clone()
    };
    prober
        .devices
        .survey(&[&devices[0], &devices[1]], &[&node, &victim]);
    let found = |uuid: &str| {
        let identity = Identity {
            system_uuid: Some(uuid.to_owned()),
            serial_number: None,
        };
        let finding = Finding {
            at: Clock::SYSTEM.wall(),
            node: node.clone(),
            identity: Some(identity),
            outcome: Err(DeviceError::Timeout {
                endpoint: "https://10.0.0.1".to_owned(),
                waited: Duration::from_secs(1),
            }),
            trimmed_keys: Vec::new(),
            renewed: false,
            control: None,
            on_node: None,
            asked: asked(&devices[0]),
        };
        prober.in_the_way(&devices[0], "worker-1", Some(&finding))
    };
    let words = found(OTHER).expect("it is in the way");
    assert!(words.contains("is pinned for Node worker-2"), "{words}");
    assert_eq!(found(fixtures::MACHINE), None);
}
