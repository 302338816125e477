//! The on command: everything that can be done before it is done before it, the power is read, and then the Node and the NodeFence once more.
//!
//! No claim protects it, so what allows it is read by quorum right before it leaves: the Node as it was released, the attempt in the record,
//! the other NodeFences, and nobody's no. What comes a moment later meets a machine that boots, which does no harm, and that somebody has to turn off again.

use super::unwanted::{is_written, there};
use super::{Job, driver, may_still_leave};
use crate::shell::context::Context;
use crate::shell::{observe, resolve};
use fencing_api::fence_status::AttemptAction;
use fencing_core::attempt::{OnAttempt, OnResult};
use fencing_core::device::Device;
use fencing_core::power_on::forbidden;
use fencing_core::reading::PowerState;
use fencing_drivers::OnOutcome;
use fencing_drivers::clock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::timeout;

/// Turns the machine on by this device, and counts and tells what came of it.
pub(super) async fn on(
    context: &Context,
    job: &Job,
    device: &Device,
    attempt: &OnAttempt,
) -> (String, OnResult) {
    let started = clock::since_boot();
    let sending = AtomicBool::new(false);
    let words = format!("no answer within {} s", job.limit.as_secs());
    let command = command(context, job, device, attempt, &sending);
    let result = match timeout(job.limit, command).await {
        Ok(result) => result,
        Err(_) if sending.load(Ordering::Relaxed) => OnResult::Unknown(words),
        Err(_) => OnResult::NotSent(format!("{words} before the command")),
    };
    let took = clock::since_boot().saturating_sub(started);
    let driver = context.caches.driver_of(&device.name);
    let word = result.outcome();
    context
        .metrics
        .fence_attempt(&driver, AttemptAction::PowerOn, word);
    tracing::info!(
        fence = %job.settings.fence, node = %job.settings.node, device = %device.name,
        attempt = %attempt.id, result = ?word, words = result.message(), took_ms = took.as_millis(), "on command"
    );
    (device.name.clone(), result)
}

/// The answer to an attempt whose work was lost on the way.
pub(super) fn unanswered(
    attempt: &OnAttempt,
    has_no_device: bool,
    why: &str,
) -> BTreeMap<String, OnResult> {
    let result = match has_no_device {
        true => OnResult::NotSent(why.to_owned()),
        false => OnResult::Unknown(why.to_owned()),
    };
    let names = attempt.devices.iter().cloned();
    names.map(|name| (name, result.clone())).collect()
}

async fn command(
    context: &Context,
    job: &Job,
    device: &Device,
    attempt: &OnAttempt,
    sending: &AtomicBool,
) -> OnResult {
    let (_, driver) = match driver(context, job, device).await {
        Ok(found) => found,
        Err(reason) => return OnResult::NotSent(reason),
    };
    let _turn = context.devices.turn(driver.as_ref()).await;
    let mut session = driver.open();
    let reading = match session.prepare_on().await {
        Ok(reading) => reading,
        Err(error) => return OnResult::NotSent(error.to_string()),
    };
    if let Err(wrong) = device.identity.check(&device.name, &reading.identity) {
        return OnResult::NotSent(wrong.to_string());
    }
    if reading.state != PowerState::Off {
        return OnResult::NotSent(format!(
            "FenceDevice {} reads {} ({}), and only a machine that reads Off is turned on",
            device.name,
            format_args!("{:?}", reading.state),
            reading.raw
        ));
    }
    let looked = clock::since_boot();
    if let Err(reason) = still_allowed(context, job, attempt).await {
        return OnResult::NotSent(reason);
    }
    if let Err(reason) = may_still_leave(context, looked, "the Node") {
        return OnResult::NotSent(reason);
    }
    sending.store(true, Ordering::Relaxed);
    let Some(outcome) = context.term_end.lasts(session.power_on()).await else {
        return OnResult::Unknown(
            "this replica was no longer the leader when it was sent".to_owned(),
        );
    };
    match outcome {
        Ok(OnOutcome::Accepted) => OnResult::Accepted,
        Ok(OnOutcome::AlreadyOn { .. }) => OnResult::AlreadyOn,
        Ok(OnOutcome::Unknown(error)) => OnResult::Unknown(error.to_string()),
        Err(error) => OnResult::NotSent(error.to_string()),
    }
}

/// S11: the Node is as it was released, the attempt stands in the record, nobody else has taken the node since, and nobody has said no; all of
/// it read by quorum right before the command.
async fn still_allowed(context: &Context, job: &Job, attempt: &OnAttempt) -> Result<(), String> {
    let settings = &job.settings;
    let (node, fence, fences) = tokio::join!(
        observe::node(context, &settings.node),
        observe::fence(context, &settings.fence),
        observe::fences(context)
    );
    let node = there(node, "the Node")?.view();
    let fence = there(fence, "the NodeFence")?;
    let fences = there(fences, "the list of NodeFences")?;
    if fence.is_ended() || !is_written(&fence, &attempt.id, AttemptAction::PowerOn) {
        return Err(format!(
            "on command {} is no longer in the NodeFence",
            attempt.id
        ));
    }
    let (uid, boot_id) = (settings.node_uid.as_deref(), settings.boot_id.as_deref());
    if let Some(why) = forbidden(&node, uid, boot_id) {
        return Err(why);
    }
    // One that came and went while its cache was late, or before this process began, has left its record.
    let status = fence.status.clone().unwrap_or_default();
    if let Some(why) = resolve::taken_since(settings, &status, &fences) {
        return Err(why);
    }
    let policies = context.caches.policies();
    let policy = resolve::policy_of(&fence, &policies);
    match resolve::power_on(&fence, Some(&node), policy, clock::wall()) {
        None => Err("the machine must not be turned on".to_owned()),
        Some(wanted) => wanted.stop.or(wanted.hold).map_or(Ok(()), Err),
    }
}
