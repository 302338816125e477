//! The off command: all that comes before it, the claim once more, and what became of it.

use super::{Job, driver, may_still_leave, observe, unwanted};
use crate::shell::context::Context;
use fencing_api::fence_status::AttemptAction;
use fencing_cluster::slim::SlimNode;
use fencing_core::attempt::{Attempt, OffResult};
use fencing_core::device::Device;
use fencing_core::observed::{LeaseView, NodeView, Read, Ready};
use fencing_core::taint;
use fencing_drivers::clock;
use fencing_drivers::error::DeviceError;
use fencing_drivers::{FenceSession, OffOutcome};
use futures::future::{Either, ready, select};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::timeout;

/// Asks the device for it, and says what became of that.
pub(super) async fn off(
    context: &Context,
    job: &Job,
    device: &Device,
    attempt: &Attempt,
) -> (String, OffResult) {
    let started = clock::since_boot();
    let sending = AtomicBool::new(false);
    let words = format!("no answer within {} s", job.limit.as_secs());
    let result = match timeout(job.limit, command(context, job, device, attempt, &sending)).await {
        Ok(result) => result,
        // What was under way when time ran out may have been sent.
        Err(_) if sending.load(Ordering::Relaxed) => OffResult::Unknown(words),
        Err(_) => OffResult::Silent(format!("{words} before the command")),
    };
    let took = clock::since_boot().saturating_sub(started);
    let driver = context.caches.driver_of(&device.name);
    let word = result.outcome();
    context
        .metrics
        .fence_attempt(&driver, AttemptAction::PowerOff, word);
    tracing::info!(
        fence = %job.settings.fence, node = %job.settings.node, device = %device.name,
        attempt = %attempt.id, result = ?word, words = result.message(), took_ms = took.as_millis(), "off command"
    );
    (device.name.clone(), result)
}

/// Everything that can be done before the command is done before it; then the claim is read again, and the command leaves. From then on it
/// is `sending`.
async fn command(
    context: &Context,
    job: &Job,
    device: &Device,
    attempt: &Attempt,
    sending: &AtomicBool,
) -> OffResult {
    let written = attempt.versions.get(&device.name);
    if written.is_some_and(|version| *version != device.version) {
        return OffResult::NotSent("it was changed since the command was recorded".to_owned());
    }
    let (_, driver) = match driver(context, job, device).await {
        Ok(found) => found,
        Err(reason) => return OffResult::NotSent(reason),
    };
    let _turn = context.devices.turn(driver.as_ref()).await;
    let mut work = HeardSession {
        session: driver.open(),
        job,
        device,
    };
    let prepared = work.session.prepare_off().await;
    // Whoever ends the work from now on has it at once.
    work.note();
    let identity = match prepared {
        Ok(identity) => identity,
        Err(error) => return unsent(&error),
    };
    if let Err(wrong) = device.identity.check(&device.name, &identity) {
        return OffResult::NotSent(wrong.to_string());
    }
    let looked = clock::since_boot();
    if let Err(reason) = still_claimed(context, job, attempt).await {
        return OffResult::NotSent(reason);
    }
    if let Err(reason) = may_still_leave(context, looked, "the claim") {
        return OffResult::NotSent(reason);
    }
    sending.store(true, Ordering::Relaxed);
    let Some(outcome) = context.term_end.lasts(work.session.force_off()).await else {
        return OffResult::Unknown(
            "this replica was no longer the leader when it was sent".to_owned(),
        );
    };
    match outcome {
        Ok(OffOutcome::Accepted) => OffResult::Accepted,
        Ok(OffOutcome::AlreadyOff { .. }) => OffResult::AlreadyOff,
        Ok(OffOutcome::Unknown(error)) => OffResult::Unknown(error.to_string()),
        Err(error) => unsent(&error),
    }
}

/// A session with one device. What it has seen is heard, even where the time for the preparation runs out.
struct HeardSession<'a> {
    session: Box<dyn FenceSession>,
    job: &'a Job,
    device: &'a Device,
}

impl HeardSession<'_> {
    fn note(&self) {
        if let Some(reading) = self.session.seen() {
            self.job.heard.note(self.device, &reading);
        }
    }
}

impl Drop for HeardSession<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

pub(super) fn unsent(error: &DeviceError) -> OffResult {
    match error.is_silence() {
        true => OffResult::Silent(error.to_string()),
        false => OffResult::NotSent(error.to_string()),
    }
}

/// S11, F12: no power command without a held claim, read by quorum right before it is sent, nor against a no, read beside it.
async fn still_claimed(context: &Context, job: &Job, attempt: &Attempt) -> Result<(), String> {
    let held = job.claim.as_ref().ok_or("no claim is held")?;
    let node = pin!(node_and_lease(context, job));
    let fence = pin!(observe::fence(context, &job.settings.fence));
    // Side by side, but under our taint the second one is not waited for.
    let (node, fence) = match select(node, fence).await {
        Either::Left((node, fence)) => (node, Either::Left(fence)),
        Either::Right((fence, node)) => (node.await, Either::Right(ready(fence))),
    };
    let (node, lease) = node;
    let node = unwanted::there(node, "the Node")?.view();
    if node.uid != held.uid || node.claim() != Some(held.value.as_str()) {
        return Err(format!(
            "the claim was lost before the command: the Node has claim {}",
            node.claim().unwrap_or("none")
        ));
    }
    if !held.boot_id.is_empty() && node.boot_id != held.boot_id {
        return Err(format!(
            "Node {} rebooted (boot ID {}, to be turned off is {})",
            node.name, node.boot_id, held.boot_id
        ));
    }
    let is_tainted = taint::mark_of_claim(&node).is_some();
    if node.marked_by().is_some() && !is_tainted {
        return Err("the Node was tainted out-of-service by others".to_owned());
    }
    // Under our taint a node that says Ready with its old boot is the reason for the command.
    if node.ready() == Ready::True && !is_tainted {
        return Err("the Node is Ready again".to_owned());
    }
    match is_tainted {
        // The machine has power while its volumes are being detached: no human's no makes that safe, and none stops the fence any more (S15).
        // Nor is the record asked for: whoever makes it anew waits for this command like for any (S23).
        true => Ok(()),
        false => {
            still_silent(job, &node, lease)?;
            unwanted::still_wanted(context, fence.await, &node, attempt)
        }
    }
}

/// The Lease is asked for where it may forbid the command.
async fn node_and_lease(context: &Context, job: &Job) -> (Read<SlimNode>, Read<LeaseView>) {
    let name = &job.settings.node;
    match job.lease {
        Some(_) => tokio::join!(
            observe::node(context, name),
            observe::lease(&context.reads, name)
        ),
        None => (observe::node(context, name).await, Read::NotRead),
    }
}

/// A kubelet that is reached again renews its Lease before it reports: the machine runs. Compared for equality only, whatever its clock says.
fn still_silent(job: &Job, node: &NodeView, lease: Read<LeaseView>) -> Result<(), String> {
    let Some(before) = job.lease.as_ref() else {
        return Ok(());
    };
    if node.ready() != Ready::Unknown {
        return Ok(());
    }
    let lease = unwanted::there(lease, "the kubelet's Lease")?;
    match lease == *before {
        true => Ok(()),
        false => Err(format!(
            "the kubelet of Node {} renewed its Lease since the claim ({} -> {})",
            node.name, before.renew_time, lease.renew_time
        )),
    }
}
