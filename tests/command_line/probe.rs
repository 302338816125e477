//! `probe FILE`, as the engineer who racks the machine meets it.

mod bad_input;
mod clouds;
mod conformance;
mod other_devices;
mod system_roots;

use crate::{ended, operator};
use fencing_testbed::bmc::{Credentials, Effect, Plug};
use fencing_testbed::ipmi::{IpmiBmc, PowerBit, RestorePolicy, Settings};
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const UUID: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d32";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";

/// A machine with an IPMI BMC, and the files that describe it.
struct Rack {
    plug: Arc<Plug>,
    bmc: IpmiBmc,
    files: tempfile::TempDir,
}

impl Rack {
    fn new() -> Self {
        let address = own_address();
        let plug = Arc::new(Plug::new("node-1", UUID));
        let bmc = IpmiBmc::start(address, plug.clone(), Settings::default()).expect("a BMC");
        let files = tempfile::tempdir().expect("a directory");
        Self { plug, bmc, files }
    }

    /// The FenceDevice, and a Secret with this password unless it is elsewhere.
    fn file(&self, password: Option<&str>) -> PathBuf {
        let address = self.bmc.address();
        let ipmi = json!({"address": address.ip().to_string(), "port": address.port()});
        let device = fence_device(json!({"nodeName": "worker-3", "ipmi": ipmi}));
        let secret = password.map(|password| self.secret(password));
        let objects: Vec<Value> = [Some(device), secret].into_iter().flatten().collect();
        self.write("device.yaml", &documents(&objects))
    }

    fn secret(&self, password: &str) -> Value {
        let Credentials { username, .. } = self.bmc.credentials();
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc", "annotations": {"nodefencing.io/allowed-hosts": "127.0.0.0/8"}},
            "stringData": {"username": username, "password": password},
        })
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Probes a file with these flags.
    async fn probe(&self, file: PathBuf, flags: &[&str]) -> Output {
        probed(&file, flags, None).await
    }

    fn password(&self) -> &str {
        &self.bmc.credentials().password
    }
}

/// An address that no other test has.
fn own_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    [127, 85, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into()
}

/// The FenceDevice with this spec, and credentials in Secret `bmc`.
fn fence_device(mut spec: Value) -> Value {
    spec["credentialsRef"] = json!({"name": "bmc"});
    json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "worker-3-bmc"}, "spec": spec,
    })
}

/// The objects as a file of several documents.
fn documents(objects: &[Value]) -> String {
    let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
    objects.join("\n---\n")
}

/// Probes a file with these flags, and with this file as standard input.
async fn probed(file: &Path, flags: &[&str], stdin: Option<&Path>) -> Output {
    let mut command = operator(&["probe"]);
    command
        .arg(file)
        .args(["--allow-device-cidr", "127.0.0.0/8"])
        .args(flags);
    if let Some(stdin) = stdin {
        command.stdin(File::open(stdin).expect("the file"));
    }
    tokio::task::spawn_blocking(|| ended(command))
        .await
        .expect("it ends")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The report, which must come with this exit code.
fn json_of(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// It must end with this exit code, and each of these must be in what it told.
fn assert_told(output: &Output, code: i32, parts: &[&str]) {
    let told = text(output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}{said}");
    for part in parts {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_probe_tells_all_and_changes_nothing() {
    let rack = Rack::new();
    let output = rack
        .probe(rack.file(Some(rack.password())), &["--node-uuid", UUID])
        .await;
    let lines = [
        "FenceDevice  worker-3-bmc (ipmi), node worker-3",
        "power        On (",
        "system UUID  ",
        "verdict      clean: fencing works",
    ];
    assert_told(&output, 0, &lines);
    assert!(!text(&output).contains(rack.password()));
    assert!(rack.plug.is_on() && rack.bmc.power_commands().is_empty());
    // The password from elsewhere, the result for a script.
    let secret = rack.secret(rack.password()).to_string();
    let secret = rack.write("secret.yaml", &secret);
    let flags = ["--secret", &secret.to_string_lossy(), "--output", "json"];
    let output = rack.probe(rack.file(None), &flags).await;
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&report["verdict"], &report["answer"]["powerState"]),
        (&json!("Clean"), &json!("On"))
    );
    assert!(
        report["notes"][0]
            .as_str()
            .is_some_and(|note| note.contains("--node-uuid"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_is_said_and_nothing_is_switched() {
    let rack = Rack::new();
    let off = ["--node-uuid", OTHER, "--power-off", "--yes"];
    let output = rack.probe(rack.file(Some(rack.password())), &off).await;
    assert_told(&output, 1, &["verdict      IdentityMismatch: "]);
    // Whoever names the machine means it, whatever the device's own rule is.
    let skips = std::fs::read_to_string(rack.file(Some(rack.password()))).expect("the file");
    let skips = skips.replace(r#""ipmi":"#, r#""identityCheck":"Skip","ipmi":"#);
    assert!(skips.contains("Skip"), "{skips}");
    let output = rack.probe(rack.write("skips.yaml", &skips), &off).await;
    assert_told(&output, 1, &["verdict      IdentityMismatch: "]);
    let off = ["--node-uuid", UUID, "--power-off", "--yes"];
    let output = rack.probe(rack.file(Some("wrong")), &off).await;
    assert_told(&output, 1, &["verdict      AuthFailed: "]);
    let output = rack.probe(rack.file(None), &[]).await;
    assert_told(&output, 1, &["verdict      CredentialsInvalid: "]);
    assert!(rack.plug.is_on() && rack.bmc.power_commands().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn either_file_may_come_on_standard_input() {
    let rack = Rack::new();
    let secret = rack.secret(rack.password()).to_string();
    let secret = rack.write("secret.yaml", &secret);
    let bare = rack.file(None);
    let clean = ["verdict      clean"];
    let output = probed(&bare, &["--secret", "-"], Some(&secret)).await;
    assert_told(&output, 0, &clean);
    let (stdin, flags) = (Path::new("-"), ["--secret", &secret.to_string_lossy()]);
    let output = probed(stdin, &flags, Some(&bare)).await;
    assert_told(&output, 0, &clean);
    let both = rack.file(Some(rack.password()));
    let output = probed(stdin, &[], Some(&both)).await;
    assert_told(&output, 0, &clean);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_bmc_says_of_itself_is_told() {
    let rack = Rack::new();
    rack.bmc.faults(|faults| {
        faults.restore_policy = RestorePolicy::Previous;
        faults.lists_suites = Some(vec![3, 17]);
        faults.sel_time = Some(1_700_000_000);
    });
    let file = rack.file(Some(rack.password()));
    let lines = [
        "restores     LastState\n",
        "suites       3, 17\n",
        "clock        2023-11-14T22:13:20Z, ",
        " s behind ours\n",
    ];
    assert_told(&rack.probe(file.clone(), &[]).await, 0, &lines);
    let report = json_of(&rack.probe(file, &["--output", "json"]).await, 0);
    let answer = &report["answer"];
    let told = json!([
        answer["powerRestorePolicy"],
        answer["cipherSuites"],
        answer["clockTime"]
    ]);
    assert_eq!(told, json!(["LastState", [3, 17], "2023-11-14T22:13:20Z"]));
    assert!(
        answer["clockAheadSeconds"]
            .as_i64()
            .is_some_and(|it| it < 0),
        "{answer}"
    );
}

/// One address scheme for many nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_a_fleet_is_asked_for_the_node_that_is_named() {
    let rack = Rack::new();
    let address = rack.bmc.address();
    let node = address.ip().to_string().replace("127.85.0.", "");
    let ipmi = json!({"address": "127.85.0.${node.name}", "port": address.port()});
    let device = fence_device(json!({"nodeSelector": {}, "ipmi": ipmi}));
    let file = rack.write(
        "fleet.yaml",
        &documents(&[device, rack.secret(rack.password())]),
    );
    let flags = ["--node", &node, "--node-uuid", UUID];
    let output = rack.probe(file, &flags).await;
    let of_node = format!("FenceDevice  worker-3-bmc (ipmi), node {node}\n");
    assert_told(&output, 0, &[&of_node, "verdict      clean"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_off_is_commanded_once_and_proven_by_readings_that_are_shown() {
    let rack = Rack::new();
    let file = rack.file(Some(rack.password()));
    let flags = ["--node-uuid", UUID, "--power-off", "--yes"];
    let output = rack.probe(file.clone(), &flags).await;
    let lines = [
        "power off    the device accepted the command\n",
        "the readings prove the device off",
        "verdict      off, confirmed by its device\n",
    ];
    assert_told(&output, 0, &lines);
    let told = text(&output);
    let readings: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("reading "))
        .collect();
    assert!(readings.len() >= 2, "{told}");
    assert!(
        readings
            .iter()
            .all(|line| line.contains("Z Off (") && line.ends_with(" ms")),
        "{told}"
    );
    assert!(!rack.plug.is_on());
    assert_eq!(rack.bmc.power_commands().len(), 1);
    // It is off already, and that is commanded and proven all the same.
    let flags = [&flags[..], &["--output", "json"]].concat();
    let report = json_of(&rack.probe(file, &flags).await, 0);
    let off = &report["powerOff"];
    assert_eq!(
        json!([report["verdict"], off["isProven"]]),
        json!(["OffProven", true])
    );
    assert_eq!(rack.bmc.power_commands().len(), 2);
    let readings = off["readings"].as_array().expect("readings");
    assert!(readings.len() >= 2, "{off}");
    for reading in readings {
        assert_eq!(reading["powerState"], "Off", "{off}");
        assert!(
            reading["raw"].is_string() && reading["millis"].is_u64(),
            "{off}"
        );
        let time = reading["time"].as_str().unwrap_or_default();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{off}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_off_that_is_not_proven_in_time_ends_with_1() {
    let (deaf, flapping) = (Rack::new(), Rack::new());
    deaf.bmc.faults(|faults| faults.effect = Effect::Ignored);
    flapping
        .bmc
        .faults(|faults| faults.power = PowerBit::Cycle(vec![true, false]));
    let flags = [
        "--node-uuid",
        UUID,
        "--power-off",
        "--yes",
        "--timeout",
        "5",
    ];
    let as_json = [&flags[..], &["--output", "json"]].concat();
    let (output, other) = tokio::join!(
        deaf.probe(deaf.file(Some(deaf.password())), &flags),
        flapping.probe(flapping.file(Some(flapping.password())), &as_json),
    );
    let lines = [
        "power off    the device accepted the command\n",
        "Z On (",
        "not confirmed off within 5 s: FenceDevice worker-3-bmc read Off 0 of 2 times",
        "verdict      not confirmed off\n",
    ];
    assert_told(&output, 1, &lines);
    assert!(deaf.plug.is_on());
    assert_eq!(deaf.bmc.power_commands().len(), 1);
    let report = json_of(&other, 1);
    let off = &report["powerOff"];
    assert_eq!(
        json!([report["verdict"], off["isProven"]]),
        json!(["NotClean", false])
    );
    let read = |state| {
        let mut readings = off["readings"].as_array().into_iter().flatten();
        readings.any(|reading| reading["powerState"] == state)
    };
    assert!(read("On") && read("Off"), "{off}");
    let words = off["message"].as_str().unwrap_or_default();
    assert!(words.starts_with("not confirmed off within 5 s: "), "{off}");
}
