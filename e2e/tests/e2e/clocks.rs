//! Clocks that jump in the middle of a fence: the leader's machine is suspended and resumed (F13), or somebody sets its date (F14).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::clocks::{Clocks, available_to_test};
use e2e::lab::{LIMIT, Lab, Setup};
use e2e::operator::{NAMESPACE, Operator};
use e2e::point::{Held, Point};
use e2e::proxy::writes;
use e2e::proxy::{Proxy, Record};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::replicas::{standby_by, wait_leads};
use crate::scene::Scene;

const HOUR: i64 = 3600;
/// The date drifts by a second in so long.
const DRIFT: Duration = Duration::from_millis(100);

/// A leader in front of a machine, and another replica that stands by; each is behind a proxy of its own.
struct Pair {
    scene: Scene,
    standby: Operator,
    proxy: Proxy,
}

impl Pair {
    /// `None` where clocks cannot be moved.
    async fn set(name: &str, mode: &str) -> Result<Option<Self>> {
        if !available_to_test(name)? {
            return Ok(None);
        }
        let lab = Lab::start(Setup::new(name, 2)).await?;
        let scene = Scene::of(lab, mode, json!({})).await?;
        wait_leads(&scene.operator, true).await?;
        let proxy = scene.lab.proxy()?;
        let standby = standby_by(&scene.lab, Some(proxy.url())).await?;
        wait_leads(&standby, false).await?;
        Ok(Some(Self {
            scene,
            standby,
            proxy,
        }))
    }
}

/// What is written by the leader's fences: everything but its Lease, its Events and the statuses of devices and policies.
fn acts(record: &Record) -> bool {
    let segments = record.seen.segments();
    let of_a_fence = ["nodes", "nodefences", "pods"];
    writes::any_write().matches(&record.seen)
        && segments.iter().any(|segment| of_a_fence.contains(segment))
}

/// The leader sleeps until another one is about to claim the Node, and wakes up to an answer, in front of a Node with its own claim: nothing
/// but its own clock tells it not to go on. It is the clock that counts suspend, because the monotonic one says that no time has passed.
async fn suspended(point: Point, hold: impl AsyncFnOnce(&Scene) -> Result<Held>) -> Result<()> {
    let Some(pair) = Pair::set("suspended", point.mode()).await? else {
        return Ok(());
    };
    let scene = &pair.scene;
    let leader = &scene.operator;
    let clocks = leader.clocks()?;
    let stalling = scene.lab.stalls_requests();
    let claim = pair.proxy.hold(writes::claim().of(&scene.node));

    let held = hold(scene).await?;
    leader.pause()?;
    let asleep = Instant::now();
    held.release().await?;
    claim.wait_arrived(LIMIT).await?;
    let commands = || scene.rig().map(|rig| rig.bmc.power_commands().len());
    let (requests, before) = (scene.proxy.log().len(), commands()?);
    clocks.slept(asleep.elapsed())?;
    leader.resume()?;
    wait_leads(leader, false).await?;
    let why = log_of(leader, "no longer the leader")?.pop();
    let why = why.map(|line| line["why"].to_string()).unwrap_or_default();
    ensure!(
        why.contains("was stopped"),
        "it did not notice by itself: {why}"
    );
    ensure!(commands()? == before, "it has commanded");

    claim.release();
    drop(stalling);
    scene.finished_once(point).await?;
    let log = scene.proxy.log();
    let acted: Vec<_> = log.iter().skip(requests).filter(|it| acts(it)).collect();
    ensure!(acted.is_empty(), "it went on: {acted:#?}");
    ensure!(pair.standby.leads().await? && !leader.leads().await?);
    pair.standby.check()?;
    scene.verdict().await
}

/// The lines of a log with these words.
fn log_of(operator: &Operator, words: &str) -> Result<Vec<Value>> {
    let mut lines = operator.log_lines()?;
    lines.retain(|line| line["message"].to_string().contains(words));
    Ok(lines)
}

async fn suspended_at(point: Point) -> Result<()> {
    suspended(point, async |scene| scene.strike_and_hold(point).await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_up_after_its_claim_was_answered_does_nothing_more() -> Result<()> {
    suspended_at(Point::Claimed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_up_after_its_intent_was_stored_commands_nothing() -> Result<()> {
    suspended_at(Point::Quiesced).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_up_right_before_its_power_command_does_not_send_it() -> Result<()> {
    suspended(Point::Quiesced, async |scene| {
        let look = scene.cut_and_hold_before_the_command().await?;
        Ok(Held::Request(look, scene.lab.stalls_requests()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_wakes_up_before_its_taint_does_not_set_it() -> Result<()> {
    suspended_at(Point::Proved).await
}

/// Sets the date of a running operator.
pub fn move_date(operator: &Operator, clocks: &Clocks, seconds: i64) -> Result<()> {
    operator.pause()?;
    let moved = clocks.move_date(seconds);
    operator.resume()?;
    moved
}

/// How far the date of the operator's last line is ahead of ours, in seconds.
fn ahead(operator: &Operator) -> Result<i64> {
    let line = operator.log_lines()?.pop().context("an empty log")?;
    let date: Timestamp = line["timestamp"]
        .as_str()
        .context("a line without a date")?
        .parse()?;
    Ok(date.as_second() - Timestamp::now().as_second())
}

/// Who has the Lease, since when, and how often it has changed hands.
async fn term(lab: &Lab) -> Result<String> {
    let lease = ["get", "lease", "node-fencing-operator", "-n", NAMESPACE];
    let words = "jsonpath={.spec.holderIdentity} {.spec.acquireTime} {.spec.leaseTransitions}";
    let words = ["-o", words];
    lab.control_plane
        .kubectl_text(&[&lease[..], &words].concat())
        .await
}

/// The other replica's date is off the other way. The leader's jumps when it has claimed, jumps back twice as far when it has proven the
/// machine off, and drifts from then on: it is fenced once, in one go, by one leader.
async fn date_jumps(jump: i64) -> Result<()> {
    let Some(pair) = Pair::set("dates", "PowerOff").await? else {
        return Ok(());
    };
    let scene = &pair.scene;
    let leader = &scene.operator;
    let (clocks, others) = (leader.clocks()?, pair.standby.clocks()?);
    move_date(&pair.standby, &others, -jump)?;
    let term_before = term(&scene.lab).await?;

    let claimed = scene.proxy.hold_answer(writes::claim().of(&scene.node));
    let proven = scene.proxy.hold(writes::evidence());
    scene.power(false)?;
    claimed.wait_arrived(LIMIT).await?;
    move_date(leader, &clocks, jump)?;
    scene.lab.notes_date_ahead(jump);
    claimed.release();
    proven.wait_arrived(LIMIT).await?;
    ensure!((ahead(leader)? - jump).abs() < 600, "its date did not jump");
    move_date(leader, &clocks, -2 * jump)?;
    proven.release();
    let drifts = async {
        loop {
            tokio::time::sleep(DRIFT).await;
            if let Err(error) = move_date(leader, &clocks, jump.signum()) {
                return error;
            }
        }
    };
    tokio::select! {
        finished = scene.finished_once(Point::Quiesced) => finished?,
        error = drifts => return Err(error),
    }
    ensure!(
        (ahead(leader)? + jump).abs() < 1800,
        "its date did not jump back"
    );
    ensure!(scene.rig()?.bmc.power_commands().len() == 1);
    let term_after = term(&scene.lab).await?;
    ensure!(
        term_after == term_before,
        "another term: {term_before}, {term_after}"
    );
    let lost = log_of(leader, "no longer the leader")?;
    ensure!(lost.is_empty(), "it has lost the Lease: {lost:#?}");
    pair.standby.check()?;
    scene.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_date_that_jumps_ahead_and_back_decides_nothing() -> Result<()> {
    date_jumps(HOUR).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_date_that_jumps_back_and_ahead_decides_nothing() -> Result<()> {
    date_jumps(-HOUR).await
}
