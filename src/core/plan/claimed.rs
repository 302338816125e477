//! Our claim stands, `out-of-service` does not: quiesce, turn off, prove, write the evidence, evict, taint.
//!
//! Every sign of life ends it: the claim is dropped and nothing else of the Node was touched. The order is the protocol
//! (DESIGN §2); moving any of these steps before another one loses data, and the model in `tests/model` shows how.

use super::super::incident::{
    Approval, Attempt, Decision, DeviceOrder, Effect, Eviction, Evidence, Held, Level, Memory,
    OffResult, Settings,
};
use super::super::observed::{NodeView, Observed, PodView, Ready, Seen};
use super::super::proof::{Case, NotProven, Proof, judge};
use super::super::quiesce::{name_some, startable, stuck, tolerating};
use super::super::stage::Stage;
use super::super::taint;
use super::unclaimed::{current_level, fail, judge_level, names, order};
use super::{Moment, act, poll, wait};
use crate::api::settings::{FenceMode, PodDeletion, RecoveryStrategy};
use std::time::Duration;

pub(super) fn step(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    claim: &str,
    o: &Observed,
    t: &Moment,
) -> Decision {
    if !m.record_read {
        m.record_read = true;
        // An off of the process before us may still be on its way (S23).
        if s.record.unresolved {
            m.unresolved_until = Some(t.now + s.late_effect);
        }
    }
    if let Some((stage, words)) = why_abort(s, m, node) {
        return abort(m, node, claim, stage, words);
    }
    match &mut m.claim {
        Some(held) if held.value == claim => held.seen = true,
        _ => return take_over(s, m, node, t),
    }
    if let Some(decision) = quiesce(m, o, t) {
        return decision;
    }
    let Some(level) = current_level(s, m) else {
        let words = "no FenceDevice of any level serves the node any more".to_owned();
        return abort(m, node, claim, Stage::Aborted, words);
    };
    if m.busy.is_some() {
        return in_trouble(
            m,
            wait(busy_stage(m), format!("waits for {}", names(&level))),
        );
    }
    if let Some(at) = m.retry_at.filter(|at| t.now < *at) {
        return in_trouble(
            m,
            wait(busy_stage(m), m.last_failure.clone().unwrap_or_default()),
        )
        .until(at);
    }
    if s.mode == FenceMode::PowerOff
        && let Some(decision) = power_off(s, m, &level, t)
    {
        return decision;
    }
    prove(s, m, node, &level, o, t)
}

/// A claim is held only while the node is down and its fence is wanted.
fn why_abort(s: &Settings, m: &Memory, node: &NodeView) -> Option<(Stage, String)> {
    if let Some(ending) = &m.ending {
        return Some(ending.clone());
    }
    if m.tainted {
        let words = format!(
            "somebody else removed `out-of-service` from Node {}: it is not set again",
            node.name
        );
        return Some((Stage::Aborted, words));
    }
    if node.ready() == Ready::True {
        return Some((
            Stage::SelfRecovered,
            format!("Node {} is Ready again{}", node.name, after_off(m)),
        ));
    }
    let claimed_boot = m
        .claim
        .as_ref()
        .map(|held| held.boot_id.as_str())
        .or(s.boot_id.as_deref());
    if claimed_boot.is_some_and(|boot| boot != node.boot_id) {
        let words = format!(
            "Node {} has booted anew{}: its boot ID is {}",
            node.name,
            after_off(m),
            node.boot_id
        );
        return Some((Stage::Aborted, words));
    }
    if s.released {
        return Some((
            Stage::Aborted,
            "released by `spec.desiredState: Released`".to_owned(),
        ));
    }
    if let Approval::Denied(user, reason) = &s.approval {
        return Some((Stage::Aborted, format!("denied by {user}: {reason}")));
    }
    s.stop
        .as_ref()
        .map(|reason| (Stage::Aborted, reason.clone()))
}

/// S22: life after an off command means a device that lies or is wired to another machine.
fn after_off(m: &Memory) -> &'static str {
    let accepted = |attempt: &Attempt| {
        attempt
            .results
            .values()
            .any(|result| *result == OffResult::Accepted)
    };
    match m.attempt.as_ref().is_some_and(accepted) {
        true => {
            ", although its device accepted an off command: check the wiring and the identity of the device"
        }
        false => "",
    }
}

/// Takes our claim away, once no command of ours is on its way any more.
fn abort(m: &mut Memory, node: &NodeView, claim: &str, stage: Stage, words: String) -> Decision {
    m.ending = Some((stage, words.clone()));
    if m.commanding() {
        return wait(
            busy_stage(m),
            format!("{words}; waits for the device before the claim goes"),
        );
    }
    drop_claim(m, node, claim, words)
}

/// Somebody else has put the node out of service under our claim: it is theirs from now on, so the claim goes (S8). The
/// incident is held, and begins anew should they take their taint away.
pub(super) fn give_way(m: &mut Memory, node: &NodeView, claim: &str) -> Decision {
    let words = format!(
        "somebody else has put Node {} out of service: the claim is given back, their taint is left alone",
        node.name
    );
    if m.commanding() {
        return wait(
            Stage::Held,
            format!("{words}; waits for the device before the claim goes"),
        );
    }
    Decision {
        stage: Stage::Held,
        ..drop_claim(m, node, claim, words)
    }
}

fn drop_claim(m: &mut Memory, node: &NodeView, claim: &str, words: String) -> Decision {
    m.dropping = true;
    match taint::drop_claim(node, claim) {
        Some(patch) => act(Effect::DropClaim(patch), busy_stage(m), words),
        None => wait(busy_stage(m), words),
    }
}

/// The claim is a process's before us, or a rival's: put ours in its place and begin from nothing.
fn take_over(s: &Settings, m: &mut Memory, node: &NodeView, t: &Moment) -> Decision {
    m.forget_claim(t.now + s.late_effect);
    let value = taint::claim_value(&s.fence, &t.nonce);
    m.claim = Some(Held {
        value: value.clone(),
        uid: node.uid.clone(),
        boot_id: node.boot_id.clone(),
        seen: false,
    });
    let words = format!(
        "takes over claim {} of Node {}",
        node.claim().unwrap_or_default(),
        node.name
    );
    act(
        Effect::Claim(taint::claim(node, &value)),
        Stage::Claiming,
        words,
    )
}

/// Until no pod can start on the node. Also notes the kubelet's Lease, which may not move from here on.
fn quiesce(m: &mut Memory, o: &Observed, t: &Moment) -> Option<Decision> {
    if m.lease_before.is_none() {
        match &o.lease {
            Seen::Present(lease) => m.lease_before = Some(lease.clone()),
            _ => {
                return Some(
                    wait(
                        Stage::Quiescing,
                        format!("reads the kubelet's Lease{}", failed(&o.lease)),
                    )
                    .until(poll(m, t.now, Duration::from_secs(1))),
                );
            }
        }
    }
    if m.quiesced.is_some() {
        return None;
    }
    let Some(pods) = o.pods.present() else {
        let words = format!(
            "needs a complete list of the node's pods{}",
            failed(&o.pods)
        );
        return Some(wait(Stage::Quiescing, words).until(poll(m, t.now, Duration::from_secs(1))));
    };
    if startable(pods).next().is_some() {
        let words = format!(
            "{} pod(s) could still start on the node: {}",
            startable(pods).count(),
            name_some(startable(pods))
        );
        return Some(wait(Stage::Quiescing, words).until(poll(m, t.now, Duration::from_secs(1))));
    }
    m.quiesced = Some(t.now);
    m.polls = 0;
    m.pods_found = stuck(pods).map(PodView::full_name).collect();
    m.pods_tolerating = tolerating(pods).map(PodView::full_name).collect();
    None
}

fn failed<T>(seen: &Seen<T>) -> String {
    match seen {
        Seen::Failed(reason) => format!(": {reason}"),
        _ => String::new(),
    }
}

/// Intent, then the command. `None` once the command has ended, however: the readings decide.
fn power_off(s: &Settings, m: &mut Memory, level: &Level, t: &Moment) -> Option<Decision> {
    match &m.attempt {
        None => {
            m.attempts += 1;
            let id = format!("{}-{}", t.nonce, s.record.attempts + m.attempts);
            let devices = level
                .devices
                .iter()
                .map(|device| device.name.clone())
                .collect();
            m.attempt = Some(Attempt {
                id,
                level: level.name.clone(),
                devices,
                recorded: false,
                results: Default::default(),
            });
            power_off(s, m, level, t)
        }
        Some(attempt) if !attempt.recorded => {
            let words = format!(
                "off command {} to {} is written down before it is sent",
                attempt.id,
                names(level)
            );
            Some(act(
                Effect::RecordIntent(attempt.clone()),
                Stage::Fencing,
                words,
            ))
        }
        Some(attempt) if attempt.results.is_empty() => {
            let off = DeviceOrder::Off(attempt.clone());
            let words = format!("turns the machine off by {}", names(level));
            Some(act(order(m, off), Stage::Fencing, words))
        }
        Some(attempt) => {
            let sent = judge_level(level, |device| match attempt.results.get(&device.name) {
                Some(OffResult::NotSent(reason)) => {
                    Err(format!("FenceDevice {}: {reason}", device.name))
                }
                None => Err(format!("FenceDevice {}: not asked", device.name)),
                Some(_) => Ok(()),
            });
            let words = sent.err()?;
            Some(try_again(s, m, words, t))
        }
    }
}

/// The try has failed: forget its command and its readings, keep the claim, try again or by the next level.
fn try_again(s: &Settings, m: &mut Memory, words: String, t: &Moment) -> Decision {
    m.attempt = None;
    m.readings = None;
    fail(s, m, words.clone(), t.now);
    in_trouble(m, wait(busy_stage(m), words)).until(m.retry_at.unwrap_or(t.now))
}

/// Reads the power, judges the readings, and goes on to the taint while the proof lives.
fn prove(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    level: &Level,
    o: &Observed,
    t: &Moment,
) -> Decision {
    let Some(readings) = m.readings.clone() else {
        // After an off command the Lease counts from here: until then the kubelet was allowed to live.
        if let (FenceMode::PowerOff, Seen::Present(lease)) = (s.mode, &o.lease) {
            m.lease_before = Some(lease.clone());
        }
        let words = format!(
            "reads the power from {} until it is proven off",
            names(level)
        );
        return act(order(m, DeviceOrder::Confirm), Stage::Verifying, words);
    };
    let (Some(held), Some(quiesced), Some(lease_before)) = (&m.claim, m.quiesced, &m.lease_before)
    else {
        return wait(Stage::Verifying, "the claim was lost".to_owned()).until(t.now);
    };
    let Some(lease_now) = o.lease.present() else {
        let words = format!("needs the kubelet's Lease{}", failed(&o.lease));
        return wait(Stage::Verifying, words).until(poll(m, t.now, Duration::from_secs(1)));
    };
    let case = Case {
        claim: &held.value,
        node_uid: &held.uid,
        boot_id: &held.boot_id,
        node,
        lease_before,
        lease_now,
        quiesced,
        devices: &readings,
        require: level.require,
        verification: &s.verification,
    };
    if o.kubelet_answers {
        return contradiction(
            s,
            m,
            node,
            "the kubelet's port answers although the device reads Off".to_owned(),
            t,
        );
    }
    match judge(&case, t.now) {
        Ok(proof) => use_proof(s, m, node, lease_now.renew_time.clone(), proof, o, t),
        Err(NotProven::Stale { .. }) => {
            m.readings = None;
            wait(
                Stage::Verifying,
                "the proof has died of age: the power is read again".to_owned(),
            )
            .until(t.now)
        }
        Err(reason) if reason.is_contradiction() => {
            contradiction(s, m, node, reason.to_string(), t)
        }
        Err(reason) if s.mode == FenceMode::ConfirmOnly => {
            let words = format!("{reason}; the claim is given back");
            m.retry_at = Some(t.now + level.retry_period);
            m.last_failure = Some(words.clone());
            let claim = held.value.clone();
            drop_claim(m, node, &claim, words)
        }
        Err(reason) => try_again(s, m, reason.to_string(), t),
    }
}

/// S22. A slow machine may have lived between its off command and the first reading, so the first contradiction of a
/// PowerOff fence only begins the reading anew; from the second on a human is called, and there is no taint.
fn contradiction(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    words: String,
    t: &Moment,
) -> Decision {
    m.contradictions += 1;
    m.readings = None;
    if s.mode == FenceMode::PowerOff && m.contradictions == 1 {
        return wait(
            Stage::Verifying,
            format!("{words}; the power is read again"),
        )
        .until(t.now);
    }
    m.attempt = None;
    m.last_failure = Some(words.clone());
    m.retry_at = Some(t.now + Duration::from_secs(30));
    let claim = node.claim().unwrap_or_default().to_owned();
    let decision = match s.mode {
        FenceMode::PowerOff => {
            wait(Stage::Verifying, words.clone()).until(t.now + Duration::from_secs(30))
        }
        _ => drop_claim(m, node, &claim, words.clone()),
    };
    decision.escalated("FenceContradiction", words)
}

/// Evidence, eviction, taint: in this order, each under the same living proof.
fn use_proof(
    s: &Settings,
    m: &mut Memory,
    node: &NodeView,
    lease_renew_time: String,
    proof: Proof,
    o: &Observed,
    t: &Moment,
) -> Decision {
    let Some(pods) = o.pods.present() else {
        let words = format!(
            "proven down; needs a complete list of the node's pods{}",
            failed(&o.pods)
        );
        return wait(Stage::Tainting, words).until(poll(m, t.now, Duration::from_secs(1)));
    };
    if startable(pods).next().is_some() {
        let words = format!(
            "proven down, but pods came to the node meanwhile: {}",
            name_some(startable(pods))
        );
        m.quiesced = None;
        m.readings = None;
        return wait(Stage::Quiescing, words).until(t.now);
    }
    if !m.evidence {
        let evidence = Evidence {
            claim: proof.claim().to_owned(),
            node_uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            lease_renew_time,
            readings: m.readings.clone().unwrap_or_default(),
        };
        let words = format!("Node {} is proven down: the evidence is stored", node.name);
        return act(
            Effect::StoreEvidence(Box::new(evidence)),
            Stage::Tainting,
            words,
        );
    }
    if s.strategy == RecoveryStrategy::None {
        let words =
            "the machine is proven down; `recovery.strategy: None` wants nothing more".to_owned();
        return abort(m, node, proof.claim(), Stage::Recovered, words);
    }
    let pods: Vec<PodView> = stuck(pods).cloned().collect();
    if s.pod_deletion == PodDeletion::Expedited && !m.evicted && !pods.is_empty() {
        let words = format!(
            "deletes {} stuck pod(s): {}",
            pods.len(),
            name_some(pods.iter())
        );
        let eviction = Eviction {
            pods,
            valid_until: proof.valid_until(),
        };
        return act(Effect::Evict(eviction), Stage::Tainting, words);
    }
    match taint::out_of_service(node, proof) {
        Some(patch) => act(
            Effect::Taint(patch),
            Stage::Tainting,
            format!("Node {} is put out of service", node.name),
        ),
        None => wait(Stage::Tainting, "the claim was lost".to_owned()).until(t.now),
    }
}

fn busy_stage(m: &Memory) -> Stage {
    match (&m.attempt, m.quiesced) {
        (_, None) => Stage::Quiescing,
        (Some(attempt), _) if attempt.results.is_empty() => Stage::Fencing,
        _ => Stage::Verifying,
    }
}

fn in_trouble(m: &Memory, decision: Decision) -> Decision {
    super::unclaimed::in_trouble(m, decision)
}
