//! The pages of `kubectl fence` in a real browser: an incident is seen to come, is answered and ends on the dashboard, and is a page of its own
//! afterwards. `UPDATE=1` writes the book's pictures.

mod fleet;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::browser::{Browser, Key};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::machine::Ailment;
use fencing_testbed::debian;
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use fencing_testbed::process::{Process, Spec};
use serde_json::json;
use tokio::process::Command;

use super::terminal::with_plugins;
use crate::outage::{Outage, name};

/// As whom the dashboard reads: somebody who may read, at first, only what the shipped viewer's role has.
const AUDITOR: &str = "auditor";
/// What somebody writes as their reason, who means no good.
const REASON: &str = "seen dark <img src=x onerror=\"document.title='taken'\"> </td></article>";
/// A picture of the book is no larger, in bytes.
const PICTURE_MAX: usize = 150_000;

/// `kubectl fence dashboard`, running.
struct Dashboard {
    process: Process,
    address: String,
}

impl Dashboard {
    /// Starts it by the real kubectl, with this kubeconfig, and waits for its address.
    async fn start(lab: &Lab, kubeconfig: PathBuf) -> Result<Self> {
        let plane = &lab.control_plane;
        let log = plane.files().log("dashboard");
        let spec = Spec::new("dashboard", plane.toolchain().program("kubectl"), &log)
            .args(["fence", "dashboard"])
            .env("PATH", with_plugins().await?)
            .env("KUBECONFIG", kubeconfig)
            .env("NO_PROXY", "*")
            .env("HOME", plane.files().directory().join("home"));
        let process = spec.spawn(plane.guard())?;
        let address = eventually("the dashboard has an address", LIMIT, async || {
            process.check()?;
            let said = process.tail(5);
            let line = said.lines().find(|it| it.starts_with("http://127.0.0.1:"));
            let until = "Read-only, for a browser on this machine, until Ctrl-C ends it.";
            ensure!(said.lines().any(|it| it == until), "{said}");
            line.map(str::to_owned).with_context(|| said.clone())
        })
        .await?;
        Ok(Self { process, address })
    }

    /// Its port, and the path that nobody else knows.
    fn parts(&self) -> Result<(u16, &str)> {
        let rest = self.address.strip_prefix("http://127.0.0.1:");
        let parts = rest.and_then(|it| it.split_once('/'));
        let (port, path) = parts.context("an address")?;
        Ok((port.parse()?, path))
    }
}

/// What `kubectl fence` says.
async fn fence(lab: &Lab, arguments: &[&str]) -> Result<String> {
    let plane = &lab.control_plane;
    let mut command = Command::new(plane.toolchain().program("kubectl"));
    command.arg("fence").args(arguments);
    command.env("PATH", with_plugins().await?);
    let output = plane.run_command(command).await?;
    let said = String::from_utf8(output.stdout)?;
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {said}{complained}");
    Ok(said)
}

/// Waits until an element has this in its text. It is the page as it stands: nothing is loaded anew.
async fn shows(browser: &mut Browser, element: &str, words: &str) -> Result<()> {
    let script = format!("document.querySelector({element:?})?.textContent ?? 'absent'");
    let what = format!("{element} shows {words}");
    eventually(&what, LIMIT, async || {
        let text = browser.text(&script).await?;
        ensure!(text.contains(words), "{text}");
        Ok(())
    })
    .await
}

/// What assistive technology lacks in the page.
async fn accessible(browser: &mut Browser) -> Result<()> {
    let faults = browser.evaluate(include_str!("page/judge.js")).await?;
    ensure!(faults == json!([]), "{faults:#}");
    let tree = browser.accessibility().await?;
    let nameless: Vec<_> = tree
        .iter()
        .filter(|it| it["ignored"] == false)
        .filter(|it| {
            let role = it["role"]["value"].as_str().unwrap_or_default();
            ["image", "link", "button", "heading", "table", "navigation"].contains(&role)
        })
        .filter(|it| it["name"]["value"].as_str().is_none_or(str::is_empty))
        .collect();
    ensure!(nameless.is_empty(), "{nameless:#?}");
    Ok(())
}

/// The page in light and dark: judged, photographed, held against each other, and for the book under these names.
async fn photographed(browser: &mut Browser, names: [Option<&str>; 2]) -> Result<()> {
    let mut pictures = Vec::new();
    for (scheme, name) in ["light", "dark"].into_iter().zip(names) {
        browser.look(1200, 900, scheme).await?;
        accessible(browser).await?;
        let top = "document.activeElement.blur(); scrollTo(0, 0)";
        browser.evaluate(top).await?;
        let png = browser.screenshot().await?;
        ensure!(png.len() <= PICTURE_MAX, "{} bytes", png.len());
        if let Some(name) = name.filter(|_| std::env::var_os("UPDATE").is_some()) {
            std::fs::write(workspace().join("docs/images").join(name), &png)?;
        }
        pictures.push(png);
    }
    // Narrow, as on a phone, and on paper it can be read too.
    browser.look(400, 800, "light").await?;
    accessible(browser).await?;
    browser.look_as_printed().await?;
    accessible(browser).await?;
    let (light, bright) = browser.colours(&pictures[0]).await?;
    let (dark, dim) = browser.colours(&pictures[1]).await?;
    ensure!(light > 50 && dark > 50, "blank: {light}, {dark} colours");
    ensure!(bright > 200 && dim < 60, "brightness {bright} and {dim}");
    Ok(())
}

/// Presses Tab until each of these has had the focus, by the places that links lead to.
async fn reached_by_tab(browser: &mut Browser, wanted: &[&str]) -> Result<usize> {
    let mut left: Vec<&str> = wanted.to_vec();
    for presses in 1..=60 {
        browser.press(Key::Tab).await?;
        let at = "document.activeElement.getAttribute('href') ?? ''";
        let at = browser.text(at).await?;
        left.retain(|it| *it != at);
        if left.is_empty() {
            return Ok(presses);
        }
    }
    anyhow::bail!("Tab does not reach {left:?}")
}

/// May read what `node-fencing-viewer` has (deploy/aggregated.yaml, which the lab does not apply); Nodes are not among it.
async fn auditor(lab: &Lab) -> Result<PathBuf> {
    let kubectl = &lab.control_plane;
    let account = ["create", "serviceaccount", AUDITOR, "--namespace=default"];
    kubectl.kubectl_text(&account).await?;
    let kinds = ["nodefencingpolicies", "fencedevices", "nodefences"];
    may_read(
        lab,
        "ours",
        &kinds.map(|it| format!("{it}.nodefencing.io")).join(","),
    )
    .await?;
    kubectl
        .kubeconfig_for_service_account("default", AUDITOR, None)
        .await
}

async fn may_read(lab: &Lab, role: &str, resources: &str) -> Result<()> {
    let kubectl = &lab.control_plane;
    let resources = format!("--resource={resources}");
    let verbs = "--verb=get,list,watch";
    let made = ["create", "clusterrole", role, verbs, &resources];
    kubectl.kubectl_text(&made).await?;
    let (flag, account) = (
        format!("--clusterrole={role}"),
        format!("--serviceaccount=default:{AUDITOR}"),
    );
    let bound = ["create", "clusterrolebinding", role, &flag, &account];
    kubectl.kubectl_text(&bound).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incident_is_seen_live_and_told_on_a_page_afterwards() -> Result<()> {
    let test = "an_incident_is_seen_live_and_told_on_a_page_afterwards";
    if !debian::available_to_test(test)? {
        return Ok(());
    }
    let lab = Lab::start(Setup::new("page", 2)).await?;
    let policy = json!({"fence": {"approval": {"mode": "Manual"}}});
    let outage = Outage::of(lab, "PowerOff", policy).await?;
    let Outage { lab, node, .. } = &outage;
    let dashboard = Dashboard::start(lab, auditor(lab).await?).await?;
    let directory = lab.control_plane.files().directory();
    let mut browser = Browser::start(lab.control_plane.guard(), directory).await?;
    let browser = &mut browser;

    browser.open(&dashboard.address).await?;
    shows(browser, "#trouble-nodes", "no right to read nodes").await?;
    shows(browser, "#unknown", "Nodes cannot be read").await?;
    may_read(lab, "nodes", "nodes").await?;
    shows(browser, "#protected", node).await?;
    shows(browser, "#none", "No incident is open.").await?;

    outage.rig()?.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let opened = lab.wait_stage(node, "AwaitingApproval").await?;
    let opened = name(&opened)?.to_owned();
    shows(browser, "#open", "AwaitingApproval").await?;
    shows(browser, "#fenced", node).await?;
    shows(browser, "#said", &format!("Node {node}: AwaitingApproval")).await?;
    let wanted = [format!("node/{node}"), format!("incident/{opened}")];
    let presses = reached_by_tab(browser, &[&wanted[0], &wanted[1]]).await?;
    println!("Tab reaches the node and its incident after {presses} presses");
    let pictures = ["fence-dashboard-light.png", "fence-dashboard-dark.png"];
    photographed(browser, pictures.map(Some)).await?;

    browser.open(&dashboard.address).await?;
    fence(lab, &["approve", node, "--reason", REASON]).await?;
    shows(browser, "#ended", "Recovered").await?;
    shows(browser, "#none", "No incident is open.").await?;
    browser
        .open(&format!("{}incident/{opened}", dashboard.address))
        .await?;
    shows(browser, "article", REASON).await?;
    only_read(lab).await?;
    told_afterwards(&outage, browser, &opened).await?;
    outage.rig()?.machine.ail(Ailment::default());
    outage.restore().await?;
    outage.verdict().await
}

/// The dashboard has asked, and changed nothing.
async fn only_read(lab: &Lab) -> Result<()> {
    let audit = lab.control_plane.audit();
    audit.settled().await?;
    let user = format!("system:serviceaccount:default:{AUDITOR}");
    ensure!(audit.requests_of(&user)?.len() > 3, "it has asked nothing");
    let writes: Vec<_> = audit.writes_of(&user)?;
    ensure!(writes.is_empty(), "{writes:#?}");
    Ok(())
}

/// `history -o html` and `explain -o html` as files: all is in them, and nothing is asked of anybody.
async fn told_afterwards(outage: &Outage, browser: &mut Browser, opened: &str) -> Result<()> {
    let Outage { lab, node, .. } = outage;
    let directory = lab.control_plane.files().directory();
    let before = browser.requests().len();
    for (command, picture) in [("explain", None), ("history", Some("fence-history.png"))] {
        let page = fence(lab, &[command, node, "-o", "html"]).await?;
        let file = directory.join(format!("{command}.html"));
        std::fs::write(&file, page)?;
        browser.look(1200, 900, "light").await?;
        browser.open(&format!("file://{}", file.display())).await?;
        let article = format!("#incident-{opened}");
        for told in [
            &format!("Node {node}: Recovered"),
            REASON,
            "Readings, oldest first",
            "off was sent to FenceDevice",
            "PersistentVolume",
            " UTC",
        ] {
            shows(browser, &article, told).await?;
        }
        photographed(browser, [picture, None]).await?;
    }
    let strangers: Vec<_> = browser.requests()[before..]
        .iter()
        .filter(|it| !it.starts_with("file://") && !it.starts_with("about:"))
        // The picture that is looked at.
        .filter(|it| !it.starts_with("data:image/png;base64,"))
        .collect();
    ensure!(strangers.is_empty(), "{strangers:#?}");
    Ok(())
}
