//! `kubectl fence generate`, run by the real kubectl: what it prints is given to a real API server as it stands, and the devices of a scan are then
//! used by the operator.
//!
//! Metal3's own definition of a BareMetalHost cannot be had here: the Go module that holds it (github.com/metal3-io/baremetal-operator) is not at the
//! module proxy, and tests use no other place. So the definition below is the test's own, for the fields that are read, and takes any others.

use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::lab::{Lab, Setup};
use e2e::operator::NAMESPACE;
use fencing_testbed::bmc::{Auth, Nonsense, Reply, Which};
use serde_json::{Value, json};
use tokio::process::Command;

use super::session::{Session, kubectl_fence, words};
use super::terminal::{CTRL_C, CTRL_D, Terminal, disagree};

/// Where the hosts are.
const METAL3: &str = "metal3";
/// Of the hosts' Secrets.
const PASSWORD: &str = "calvin-7f3a";
/// Variable with the password of a scan.
const VARIABLE: &str = "NODE_FENCING_BMC_PASSWORD";

/// What the plugin says on success.
async fn said(plane: &ControlPlane, line: &str, environment: &[(&str, &str)]) -> Result<String> {
    let output = kubectl_fence(plane, &words(line), environment).await?;
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{line}: {complained}");
    Ok(String::from_utf8(output.stdout)?)
}

/// What it complains of on failure, with nothing on standard output.
async fn complained(
    plane: &ControlPlane,
    line: &str,
    environment: &[(&str, &str)],
) -> Result<String> {
    let output = kubectl_fence(plane, &words(line), environment).await?;
    let Output { status, stdout, .. } = &output;
    ensure!(status.code() == Some(1), "{line}: {output:?}");
    ensure!(stdout.is_empty(), "{line}: {output:?}");
    Ok(String::from_utf8(output.stderr)?)
}

fn written(plane: &ControlPlane, name: &str, text: &str) -> Result<PathBuf> {
    let path = plane.files().directory().join(name);
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Gives the text to the API server.
async fn applied(plane: &ControlPlane, text: &str, flags: &[&str]) -> Result<String> {
    let path = written(plane, "generated.yaml", text)?;
    let path = path.to_str().context("UTF-8")?;
    let arguments = [&["apply", "-f", path], flags].concat();
    let told = plane.kubectl_text(&arguments).await;
    told.with_context(|| text.to_owned())
}

async fn created(plane: &ControlPlane, objects: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    applied(plane, &list.to_string(), &[]).await.map(drop)
}

fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "baremetalhosts.metal3.io"},
        "spec": {
            "group": "metal3.io",
            "scope": "Namespaced",
            "names": {"kind": "BareMetalHost", "plural": "baremetalhosts", "singular": "baremetalhost", "shortNames": ["bmh"]},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn host(name: &str, address: &str, hostname: &str) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": METAL3},
        "spec": {
            "online": true,
            "bmc": {"address": address, "credentialsName": format!("{name}-secret"), "disableCertificateVerification": true},
        },
        "status": {"hardware": {"hostname": hostname}},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_of_metal3_become_devices_that_the_api_server_takes() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-hosts", 2).alone()).await?;
    let plane = &lab.control_plane;
    let from_bmh = "generate devices --from-bmh";
    let refused = complained(plane, from_bmh, &[]).await?;
    ensure!(refused.contains("has no BareMetalHosts"), "{refused}");
    created(plane, &[definition()]).await?;
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd/baremetalhosts.metal3.io",
    ];
    plane.kubectl_text(&wait).await?;
    let (first, second) = (lab.rig(1).machine.name(), lab.rig(2).machine.name());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "host-1-secret", "namespace": METAL3},
        "stringData": {"username": "root", "password": PASSWORD},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": METAL3}});
    created(plane, &[namespace]).await?;
    let hosts = [
        host(
            "host-1",
            "redfish-virtualmedia://10.20.0.11/redfish/v1/Systems/1",
            first,
        ),
        host("host-2", "10.20.0.12:6230", second),
        host(
            "host-3",
            "idrac-redfish+https://10.20.0.13/redfish/v1/Systems/System.Embedded.1",
            "nobody",
        ),
        secret,
    ];
    created(plane, &hosts).await?;

    let refused = complained(plane, &format!("{from_bmh} --as nobody"), &[]).await?;
    ensure!(
        refused.contains("--verb=list --resource=baremetalhosts"),
        "{refused}"
    );
    let text = said(plane, from_bmh, &[]).await?;
    ensure!(!text.contains(PASSWORD), "{text}");
    let told = applied(plane, &text, &["--dry-run=server"]).await?;
    let expected = ["host-1-bmc", "host-2-bmc"]
        .map(|it| format!("fencedevice.nodefencing.io/{it} created (server dry run)\n"));
    ensure!(told == expected.concat(), "{told}\n{text}");
    ensure!(text.contains("no Node is called `nobody`"), "{text}");
    ensure!(!text.contains("\n    verification"), "{text}");

    // The command that copies the Secret does.
    let copy = text
        .lines()
        .find(|it| it.contains("get secret host-1-secret"));
    let copy = copy.context("no command")?.trim_start_matches(['#', ' ']);
    let kubectl = plane.toolchain().program("kubectl");
    let tools = kubectl.parent().context("it stands somewhere")?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", copy]).env("PATH", tools);
    let output = plane.run_command(shell).await?;
    ensure!(output.status.success(), "{copy}: {output:?}");
    let read = [
        "-n",
        NAMESPACE,
        "get",
        "secret",
        "host-1-secret",
        "-o",
        "go-template={{.data.password | base64decode}}",
    ];
    ensure!(plane.kubectl_text(&read).await? == PASSWORD);
    plane.check()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_proposes_devices_that_the_operator_finds_its_nodes_behind() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-scan", 2)).await?;
    let plane = &lab.control_plane;
    let bmcs = [1, 2].map(|number| &lab.rig(number).bmc);
    plane
        .kubectl_text(&["delete", "fencedevices", "--all"])
        .await?;
    let ca = written(plane, "bmc-ca.pem", bmcs[0].ca_pem())?;
    let urls = bmcs.map(|it| it.url()).join(" ");
    let scan = format!(
        "generate devices --from-redfish-scan {urls} --ca {} --username {} --yes --allow-device-cidr 127.0.0.0/8",
        ca.display(),
        bmcs[0].credentials().username
    );

    // A wrong password is tried once, at one BMC.
    let refused = complained(plane, &scan, &[(VARIABLE, "wrong-7f3a")]).await?;
    ensure!(refused.contains("no other BMC was tried"), "{refused}");
    let wrong = bmcs
        .iter()
        .flat_map(|it| it.log())
        .filter(|it| it.auth == Auth::Wrong);
    ensure!(wrong.count() == 1);
    // Nobody agrees, so nobody logs in.
    let asked = scan.replace(" --yes", "");
    let password = bmcs[0].credentials().password.clone();
    let refused = complained(plane, &asked, &[(VARIABLE, &password)]).await?;
    ensure!(refused.contains("add --yes"), "{refused}");
    let right = bmcs
        .iter()
        .flat_map(|it| it.log())
        .filter(|it| it.auth == Auth::Right);
    ensure!(right.count() == 0);

    // A 403 may be an account that is locked: it is not tried at the second either.
    bmcs[0].faults(|it| {
        let to = Which::PathEndsWith("/Systems".to_owned());
        it.replies = vec![Reply::new(to, Nonsense::Status(403, None))];
    });
    let refused = complained(plane, &scan, &[(VARIABLE, &password)]).await?;
    ensure!(refused.contains("no other BMC was tried"), "{refused}");
    ensure!(bmcs[1].log().iter().all(|it| it.auth == Auth::None));
    bmcs[0].heal()?;

    let text = said(plane, &scan, &[(VARIABLE, &password)]).await?;
    ensure!(!text.contains(&password), "{text}");
    for entry in bmcs.iter().flat_map(|it| it.log()) {
        ensure!(entry.method == "GET", "{entry:?}");
        ensure!(
            entry.path != "/redfish/v1/" || entry.auth == Auth::None,
            "{entry:?}"
        );
    }
    asks_at_a_terminal(&lab, &asked).await?;
    let told = applied(plane, &text, &[]).await?;
    let expected = [1, 2].map(|number| {
        let node = lab.rig(number).machine.name();
        format!("fencedevice.nodefencing.io/{node}-bmc created\n")
    });
    ensure!(told == expected.concat(), "{told}\n{text}");
    // The Secret and the ConfigMap have the names that are proposed. Both machines are pinned, so both devices are the right ones.
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    operator.check()?;
    lab.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_become_a_policy_that_the_api_server_takes() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-policy", 1)).await?;
    let plane = &lab.control_plane;
    let mut session = Session::new(&lab, "none", "Policies of flags");
    for (flags, name) in [
        ("", "workers"),
        (
            "--name all --selector \"\" --mode powerOff --device-selector \"tier in (bmc,pdu)\" --wait 90s --min-healthy 3 --max-concurrent 2 --manual-approval --power-on",
            "all",
        ),
        ("--mode ConfirmOnly --min-healthy 75%", "workers"),
    ] {
        let text = session.types(&format!("generate policy {flags}")).await?;
        let told = applied(plane, &text, &["--dry-run=server"]).await?;
        let expected =
            format!("nodefencingpolicy.nodefencing.io/{name} created (server dry run)\n");
        ensure!(told == expected, "{told}\n{text}");
    }
    session.hold("generate")?;
    plane.check()
}

/// Nobody is logged in before somebody says yes, and the password is not shown.
async fn asks_at_a_terminal(lab: &Lab, line: &str) -> Result<()> {
    let plane = &lab.control_plane;
    let bmcs = [1, 2].map(|number| &lab.rig(number).bmc);
    let is_login = |it: &fencing_testbed::bmc::Entry| it.auth != Auth::None;
    let logins = || bmcs.iter().flat_map(|it| it.log()).filter(is_login).count();
    let before = logins();
    let question = "read their systems? [y/N]";
    disagree(plane, line, question, "no").await?;
    // Nor with a yes, and then no password.
    for keys in [CTRL_D, CTRL_C] {
        let mut terminal = at_password(plane, line).await?;
        terminal.types(keys).await?;
        let (status, seen) = terminal.ends().await?;
        ensure!(!status.success(), "{seen}");
    }
    ensure!(logins() == before, "somebody was logged in");
    let password = &bmcs[0].credentials().password;
    let mut terminal = at_password(plane, line).await?;
    terminal.types(&format!("{password}\n")).await?;
    let (status, seen) = terminal.ends().await?;
    ensure!(status.success(), "{seen}");
    ensure!(seen.contains("kind: FenceDevice"), "{seen}");
    ensure!(!seen.contains(password), "{seen}");
    ensure!(logins() > before);
    Ok(())
}

/// A scan to which somebody has said yes, and that waits for the password.
async fn at_password(plane: &ControlPlane, line: &str) -> Result<Terminal> {
    let mut terminal = Terminal::open(plane, line, &[]).await?;
    terminal.reads("[y/N]").await?;
    terminal.types("y\n").await?;
    terminal.reads("Password:").await?;
    terminal.is_hidden().await?;
    Ok(terminal)
}
