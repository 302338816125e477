//! `probe FILE`, as the engineer who racks the machine meets it.

use crate::{ended, operator, refusal};
use e2e::bmc::{Bmc, BmcCa, Credentials, Plug};
use e2e::ipmi::{IpmiBmc, Settings};
use e2e::machine::Power;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::PathBuf;
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
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let address: IpAddr = [127, 85, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into();
        let plug = Arc::new(Plug::new("node-1", UUID));
        let bmc = IpmiBmc::start(address, plug.clone(), Settings::default()).expect("a BMC");
        let files = tempfile::tempdir().expect("a directory");
        Self { plug, bmc, files }
    }

    /// The FenceDevice, and a Secret with this password unless it is elsewhere.
    fn file(&self, password: Option<&str>) -> PathBuf {
        let address = self.bmc.address();
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "worker-3-bmc"},
            "spec": {
                "nodeName": "worker-3", "credentialsRef": {"name": "bmc"},
                "ipmi": {"address": address.ip().to_string(), "port": address.port()},
            },
        });
        let secret = password.map(|password| self.secret(password));
        let documents: Vec<String> = [Some(device), secret]
            .into_iter()
            .flatten()
            .map(|it| it.to_string())
            .collect();
        self.write("device.yaml", &documents.join("\n---\n"))
    }

    fn secret(&self, password: &str) -> Value {
        let Credentials { username, .. } = self.bmc.credentials();
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
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
        let mut command = operator(&["probe"]);
        command
            .arg(file)
            .args(["--allow-device-cidr", "127.0.0.0/8"])
            .args(flags);
        tokio::task::spawn_blocking(|| ended(command))
            .await
            .expect("it ends")
    }

    fn password(&self) -> &str {
        &self.bmc.credentials().password
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_probe_tells_all_and_changes_nothing() {
    let rack = Rack::new();
    let output = rack
        .probe(rack.file(Some(rack.password())), &["--node-uuid", UUID])
        .await;
    let told = text(&output);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in [
        "FenceDevice  worker-3-bmc (ipmi), node worker-3",
        "power        On (",
        "system UUID  ",
        "verdict      clean: a fence would work",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    assert!(!told.contains(rack.password()));
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
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("verdict      IdentityMismatch: "),
        "{}",
        text(&output)
    );
    // Whoever names the machine means it, whatever the device's own rule is.
    let skips = std::fs::read_to_string(rack.file(Some(rack.password()))).expect("the file");
    let skips = skips.replace(r#""ipmi":"#, r#""identityCheck":"Skip","ipmi":"#);
    assert!(skips.contains("Skip"), "{skips}");
    let output = rack.probe(rack.write("skips.yaml", &skips), &off).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("verdict      IdentityMismatch: "),
        "{}",
        text(&output)
    );
    let output = rack
        .probe(
            rack.file(Some("wrong")),
            &["--node-uuid", UUID, "--power-off", "--yes"],
        )
        .await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("verdict      AuthFailed: "),
        "{}",
        text(&output)
    );
    let output = rack.probe(rack.file(None), &[]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("verdict      CredentialsInvalid: "),
        "{}",
        text(&output)
    );
    assert!(rack.plug.is_on() && rack.bmc.power_commands().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_off_is_commanded_once_and_proven() {
    let rack = Rack::new();
    let flags = ["--node-uuid", UUID, "--power-off", "--yes"];
    let output = rack.probe(rack.file(Some(rack.password())), &flags).await;
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("verdict      off, and proven to be"),
        "{told}"
    );
    assert!(!rack.plug.is_on());
    assert_eq!(rack.bmc.power_commands().len(), 1);
}

/// Where no CA is named, those of the system are trusted: the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, if they are set.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_ca_in_the_spec_those_of_the_system_are_trusted_and_no_other() {
    let (ca, other) = (
        BmcCa::new("system").expect("a CA"),
        BmcCa::new("other").expect("a CA"),
    );
    let plug = Arc::new(Plug::new("node-1", UUID));
    let login = Credentials::default();
    let bmc = Bmc::start([127, 85, 1, 1].into(), plug, login.clone(), &ca).expect("a BMC");
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "worker-3-bmc"},
        "spec": {
            "nodeName": "worker-3", "credentialsRef": {"name": "bmc"},
            "redfish": {"address": bmc.url(), "tls": {"verification": "Full"}},
        },
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": login.username, "password": login.password},
    });
    let files = tempfile::tempdir().expect("a directory");
    let (file, roots) = (
        files.path().join("device.yaml"),
        files.path().join("roots.pem"),
    );
    std::fs::write(&file, format!("{device}\n---\n{secret}")).expect("a file");
    for (pem, code, says) in [
        (ca.pem(), 0, "verdict      clean: a fence would work"),
        (other.pem(), 1, "verdict      TlsIdentity: "),
        (String::new(), 1, "knows no CA"),
    ] {
        std::fs::write(&roots, pem).expect("a file");
        let asked = bmc.log().len();
        let mut command = operator(&["probe", "--node-uuid", UUID]);
        command
            .arg(&file)
            .args(["--allow-device-cidr", "127.0.0.0/8"])
            .env("SSL_CERT_FILE", &roots)
            .env_remove("SSL_CERT_DIR");
        let output = tokio::task::spawn_blocking(|| ended(command));
        let output = output.await.expect("it ends");
        let told = text(&output);
        assert!(told.contains(says), "{says} is not in\n{told}");
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert_eq!(
            bmc.log().len() > asked,
            code == 0,
            "the password goes to nobody else"
        );
    }
}

#[test]
fn a_file_or_a_flag_that_cannot_be_used_is_one_line() {
    const FLEET: &str = r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeSelector": {}, "manual": {}}}"#;
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("file.yaml");
    const OF_ONE: &str = r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeName": "w", "manual": {}}}"#;
    const OF_NONE: &str =
        r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeName": "w"}}"#;
    const OF_TWO: &str = r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeName": "w", "manual": {}, "ipmi": {"address": "127.0.0.1"}}}"#;
    const OF_NUMBER: &str =
        r#"{"kind": "Secret", "metadata": {"name": "bmc"}, "stringData": {"password": 1234}}"#;
    const OF_PLAIN: &str =
        r#"{"kind": "Secret", "metadata": {"name": "bmc"}, "data": {"password": "pa$$word"}}"#;
    const OF_ELSEWHERE: &str =
        r#"{"kind": "Secret", "metadata": {"name": "bmc", "namespace": "default"}}"#;
    const CA_ELSEWHERE: &str =
        r#"{"kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "default"}}"#;
    let table: [(Option<&str>, &[&str], &str); 15] = [
        (None, &[], "cannot be read"),
        (Some("{"), &[], "is not YAML"),
        (Some("kind: Secret"), &[], "exactly one FenceDevice"),
        (Some(FLEET), &[], "--node"),
        (Some(FLEET), &["--power-off"], "--yes"),
        (Some(FLEET), &["--output", "xml"], "must be text or json"),
        (
            Some(FLEET),
            &["--node-uuid", "00000000-0000-0000-0000-000000000000"],
            "--node-uuid",
        ),
        (Some(OF_ONE), &["--power-off", "--yes"], "needs --node-uuid"),
        (Some(OF_NONE), &[], "it sets 0"),
        (Some(OF_TWO), &[], "it sets 2: ipmi, manual"),
        (
            Some(OF_NUMBER),
            &[],
            "`stringData.password` of Secret `bmc`",
        ),
        (
            Some(OF_PLAIN),
            &[],
            "`data.password` of Secret `bmc` is not base64",
        ),
        (
            Some(OF_ELSEWHERE),
            &[],
            "Secret `bmc` is in namespace `default`",
        ),
        (
            Some(CA_ELSEWHERE),
            &[],
            "ConfigMap `ca` is in namespace `default`",
        ),
        // One in the operator's own namespace is none of these.
        (
            Some(OF_ELSEWHERE),
            &["--namespace", "default"],
            "exactly one FenceDevice",
        ),
    ];
    for (text, flags, says) in table {
        if let Some(text) = text {
            std::fs::write(&file, text).expect("a file");
        }
        let mut command = operator(&["probe"]);
        command.arg(&file).args(flags);
        let (code, said) = refusal(command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(says), "{said}");
    }
}
