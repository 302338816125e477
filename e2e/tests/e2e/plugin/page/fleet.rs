//! A thousand nodes on the dashboard: what a change costs, what the keyboard does, and what is seen when a connection is lost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::browser::{Browser, Key};
use e2e::control_plane::Component;
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::plain_http;
use fencing_testbed::debian;
use fencing_testbed::process::Signal;
use futures::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Dashboard, accessible, shows};

/// Longer than the browser's and the dashboard's own limits together.
const LOST: Duration = Duration::from_secs(60);
const NODES: usize = 1000;
/// Requests at once.
const AT_ONCE: usize = 16;
/// Single changes that are measured.
const CHANGES: usize = 20;

/// Notes from now on how long the page's one thread was busy without a pause, and the longest time between two frames, both in ms.
const MEASURE: &str = "(() => {
    window.busy = []; window.gap = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((it) => busy.push(it.duration)))
        .observe({ entryTypes: ['longtask'] });
    window.last = performance.now();
    const frame = (now) => { gap = Math.max(gap, now - last); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
})()";

fn node_name(number: usize) -> String {
    format!("rack-{:02}-{number:04}", number / 40)
}

fn nodes(lab: &Lab) -> Api<Node> {
    Api::all(lab.control_plane.admin())
}

async fn create(lab: &Lab) -> Result<()> {
    let nodes = &nodes(lab);
    let each = stream::iter(0..NODES).map(|number| async move {
        let node = Node {
            metadata: ObjectMeta {
                name: Some(node_name(number)),
                ..ObjectMeta::default()
            },
            ..Node::default()
        };
        nodes.create(&PostParams::default(), &node).await
    });
    let made: Vec<Node> = each.buffer_unordered(AT_ONCE).try_collect().await?;
    ensure!(made.len() == NODES);
    Ok(())
}

/// The policy selects those with the label.
async fn select(lab: &Lab, number: usize, yes: bool) -> Result<()> {
    let value = yes.then_some("yes");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"fenced": value}}}));
    let params = PatchParams::default();
    let patched = nodes(lab).patch(&node_name(number), &params, &patch).await;
    patched.map(drop).context("failed to label a node")
}

/// Waits, in the page, until an expression holds; by its own changes, not by looking again and again.
async fn until(browser: &mut Browser, expression: &str) -> Result<()> {
    let script = format!(
        "new Promise((done, fail) => {{
            const look = () => ({expression}) && (observer.disconnect(), done(true));
            const observer = new MutationObserver(look);
            observer.observe(document.body, {{ subtree: true, childList: true, characterData: true }});
            setTimeout(() => fail(new Error('not within a minute')), 60000);
            look();
        }})"
    );
    browser.evaluate(&script).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_nodes_are_live_and_a_lost_connection_is_seen() -> Result<()> {
    if !debian::available_to_test("a_thousand_nodes_are_live_and_a_lost_connection_is_seen")? {
        return Ok(());
    }
    let lab = Lab::start(Setup::new("page-fleet", 1)).await?;
    lab.control_plane
        .run_without(&["node-lifecycle-controller"])
        .await?;
    create(&lab).await?;
    let selector = json!({"nodeSelector": {"matchLabels": {"fenced": "yes"}}});
    lab.policy("PowerOff", selector).await?;
    let admin = lab.control_plane.kubeconfig_for_admin();
    let dashboard = Dashboard::start(&lab, admin).await?;
    let directory = lab.control_plane.files().directory();
    let mut browser = Browser::start(lab.control_plane.guard(), directory).await?;
    let browser = &mut browser;
    browser.look(1200, 900, "light").await?;
    browser.open(&dashboard.address).await?;
    let all = format!(
        "document.querySelectorAll('.cells > li').length === {}",
        NODES + 1
    );
    until(browser, &all).await?;
    keeps_others_out(&dashboard, browser).await?;
    changes_are_quick(&lab, browser).await?;
    all_change_at_once(&lab, browser).await?;
    accessible(browser).await?;
    moves_by_keyboard(browser, &dashboard).await?;
    connections_are_lost(&lab, browser, dashboard).await
}

async fn changes_are_quick(lab: &Lab, browser: &mut Browser) -> Result<()> {
    // What does not change is not made anew.
    browser
        .evaluate(&format!(
            "document.getElementById('node-{}').kept = true",
            node_name(999)
        ))
        .await?;
    browser.evaluate(MEASURE).await?;
    let mut took: Vec<Duration> = Vec::new();
    for number in 0..CHANGES {
        let begin = Instant::now();
        select(lab, number, true).await?;
        let moved = format!(
            "document.querySelector('#risk > #node-{}')",
            node_name(number)
        );
        until(browser, &moved).await?;
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    let (median, most) = (took[CHANGES / 2], took[CHANGES - 1]);
    let (busy, gap) = lag(browser).await?;
    println!(
        "{NODES} nodes, from a change to the page: median {median:.0?}, at most {most:.0?}; longest task {busy:.0} ms, between frames at most {gap:.0} ms"
    );
    ensure!(most < Duration::from_secs(20), "{most:?}");
    let kept = format!(
        "document.getElementById('node-{}').kept === true",
        node_name(999)
    );
    ensure!(browser.evaluate(&kept).await? == true, "all was drawn anew");
    Ok(())
}

/// The longest task, and the longest time between frames, both in ms.
async fn lag(browser: &mut Browser) -> Result<(f64, f64)> {
    let number = |value: serde_json::Value| value.as_f64().context("a number");
    Ok((
        number(browser.evaluate("Math.max(0, ...busy)").await?)?,
        number(browser.evaluate("gap").await?)?,
    ))
}

async fn all_change_at_once(lab: &Lab, browser: &mut Browser) -> Result<()> {
    browser.evaluate(MEASURE).await?;
    let begin = Instant::now();
    let each = stream::iter(0..NODES).map(|number| select(lab, number, true));
    let _: Vec<()> = each.buffer_unordered(AT_ONCE).try_collect().await?;
    let written = begin.elapsed();
    let all = format!("document.querySelectorAll('#risk > li').length === {NODES}");
    until(browser, &all).await?;
    let took = begin.elapsed();
    let (busy, gap) = lag(browser).await?;
    println!(
        "all {NODES} at once: written in {written:.0?}, seen after {took:.0?}; longest task {busy:.0} ms, between frames at most {gap:.0} ms"
    );
    ensure!(took < LIMIT);
    Ok(())
}

/// Each group of the grid is one stop of Tab; arrow keys move within it, and Enter opens a node.
async fn moves_by_keyboard(browser: &mut Browser, dashboard: &Dashboard) -> Result<()> {
    browser.open(&dashboard.address).await?;
    let here = "document.activeElement.closest('.cells') ? document.activeElement.textContent : ''";
    let mut presses = 0;
    while browser.text(here).await? != node_name(0) {
        ensure!(presses < 20, "{presses} stops before the grid");
        browser.press(Key::Tab).await?;
        presses += 1;
    }
    browser.press(Key::Right).await?;
    ensure!(browser.text(here).await? == node_name(1));
    browser.press(Key::End).await?;
    ensure!(browser.text(here).await? == node_name(NODES - 1));
    browser.press(Key::Tab).await?;
    let next = browser.text(here).await?;
    ensure!(!next.starts_with("rack"), "Tab goes on to {next}");
    println!("Tab reaches the grid of {NODES} after {presses} presses");
    browser.open(&dashboard.address).await?;
    let focus = format!(
        "document.querySelector('#node-{} > a').focus()",
        node_name(7)
    );
    browser.evaluate(&focus).await?;
    browser.press(Key::Enter).await?;
    shows(browser, "h1", &format!("Node {}", node_name(7))).await?;
    shows(browser, "main", "no FenceDevice is for it").await?;
    accessible(browser).await
}

async fn connections_are_lost(
    lab: &Lab,
    browser: &mut Browser,
    dashboard: Dashboard,
) -> Result<()> {
    browser.scripts(false).await?;
    browser.open(&dashboard.address).await?;
    shows(browser, "noscript p", "the page reloads").await?;
    shows(browser, "#risk", &node_name(999)).await?;
    browser.scripts(true).await?;
    browser.open(&dashboard.address).await?;
    let plane = &lab.control_plane;
    plane.signal_component(Component::ApiServer, Signal::STOP)?;
    let lost = "document.querySelector('#trouble-connection').textContent.includes('no connection to the API server since')";
    let begin = Instant::now();
    let seen = until(browser, lost).await;
    plane.signal_component(Component::ApiServer, Signal::CONT)?;
    seen?;
    println!("a silent API server is told after {:.0?}", begin.elapsed());
    until(
        browser,
        "document.querySelector('#trouble-connection').textContent === ''",
    )
    .await?;
    let Dashboard { process, .. } = dashboard;
    process.kill()?;
    let begin = Instant::now();
    let lost = "!document.querySelector('#lost').hidden && document.querySelector('#lost').textContent.includes('lost since 20')";
    until(browser, lost).await?;
    ensure!(begin.elapsed() < LOST);
    Ok(())
}

/// Nobody else gets anything, and nothing can be changed: see crates/plugin/src/dashboard/server.rs.
async fn keeps_others_out(dashboard: &Dashboard, browser: &mut Browser) -> Result<()> {
    let (port, path) = dashboard.parts()?;
    // It asks for the Host `lab`, as a page does whose name somebody points at 127.0.0.1.
    let (status, words) = plain_http::get(port, &format!("/{path}")).await?;
    ensure!(status == StatusCode::FORBIDDEN, "{status}: {words}");
    ensure!(words.contains("the Host of the request is lab"), "{words}");
    for (asked, wanted) in [
        ("fetch('/')", 404),
        ("fetch('/00000000000000000000000000000000/events')", 404),
        ("fetch(location.href, { method: 'POST', body: 'x' })", 405),
        ("fetch(location.href, { method: 'DELETE' })", 405),
        ("fetch(location.href)", 200),
    ] {
        let script = format!("{asked}.then((it) => it.status)");
        let status = browser.evaluate(&script).await?;
        ensure!(status == wanted, "{asked}: {status}");
    }
    Ok(())
}
