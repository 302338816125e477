//! `probe FILE` of a cloud, which finds the machine by what the Node says: by the Node in the files, or by flags.

use super::{UUID, assert_told, documents, own_address, probed};
use fencing_testbed::bmc::{BmcCa, Plug};
use fencing_testbed::cloud::Cloud;
use fencing_testbed::cloud::hetzner::{ADDRESS, Hetzner, SERVER, TOKEN};
use fencing_testbed::power::Power;
use serde_json::{Value, json};
use std::process::Output;
use std::sync::Arc;
use tempfile::NamedTempFile;

/// A project with a server, which runs.
struct Project {
    machine: Arc<Plug>,
    cloud: Cloud<Hetzner>,
}

impl Project {
    fn new() -> Self {
        let machine = Arc::new(Plug::new("worker-3", UUID));
        let ca = BmcCa::new("a project").expect("an authority");
        let power: Arc<dyn Power> = machine.clone();
        let cloud = Cloud::start(own_address(), power, Hetzner { others: 0 }, &ca);
        Self {
            machine,
            cloud: cloud.expect("a project"),
        }
    }

    /// Probes the device of all its servers, with these objects beside it.
    async fn probe(&self, beside: &[Value], flags: &[&str]) -> Output {
        let tls = json!({"caRef": {"name": "ca"}});
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "servers"},
            "spec": {
                "nodeSelector": {}, "identityCheck": "BestEffort", "credentialsRef": {"name": "hetzner"},
                "hetznerCloud": {"address": self.cloud.url(), "tls": tls},
            },
        });
        let object = |kind: &str, name: &str, field: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data});
        let own = [
            device,
            object("Secret", "hetzner", "stringData", json!({"token": TOKEN})),
            object(
                "ConfigMap",
                "ca",
                "data",
                json!({"ca.crt": self.cloud.ca_pem()}),
            ),
        ];
        let objects = [&own[..], beside].concat();
        let file = NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), documents(&objects)).expect("the file");
        probed(file.path(), flags, None).await
    }
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": "fsn1"}},
        "spec": {"providerID": format!("hcloud://{SERVER}"), "podCIDR": "10.1.0.0/24"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"systemUUID": UUID, "bootID": "boot-1", "kubeletVersion": "v1.36.0"},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_finds_the_machine_by_the_node_in_the_files_or_by_flags() {
    let project = Project::new();
    let clean = ["node worker-3\n", "power        On (running)\n"];
    // The one Node is the one that is meant.
    let output = project.probe(&[node("worker-3")], &[]).await;
    assert_told(&output, 0, &clean);
    let id = format!("hcloud://{SERVER}");
    let flags = ["--node", "worker-3", "--node-address", ADDRESS];
    let of_flags = [&flags[..], &["--node-provider-id", &id]].concat();
    let output = project.probe(&[], &of_flags).await;
    assert_told(&output, 0, &clean);
    // Of several the one that is named.
    let both = [node("worker-2"), node("worker-3")];
    let output = project.probe(&both, &["--node", "worker-3"]).await;
    assert_told(&output, 0, &clean);
    let output = project.probe(&[], &["--node", "worker-3"]).await;
    assert_told(
        &output,
        1,
        &["verdict      SettingsInvalid: ", "providerID"],
    );
    assert!(project.machine.is_on());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_and_the_node_in_the_files_have_to_agree() {
    let project = Project::new();
    let own = [node("worker-3")];
    let other = "11111111-2222-4333-8444-555555555555";
    let twice = [node("worker-3"), node("worker-3")];
    for (beside, flags, says) in [
        (
            &own[..],
            &["--node-provider-id", "hcloud://4712"][..],
            "is not that of Node worker-3 in the files",
        ),
        (
            &own,
            &["--node-uuid", other],
            "is not that of Node worker-3 in the files",
        ),
        (&twice, &["--node", "worker-3"], "is in the files twice"),
        (&twice, &[], "name the node with --node"),
    ] {
        let output = project.probe(beside, flags).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
    assert_eq!(project.cloud.requests(), 0);
}

/// S5: the Node's own UUID names the machine that is meant, as `--node-uuid` does.
#[tokio::test(flavor = "multi_thread")]
async fn the_machine_of_the_node_in_the_files_is_turned_off() {
    let project = Project::new();
    let off = ["--power-off", "--yes"];
    let mut unnamed = node("worker-3");
    unnamed["status"]["nodeInfo"] = json!({});
    let output = project.probe(&[unnamed], &off).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(project.machine.is_on());
    let output = project.probe(&[node("worker-3")], &off).await;
    assert_told(&output, 0, &["verdict      off, confirmed by its device\n"]);
    assert!(!project.machine.is_on());
}
