//! `kubectl fence report`, run by the real kubectl: canaries are planted wherever the archive is made of, and none comes out of it, in whichever
//! spelling. Simulated kubelets serve no logs; that they could not be read is then in the archive too, and what is done with logs is for unit tests.

use anyhow::{Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, base64};
use e2e::operator::NAMESPACE;
use fencing_testbed::eventually::eventually;
use serde_json::json;
use tokio::process::Command;

use super::session::{kubectl_fence, words};

const PASSWORD: &str = "Canary-Passw0rd-7f3a";
const HOST: &str = "Canary-Bmc.corp.example";
const ADDRESS: &str = "198.51.100.77";
const ADDRESS6: &str = "2001:db8::ca:7";
const MAC: &str = "b4:96:91:ca:00:07";
const UUID: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d77";

/// In every spelling, in lower case but for what has none.
fn spellings(canary: &str) -> Vec<String> {
    let percent = |is_encoded: fn(char) -> bool| {
        let signs = canary.chars().map(|sign| match is_encoded(sign) {
            true => format!("%{:02x}", u32::from(sign)),
            false => sign.to_string(),
        });
        signs.collect::<String>()
    };
    let all = [
        canary.to_owned(),
        base64(canary),
        base64(&canary.to_lowercase()),
        base64(&canary.to_uppercase()),
        percent(|_| true),
        percent(|it| !it.is_ascii_alphanumeric()),
    ];
    all.map(|it| it.to_lowercase()).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_has_what_helps_and_no_canary() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-report", 1)).await?;
    let plane = &lab.control_plane;
    let node = lab.rig(1).machine.name();
    let device = json!({
        "nodeName": "canary-node",
        "redfish": {"address": format!("https://{HOST}:8443"), "systemID": UUID},
        "credentialsRef": {"name": "canary"},
    });
    lab.apply("FenceDevice", "canary", device).await?;
    let message = format!(
        "{} and {} [{ADDRESS6}]:443 {MAC} {} {} %3{} https://u:{PASSWORD}@{HOST}/x {}",
        HOST.to_uppercase(),
        ADDRESS,
        UUID.to_uppercase(),
        base64(&format!("at {ADDRESS}")),
        "1%39%38%2e51%2E100.77",
        base64(HOST),
    );
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "canary.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "name": "canary"},
        "type": "Warning", "reason": "Canary", "message": message,
    });
    let labels = json!({"app.kubernetes.io/name": "node-fencing-operator"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "operator-0", "namespace": NAMESPACE, "labels": labels, "annotations": {"note": PASSWORD}},
        "spec": {"nodeName": node, "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [{
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "name": "operator", "image": "registry.example.com/operator",
            "args": [format!("--deny-device-cidr={ADDRESS}/32")],
            "env": [{"name": "PASSWORD", "value": PASSWORD}],
        }]},
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "canary", "namespace": NAMESPACE},
        "stringData": {"username": "root", "password": PASSWORD},
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [event, pod, secret]});
    let directory = plane.files().directory();
    let planted = directory.join("canaries.json");
    std::fs::write(&planted, list.to_string())?;
    plane
        .kubectl_text(&["create", "-f", &planted.to_string_lossy()])
        .await?;

    let path = directory.join("report.tar.gz");
    let line = format!("report --file {}", path.display());
    let output = kubectl_fence(plane, &words(&line), &[]).await?;
    ensure!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said == format!("{}\n", path.display()), "{output:?}");
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&path).arg("-C").arg(directory);
    let unpacked = tar.output().await?;
    ensure!(unpacked.status.success(), "{unpacked:?}");
    let folder = directory.join("node-fencing-report");
    let read = |file: &str| std::fs::read_to_string(folder.join(file));

    let mut all = String::new();
    for entry in walk(&folder)? {
        all += &std::fs::read_to_string(entry)?;
    }
    let lower = all.to_lowercase();
    let bmc = lab.rig(1).bmc.address().ip().to_string();
    let machine = lab.rig(1).machine.system_uuid();
    for canary in [PASSWORD, HOST, ADDRESS, ADDRESS6, MAC, UUID, &bmc, machine] {
        for spelling in spellings(canary) {
            ensure!(!lower.contains(&spelling), "{spelling} of {canary}:\n{all}");
        }
    }
    ensure!(!lower.contains(&machine.replace('-', "")), "{all}");

    // What helps is there: the same host is the same word in the device and in the event.
    let (devices, events) = (read("devices.json")?, read("events.json")?);
    let shown = devices.split("https://address-").nth(1);
    let shown = shown
        .and_then(|it| it.split(':').next())
        .unwrap_or_default();
    ensure!(
        !shown.is_empty() && events.contains(&format!("address-{shown} and ")),
        "{devices}\n{events}"
    );
    ensure!(read("nodes.json")?.contains(node));
    ensure!(read("check.json")?.contains("\"findings\""));
    let readme = read("README")?;
    ensure!(readme.contains("operator/pods.json"), "{readme}");

    // With fewer rights there are holes, and they are named.
    let role = "create clusterrole fences --verb=list --resource=nodefences.nodefencing.io";
    let binding = "create clusterrolebinding fences --clusterrole=fences --user=eve";
    for line in [role, binding] {
        let line: Vec<&str> = line.split(' ').collect();
        plane.kubectl_text(&line).await?;
    }
    let asked = async |user: &str| {
        let path = directory.join(format!("{user}.tar.gz"));
        let path = path.display();
        let line = format!("report --as {user} --as-group system:authenticated --file {path}");
        let output = kubectl_fence(plane, &words(&line), &[]).await?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::Ok((output.status.code(), told))
    };
    eventually("the rights of eve take effect", LIMIT, async || {
        let (code, told) = asked("eve").await?;
        ensure!(code == Some(0), "{told}");
        ensure!(told.contains("not in it: nodes.json"), "{told}");
        Ok(())
    })
    .await?;
    // Without any there is nothing to put into it.
    let (code, told) = asked("nobody").await?;
    ensure!(code == Some(1), "{told}");
    ensure!(told.contains("no archive is written"), "{told}");
    ensure!(!directory.join("nobody.tar.gz").exists());
    plane.check()
}

fn walk(folder: &std::path::Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true => left.push(path),
                false => files.push(path),
            }
        }
    }
    Ok(files)
}
