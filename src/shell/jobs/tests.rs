//! The last look before a command leaves: the machine, then the claim, then the command, and without either nothing.

mod beside;
mod early;
mod late;
mod linked;
mod never_ready;
mod on;
mod restarted;
mod room;
mod silent;
mod unwanted;

use super::*;
use crate::shell::fake::{self, Cluster, failure};
use fencing_api::settings::FenceMode;
use fencing_core::attempt::Attempt;
use fencing_core::fixtures::{self, MACHINE};
use fencing_core::reading::PowerState;
use fencing_core::settings::ManualConfirmation;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const NODE: &str = "GET /api/v1/nodes/worker-1";
const SYSTEM: &str = "GET /redfish/v1/Systems/1";
const RESET: &str = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

fn system(state: &str, uuid: &str) -> Value {
    json!({
        "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
        "PowerState": state,
        "UUID": uuid,
        "Actions": {"#ComputerSystem.Reset": {
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
        }},
    })
}

/// A claimed Node, and its BMC.
struct Lab {
    cluster: Cluster,
    context: Arc<Context>,
    _watches: JoinSet<()>,
    /// Takes connections and answers nothing.
    _hung: TcpListener,
}

impl Lab {
    async fn new() -> Self {
        Self::serving(|_| {}).await
    }

    /// One whose watches find more.
    async fn serving(more: impl FnOnce(&Cluster)) -> Self {
        let cluster = Cluster::new().await;
        more(&cluster);
        let hung = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let redfish = json!({
            "address": format!("http://{}", cluster.server.address),
            "systemID": "1",
            "tls": {"verification": "None"},
        });
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
            "metadata": {"name": "bmc", "uid": "uid-bmc", "generation": 1},
            "spec": {"nodeName": "worker-1", "redfish": redfish, "credentialsRef": {"name": "bmc"}},
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
            "data": {"username": "cm9vdA==", "password": "c2VjcmV0"},
        });
        let mut second = device.clone();
        second["metadata"]["name"] = json!("bmc-2");
        // Another system of the same service: each has a turn of its own.
        second["spec"]["redfish"]["systemID"] = json!("2");
        cluster.put("GET /redfish/v1/Systems/2", 200, system("On", MACHINE));
        let mut third = device.clone();
        third["metadata"]["name"] = json!("hung");
        let address = hung.local_addr().expect("an address");
        third["spec"]["redfish"]["address"] = json!(format!("http://{address}"));
        third["spec"]["probe"] = json!({"timeoutSeconds": 120});
        let devices = fake::list("FenceDevice", "7", &[device, second, third]);
        cluster.put(
            "GET /apis/nodefencing.io/v1alpha1/fencedevices",
            200,
            devices,
        );
        cluster.put("GET /api/v1/namespaces/ns/secrets/bmc", 200, secret);
        cluster.put(NODE, 200, fake::node());
        cluster.put(unwanted::FENCE, 200, unwanted::fence());
        cluster.put(SYSTEM, 200, system("On", MACHINE));
        cluster.put(RESET, 200, json!({}));
        let (context, watches) = cluster.watching();
        let devices = context.caches.devices.clone();
        devices.wait_until_ready().await.expect("the devices");
        Self {
            cluster,
            context,
            _watches: watches,
            _hung: hung,
        }
    }

    async fn run(&self, order: DeviceOrder, claim: Option<&str>) -> DeviceReply {
        self.run_in(fixtures::settings(), order, claim).await
    }

    async fn run_in(
        &self,
        settings: Settings,
        order: DeviceOrder,
        claim: Option<&str>,
    ) -> DeviceReply {
        let held = claim.map(|value| OwnClaim {
            value: value.to_owned(),
            uid: "uid-1".to_owned(),
            boot_id: "boot-1".to_owned(),
            seen: true,
        });
        let job = Job {
            lease: None,
            heard: Heard::default(),
            early: None,
            order,
            level: fixtures::level(),
            limit: Duration::from_secs(10),
            settings,
            claim: held,
        };
        run(&self.context, &job).await
    }

    async fn run_early(&self, order: DeviceOrder, early: Option<EarlyDrivers>) -> DeviceReply {
        let job = Job {
            lease: None,
            heard: Heard::default(),
            early,
            order,
            level: fixtures::level(),
            limit: Duration::from_secs(10),
            settings: fixtures::settings(),
            claim: None,
        };
        run(&self.context, &job).await
    }

    /// An off command under this claim.
    async fn off(&self, claim: Option<&str>) -> OffResult {
        let result = self.command("bmc", claim).await;
        result.expect("a result")
    }

    /// The claim has been looked at once more, and the command has not left.
    async fn sends_nothing(&self) {
        let result = self.off(Some("fence-n1")).await;
        assert!(matches!(result, OffResult::NotSent(_)), "{result:?}");
        assert_eq!(self.requests(), [SYSTEM, NODE]);
    }

    /// What became of the device by a command that was written down for this one.
    async fn command(&self, written: &str, claim: Option<&str>) -> Option<OffResult> {
        let attempt = Attempt {
            devices: vec![written.to_owned()],
            ..fixtures::attempt()
        };
        match self.run(DeviceOrder::Off(attempt), claim).await {
            DeviceReply::Commanded { mut results, .. } => results.remove("bmc"),
            other => panic!("{other:?}"),
        }
    }

    /// Requests for the machine and its Node, in their order.
    fn requests(&self) -> Vec<String> {
        let matters = |line: &String| [NODE, SYSTEM, RESET].contains(&line.as_str());
        self.cluster
            .requests()
            .into_iter()
            .filter(matters)
            .collect()
    }
}

#[tokio::test]
async fn the_machine_then_the_claim_then_the_command() {
    let lab = Lab::new().await;
    assert_eq!(lab.off(Some("fence-n1")).await, OffResult::Accepted);
    assert_eq!(lab.requests(), [SYSTEM, NODE, RESET]);
}

/// S11: a device that came to the level after the intent was recorded.
#[tokio::test]
async fn a_device_that_was_not_written_down_is_not_commanded() {
    let lab = Lab::new().await;
    assert_eq!(lab.command("other", Some("fence-n1")).await, None);
    assert_eq!(lab.requests(), [""; 0]);
}

#[tokio::test]
async fn another_machine_is_not_turned_off() {
    let lab = Lab::new().await;
    let other = "99999999-2222-4333-8444-555555555555";
    lab.cluster.put(SYSTEM, 200, system("On", other));
    let result = lab.off(Some("fence-n1")).await;
    assert!(matches!(result, OffResult::NotSent(_)), "{result:?}");
    assert_eq!(lab.requests(), [SYSTEM]);
}

#[tokio::test]
async fn without_the_claim_nothing_is_sent() {
    let changed = |pointer: &str, value: Value| {
        let mut node = fake::node();
        *node.pointer_mut(pointer).expect("a field") = value;
        (200, node)
    };
    let overruled = || {
        let mut node = fake::tainted();
        node["spec"]["taints"][1]["timeAdded"] = Value::Null;
        (200, node)
    };
    let table = [
        (
            "another claim",
            changed("/spec/taints/0/value", json!("fence-n2")),
        ),
        ("no claim", changed("/spec/taints", json!([]))),
        ("another Node", changed("/metadata/uid", json!("uid-2"))),
        (
            "another boot",
            changed("/status/nodeInfo/bootID", json!("boot-2")),
        ),
        (
            "a Ready Node",
            changed("/status/conditions/0/status", json!("True")),
        ),
        ("somebody else's out-of-service", overruled()),
        ("no Node", failure(404, "not found")),
        ("no answer", failure(500, "etcd is slow")),
    ];
    for (what, (status, node)) in table {
        let lab = Lab::new().await;
        lab.cluster.put(NODE, status, node);
        let result = lab.off(Some("fence-n1")).await;
        assert!(
            matches!(result, OffResult::NotSent(_)),
            "{what}: {result:?}"
        );
        assert_eq!(lab.requests(), [SYSTEM, NODE], "{what}");
    }
    let lab = Lab::new().await;
    let result = lab.off(None).await;
    assert!(matches!(result, OffResult::NotSent(_)), "{result:?}");
}

/// F13: the host was suspended in the middle of the work, the Node still has the claim, and another replica leads.
#[tokio::test]
async fn after_the_end_of_its_term_nothing_is_sent() {
    let lab = Lab::new().await;
    lab.context.term_end.set(Some(clock::since_boot()));
    lab.sends_nothing().await;
}

/// S18: etcd was put back to a time when the claim already stood, but nothing of what came after it.
#[tokio::test]
async fn in_a_cluster_that_went_back_nothing_is_sent() {
    let lab = Lab::new().await;
    lab.context.revision.note(120, Some("90"));
    lab.sends_nothing().await;
}

/// F12: the process was stopped between the question for the claim and the command, or the API server took its time.
#[tokio::test]
async fn a_claim_that_was_asked_for_too_long_ago_sends_nothing() {
    let lab = Lab::new().await;
    lab.cluster
        .delay(NODE, CLAIM_LIFE + Duration::from_millis(100));
    lab.sends_nothing().await;
}

#[tokio::test]
async fn a_node_that_says_ready_under_out_of_service_is_turned_off_again() {
    let lab = Lab::new().await;
    let mut node = fake::tainted();
    node["status"]["conditions"][0]["status"] = json!("True");
    lab.cluster.put(NODE, 200, node);
    assert_eq!(lab.off(Some("fence-n1")).await, OffResult::Accepted);
}

#[tokio::test]
async fn the_reads_end_at_the_first_answer_of_another_machine() {
    let lab = Lab::new().await;
    let confirm = || DeviceOrder::Confirm {
        window: Duration::from_millis(20),
    };
    let confirmed = |reply: DeviceReply| match reply {
        DeviceReply::Confirmed {
            readings, failures, ..
        } => (readings[0].readings.len(), failures),
        other => panic!("{other:?}"),
    };
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    let (count, failures) = confirmed(lab.run(confirm(), None).await);
    assert!(count >= 2 && failures.is_empty(), "{count} {failures:?}");
    let other = "99999999-2222-4333-8444-555555555555";
    lab.cluster.put(SYSTEM, 200, system("Off", other));
    let (count, failures) = confirmed(lab.run(confirm(), None).await);
    assert_eq!(count, 1);
    assert!(failures[0].contains(other), "{failures:?}");
}

/// The pods are listed while the power is read, and whatever the device takes for an answer, a list was complete before its last
/// one was asked for.
#[tokio::test]
async fn the_pods_are_listed_before_the_power_is_read_last() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    for delay in [Duration::ZERO, Duration::from_millis(1500)] {
        lab.cluster
            .put("GET /api/v1/pods", 200, fake::list("Pod", "7", &[]));
        lab.cluster.delay(SYSTEM, delay);
        // Longer than a list takes, on a busy machine too.
        let window = Duration::from_secs(3);
        let settings = Settings {
            read_period: window,
            ..fixtures::settings()
        };
        let order = DeviceOrder::Confirm { window };
        let DeviceReply::Confirmed { readings, pods, .. } = lab.run_in(settings, order, None).await
        else {
            panic!("another answer");
        };
        let last = readings[0].readings.last().expect("a reading").asked;
        assert!(
            pods.iter().any(|list| list.answered <= last),
            "{last:?} {pods:?}"
        );
    }
}

#[tokio::test]
async fn a_human_s_word_is_looked_at_beside_every_device_of_the_node() {
    let lab = Lab::new().await;
    let mut level = fixtures::level();
    level.devices[0].name = "manualConfirmation".to_owned();
    level.devices[0].manual = true;
    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::ReadPower,
        level: level.clone(),
        limit: Duration::from_secs(10),
        settings: fixtures::settings(),
        claim: None,
    };
    let state = |sight: &DeviceAnswer| match &sight.reading {
        Ok(reading) => reading.state,
        Err(_) => PowerState::Unknown,
    };
    let states = async |job: &Job| match run(&lab.context, job).await {
        DeviceReply::PowerRead { answers, .. } => answers.iter().map(state).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(states(&job).await, [PowerState::On, PowerState::Unknown]);
    let now = crate::shell::detect::now();
    let word = ManualConfirmation {
        user: "alice".to_owned(),
        node_uid: "uid-1".to_owned(),
        given: fencing_core::delay::Since::at(now.wall, now),
        is_ahead: false,
    };
    let confirmed = Job {
        lease: None,
        settings: Settings {
            confirmation: Some(word),
            ..fixtures::settings()
        },
        ..job
    };
    assert_eq!(states(&confirmed).await, [PowerState::On, PowerState::Off]);
    assert_eq!(lab.requests(), [SYSTEM, SYSTEM], "nobody else was asked");
}
