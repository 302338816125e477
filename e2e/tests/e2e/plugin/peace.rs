//! What is typed while nothing burns: is everything there, would the devices do, leave this policy alone for a while. And by whom: a user with the
//! role for reading sees everything, one without is told which role it takes.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, condition};
use e2e::operator::plugins;
use fencing_testbed::eventually::eventually;
use serde_json::json;
use tokio::process::Command;

use super::scene::{kubectl, make, of_array, pod, spec, volume};
use super::session::{Session, typed};
use crate::outage::Outage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_and_answered_in_peace() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-peace", 2)).await?;
    let outage = Outage::of(lab, "ConfirmOnly", json!({})).await?;
    eventually("the operator has looked at the policy", LIMIT, async || {
        let policy = outage.lab.api("NodeFencingPolicy").get("lab").await?;
        ensure!(condition(&policy, "Ready").is_some());
        Ok(())
    })
    .await?;
    let mut session = Session::new(&outage.lab, &outage.node, "In peace");
    // No release has to write the file anew.
    session.shows(env!("CARGO_PKG_VERSION"), "<version>");
    for line in [
        "version --client",
        "version",
        "version -o json",
        "check -o short",
        "test {node}",
        "test {node} --device nobody",
        "test {node} --dry-run=server",
        "test worker-9",
        "pause lab --for 2h --reason \"switches of rack 7\" --dry-run=server",
        "pause lab --for 2h --reason \"switches of rack 7\"",
        "resume lab",
        "resume lab --name bob --reason \"the switches are up\"",
        "resume lab --reason \"the switches are up\" --dry-run=server",
        "resume lab --reason \"the switches are up\" --dry-run=server -o name",
        "resume lab --reason \"the switches are up\" --dry-run=client",
        "resume lab --reason \"the switches are up\"",
        "resume lab --reason \"the switches are up\"",
        "pause nobody --for 2h --reason \"switches\"",
        "history",
        "history -o json",
        "history {node}",
        "history worker-9",
        "explain {node}",
        "deny {node} --reason \"we are at work there\"",
        "status nobody",
        "status -o name",
    ] {
        session.types(line).await?;
    }
    let policy = outage.lab.api("NodeFencingPolicy").get("lab").await?;
    let notes = policy.metadata.annotations.unwrap_or_default();
    let note = |key: &str| notes.get(key).map(String::as_str);
    ensure!(
        note("nodefencing.io/resumed-by") == Some("admin"),
        "{notes:?}"
    );
    ensure!(
        note("nodefencing.io/resume-reason") == Some("the switches are up"),
        "{notes:?}"
    );
    session.hold("peace")?;
    outage.verdict().await
}

/// A device that refuses its user and password, and one whose BMC is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_says_why_a_fence_would_not_work() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-test", 2)).await?;
    let outage = Outage::of(lab, "ConfirmOnly", json!({})).await?;
    let mut session = Session::new(&outage.lab, &outage.node, "A BMC is dark");
    let rig = outage.rig()?;
    rig.bmc.set_line(fencing_testbed::https::Line::Refused)?;
    let (code, _) = session.exits("test {node}").await?;
    ensure!(code == 1, "{}", session.told());
    rig.bmc.set_line(fencing_testbed::https::Line::Up)?;
    // Until a probe that was asked for has come, the last word stands.
    let (code, _) = session.exits("test {node}").await?;
    ensure!(code == 0, "{}", session.told());
    session.hold("test")?;
    outage.verdict().await
}

/// Every command that only reads.
const READS: [&str; 8] = [
    "status",
    "status -o json",
    "history",
    "check --pre",
    "check",
    "plan {node}",
    "diagnose node {node}",
    "diagnose -A",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_takes_one_role_and_who_lacks_it_is_told() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-rights", 2)).await?;
    let outage = Outage::of(lab, "ConfirmOnly", json!({})).await?;
    let bind = [
        "create",
        "clusterrolebinding",
        "vera-reads",
        "--clusterrole=node-fencing-cluster-viewer",
        "--user=vera",
    ];
    outage.lab.control_plane.kubectl_text(&bind).await?;
    eventually("the rights of vera take effect", LIMIT, async || {
        let (code, _, complained) = typed(&outage.lab, "status --as vera").await?;
        ensure!(code == 0, "{complained}");
        Ok(())
    })
    .await?;
    for line in READS {
        let line = line.replace("{node}", &outage.node);
        let (_, said, complained) = typed(&outage.lab, &format!("{line} --as vera")).await?;
        let told = format!("{said}{complained}").to_lowercase();
        let refused = told.lines().find(|it| it.contains("forbidden"));
        ensure!(refused.is_none(), "{line}: {refused:?}");
        ensure!(
            !said.is_empty() || line == "history",
            "{line}: {complained}"
        );
    }
    let mut session = Session::new(&outage.lab, &outage.node, "Whose rights are missing");
    for line in [
        "status --as eve",
        "plan {node} --as eve",
        "diagnose -A --as eve",
        "pause lab --for 2h --reason \"switches\" --as vera",
        "test {node} --as vera",
    ] {
        let (code, _) = session.exits(line).await?;
        ensure!(code == 1, "{line}: {code}");
    }
    session.hold("rights")?;
    outage.verdict().await
}

/// kubectl asks the executable beside the plugin for what may follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_completes_commands_flags_and_names() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-tab", 2)).await?;
    lab.policy("Observe", json!({})).await?;
    make(&lab, &[pod("db-0", &spec(None, json!({})))]).await?;
    make(&lab, &volume("data", "ReadWriteOnce", of_array("data"))).await?;
    let contexts = kubectl(&lab, "config get-contexts -o name").await?;
    ensure!(!contexts.is_empty());
    for (line, completions) in [
        ("st", vec!["status"]),
        ("pause ", vec!["lab"]),
        ("plan ", vec!["node-1", "node-2"]),
        ("status --wat", vec!["--watch"]),
        ("status -o j", vec!["json"]),
        ("status --output=j", vec!["json"]),
        ("status ", vec!["lab", "node-1", "node-2"]),
        ("status --context ", contexts.lines().collect()),
        ("diagnose -n kube-s", vec!["kube-system"]),
        ("diagnose n", vec!["node/"]),
        ("diagnose node/", vec!["node/node-1", "node/node-2"]),
        ("diagnose -n work pod/", vec!["pod/db-0"]),
        ("diagnose -n work pvc ", vec!["data"]),
        ("help stat", vec!["status"]),
    ] {
        let said = completed(&lab, line).await?;
        let found: Vec<&str> = said
            .lines()
            .filter(|it| !it.starts_with(':') && !it.starts_with("Completion ended"))
            .map(|it| it.split('\t').next().unwrap_or_default())
            .collect();
        ensure!(found == completions, "`{line}`: {said}");
    }
    Ok(())
}

/// kubectl hands a plugin what follows its name, and has no flags before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn help_of_a_command_is_asked_for_either_way_and_flags_follow_it() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-help", 1)).await?;
    let (code, helped, _) = typed(&lab, "help status").await?;
    let (_, said, _) = typed(&lab, "status --help").await?;
    ensure!(code == 0 && helped == said, "{helped}\n{said}");
    let (_, said, _) = typed(&lab, "--help").await?;
    ensure!(said.contains("Flags follow the command"), "{said}");
    let mut command = Command::new(lab.control_plane.toolchain().program("kubectl"));
    command
        .args(["--as", "vera", "fence", "status"])
        .env("PATH", plugins().await?);
    let output = lab.control_plane.run_command(command).await?;
    let complained = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success(), "{complained}");
    ensure!(
        complained.contains("flags cannot be placed before plugin name"),
        "{complained}"
    );
    Ok(())
}

/// As the script of a shell asks kubectl, with the words of the line as they are.
async fn completed(lab: &Lab, line: &str) -> Result<String> {
    let plane = &lab.control_plane;
    let mut command = Command::new(plane.toolchain().program("kubectl"));
    command
        .args(["__complete", "fence"])
        .args(line.split(' '))
        .env("PATH", plugins().await?);
    let output = plane.run_command(command).await?;
    String::from_utf8(output.stdout).context("UTF-8")
}

/// What is waited for may come; another kubeconfig does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_waits_for_no_kubeconfig_that_does_not_work() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-kubeconfig", 1).alone()).await?;
    let plane = &lab.control_plane;
    let own = plane
        .kubectl_text(&["config", "view", "--raw", "-o", "json"])
        .await?;
    let mut strange: serde_json::Value = serde_json::from_str(&own)?;
    strange["users"][0]["user"] = json!({"token": "of-nobody"});
    let mut program = strange.clone();
    program["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-program", "interactiveMode": "Never",
    }});
    let mut elsewhere = strange.clone();
    elsewhere["current-context"] = json!("nowhere");
    let directory = plane.files().directory();
    for (name, kubeconfig, told) in [
        ("strange", Some(strange), "rejected your login"),
        ("program", Some(program), "unable to run auth exec"),
        ("elsewhere", Some(elsewhere), "nowhere"),
        ("absent", None, "the file does not exist"),
    ] {
        let path = directory.join(format!("{name}.json"));
        if let Some(kubeconfig) = kubeconfig {
            std::fs::write(&path, kubeconfig.to_string())?;
        }
        // Longer than a command may take here.
        let line = format!("check --wait 1h --kubeconfig {}", path.display());
        let (code, said, complained) = typed(&lab, &line).await?;
        ensure!(code == 1 && said.is_empty(), "{name}: {code}: {said}");
        ensure!(complained.contains(told), "{name}: {complained}");
    }
    plane.check()
}
