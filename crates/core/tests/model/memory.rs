//! What the core remembers, without what makes no difference to what it does next.
//!
//! The core's memory has words for people, counters for its pace and moments of time. Left as they are, the same situation would
//! never come twice. [`settle`] takes them out, one field at a time, each with the reason why no effect hangs on it. A wait that only
//! delays is over at once: every operator may be slow for as long as it likes anyway.

use crate::turned_on::read_on;
use crate::views::{
    BEFORE_DRAINED, DEVICE, DRAINED, Incident, JUST_NOW, LONG_AGO, LONG_BEFORE, MAY_LAND, NOW,
    device, lease, nonce_of, reading,
};
use fencing_core::attempt::{OffResult, OnResult};
use fencing_core::device::DeviceReadings;
use fencing_core::memory::Memory;
use fencing_core::quiesce::Quiesce;
use std::time::Duration;

/// What a memory means to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meaning {
    /// Nonce of the claim it holds; 0: none.
    pub claim: u8,
    /// Which renewal of the Lease it compares with; none: it has not read any.
    pub lease: Option<u8>,
    /// The boot under its claim.
    pub boot: u8,
    /// It sees to a taint.
    pub tainted: bool,
    /// How often its device has been contradicted, up to twice.
    pub contradictions: u8,
    /// Everything has detached, or where the operator detaches: no pod with a volume is left.
    pub drained: bool,
    /// Everything has detached.
    pub emptied: bool,
    /// The next round makes the last check.
    pub last_check: bool,
    /// It waits for its device.
    pub busy: bool,
    /// Readings for a proof that are not too old yet.
    pub proven_just_now: bool,
    /// It has looked at the power a moment ago.
    pub looked_just_now: bool,
    /// An off may land late.
    pub may_land: bool,
    /// It has taken note of what the record said.
    pub record_read: bool,
    /// It has an attempt that is written down.
    pub attempt: bool,
    /// Nothing of that attempt is still to come.
    pub is_settled: bool,
    /// That attempt has not been sent.
    pub is_unsent: bool,
    /// Once the evidence is stored pods are deleted by force.
    pub evicts_next: bool,
    /// It waits for the machine that it turns on again.
    pub turns_on: bool,
}

/// A memory that was given new words or moments by a round, or by what it heard, in a form that comes again.
pub fn settle(mut m: Memory, incident: &Incident) -> Memory {
    without_words(&mut m, incident);
    without_counters(&mut m);
    without_pauses(&mut m);
    without_the_past(&mut m);
    // Everything that lies before now does so by a fixed distance, in its order.
    if m.under_claim.quiesce.since.is_some() {
        m.under_claim.quiesce.since = Some(LONG_BEFORE);
    }
    // Where the operator detaches, what is read has to be read since the last pod has gone, and since everything has detached then.
    let is_drained = m.taint.detached_at.is_some();
    if is_drained {
        m.taint.pods_gone_at = m.taint.pods_gone_at.map(|_| LONG_BEFORE);
    }
    let since = match is_drained {
        true => &mut m.taint.detached_at,
        false => &mut m.taint.pods_gone_at,
    };
    if *since == Some(NOW) {
        for sight in m
            .under_claim
            .answers
            .iter_mut()
            .filter_map(|it| it.reading.as_mut().ok())
        {
            if sight.asked == JUST_NOW {
                (sight.asked, sight.answered) = (BEFORE_DRAINED, BEFORE_DRAINED);
            }
        }
        *since = Some(DRAINED);
    }
    let is_since = since.is_some();
    if !is_since {
        for sight in m
            .under_claim
            .answers
            .iter_mut()
            .filter_map(|it| it.reading.as_mut().ok())
        {
            if sight.asked == BEFORE_DRAINED {
                (sight.asked, sight.answered) = (JUST_NOW, JUST_NOW);
            }
        }
    }
    if !incident.writes {
        m.under_claim.written_before.clear();
    }
    m.read_at = match m.under_claim.answers.is_empty() {
        true => Duration::ZERO,
        false if m.read_at == LONG_AGO => LONG_AGO,
        false => JUST_NOW,
    };
    // Over or not over: how long it is makes no difference.
    m.late.own_off_until = m
        .late
        .own_off_until
        .filter(|until| *until > NOW)
        .map(|_| MAY_LAND);
    m
}

/// They explain, and decide nothing.
fn without_words(m: &mut Memory, incident: &Incident) {
    m.stage = None;
    m.tries.last_failure = None;
    m.tries.by_level.clear();
    m.tries.alarm = None;
    m.writes.denied = None;
    m.writes.failure.clear();
    m.under_claim.quiesce.found.clear();
    m.under_claim.quiesce.tolerating.clear();
    if let Some((_, message)) = &mut m.ending {
        message.clear();
    }
    m.accused = None;
    m.proven.by = None;
    m.proven.refuted = false;
    m.proven.doubted = None;
    m.power_on.failure = None;
    if let Some(attempt) = &mut m.power_on.attempt {
        "attempt".clone_into(&mut attempt.id);
        attempt.limit = Duration::ZERO;
        for result in attempt.results.values_mut() {
            if let OnResult::NotSent(message)
            | OnResult::Unknown(message)
            | OnResult::Late(message) = result
            {
                message.clear();
            }
        }
    }
    // A level with one device, and no other level: nobody speaks against it but itself. Whether it read On is asked where it is turned on again.
    let was_on = incident.turns_on && m.trust.power_history.has_power(DEVICE);
    // And whether it was off before our command, where it is asked what a kubelet writes.
    let was_off = incident.writes && m.trust.power_history.is_off_by_itself(DEVICE);
    m.trust.power_history = Default::default();
    if was_on {
        m.trust.power_history.note(&read_on(incident), false);
    }
    if was_off {
        let off = reading(false, LONG_BEFORE);
        let off = DeviceReadings::of(&device(incident.control), vec![off]);
        m.trust.power_history.note(&off, false);
    }
    // How long the window is makes no difference.
    m.trust.silent.clear();
    m.commands.has_commanded = false;
    for message in &mut m.trust.contradictions {
        "words".clone_into(message);
    }
    if let Some(attempt) = &mut m.commands.attempt {
        "attempt".clone_into(&mut attempt.id);
        attempt.limit = Duration::ZERO;
        for result in attempt.results.values_mut() {
            if let OffResult::NotSent(message)
            | OffResult::Silent(message)
            | OffResult::Unknown(message)
            | OffResult::Late(message) = result
            {
                message.clear();
            }
        }
    }
}

/// They set the pace, call a human, or tell the answers to two orders apart, of which only the last is listened to.
fn without_counters(m: &mut Memory) {
    m.is_due = true;
    m.tries.checked = false;
    m.under_claim.polls = 0;
    m.tries.rounds = 0;
    m.tries.failures = 0;
    m.commands.attempts = 0;
    m.writes.failures = 0;
    m.under_claim.quiesce.begun_anew = 0;
    m.tries.since = None;
    m.commands.orders = u64::from(m.commands.busy.is_some());
    if let Some(busy) = &mut m.commands.busy {
        busy.order = m.commands.orders;
    }
}

fn without_pauses(m: &mut Memory) {
    m.tries.retry_at = None;
    m.writes.retry_at = None;
    m.rival_until = None;
    m.power_on.retry_at = None;
    // It is waited for once, and over.
    m.under_claim.off_waits_until = m.under_claim.off_waits_until.map(|_| LONG_BEFORE);
    m.under_claim.taken_over_until = None;
    // They hold the next claim back until a newer list is without them, and allow nothing.
    m.found_back.clear();
    if m.power_on.begun.is_some() {
        m.power_on.begun = Some(LONG_BEFORE);
    }
    // None would mean that its command's answer has not been taken in.
    if m.taint.settles_at.is_some() {
        m.taint.settles_at = Some(LONG_BEFORE);
    }
}

/// Once the taint was seen, or the end is decided, nothing comes back to what was read before.
fn without_the_past(m: &mut Memory) {
    if !m.taint.seen && m.ending.is_none() {
        return;
    }
    m.under_claim.evidence &= !m.taint.seen;
    m.under_claim.evicted = false;
    m.under_claim.readings = None;
    m.under_claim.pods = None;
    m.under_claim.relist = false;
    if m.taint.seen {
        m.under_claim.quiesce = Quiesce::default();
        m.under_claim.life_counts_from(None);
        m.under_claim.lease_after_off = false;
        m.under_claim.off_waits_until = None;
    }
}

/// Does this memory, before it is settled, know of a late command that it did not know of before?
pub fn awaits_more(m: &Memory) -> bool {
    m.late.own_off_until.is_some_and(|until| until > MAY_LAND)
}

/// What changes a memory besides rounds and answers: time, and names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The renewal of the Lease that it compares with is called otherwise, because there is a newer one.
    Lease(u8),
    /// The record says something new, and is read again.
    RecordUnread,
    /// No command can land late any more.
    LateEffect,
    /// The last look at the power is no longer one of now.
    Look,
    /// The readings prove nothing any more.
    Proof,
    /// The time in which the machine had to come back is over, and nobody came.
    PowerOnOver,
    /// Its claim is gone for good, and with it what was learned under it (`forget`).
    Superseded,
}

/// The memory after such a change.
pub fn changed(mut m: Memory, change: Change) -> Memory {
    match change {
        Change::Lease(renewal) => {
            m.under_claim.lease_before = m.under_claim.lease_before.map(|_| lease(renewal))
        }
        Change::RecordUnread => m.record_read = false,
        Change::PowerOnOver => m.power_on.due = Some(Duration::ZERO),
        Change::LateEffect => m.late.own_off_until = Some(LONG_BEFORE),
        Change::Look => {
            m.read_at = LONG_AGO;
            for sight in m
                .under_claim
                .answers
                .iter_mut()
                .filter_map(|it| it.reading.as_mut().ok())
            {
                (sight.asked, sight.answered) = (LONG_AGO, LONG_AGO);
            }
        }
        Change::Superseded => {
            m.under_claim.quiesce = Quiesce::default();
            m.under_claim.readings = None;
            m.under_claim.pods = None;
            m.under_claim.relist = false;
            m.under_claim.life_counts_from(None);
            m.under_claim.lease_after_off = false;
            m.under_claim.off_waits_until = None;
            m.under_claim.evicted = false;
        }
        Change::Proof => {
            let readings = m.under_claim.readings.iter_mut().flatten();
            for reading in readings.flat_map(|device| &mut device.readings) {
                let age = NOW - LONG_AGO;
                (reading.asked, reading.answered) = (reading.asked - age, reading.answered - age);
            }
        }
    }
    m
}

/// What it means.
pub fn meaning(m: &Memory) -> Meaning {
    let attempt = m
        .commands
        .attempt
        .as_ref()
        .filter(|attempt| attempt.recorded);
    let readings = m.under_claim.readings.iter().flatten();
    let last = readings.filter_map(|device| device.readings.last()).next();
    let lease = m.under_claim.lease_before.as_ref();
    Meaning {
        claim: m.claim.as_ref().map_or(0, |held| nonce_of(&held.value)),
        lease: lease.map(|lease| lease.renew_time.parse().expect("a renewal of the model")),
        boot: m.claim.as_ref().map_or(0, |held| nonce_of(&held.boot_id)),
        tainted: m.taint.seen,
        contradictions: u8::try_from(m.trust.contradictions.len()).expect("two at most"),
        drained: m.taint.detached_at.or(m.taint.pods_gone_at).is_some(),
        emptied: m.taint.detached_at.is_some(),
        last_check: m.taint.last_check,
        busy: m.commands.busy.is_some(),
        proven_just_now: last.is_some_and(|last| last.asked > LONG_AGO),
        looked_just_now: m.read_at > LONG_AGO,
        may_land: m.late.own_off_until.is_some(),
        record_read: m.record_read,
        attempt: attempt.is_some(),
        is_settled: attempt.is_some_and(|it| {
            !it.results.is_empty() && it.results.values().all(OffResult::is_settled)
        }),
        is_unsent: attempt.is_some_and(|it| it.results.is_empty()),
        evicts_next: false,
        turns_on: m.power_on.due.is_some_and(|due| due > Duration::ZERO),
    }
}
