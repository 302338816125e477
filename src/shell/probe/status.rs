//! The status of a FenceDevice, derived from what was found for each of its nodes.
//!
//! Pure, and derived anew each time from the stored status and the findings of this process: whoever writes it may fail or
//! come late, and the next one derives the same. A device of one node shows its probe as it is; one of a fleet shows how many
//! of its nodes are ready and names those that are not.

mod kept;

use super::judge::{Finding, Judgement, PENDING, Part, judge, pending, with_warning};
use fencing_api::conditions::ConditionStatus::{False, True, Unknown};
use fencing_api::conditions::{
    self, CREDENTIALS_VALID, IDENTITY_VERIFIED, REACHABLE, READY, set_condition, set_progress,
};
use fencing_api::device::{
    BmcInfo, DeviceNodes, FenceDevice, FenceDeviceStatus, PowerState, SystemInfo,
};
use fencing_core::observed::Ready;
use fencing_drivers::Probe;
use jiff::{SignedDuration, Timestamp};
use kept::{controls, pins, restarters};
use std::collections::BTreeMap;

/// Pins that fit into a status (`maxItems` of its schema).
const PINS_MAX: usize = 1000;
/// Nodes that are named as not ready (`maxItems` of its schema).
pub const NOT_READY_NODES_MAX: usize = 50;
/// Nodes whose words go into one message.
const NODES_IN_MESSAGE_MAX: usize = 3;

/// One node of a device.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Node name.
    pub node: &'a str,
    /// What was found last.
    pub finding: Option<&'a Finding>,
    /// Why another node's device is in the way.
    pub duplicate: Option<&'a str>,
    /// Its first probe is still to come, and nothing but time is in the way.
    pub awaited: bool,
    /// It has an open incident, in which nobody probes.
    pub fenced: bool,
    /// When a probe last succeeded.
    pub last_success: Option<Timestamp>,
    /// When one last read that the machine has power.
    pub last_on: Option<Timestamp>,
}

/// The status that follows. `rows` are the nodes that the device serves, by name; `lives` says whether a Node of
/// this name and uid still exists.
pub fn render(
    device: &FenceDevice,
    rows: &[Row<'_>],
    lives: impl Fn(&str, &str) -> bool,
    now: Timestamp,
) -> FenceDeviceStatus {
    let old = device.status.clone().unwrap_or_default();
    let mut judged: Vec<(Row<'_>, Judgement)> = rows
        .iter()
        .map(|row| {
            let judgement = row
                .finding
                .map(|finding| judge(device, finding, row.duplicate));
            (*row, judgement.unwrap_or_else(pending))
        })
        .collect();
    let mut status = old.clone();
    status.systems = pins(old.systems, &judged, &lives);
    let is_current = old.observed_generation == device.metadata.generation;
    // Other settings may lead to another device.
    let kept = old.positive_controls.into_iter().filter(|_| is_current);
    let kept = kept.filter(|row| lives(&row.node_name, &row.node_uid));
    status.positive_controls = controls(kept, &judged);
    status.restarters = restarters(old.restarters, &judged);
    judged
        .iter_mut()
        .for_each(|(_, judgement)| refuse_unkept(judgement, &status));
    if is_current && !old.conditions.is_empty() && rows.iter().any(|row| row.awaited) {
        // What another process found is better than what this one has not looked at yet.
        return status;
    }
    status.observed_generation = device.metadata.generation;
    status.driver = Some(device.spec.driver_name().to_owned());
    // Of a fleet the node that has waited longest: whoever asks for a probe waits for each of them.
    let probed = rows.iter().filter(|row| !row.fenced);
    let times = probed.filter_map(|row| Some(row.finding?.at));
    status.last_probe_time = times.min().max(old.last_probe_time).map(|it| it.min(now));
    let successes = rows.iter().filter_map(|row| row.last_success);
    status.last_success_time = successes.max().or(old.last_success_time);
    let not_ready = || judged.iter().filter(|(_, one)| one.ready.status != True);
    status.nodes = Some(DeviceNodes {
        total: number(judged.len()),
        ready: number(judged.len() - not_ready().count()),
    });
    let names = not_ready().map(|(row, _)| row.node.to_owned());
    status.not_ready_nodes = names.take(NOT_READY_NODES_MAX).collect();
    match (&device.spec.node_name, judged.as_slice()) {
        (Some(_), [(row, judgement)]) => {
            one_node(device, &mut status, row, judgement, is_current, now)
        }
        (Some(node), _) => absent_node(device, &mut status, node, now),
        (None, _) => fleet(device, &mut status, &judged, now),
    }
    set_progress(&mut status.conditions, device.metadata.generation, now);
    status
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A pin that found no room is no pin, and an incident sees only what is kept: without it the device is not ready.
fn refuse_unkept(judgement: &mut Judgement, status: &FenceDeviceStatus) {
    let pin = judgement.pin.take_if(|it| !status.systems.contains(it));
    let control = judgement.control.as_ref();
    let control = control.filter(|it| !status.positive_controls.contains(it));
    let node = pin.as_ref().map(|it| &it.node_name);
    let Some(node) = node.or(control.map(|it| &it.node_name)) else {
        return;
    };
    if judgement.ready.status != True {
        return;
    }
    let refused = Part {
        status: False,
        reason: "TooManyNodes",
        words: format!(
            "a FenceDevice serves at most {PINS_MAX} nodes, and there is no room for {node}; split the `nodeSelector` over several FenceDevices",
        ),
    };
    judgement.ready = refused.clone();
    if pin.is_some() {
        judgement.identity = Some(refused);
    }
}

fn set(
    device: &FenceDevice,
    status: &mut FenceDeviceStatus,
    kind: &str,
    part: &Part,
    now: Timestamp,
) {
    set_condition(
        &mut status.conditions,
        kind,
        part.status,
        part.reason,
        &part.words,
        device.metadata.generation,
        now,
    );
}

fn one_node(
    device: &FenceDevice,
    status: &mut FenceDeviceStatus,
    row: &Row<'_>,
    judgement: &Judgement,
    is_current: bool,
    now: Timestamp,
) {
    set(device, status, REACHABLE, &judgement.reachable, now);
    set(
        device,
        status,
        CREDENTIALS_VALID,
        &judgement.credentials,
        now,
    );
    match &judgement.identity {
        Some(identity) => set(device, status, IDENTITY_VERIFIED, identity, now),
        // A device that is silent for a while is still the one that answered before.
        None if is_current && conditions::find(&status.conditions, IDENTITY_VERIFIED).is_some() => {
        }
        None => set(device, status, IDENTITY_VERIFIED, &unanswered(), now),
    }
    set(device, status, READY, &judgement.ready, now);
    // Other settings may lead to another device.
    let before = status.last_off_time.filter(|_| is_current);
    let is_off = |it| it == PowerState::Off;
    // Beside a Ready Node it is no merit: that machine is running, or has died just now.
    let silent = row.finding.filter(|it| it.node.ready() != Ready::True);
    let off = silent.and_then(|it| seen(it, judgement, is_off));
    status.last_off_time = off.or(before);
    let before = status.last_on_time.filter(|_| is_current);
    // What stands in the status is written now and then only.
    status.last_on_time = row.last_on.or(before);
    match row.finding.map(|finding| &finding.outcome) {
        Some(Ok(probe)) => {
            status.power_state = Some(probe.reading.state);
            status.system = Some(SystemInfo {
                uuid: probe.reading.identity.system_uuid.clone(),
                vendor: probe.vendor.clone(),
                model: probe.model.clone(),
                serial_number: probe.reading.identity.serial_number.clone(),
                firmware: probe.firmware.clone(),
            });
            status.bmc = bmc(probe);
        }
        Some(Err(_)) => status.power_state = Some(PowerState::Unknown),
        None => {}
    }
}

/// When this machine was found in such a state, if it was.
pub fn seen(
    finding: &Finding,
    judgement: &Judgement,
    is: impl Fn(PowerState) -> bool,
) -> Option<Timestamp> {
    let probe = finding.outcome.as_ref().ok()?;
    let identity = judgement.identity.as_ref();
    let is_another = identity.is_some_and(|identity| identity.status == False);
    (is(probe.reading.state) && !is_another).then_some(finding.at)
}

/// What the device says of itself; none: nothing.
fn bmc(probe: &Probe) -> Option<BmcInfo> {
    let info = BmcInfo {
        power_restore_policy: probe.power_restore_policy.clone(),
        cipher_suites: probe.cipher_suites.clone(),
        clock_time: probe.clock.map(|clock| clock.time),
        clock_ahead_seconds: probe.clock.map(|clock| clock.ahead_seconds()),
    };
    (info != BmcInfo::default()).then_some(info)
}

fn unanswered() -> Part {
    Part {
        status: Unknown,
        reason: PENDING,
        words: "the device has not been identified yet".to_owned(),
    }
}

fn absent_node(device: &FenceDevice, status: &mut FenceDeviceStatus, node: &str, now: Timestamp) {
    let part = Part {
        status: Unknown,
        reason: "NodeNotFound",
        words: format!("Node {node} does not exist; the device is probed once it does"),
    };
    for kind in [REACHABLE, CREDENTIALS_VALID, IDENTITY_VERIFIED, READY] {
        set(device, status, kind, &part, now);
    }
    status.power_state = None;
    status.system = None;
    status.bmc = None;
}

fn fleet(
    device: &FenceDevice,
    status: &mut FenceDeviceStatus,
    judged: &[(Row<'_>, Judgement)],
    now: Timestamp,
) {
    let of = |pick: fn(&Judgement) -> Option<&Part>| {
        let silent = unanswered();
        let parts: Vec<(&str, Part)> = judged
            .iter()
            .map(|(row, one)| (row.node, pick(one).unwrap_or(&silent).clone()))
            .collect();
        summary(&parts)
    };
    let parts = [
        (REACHABLE, of(|one| Some(&one.reachable))),
        (CREDENTIALS_VALID, of(|one| Some(&one.credentials))),
        (IDENTITY_VERIFIED, of(|one| one.identity.as_ref())),
        (READY, with_warning(device, of(|one| Some(&one.ready)))),
    ];
    for (kind, part) in parts {
        set(device, status, kind, &part, now);
    }
    status.power_state = None;
    status.system = None;
    status.bmc = None;
}

/// The worst of a fleet: False if any is, else Unknown if any is, with the reason that most of those share.
fn summary(parts: &[(&str, Part)]) -> Part {
    let with = |status| {
        let all = parts.iter().filter(move |(_, part)| part.status == status);
        all.collect::<Vec<_>>()
    };
    let worst = [False, Unknown, True]
        .into_iter()
        .map(|status| (status, with(status)))
        .find(|(_, all)| !all.is_empty());
    let Some((status, all)) = worst else {
        return Part {
            status: Unknown,
            reason: "NoNodes",
            words: "`nodeSelector` selects no node".to_owned(),
        };
    };
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for (_, part) in &all {
        *counts.entry(part.reason).or_default() += 1;
    }
    let reason = counts.into_iter().max_by_key(|(_, count)| *count);
    let (reason, _) = reason.unwrap_or((PENDING, 0));
    let mut words = format!("{} of {} nodes", all.len(), parts.len());
    if status != True {
        let named = all.iter().take(NODES_IN_MESSAGE_MAX);
        let named: Vec<String> = named
            .map(|(node, part)| format!("{node}: {}", part.words))
            .collect();
        words = format!("{words}: {}", named.join("; "));
        if all.len() > NODES_IN_MESSAGE_MAX {
            words.push_str("; …");
        }
    }
    Part {
        status,
        reason,
        words,
    }
}

/// Is the new status worth a write? The times of the last probe alone, and the clock of a device, are once they are older than
/// `times_after`, or where they answer a request for a probe. `is_fenced`: an incident of one of its nodes is open, in which it is probed no more: when
/// it answered last, and last read On, is what people go by then.
pub fn worth_writing(
    old: Option<&FenceDeviceStatus>,
    new: &FenceDeviceStatus,
    times_after: SignedDuration,
    requested: Option<Timestamp>,
    is_fenced: bool,
) -> bool {
    let Some(old) = old else {
        return true;
    };
    let timeless = |status: &FenceDeviceStatus| FenceDeviceStatus {
        last_probe_time: None,
        last_success_time: None,
        last_on_time: None,
        // That there is one is news, once.
        last_off_time: status.last_off_time.map(|_| Timestamp::UNIX_EPOCH),
        bmc: status.bmc.clone().map(|bmc| BmcInfo {
            clock_time: None,
            clock_ahead_seconds: None,
            ..bmc
        }),
        ..status.clone()
    };
    let said = |it: &FenceDeviceStatus| (it.last_success_time, it.last_on_time);
    if timeless(old) != timeless(new) || (is_fenced && said(old) != said(new)) {
        return true;
    }
    match (old.last_probe_time, new.last_probe_time) {
        (Some(old), Some(new)) => {
            let answers = requested.is_some_and(|at| old < at && at <= new);
            answers || new.duration_since(old) >= times_after
        }
        (old, new) => old != new,
    }
}

#[cfg(test)]
mod tests;
