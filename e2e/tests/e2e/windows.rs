//! Windows of a policy that open and close while a node is down. The operator's date is set ahead over their boundaries, and over the next
//! night in which the clocks of a zone are changed; what becomes of a window that opens or closes in such an hour itself is for the tables of
//! `crates/core/src/window` to show.

use anyhow::{Context, Result, ensure};
use e2e::clocks::{Clocks, available_to_test};
use e2e::lab::{LIMIT, condition, stage};
use fencing_testbed::eventually::eventually;
use jiff::civil::{Date, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::clocks::move_date;
use crate::outage::{BYSTANDER, Outage, approve, name};
use crate::patience::policy_says;

const HOUR: i64 = 3600;

/// A window of every day in Kathmandu, where clocks are never changed and are 5:45 ahead of UTC: from so many hours from now on, for three.
fn window(opens: i64, extra: Value) -> Value {
    let local = |hours: i64| {
        let time = Timestamp::now() + (hours * 60 + 5 * 60 + 45).minutes();
        time.strftime("%H:%M").to_string()
    };
    let mut window = json!({
        "name": "kept", "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
        "start": local(opens), "end": local(opens + 3), "timeZone": "Asia/Kathmandu",
    });
    for (field, value) in extra.as_object().into_iter().flatten() {
        window[field] = value.clone();
    }
    window
}

/// Sets the operator's date so many hours further ahead, `all` since it runs.
fn hours_pass(outage: &Outage, clocks: &Clocks, hours: i64, all: i64) -> Result<()> {
    move_date(&outage.operator, clocks, hours * HOUR)?;
    outage.lab.notes_date_ahead(all * HOUR);
    Ok(())
}

/// The mode in which the operator shows the policy to be.
async fn shows_mode(outage: &Outage, mode: &str) -> Result<()> {
    let series = format!(r#"node_fencing_policy_mode{{mode="{mode}",policy="lab"}} 1"#);
    eventually(&series, LIMIT, async || {
        let (_, metrics) = outage.operator.get("/metrics").await?;
        ensure!(metrics.contains(&series), "it is not");
        Ok(())
    })
    .await
}

/// The NodeFence that followed this one.
async fn next_of(outage: &Outage, before: &DynamicObject, wanted: &str) -> Result<DynamicObject> {
    let is_next =
        |it: &DynamicObject| it.metadata.uid != before.metadata.uid && stage(it) == wanted;
    outage.lab.wait_fence(&outage.node, is_next).await
}

/// Why a NodeFence ended.
async fn ended(outage: &Outage, fence: &DynamicObject) -> Result<String> {
    let fence = outage.lab.api("NodeFence").get(name(fence)?).await?;
    let succeeded = condition(&fence, "Succeeded").context("a stage")?;
    ensure!(succeeded["reason"] == "Aborted", "{succeeded}");
    Ok(succeeded["message"].to_string())
}

/// It waits for its turn in mode PowerOff; then a window says Observe, and then it has closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_goes_no_further_than_the_window_that_opens_and_begins_when_it_closes()
-> Result<()> {
    if !available_to_test("windows")? {
        return Ok(());
    }
    let outage = Outage::prepare("windows", "Observe", json!({})).await?;
    let (lab, node) = (&outage.lab, &outage.node);
    let policy = json!({
        "budget": {"minHealthy": "100%", "maxConcurrent": 2},
        "windows": [window(2, json!({"mode": "Observe"}))],
    });
    lab.policy("PowerOff", policy).await?;
    policy_says(lab, "no window is open (mode PowerOff").await?;
    let clocks = outage.operator.clocks()?;
    outage.cut().await?;
    let first = lab.wait_stage(node, "Held").await?;
    ensure!(first.data["spec"]["fence"]["mode"] == "PowerOff");
    shows_mode(&outage, "PowerOff").await?;

    hours_pass(&outage, &clocks, 3, 3)?;
    let second = next_of(&outage, &first, "Observing").await?;
    let why = ended(&outage, &first).await?;
    ensure!(why.contains("window kept is open (mode Observe"), "{why}");
    let reason = second.data["spec"]["trigger"]["reason"].to_string();
    ensure!(reason.contains("window kept is open"), "{reason}");
    ensure!(second.data["spec"]["fence"]["mode"] == "Observe");
    policy_says(lab, "window kept is open (mode Observe").await?;
    shows_mode(&outage, "Observe").await?;
    let policy = lab.api("NodeFencingPolicy").get("lab").await?;
    let effective = &policy.data["status"]["effective"];
    ensure!(
        effective["window"] == "kept" && effective["mode"] == "Observe",
        "{effective}"
    );
    ensure!(outage.node_writes().await?.is_empty());
    ensure!(outage.rig()?.bmc.power_commands().is_empty());

    hours_pass(&outage, &clocks, 3, 6)?;
    let third = next_of(&outage, &second, "Held").await?;
    let why = ended(&outage, &second).await?;
    ensure!(why.contains("no window is open (mode PowerOff"), "{why}");
    // The window is over, and the storm is not.
    approve(lab, name(&third)?).await?;
    lab.wait_stage(node, "Recovered").await?;
    ensure!(outage.rig()?.bmc.power_commands().len() == 1);
    outage.restore().await?;
    outage.verdict().await
}

/// By day a human is asked, and by night nobody is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_nobody_has_approved_in_office_hours_is_fenced_when_they_end() -> Result<()> {
    if !available_to_test("office-hours")? {
        return Ok(());
    }
    let windows = json!({"windows": [window(-1, json!({"approvalMode": "Manual"}))]});
    let outage = Outage::prepare("office-hours", "ConfirmOnly", windows).await?;
    let clocks = outage.operator.clocks()?;
    outage.cut().await?;
    let asks = outage
        .lab
        .wait_stage(&outage.node, "AwaitingApproval")
        .await?;
    ensure!(outage.node_writes().await?.is_empty());
    hours_pass(&outage, &clocks, 3, 3)?;
    let fenced = next_of(&outage, &asks, "Recovered").await?;
    ensure!(fenced.data["spec"]["fence"]["approval"]["mode"] == "Automatic");
    ended(&outage, &asks).await?;
    outage.restore().await?;
    outage.verdict().await
}

/// A zone in which clocks are changed twice a year, always before [`EARLY`].
const CHANGES_ITS_CLOCKS: &str = "Europe/Berlin";
const EARLY: Time = Time::constant(6, 0, 0, 0);
const HALF_AN_HOUR: SignedDuration = SignedDuration::from_mins(30);

/// When the wall clock there shows [`EARLY`] on the day of the next change, and on the day before.
fn early_when_clocks_are_changed(zone: &TimeZone) -> Result<[Timestamp; 2]> {
    // The day before is to come too.
    let change = zone.following(Timestamp::now() + 72.hours()).next();
    let change = change.context("its clocks are changed no more")?;
    let day = change.timestamp().to_zoned(zone.clone()).date();
    let early = |day: Date| -> Result<Timestamp> {
        Ok(day.to_datetime(EARLY).to_zoned(zone.clone())?.timestamp())
    };
    let (before, after) = (early(day.yesterday()?)?, early(day)?);
    let lies_between = before < change.timestamp() && change.timestamp() < after;
    ensure!(lies_between && after.duration_since(before) != SignedDuration::from_hours(24));
    Ok([before, after])
}

/// Sets the operator's date ahead to this one. That may be months: the lab's certificates and tokens last.
fn date_becomes(outage: &Outage, clocks: &Clocks, ahead: &mut i64, date: Timestamp) -> Result<()> {
    let seconds = date.as_second() - Timestamp::now().as_second() - *ahead;
    move_date(&outage.operator, clocks, seconds)?;
    *ahead += seconds;
    outage.lab.notes_date_ahead(*ahead);
    Ok(())
}

/// By any one offset from UTC the window would open an hour early or late, on the day before the change or on that of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_opens_by_the_wall_clock_on_the_day_on_which_it_is_changed() -> Result<()> {
    if !available_to_test("clocks-changed")? {
        return Ok(());
    }
    let zone = TimeZoneDatabase::bundled().get(CHANGES_ITS_CLOCKS)?;
    let [before, after] = early_when_clocks_are_changed(&zone)?;
    let early = json!({
        "mode": "ConfirmOnly", "timeZone": CHANGES_ITS_CLOCKS, "start": EARLY.strftime("%H:%M").to_string(), "end": "12:00",
    });
    let windows = json!({"windows": [window(0, early)]});
    let outage = Outage::prepare("clocks-changed", "Observe", windows).await?;
    let (lab, node, mut ahead) = (&outage.lab, &outage.node, 0);
    let clocks = outage.operator.clocks()?;
    let closed_until = |opens: Timestamp| {
        format!("no window is open (mode Observe, approval Automatic) until {opens}")
    };

    date_becomes(&outage, &clocks, &mut ahead, before - HALF_AN_HOUR)?;
    policy_says(lab, &closed_until(before)).await?;
    outage.cut().await?;
    let first = lab.wait_stage(node, "Observing").await?;

    // Clocks have been changed, and it is not yet time by them: what is down stays as it is, and what goes down is only observed.
    date_becomes(&outage, &clocks, &mut ahead, after - HALF_AN_HOUR)?;
    policy_says(lab, &closed_until(after)).await?;
    let other = &lab.rig(BYSTANDER).machine;
    other.set_power(false);
    let second = lab.wait_stage(other.name(), "Observing").await?;
    ensure!(second.data["spec"]["fence"]["mode"] == "Observe");
    let still = lab.wait_stage(node, "Observing").await?;
    ensure!(still.metadata.uid == first.metadata.uid);
    ensure!(outage.node_writes().await?.is_empty());

    date_becomes(&outage, &clocks, &mut ahead, after + HALF_AN_HOUR)?;
    let fenced = next_of(&outage, &first, "Recovered").await?;
    ensure!(fenced.data["spec"]["fence"]["mode"] == "ConfirmOnly");
    let why = ended(&outage, &first).await?;
    ensure!(
        why.contains("window kept is open (mode ConfirmOnly"),
        "{why}"
    );
    lab.wait_stage(other.name(), "Recovered").await?;
    other.set_power(true);
    outage.restore().await?;
    outage.verdict().await
}
