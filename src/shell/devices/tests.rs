mod ca;
mod ipmi;
mod pdu;
mod recent;
mod redfish;
mod unnamed;
mod upkeep;

use super::*;
use crate::shell::fake::{Fake, failure};
use fencing_core::select::serving;
use fencing_drivers::DeviceError;
use serde_json::{Value, json};

const SYSTEM: &str = "4c4c4544-0035-4a10-8052-b7c04f503433";

/// An API server that knows these objects by path.
struct Cluster {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    server: Fake,
    devices: Devices,
}

impl Cluster {
    async fn new() -> Self {
        Self::with_rules(AddressRules::default()).await
    }

    async fn with_rules(rules: AddressRules) -> Self {
        let objects = Arc::new(Mutex::new(BTreeMap::new()));
        let known = Arc::clone(&objects);
        let server = Fake::start(move |request| {
            let found = known.lock().expect("lock").get(&request.line).cloned();
            match found {
                Some(Value::Number(_)) => failure(403, "the server's words"),
                Some(object) => (200, object),
                None => (404, json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
                })),
            }
        })
        .await;
        let client = server.clients.reads.clone();
        Self {
            objects,
            server,
            devices: Devices::new(client, "ns".to_owned(), rules, Clock::SYSTEM),
        }
    }

    /// A number in place of an object is a refusal.
    fn put(&self, kind: &str, name: &str, object: Value) {
        let line = format!("GET /api/v1/namespaces/ns/{kind}/{name}");
        self.objects.lock().expect("lock").insert(line, object);
    }

    fn put_secret(&self, version: &str, password: &str) {
        self.put_login(json!({"name": "bmc", "resourceVersion": version}), password);
    }

    fn put_login(&self, metadata: Value, password: &str) {
        use base64::Engine;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let data = json!({"username": encode("root"), "password": encode(password)});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
        self.put("secrets", "bmc", secret);
    }

    fn asked(&self) -> Vec<String> {
        self.server
            .seen()
            .into_iter()
            .map(|request| request.line)
            .collect()
    }

    async fn error(&self, device: &FenceDevice) -> DeviceError {
        match self.devices.access(device, "w1", Freshness::Now).await {
            Ok(_) => panic!("no error"),
            Err(error) => error,
        }
    }
}

fn device(name: &str, spec: Value) -> FenceDevice {
    FenceDevice::new(name, serde_json::from_value(spec).expect("a spec"))
}

fn with_redfish(redfish: Value) -> FenceDevice {
    device(
        "bmc",
        json!({"nodeName": "w1", "redfish": redfish, "credentialsRef": {"name": "bmc"}}),
    )
}

fn plain() -> FenceDevice {
    with_redfish(json!({"address": "https://10.0.0.1", "systemID": "1"}))
}

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        labels: BTreeMap::from([("rack".to_owned(), "7".to_owned())]),
        conditions: Vec::new(),
        boot_id: String::new(),
        system_uuid: SYSTEM.to_owned(),
        ..fencing_core::fixtures::node()
    }
}

#[tokio::test]
async fn a_driver_is_made_of_the_secret_as_it_is_now() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "old");
    let access = cluster
        .devices
        .access(&plain(), "w1", Freshness::Now)
        .await
        .expect("a driver");
    assert_eq!(access.driver.name(), "redfish");
    assert_eq!(access.driver.target(), "10.0.0.1:443/redfish/v1/Systems/1");
    assert!(access.trimmed_keys.is_empty());
    cluster.put_secret("2", "new\n");
    let access = cluster
        .devices
        .access(&plain(), "w1", Freshness::Now)
        .await
        .expect("a driver");
    assert_eq!(access.trimmed_keys, ["password"]);
    assert_eq!(
        cluster.asked(),
        ["GET /api/v1/namespaces/ns/secrets/bmc"; 2]
    );
}

#[tokio::test]
async fn a_missing_secret_is_named_with_the_way_out() {
    let cluster = Cluster::new().await;
    let error = cluster.error(&plain()).await;
    assert_eq!(error.reason(), "CredentialsInvalid");
    let words = error.to_string();
    assert!(
        words.contains("`bmc`") && words.contains("`ns`") && words.contains("create it"),
        "{words}"
    );
}

#[tokio::test]
async fn an_api_server_that_denies_is_no_fault_of_the_device() {
    let cluster = Cluster::new().await;
    cluster.put("secrets", "bmc", json!(403));
    let error = cluster.error(&plain()).await;
    assert_eq!(error.reason(), "ClusterUnavailable");
    assert!(
        error.to_string().contains("the server's words (403)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_secret_that_cannot_be_decoded_is_not_quoted() {
    let cluster = Cluster::new().await;
    cluster.put(
        "secrets",
        "bmc",
        json!({"metadata": {}, "data": {"password": "hunter2!"}}),
    );
    let error = cluster.error(&plain()).await;
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_forbidden_address_is_refused_before_the_secret_is_read() {
    let cluster = Cluster::new().await;
    let table = [
        ("https://127.0.0.1", "AddressNotAllowed"),
        ("https://[::ffff:127.0.0.1]", "AddressNotAllowed"),
        ("https://169.254.169.254", "AddressNotAllowed"),
        ("https://0x7f000001", "AddressNotAllowed"),
    ];
    for (address, reason) in table {
        let error = cluster
            .error(&with_redfish(json!({"address": address})))
            .await;
        assert_eq!(error.reason(), reason, "{address}");
    }
    assert!(cluster.asked().is_empty());
}

#[tokio::test]
async fn settings_that_cannot_be_used_name_the_field() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "p");
    let tls = |tls: Value| with_redfish(json!({"address": "https://10.0.0.1", "tls": tls}));
    let no_secret = device(
        "bmc",
        json!({"nodeName": "w1", "redfish": {"address": "https://10.0.0.1"}}),
    );
    let table = [
        (no_secret, "`credentialsRef`"),
        (
            tls(json!({"verification": "Pinned", "sha256Fingerprint": "AA"})),
            "`redfish.tls.sha256Fingerprint`",
        ),
        (
            tls(json!({"verification": "Full", "caRef": {"name": "ca"}})),
            "`tls.caRef`",
        ),
    ];
    for (device, field) in table {
        let error = cluster.error(&device).await;
        assert_eq!(error.reason(), "SettingsInvalid");
        assert!(error.to_string().contains(field), "{error}");
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"other": "x"}});
    cluster.put("configmaps", "ca", map);
    let error = cluster
        .error(&tls(
            json!({"verification": "Full", "caRef": {"name": "ca"}}),
        ))
        .await;
    assert!(error.to_string().contains("has no key `ca.crt`"), "{error}");
}

#[tokio::test]
async fn a_driver_of_another_version_is_said_to_be_one() {
    let cluster = Cluster::new().await;
    let error = cluster
        .error(&device("bmc", json!({"nodeName": "w1", "quantum": {}})))
        .await;
    assert_eq!(error.reason(), "Unsupported");
    assert!(error.to_string().contains("driver `none`"), "{error}");
}

#[tokio::test]
async fn a_device_is_talked_to_by_one_at_a_time() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "p");
    let driver_of = async |device: &FenceDevice| {
        cluster
            .devices
            .driver(device, "w1")
            .await
            .expect("a driver")
    };
    let one = plain();
    let driver = driver_of(&one).await;
    let turn = cluster.devices.turn(driver.as_ref()).await;
    assert!(cluster.devices.turn_now(driver.as_ref()).is_none());
    let other = with_redfish(json!({"address": "https://10.0.0.2"}));
    let other_driver = driver_of(&other).await;
    assert!(cluster.devices.turn_now(other_driver.as_ref()).is_some());
    drop(turn);
    assert!(cluster.devices.turn_now(driver.as_ref()).is_some());
}

#[tokio::test]
async fn devices_of_a_group_take_turns() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "p");
    let in_group = |address: &str| {
        let mut device = with_redfish(json!({"address": address}));
        device.spec.serialization_group = Some("rack7".to_owned());
        device
    };
    let (one, other) = (in_group("https://10.0.0.1"), in_group("https://10.0.0.2"));
    let driver_of = async |device, node: &str| {
        let driver = cluster.devices.driver(device, node).await;
        driver.expect("a driver")
    };
    let (driver, other_driver) = (driver_of(&one, "w1").await, driver_of(&other, "w2").await);
    // Both may be in a session, as two supplies of a machine are while they are read off together.
    let _turn = cluster.devices.turn(driver.as_ref()).await;
    assert!(cluster.devices.turn_now(other_driver.as_ref()).is_some());
    let group = cluster.devices.turn_named("group rack7".to_owned());
    let busy = Arc::clone(&group).lock_owned().await;
    let mut session = other_driver.open();
    let mut call = session.connect();
    assert!(futures::poll!(&mut call).is_pending());
    drop(busy);
    assert!(call.await.is_err(), "there is nothing at its address");
    assert!(group.try_lock().is_ok());
}

#[tokio::test]
async fn nobody_is_believed_before_the_devices_were_compared() {
    let cluster = Cluster::new().await;
    let device = plain();
    let rule = cluster.devices.identity_rule(&device, &node("w1"));
    assert!(matches!(rule, IdentityRule::Refused(_)), "{rule:?}");
    cluster.devices.survey(&[&device], &[&node("w1")]);
    assert_eq!(
        cluster.devices.identity_rule(&device, &node("w1")),
        IdentityRule::NotPinned
    );
}

#[tokio::test]
async fn two_nodes_on_one_system_are_refused_until_one_is_corrected() {
    let cluster = Cluster::new().await;
    let of = |name: &str, node: &str, address: &str| {
        device(
            name,
            json!({"nodeName": node, "identityCheck": "Skip", "redfish": {"address": address}}),
        )
    };
    let one = of("a", "w1", "https://10.0.0.1");
    let two = of("b", "w2", "https://10.0.0.1:443/");
    let nodes = [node("w1"), node("w2")];
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(
        cluster.devices.survey(&[&one, &two], &nodes.each_ref()),
        names(&["a", "b"])
    );
    let rule = cluster.devices.identity_rule(&one, &node("w1"));
    assert!(
        matches!(&rule, IdentityRule::Refused(why) if why.contains("w2")),
        "{rule:?}"
    );
    assert_eq!(
        cluster.devices.survey(&[&one, &two], &nodes.each_ref()),
        names(&[])
    );
    let corrected = of("b", "w2", "https://10.0.0.2");
    assert_eq!(
        cluster
            .devices
            .survey(&[&one, &corrected], &nodes.each_ref()),
        names(&["a", "b"])
    );
    assert_eq!(
        cluster.devices.identity_rule(&one, &node("w1")),
        IdentityRule::Skip
    );
}

/// S5: its machine may run, and `Skip` or a BMC that names no system leaves nothing else to tell the two apart.
#[tokio::test]
async fn a_device_is_known_while_its_node_is_deleted() {
    let cluster = Cluster::new().await;
    for driver in [
        json!({"ipmi": {"address": "10.0.0.9"}}),
        json!({"redfish": {"address": "https://10.0.0.9"}}),
    ] {
        let of = |name: &str, node: &str| {
            let mut spec = driver.clone();
            spec["nodeName"] = node.into();
            spec["identityCheck"] = "Skip".into();
            device(name, spec)
        };
        let (left_over, typo) = (of("a", "w1"), of("b", "w2"));
        cluster.devices.survey(&[&left_over, &typo], &[&node("w2")]);
        let why = cluster.devices.duplicate("b", "w2").expect("refused");
        assert!(
            why.contains("serves Node w1 (FenceDevice a, whose Node does not exist) too"),
            "{why}"
        );
        assert!(
            why.contains("; delete the FenceDevice whose Node does not exist"),
            "{why}"
        );
        let rule = cluster.devices.identity_rule(&typo, &node("w2"));
        assert!(matches!(rule, IdentityRule::Refused(_)), "{rule:?}");
        cluster.devices.survey(&[&typo], &[&node("w2")]);
        assert_eq!(cluster.devices.duplicate("b", "w2"), None);
        // While both Nodes exist nobody is told to delete anything.
        cluster
            .devices
            .survey(&[&left_over, &typo], &[&node("w1"), &node("w2")]);
        let why = cluster.devices.duplicate("b", "w2").expect("refused");
        assert!(!why.contains("delete"), "{why}");
    }
}

#[test]
fn a_device_serves_the_node_it_names_or_those_it_selects() {
    let devices = [
        device("named", json!({"nodeName": "w1"})),
        device("other", json!({"nodeName": "w2"})),
        device(
            "fleet",
            json!({"nodeSelector": {"matchLabels": {"rack": "7"}}}),
        ),
        device(
            "elsewhere",
            json!({"nodeSelector": {"matchLabels": {"rack": "8"}}}),
        ),
        device("neither", json!({})),
    ];
    let serving = serving(&devices, &node("w1"));
    let names: Vec<_> = serving
        .iter()
        .filter_map(|device| device.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["named", "fleet"]);
}
