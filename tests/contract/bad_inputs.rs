//! The exact words that a user gets for each bad input: the field, the value unless it is a secret, the rule, and the way out.
//!
//! What the API server refuses by itself is judged by the lab, in the words of `tests/data/api/verdicts.yaml`. Here is the rest: what ends
//! in a condition, or ends the process. `UPDATE=1` rewrites `tests/data/bad-inputs.txt`, which is to be read by whoever changes it.

mod policies;

use fencing_api::device::FenceDevice;
use fencing_cluster::{client, preflight};
use fencing_core::identity::{Reports, Verdict, Wire, duplicates, judge};
use fencing_core::observed::{ConditionView, NodeView};
use fencing_core::reading::Identity;
use fencing_core::select::fenceable;
use fencing_drivers::DeviceError;
use fencing_drivers::address::{Address, AddressRules};
use fencing_drivers::credentials::{ALLOWED_HOSTS_ANNOTATION, Credentials, CredentialsError};
use fencing_drivers::tls::{CertificateCheck, client_config};
use node_fencing_operator::args::Order;
use node_fencing_operator::shell::server;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{Debug, Display, Write};

/// Stands where a password does.
const PASSWORD: &str = "correct-horse";

/// The rows of one kind of input, as they stand in the file.
#[derive(Default)]
struct Rows(String);

impl Rows {
    fn begin(&mut self, kind: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}# {kind}").expect("a text");
    }

    fn row(&mut self, input: &str, words: &impl Display) {
        let words = words.to_string();
        assert!(!words.contains(PASSWORD), "{words}");
        writeln!(self.0, "{input}\n    {words}").expect("a text");
    }

    fn refused<T: Debug>(&mut self, input: &str, outcome: Result<T, impl Display>) {
        match outcome {
            Ok(taken) => panic!("{input} is taken: {taken:?}"),
            Err(error) => self.row(input, &error),
        }
    }
}

fn node(ready: Option<&str>, uuid: &str) -> NodeView {
    let condition = |status: &str| ConditionView {
        kind: "Ready".to_owned(),
        status: status.to_owned(),
        transition: String::new(),
        heartbeat: String::new(),
    };
    NodeView {
        name: "worker-1".to_owned(),
        uid: "uid-1".to_owned(),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: ready.map(condition).into_iter().collect(),
        boot_id: "boot-1".to_owned(),
        system_uuid: uuid.to_owned(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn addresses(rows: &mut Rows) {
    rows.begin("FenceDevice: addresses");
    let services = (
        "10.96.0.0/12".parse().expect("a range"),
        "10.96.0.0/12 (--deny-device-cidr)".to_owned(),
    );
    let rules = AddressRules::new(Vec::new(), vec![services]);
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "169.254.1.1",
        "10.96.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "224.0.0.1",
        "0.0.0.0",
        "255.255.255.255",
    ] {
        rows.refused(
            address,
            rules.judge("bmc.example.com", address.parse().expect("an address")),
        );
    }
    for text in [
        "https://0x7f000001",
        "https://2130706433",
        "https://127.1",
        "https://10.20.0.256",
        "ftp://10.0.0.1",
        "file:///etc/shadow",
        "",
        "https://",
        &format!("https://root:{PASSWORD}@10.0.0.1"),
        "https://10.0.0.1/?a=b",
        "https://10.0.0.1/#a",
        "https://10.0.0.1/api",
        "https://10.0.0.1:0",
        "https://2001:db8::7",
        "https://bmc_7",
    ] {
        let shown = text.replace(PASSWORD, "PASSWORD");
        rows.refused(&format!("`{shown}`"), Address::parse(text));
    }
    let long = format!(
        "{}.example",
        [
            "x".repeat(60),
            "y".repeat(60),
            "z".repeat(60),
            "w".repeat(60)
        ]
        .join(".")
    );
    for (template, node) in [
        ("https://${node.labels.bmc}", "worker-1"),
        ("https://${node.name", "worker-1"),
        ("https://bmc:${node.name}", "8443"),
        ("https://${node.name}.example", "evil.example/"),
        ("https://${node.name}-bmc.example.com", long.as_str()),
    ] {
        let input = format!("`{template}` for a node of {} characters", node.len());
        rows.refused(&input, Address::expand(template, node));
    }
    rows.refused(
        "`10.0.0.1:623` for IPMI",
        Address::expand_host("10.0.0.1:623", 623, "worker-1"),
    );
}

fn devices(rows: &mut Rows) {
    rows.begin("FenceDevice: who answers there");
    let wire = |device: &str, node: &str| Wire {
        device: device.to_owned(),
        node: node.to_owned(),
        node_exists: true,
        targets: vec!["10.0.0.1:443/redfish/v1/Systems/1".to_owned()],
        uuid: None,
        unpinned: None,
    };
    let blocked = |wires: &[Wire]| duplicates(wires, &Reports::new());
    for ((device, node), words) in blocked(&[wire("a", "worker-1"), wire("b", "worker-2")]) {
        rows.row(
            &format!("two nodes on one system, FenceDevice {device} of {node}"),
            &words,
        );
    }
    let left_over = Wire {
        node_exists: false,
        ..wire("b", "worker-2")
    };
    let place = ("a".to_owned(), "worker-1".to_owned());
    rows.row(
        "a FenceDevice on the same system that was left over, or is there before its Node",
        &blocked(&[wire("a", "worker-1"), left_over])[&place],
    );
    let found = "2 systems (Node1, Node2)".to_owned();
    let endpoint = "10.0.0.1:443".to_owned();
    rows.row(
        "no systemID where there are several systems",
        &DeviceError::AmbiguousSystem { endpoint, found },
    );
    rows.row(
        "a driver of another version",
        &DeviceError::Unsupported { driver: "none" },
    );
    machines(rows);
}

/// Whose machine answers.
fn machines(rows: &mut Rows) {
    let device: FenceDevice = serde_json::from_value(json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc"}, "spec": {"nodeName": "worker-1", "manual": {}},
    }))
    .expect("a device");
    let identity = |uuid: &str| Identity {
        system_uuid: Some(uuid.to_owned()),
        serial_number: None,
    };
    let machine = "4c4c4544-0042-3510-8052-b4c04f4a4d32";
    let mut judged =
        |input: &str, node: NodeView, found: &str| match judge(&device, &node, &identity(found)) {
            Verdict::Refused(reason, words) => rows.row(input, &format!("{reason}: {words}")),
            other => panic!("{input}: {other:?}"),
        };
    judged(
        "a Node without a system UUID",
        node(Some("True"), ""),
        machine,
    );
    judged(
        "a device that names all zeros",
        node(Some("True"), machine),
        "00000000-0000-0000-0000-000000000000",
    );
    judged(
        "another machine behind the address",
        node(Some("True"), machine),
        "99999999-2222-4333-8444-555555555555",
    );
    let silent = node(None, machine);
    rows.refused("a Node without conditions", fenceable(&silent));
    let nameless = NodeView {
        boot_id: String::new(),
        ..node(Some("Unknown"), machine)
    };
    rows.refused("a Node without a boot ID", fenceable(&nameless));
}

fn bundles(rows: &mut Rows) {
    rows.begin("FenceDevice: the CA of `tls.caRef`");
    let mut parameters = CertificateParams::new([]).expect("parameters");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.not_after = rcgen::date_time_ymd(2001, 3, 4);
    let expired = parameters
        .self_signed(&KeyPair::generate().expect("a key"))
        .expect("a certificate")
        .pem();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (input, pem) in [
        ("empty", ""),
        ("not PEM", "CN=bmc"),
        ("no certificate in it", broken),
        ("expired", &expired),
    ] {
        let check = CertificateCheck::Full {
            ca_bundle_pem: Some(pem.as_bytes().to_vec()),
        };
        let now = jiff::Timestamp::from_second(1_800_000_000).expect("a second");
        rows.refused(input, client_config(&check, now).map(drop));
    }
    rows.refused(
        "a fingerprint of SHA-1",
        "DA:39:A3:EE".parse::<fencing_drivers::tls::Fingerprint>(),
    );
}

fn secrets(rows: &mut Rows) {
    rows.begin("Secret");
    let read = |entries: &[(&str, &[u8])], hosts: Option<&str>| {
        let data = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.to_vec()));
        let hosts = hosts.map(|hosts| (ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts.to_owned()));
        Credentials::from_secret("bmc", &data.collect(), &hosts.into_iter().collect())
    };
    let name = PASSWORD.as_bytes();
    let user: (&str, &[u8]) = ("username", b"admin");
    rows.row(
        "missing",
        &CredentialsError::NotFound {
            secret: "bmc".to_owned(),
            namespace: "node-fencing-system".to_owned(),
            keys: "`username` and `password`".to_owned(),
        },
    );
    rows.row(
        "not in the files of `probe`",
        &CredentialsError::NotInFiles {
            secret: "bmc".to_owned(),
            keys: "`username` and `password`".to_owned(),
        },
    );
    rows.refused("no password", read(&[user, ("pass", name)], None));
    rows.refused("nothing in it", read(&[], None));
    let with = |password: &[u8]| read(&[user, ("password", password)], None);
    rows.refused("an empty password", with(b""));
    rows.refused("a password of white space", with(b" \t"));
    rows.refused("not UTF-8", with(&[name, &[0xff]].concat()));
    rows.refused("a NUL", with(&[name, &[0]].concat()));
    rows.refused("a carriage return", with(&[name, b"\rx"].concat()));
    rows.refused("a line feed", with(&[name, b"\nx"].concat()));
    rows.refused("over 4 KiB", with(&name.repeat(400)));
    let good = |user: &[u8], password: &[u8]| {
        read(&[("username", user), ("password", password)], None).expect("good ones")
    };
    rows.refused(
        "a user with a colon, for Basic",
        good(b"ad:min", name).basic(),
    );
    rows.refused(
        "a password of 24 bytes, for IPMI",
        good(b"admin", &[name, b"-battery-st"].concat())
            .ipmi()
            .map(drop),
    );
    rows.refused(
        "a user of 17 bytes, for IPMI",
        good(&[b'u'; 17], name).ipmi().map(drop),
    );
    let bound = read(
        &[user, ("password", name)],
        Some("bmc-3.example, 10.20.0.0/16"),
    )
    .expect("good ones");
    rows.refused(
        "an address that the annotation excludes",
        bound.judge_host("bmc-4.example", "192.0.2.1".parse().expect("an address")),
    );
    rows.refused(
        "an entry of the annotation that is none",
        read(&[user, ("password", name)], Some("10.20.0.0/33")),
    );
}

fn command_line(rows: &mut Rows) {
    rows.begin("Command line and environment: exit code 2");
    for flags in [
        &["--http-bnd=127.0.0.1:80"][..],
        &["--http-bind=8080"],
        &["--http-bind=0.0.0.0:65536"],
        &["--log-format=xml"],
        &["--namespace=Kube_System"],
        &["--node-name=a_b"],
        &["--allow-device-cidr=10.0.0.0"],
        &["--deny-device-cidr=10.0.0.1/8"],
        &["--leader-elect-lease-duration-seconds=15s"],
        &[
            "--leader-elect-lease-duration-seconds=10",
            "--leader-elect-renew-deadline-seconds=10",
        ],
        &["--leader-elect-retry-period-seconds=4"],
        &["--max-concurrent-fences=-1"],
        &["fence"],
        &["--kubeconfig"],
    ] {
        let line = std::iter::once("node-fencing-operator").chain(flags.iter().copied());
        rows.refused(&flags.join(" "), Order::read(line.map(OsString::from)));
    }
    rows.row(
        "nothing that says where the API server is",
        &client::Error::NoConfig,
    );
    let address = "0.0.0.0:8080".parse().expect("an address");
    rows.row("a port that is in use", &server::Error::InUse { address });
    let found = "v1.27.9".to_owned();
    rows.row("an old Kubernetes", &preflight::Error::TooOld { found });
    rows.row(
        "CustomResourceDefinitions that are not there",
        &preflight::Error::NotInstalled {
            missing: vec!["nodefences", "nodefences/status"],
        },
    );
}

#[test]
fn every_bad_input_gets_the_words_of_the_file() {
    let mut rows = Rows::default();
    policies::policies(&mut rows);
    addresses(&mut rows);
    devices(&mut rows);
    bundles(&mut rows);
    secrets(&mut rows);
    command_line(&mut rows);
    crate::stale::check(
        "contract bad_inputs",
        [("tests/data/bad-inputs.txt", rows.0)],
    );
}
