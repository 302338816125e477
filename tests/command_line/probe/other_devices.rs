//! `probe FILE` of what is no IPMI BMC: Redfish with its CA in the file, and the outlets of a PDU.

use super::{UUID, assert_told, documents, fence_device, own_address, probed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_testbed::bmc::{Bmc, BmcCa, Credentials, Plug};
use fencing_testbed::power::Power;
use fencing_testbed::process::Guard;
use fencing_testbed::snmpd::{COMMUNITY, Feed, Pdu};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Output;
use std::sync::Arc;
use tempfile::NamedTempFile;

const OFF: [&str; 4] = ["--node-uuid", UUID, "--power-off", "--yes"];

/// A machine with a Redfish BMC.
struct Rack {
    plug: Arc<Plug>,
    bmc: Bmc,
}

impl Rack {
    fn new() -> Self {
        let ca = BmcCa::new("BMCs of a test").expect("an authority");
        let plug = Arc::new(Plug::new("node-1", UUID));
        let bmc = Bmc::start(own_address(), plug.clone(), Credentials::default(), &ca);
        let bmc = bmc.expect("a BMC");
        Self { plug, bmc }
    }

    /// Probes it with its CA in an object of this kind, and with these certificates in that.
    async fn probe(&self, kind: &str, certificates: &str, flags: &[&str]) -> Output {
        let tls = json!({"caRef": {"kind": kind, "name": "bmc-ca"}});
        let redfish = json!({"address": self.bmc.url(), "tls": tls});
        let Credentials { username, password } = self.bmc.credentials();
        let data = match kind {
            "Secret" => "stringData",
            _ => "data",
        };
        let objects = [
            fence_device(json!({"nodeName": "worker-3", "redfish": redfish})),
            secret(json!({"username": username, "password": password})),
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "bmc-ca"}, data: {"ca.crt": certificates}}),
        ];
        probed_objects(&objects, flags).await
    }

    async fn probe_with_its_ca(&self, flags: &[&str]) -> Output {
        self.probe("ConfigMap", self.bmc.ca_pem(), flags).await
    }

    fn power_commands(&self) -> usize {
        self.bmc.power_commands().len()
    }
}

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"}, "stringData": data})
}

async fn probed_objects(objects: &[Value], flags: &[&str]) -> Output {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), documents(objects)).expect("the file");
    probed(file.path(), flags, None).await
}

fn written(object: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), object.to_string()).expect("the file");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redfish_bmc_is_trusted_by_the_ca_of_the_file() {
    let rack = Rack::new();
    let lines = [
        "FenceDevice  worker-3-bmc (redfish), node worker-3\n",
        "power        On (On)\n",
        "restores     AlwaysOff\n",
        "certificate  valid until ",
        "verdict      clean: fencing works\n",
    ];
    for kind in ["ConfigMap", "Secret"] {
        let output = rack
            .probe(kind, rack.bmc.ca_pem(), &["--node-uuid", UUID])
            .await;
        assert_told(&output, 0, &lines);
    }
    let asked = rack.bmc.log().len();
    let stranger = BmcCa::new("nobody's authority").expect("an authority");
    let output = rack.probe("ConfigMap", &stranger.pem(), &OFF).await;
    assert_told(&output, 1, &["verdict      TlsIdentity: "]);
    let output = rack.probe("ConfigMap", "no certificate", &OFF).await;
    assert_told(&output, 1, &["verdict      SettingsInvalid: "]);
    assert_eq!(rack.bmc.log().len(), asked, "nothing was sent");
}

/// `probe` asks no cluster: nobody is sent to one for what the files lack, and what `kubectl get` prints of one will do.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_in_the_files_is_to_be_put_there() {
    let rack = Rack::new();
    let ca_of = |kind: &str| {
        let tls = json!({"caRef": {"kind": kind, "name": "bmc-ca"}});
        let redfish = json!({"address": rack.bmc.url(), "tls": tls});
        fence_device(json!({"nodeName": "worker-3", "redfish": redfish}))
    };
    let Credentials { username, password } = rack.bmc.credentials();
    let secret = secret(json!({"username": username, "password": password}));
    let output = probed_objects(&[ca_of("ConfigMap")], &OFF).await;
    let says = "Secret `bmc` is not in the files; add it after a line `---` with the keys `username`, `password`, or name its file with --secret";
    assert_told(&output, 1, &[says]);
    for kind in ["ConfigMap", "Secret"] {
        let says = format!(
            "{kind} `bmc-ca` is not in the files; add it with the CA's certificates in key `ca.crt`, after a line `---` or in the file of --secret"
        );
        let output = probed_objects(&[ca_of(kind), secret.clone()], &OFF).await;
        assert_told(&output, 1, &[&says]);
    }
    assert!(rack.bmc.log().is_empty(), "nothing was sent");
    let namespace = "node-fencing-system";
    let of_cluster = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc", "namespace": namespace},
            "data": {"username": STANDARD.encode(username), "password": STANDARD.encode(password)}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bmc-ca", "namespace": namespace},
            "data": {"ca.crt": rack.bmc.ca_pem()}},
    ]});
    let (file, stdin) = (written(&ca_of("ConfigMap")), written(&of_cluster));
    let flags = ["--node-uuid", UUID, "--secret", "-"];
    let output = probed(file.path(), &flags, Some(stdin.path())).await;
    assert_told(&output, 0, &["verdict      clean: fencing works\n"]);
}

/// A look cannot see what the account may do.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_may_only_read_shows_when_the_machine_is_to_go_off() {
    let rack = Rack::new();
    rack.bmc.faults(|faults| faults.read_only_account = true);
    let output = rack.probe_with_its_ca(&["--node-uuid", UUID]).await;
    assert_told(&output, 1, &["verdict      PowerOffDenied: "]);
    // Not every BMC tells of its accounts.
    rack.bmc.faults(|faults| faults.no_account_service = true);
    let output = rack.probe_with_its_ca(&["--node-uuid", UUID]).await;
    assert_told(&output, 0, &["verdict      clean"]);
    let output = rack.probe_with_its_ca(&OFF).await;
    let lines = [
        "power off    not carried out\n",
        "verdict      not confirmed off\n",
    ];
    assert_told(&output, 1, &lines);
    assert!(rack.plug.is_on());
    let before = rack.power_commands();
    rack.bmc.faults(|faults| faults.read_only_account = false);
    let output = rack.probe_with_its_ca(&OFF).await;
    assert_told(
        &output,
        0,
        &[
            "Z Off (Off), ",
            "verdict      off, confirmed by its device\n",
        ],
    );
    assert!(!rack.plug.is_on());
    assert_eq!(rack.power_commands(), before + 1);
}

/// An outlet cannot name its machine, so that no UUID is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn the_outlets_of_a_pdu_are_looked_at_and_switched() {
    let machine = Arc::new(Plug::new("node-1", UUID));
    let feed = Feed::new(machine.clone());
    let (guard, logs) = (Guard::start(), tempfile::tempdir());
    let (guard, logs) = (guard.expect("a guard"), logs.expect("a directory"));
    let outlets = BTreeMap::from([(3, Arc::clone(&feed)), (7, feed)]);
    let pdu = Pdu::start(own_address(), outlets, &guard, logs.path()).await;
    let pdu = pdu.expect("a PDU");
    let address = pdu.address();
    let driver = json!({
        "address": address.ip(), "port": address.port(), "model": "APCRackPDU2", "outlets": [3, 7], "snmp": {"version": "V2c"},
    });
    let spec = json!({"nodeName": "worker-3", "identityCheck": "Skip", "pdu": driver});
    let objects = [fence_device(spec), secret(json!({"community": COMMUNITY}))];
    let output = probed_objects(&objects, &[]).await;
    let lines = [
        "FenceDevice  worker-3-bmc (pdu), node worker-3\n",
        "power        On (3: on, 7: on)\n",
        "note         the machine's identity was not compared, because an outlet names none: try the wiring once",
        "verdict      clean",
    ];
    assert_told(&output, 0, &lines);
    assert!(machine.is_on());
    let output = probed_objects(&objects, &["--power-off", "--yes"]).await;
    assert_told(
        &output,
        0,
        &[
            "Z Off (3: off, 7: off), ",
            "verdict      off, confirmed by its device\n",
        ],
    );
    for outlet in [3, 7] {
        assert!(!pdu.is_on(outlet).expect("the outlet"));
    }
    assert!(
        machine
            .wait_until(false, std::time::Duration::from_secs(20))
            .await
    );
}
