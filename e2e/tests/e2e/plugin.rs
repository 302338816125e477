//! `kubectl fence` at the prompt, run by the real kubectl against a real API server, while incidents go on. What it prints stands beside this file
//! (`plugin/*.txt`); `UPDATE=1` writes it anew, to be read by whoever changes a word.

mod acts;
mod cycle;
mod diagnose;
mod generate;
mod golden;
mod page;
mod peace;
mod plan;
mod report;
mod scene;
mod session;
mod ship;
mod terminal;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::machine::Ailment;
use fencing_testbed::eventually::eventually;
use serde_json::json;

use crate::human_word::called;
use crate::outage::{Outage, name};
use session::Session;
pub use session::{kubectl_fence, typed, words};
use terminal::{COLOUR, Terminal};

/// A policy's numbers are written a moment after the record of what they count: waits until so many incidents are open, all of them held.
async fn counted(lab: &Lab, incidents: u32) -> Result<()> {
    eventually(&format!("{incidents} are counted"), LIMIT, async || {
        let policy = lab.api("NodeFencingPolicy").get("lab").await?;
        let numbers = ["openIncidents", "heldIncidents"].map(|it| &policy.data["status"][it]);
        ensure!(numbers.iter().all(|it| **it == incidents), "{numbers:?}");
        Ok(())
    })
    .await
}

/// How often the plugin has listed NodeFences, and how often watched them.
async fn asked(lab: &Lab) -> Result<(usize, usize)> {
    let audit = lab.control_plane.audit();
    audit.settled().await?;
    let count = |verb: &str| {
        let is_it = |it: &e2e::audit::Request| {
            it.verb == verb
                && it.object_ref.resource == "nodefences"
                && it.user_agent.starts_with("kubectl-fence/")
        };
        anyhow::Ok(audit.requests(is_it)?.len())
    };
    Ok((count("list")?, count("watch")?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incident_is_followed_answered_and_explained_at_the_prompt() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin", 2)).await?;
    let policy = json!({"fence": {"approval": {"mode": "Manual"}}});
    let outage = Outage::of(lab, "PowerOff", policy).await?;
    let mut session = Session::new(&outage.lab, &outage.node, "A policy asks for a human");
    session.types("status").await?;
    session.types("now {node} --reason \"smoke\"").await?;
    session
        .types("approve {node} --reason \"seen dark\"")
        .await?;
    outage.rig()?.machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    let fence = outage
        .lab
        .wait_stage(&outage.node, "AwaitingApproval")
        .await?;
    session.about(name(&fence)?);
    session.types("status {node} -o name").await?;
    session
        .types("approve {node} --reason \"seen dark\" --dry-run=server")
        .await?;
    // Somebody else follows it to its end.
    let line = format!("status {} -w", outage.node);
    let before = asked(&outage.lab).await?;
    let (followed, ()) = tokio::try_join!(typed(&outage.lab, &line), async {
        for _ in 0..2 {
            session
                .types("approve {node} --reason \"seen dark\"")
                .await?;
        }
        Ok(())
    })?;
    let (code, followed, complained) = followed;
    ensure!(code == 0, "{code}: {followed}{complained}");
    // Behind its time.
    let is_step = |line: &str| line.split(' ').nth(1) == Some(outage.node.as_str());
    ensure!(followed.lines().any(is_step), "{followed}");
    let last = followed.lines().last().unwrap_or_default();
    ensure!(last.contains(" Recovered: "), "{followed}");
    // Once to begin with, once by its watch, and once by each approval beside it; whatever came after that it was told.
    let after = asked(&outage.lab).await?;
    let (lists, watches) = (after.0 - before.0, after.1 - before.1);
    ensure!(
        lists <= 4 && watches > 0,
        "{lists} LISTs, {watches} watches"
    );
    let fence = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    outage.lab.wait_told(&fence, "Recovered").await?;
    session.types("explain {node} -o name").await?;
    session.types("explain {node}").await?;
    counted(&outage.lab, 0).await?;
    session.types("status").await?;
    session.types("history").await?;
    session.types("history -o name").await?;
    session
        .types("release {node} --reason \"too late\"")
        .await?;
    session.hold("approved")?;
    outage.rig()?.machine.ail(Ailment::default());
    outage.restore().await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_is_given_at_the_prompt_when_no_device_answers() -> Result<()> {
    let levels = json!([{"name": "bmc", "attempts": 1, "retryPeriodSeconds": 1}]);
    let policy = json!({"fence": {"levels": levels}});
    let outage = Outage::prepare("plugin-word", "ConfirmOnly", policy).await?;
    let mut session = Session::new(
        &outage.lab,
        &outage.node,
        "A rack is dark, and somebody has looked",
    );
    session
        .types("confirm {node} --reason \"both cords are out\"")
        .await?;
    let rig = outage.rig()?;
    rig.bmc.set_line(fencing_testbed::https::Line::Refused)?;
    outage.cut().await?;
    let fence = called(&outage, "DeviceFailed", "").await?;
    session.about(name(&fence)?);
    session
        .types("confirm {node} --reason \"both cords are out\"")
        .await?;
    session
        .types("confirm {node} --reason \"both cords are out\" --confirm-node worker-9")
        .await?;
    session
        .types(
            "confirm {node} --reason \"both cords are out\" --confirm-node {node} --dry-run=server",
        )
        .await?;
    confirms_at_a_terminal(&outage, name(&fence)?).await?;
    // It is read for 40 s. How far that has come differs from run to run.
    let (_, told, _) = typed(&outage.lab, "status").await?;
    let heard = " ago admin confirmed that the machine has no power: both cords are out\n";
    ensure!(
        told.contains(heard) && !told.contains("kubectl fence confirm"),
        "{told}"
    );
    let ended = outage.lab.wait_stage(&outage.node, "Recovered");
    ended.await.with_context(|| session.told().to_owned())?;
    counted(&outage.lab, 0).await?;
    // Its device is not probed while the incident is open.
    eventually("the dark device is seen", LIMIT, async || {
        let policy = outage.lab.api("NodeFencingPolicy").get("lab").await?;
        let protected = &policy.data["status"]["nodes"]["protected"];
        ensure!(*protected == 2, "{protected}");
        Ok(())
    })
    .await?;
    session.types("status").await?;
    session.hold("word")?;
    rig.bmc.set_line(fencing_testbed::https::Line::Up)?;
    outage.restore().await?;
    outage.verdict().await
}

/// Only the right name is a word; whoever has given it is told how to follow what comes of it.
async fn confirms_at_a_terminal(outage: &Outage, fence: &str) -> Result<()> {
    let plane = &outage.lab.control_plane;
    let line = format!("confirm {} --reason \"both cords are out\"", outage.node);
    // The last of what is asked.
    let question = "power:";
    terminal::disagree(plane, &line, question, "worker-9").await?;
    let given = outage.lab.api("NodeFence").get(fence).await?;
    let word = &given.data["spec"]["manualConfirmation"];
    ensure!(word.is_null(), "{word}");
    let mut terminal = Terminal::open(plane, &line, &[]).await?;
    terminal.reads(question).await?;
    terminal.types(&format!("{}\n", outage.node)).await?;
    let (status, seen) = terminal.ends().await?;
    let told = format!(
        "{fence} confirmed\nfollow it: kubectl fence status {} --watch\n",
        outage.node
    );
    ensure!(status.success() && seen.ends_with(&told), "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colours_are_for_a_terminal_and_for_whoever_wants_them() -> Result<()> {
    let lab = Lab::start(Setup::new("plugin-colour", 1).alone()).await?;
    let plane = &lab.control_plane;
    for line in ["--help", "status --nonsense", "version --client"] {
        let (_, said, complained) = typed(&lab, line).await?;
        let piped = format!("{said}{complained}");
        let shown = async |environment: &[(&str, &str)]| {
            let terminal = Terminal::open(plane, line, environment).await?;
            anyhow::Ok(terminal.ends().await?.1)
        };
        let (colourful, plain) = (shown(&[]).await?, shown(&[("NO_COLOR", "1")]).await?);
        ensure!(!piped.contains(COLOUR), "{piped}");
        ensure!(!plain.contains(COLOUR), "{plain}");
        ensure!(plain == piped, "{plain} for {piped}");
        // What is about the cluster has none anywhere.
        let has_colours = line != "version --client";
        ensure!(colourful.contains(COLOUR) == has_colours, "{colourful}");
    }
    plane.check()
}
