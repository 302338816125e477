//! What an `out-of-service` taint or a forced deletion rests on: the claim, the evidence, and whether the devices, the pods and the
//! kubelet bear it out (S2, S17, and of S1 what follows from it).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::devices::Entry;
use super::pods::Pod;
use super::replay::{Replay, State, fence_of, text, told, told_by_device};
use super::rules::{
    AFTER_CLAIM, CLAIMED, DARK, DYING, EVIDENCE, EVIDENCE_CLAIM, EVIDENCE_TRUE, FRESH, LIFELESS,
    ONLY_OFF, POD_UID, QUIET, SAME_NODE, SILENT, TWICE, WITNESSED,
};
use super::run::{JOURNAL, Line, Stall};
use super::{Judgement, ON_ITS_WAY, Rule, power, volumes};
use crate::audit::{OPERATOR, Request};
use crate::volume::journal::Happening;
use fencing_testbed::exchange::{Exchange, What};

/// The records have milliseconds, and so has how long an answer took.
const ROUNDING: SignedDuration = SignedDuration::from_millis(5);
/// A reading is dated by the wall clock once its answer has been taken in. On a laden machine that is a moment later; the next one is not
/// asked for before.
const DATED_LATE: SignedDuration = SignedDuration::from_secs(2);

/// How long a proof holds, from when its last reading was asked for.
const PROOF_LIFE: SignedDuration = SignedDuration::from_secs(15);

/// Did a request that rests on a reading arrive while this held? None: the lab itself kept it from arriving.
pub(super) fn is_fresh(replay: &Replay, asked: Timestamp, arrived: Timestamp) -> Option<bool> {
    let mut stalls = replay.run.stalls.iter();
    let overlaps = |stall: &Stall| stall.from.wall <= arrived && stall.until.wall >= asked;
    let is_held_up = stalls.any(overlaps);
    (!is_held_up).then(|| arrived.duration_since(asked) <= PROOF_LIFE + ON_ITS_WAY)
}

pub(super) fn check(replay: &Replay, judgement: &mut Judgement) {
    for (node, before, after) in replay.node_changes() {
        if after.is_ours() && after.is_marked() && !before.is_marked() {
            judgement.counts.taints += 1;
            let step = Step {
                replay,
                object: format!("Node {node}"),
                node,
                before,
                version: after.version,
                write: after.write,
                boot_after: Some(after.boot()),
            };
            step.check(judgement);
        }
    }
    for pod in &replay.pods {
        for write in &pod.deletions {
            if write.what.user.username == OPERATOR {
                judgement.counts.deletions += 1;
                deletion(replay, pod, write, judgement);
            }
        }
    }
}

fn deletion(replay: &Replay, pod: &Pod, write: &Line<Request>, judgement: &mut Judgement) {
    let (object, at) = (pod.told(), write.what.received);
    let bound = &write.what.request_object["preconditions"]["uid"];
    if bound != pod.uid {
        let is = format!("the pod's uid is {}: {}", pod.uid, told(pod.created));
        judgement.broken(&POD_UID, &object, at, told(write), is);
    }
    let by_others = |other: &&&Line<Request>| other.what.user.username != OPERATOR;
    let earlier = pod.deletions.iter().find(by_others);
    if earlier.is_none_or(|earlier| earlier.what.received >= at) {
        let other = earlier.map_or("nobody has deleted it".to_owned(), |it| told(it));
        judgement.broken(&DYING, &object, at, told(write), other);
    }
    let metadata = &write.what.response_object["metadata"];
    let version = text(&metadata["resourceVersion"]).parse().unwrap_or(0);
    let node = pod.bound.map_or("", |(node, _)| node);
    let Some(before) = replay.node_before(node, version) else {
        let nowhere = format!("it is on no Node that is known: {node:?}");
        judgement.broken(&CLAIMED, &object, at, told(write), nowhere);
        return;
    };
    let step = Step {
        replay,
        object,
        node,
        before,
        version,
        write,
        boot_after: None,
    };
    step.check(judgement);
}

/// A write that only a proof allows.
struct Step<'a, 'b> {
    replay: &'b Replay<'a>,
    object: String,
    node: &'b str,
    /// The Node before it.
    before: &'b State<'a>,
    version: u64,
    write: &'a Line<Request>,
    /// The boot that the Node showed at the write, if it shows that.
    boot_after: Option<&'a str>,
}

/// Readings of Off by one device, one after the other, as the evidence has them.
struct Readings<'a> {
    device: &'a str,
    off: Vec<Reading<'a>>,
}

/// A reading in the evidence.
struct Reading<'a> {
    /// When it was asked for and answered: by the device, or by the operator if the device has no log.
    asked: Timestamp,
    answered: Timestamp,
    /// The device's record of it.
    line: Option<&'a Line<Entry>>,
}

impl<'a> Step<'a, '_> {
    fn check(&self, judgement: &mut Judgement) {
        let Some(claim) = self.before.claim() else {
            return self.broken(
                judgement,
                &CLAIMED,
                format!("no claim: {}", self.before.name()),
            );
        };
        let has_evidence = |fence: &Value| fence["status"]["evidence"].is_object();
        let Some(fence) = self.replay.fence_before(claim, self.version, has_evidence) else {
            return self.broken(judgement, &EVIDENCE, self.evidence_since(claim));
        };
        let evidence = &fence.object()["status"]["evidence"];
        if evidence["claim"] != claim {
            let other = format!("{} in {}", evidence["claim"], fence.name());
            return self.broken(judgement, &EVIDENCE_CLAIM, other);
        }
        if evidence["nodeUID"] != self.before.object()["metadata"]["uid"] {
            self.broken(judgement, &SAME_NODE, fence.name());
        }
        let boot = text(&evidence["nodeBootID"]);
        if self.boot_after.is_some_and(|after| after != boot) {
            self.broken(judgement, &LIFELESS, fence.name());
        }
        let Some(readings) = self.readings(fence, judgement) else {
            return;
        };
        for device in &readings {
            self.of_device(device, claim, judgement);
        }
        self.dark(boot, judgement);
        let answered = readings
            .iter()
            .flat_map(|it| &it.off)
            .max_by_key(|it| it.answered);
        if let Some(last) = answered {
            self.silent(boot, last, judgement);
            self.fresh(last, judgement);
        }
    }

    /// The write that stored the evidence too late, if one did.
    fn evidence_since(&self, claim: &str) -> String {
        let history = self.replay.fences.get(fence_of(claim));
        let has = |state: &&State| state.object()["status"]["evidence"].is_object();
        let late = history.and_then(|history| history.iter().find(has));
        late.map_or_else(
            || format!("NodeFence {} has none", fence_of(claim)),
            State::name,
        )
    }

    /// The readings that the proof rests on, by device: of each, or of one that will do.
    fn readings(&self, fence: &State<'a>, judgement: &mut Judgement) -> Option<Vec<Readings<'a>>> {
        let (spec, status) = (&fence.object()["spec"]["fence"], &fence.object()["status"]);
        let listed = status["evidence"]["readings"].as_array();
        let listed = listed.map_or(&[][..], Vec::as_slice);
        let level = status["currentLevel"].as_str();
        let level = level.or_else(|| listed.last()?["level"].as_str());
        let of_level = |reading: &&Value| reading["level"].as_str() == level;
        let mut devices: Vec<&str> = Vec::new();
        for reading in listed.iter().filter(of_level) {
            let device = text(&reading["device"]);
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        let verification = &spec["verification"];
        let times = verification["consecutiveOffReads"]
            .as_u64()
            .unwrap_or(2)
            .max(2);
        let period = verification["readPeriodSeconds"].as_i64().unwrap_or(0);
        let steps = i64::try_from(times).unwrap_or(i64::MAX) - 1;
        let window = SignedDuration::from_secs(period.saturating_mul(steps));
        let mut enough = Vec::new();
        for device in &devices {
            let of_device = |reading: &&Value| reading["device"] == *device;
            let off = listed.iter().filter(of_device);
            let off: Vec<&Value> = off
                .rev()
                .take_while(|it| it["powerState"] == "Off")
                .collect();
            let off: Vec<Reading> = off
                .into_iter()
                .rev()
                .map(|reading| self.reading(device, reading, judgement))
                .collect();
            let off = shortest(off, times, window);
            if let Some(off) = off {
                enough.push(Readings { device, off });
            }
        }
        let levels = spec["levels"].as_array();
        let named = levels
            .into_iter()
            .flatten()
            .find(|it| it["name"].as_str() == level);
        let is_any = named.is_some_and(|level| level["require"] == "Any");
        if enough.is_empty() || (!is_any && enough.len() < devices.len()) {
            let words = format!("not {times} times over {window:#}: {}", fence.name());
            self.broken(judgement, &TWICE, words);
            return None;
        }
        Some(enough)
    }

    /// A reading of the evidence, and the device's record of it.
    fn reading(&self, device: &str, reading: &Value, judgement: &mut Judgement) -> Reading<'a> {
        let dated: Timestamp = text(&reading["time"]).parse().unwrap_or_default();
        let answered = dated - self.replay.run.ahead;
        let took = reading["roundTripMillis"].as_i64().unwrap_or(0);
        let asked = answered - SignedDuration::from_millis(took);
        let believed = Reading {
            asked,
            answered,
            line: None,
        };
        if !self.replay.has_log(device) {
            judgement.counts.readings_believed += 1;
            let (from, to) = (asked - ROUNDING - DATED_LATE, answered + ROUNDING);
            if let Some(on) = power::all_the_while(self.replay.run, self.node, from, to) {
                let words = format!("{device} is said to have told Off at {answered:.6}");
                self.contradicted(judgement, &WITNESSED, [words, power::told(on)]);
            }
            return believed;
        }
        let is_it = |exchange: &Exchange| {
            let at = exchange.asked.wall;
            matches!(&exchange.what, What::Reading { told } if told == "Off")
                && at >= asked - ROUNDING - DATED_LATE
                && at <= answered + ROUNDING
        };
        let log = self.replay.log_of(device);
        let told = log
            .filter(|(_, exchange)| is_it(exchange))
            .max_by_key(|(_, exchange)| exchange.asked.wall);
        let Some((line, exchange)) = told else {
            let words = format!("{device} told no Off in the {took} ms before {answered:.6}");
            self.broken(judgement, &EVIDENCE_TRUE, words);
            return believed;
        };
        let of_this_node = matches!(&line.what, Entry::Of { node, .. } if node == self.node);
        if !of_this_node {
            let words = format!("of another node's machine: {}", told_by_device(line));
            self.broken(judgement, &EVIDENCE_TRUE, words);
        }
        judgement.counts.readings_compared += 1;
        Reading {
            asked: exchange.asked.wall,
            answered: exchange.answered.map_or(answered, |at| at.wall),
            line: Some(line),
        }
    }

    fn of_device(&self, readings: &Readings<'a>, claim: &str, judgement: &mut Judgement) {
        let [first, .., last] = &*readings.off else {
            return;
        };
        let words = |reading: &Reading| match reading.line {
            Some(line) => told_by_device(line),
            None => format!(
                "{} is said to have been asked at {:.6}",
                readings.device, reading.asked
            ),
        };
        let mut histories = self.replay.nodes.values().flatten();
        let Some(claimed) = histories.find(|state| state.claim() == Some(claim)) else {
            return;
        };
        if first.asked < claimed.since() {
            let records = [words(first), claimed.name()];
            self.contradicted(judgement, &AFTER_CLAIM, records);
        }
        for pod in &self.replay.pods {
            if !pod.was_on(self.node, claimed.since()) || pod.tolerates() || pod.is_mirror() {
                continue;
            }
            let deleted = pod.deletions.first();
            if deleted.is_none_or(|deleted| deleted.what.received > first.asked) {
                let deleted = deleted.map_or("it was not deleted".to_owned(), |it| told(it));
                let records = [words(first), format!("{}: {deleted}", pod.told())];
                self.contradicted(judgement, &QUIET, records);
            }
        }
        let between = |at: Timestamp| at > first.asked && at < last.asked;
        for (line, exchange) in self.replay.log_of(readings.device) {
            let is_other = matches!(&exchange.what, What::Reading { told } if told != "Off");
            if is_other && between(exchange.asked.wall) {
                let records = [words(last), told_by_device(line)];
                self.contradicted(judgement, &ONLY_OFF, records);
            }
        }
        for sign in self.replay.life.get(self.node).into_iter().flatten() {
            if between(sign.what.received) && between(sign.what.answered) {
                self.contradicted(judgement, &LIFELESS, [words(first), told(sign)]);
            }
        }
    }

    /// The fenced boot had lost its power before.
    fn dark(&self, boot: &str, judgement: &mut Judgement) {
        let mut journal = self.replay.run.journal.iter();
        let on = journal.find(
            |line| matches!(&line.what.happening, Happening::PowerOn { boot: of, .. } if of == boot),
        );
        // What is suspended has none either (R8); that it goes on writing later is found by what the volumes say.
        let off = journal.find(|line| {
            use Happening::{PowerOff, Suspended};
            matches!(&line.what.happening, PowerOff { boot: of, .. } | Suspended { boot: of, .. } if of == boot)
        });
        let Some(on) = on else { return };
        if off.is_none_or(|off| off.what.at.wall > self.write.what.answered) {
            let (number, at) = (on.number, on.what.at.wall);
            let other = format!("{JOURNAL}:{number} boot {boot} has had power since {at:.6}");
            self.broken(judgement, &DARK, other);
        }
    }

    /// The proof was not too old, as far as the lab did not itself keep the write from arriving.
    fn fresh(&self, last: &Reading, judgement: &mut Judgement) {
        let Some(is_fresh) = is_fresh(self.replay, last.asked, self.write.what.received) else {
            return;
        };
        judgement.counts.ages += 1;
        if !is_fresh {
            let words = format!("the last reading was asked for at {:.6}", last.asked);
            self.broken(judgement, &FRESH, words);
        }
    }

    fn silent(&self, boot: &str, last: &Reading, judgement: &mut Judgement) {
        for (handle, lines) in &self.replay.run.volumes {
            let late = |line: &&Line<crate::volume::Write>| {
                line.what.boot == boot && line.what.at.wall > last.answered
            };
            if let Some(line) = lines.iter().find(late) {
                let proof = match last.line {
                    Some(line) => told_by_device(line),
                    None => format!("the last reading at {:.6}", last.answered),
                };
                let records = [volumes::told(handle, line), proof];
                self.contradicted(judgement, &SILENT, records);
            }
        }
    }

    fn broken(&self, judgement: &mut Judgement, rule: &'static Rule, other: String) {
        self.contradicted(judgement, rule, [told(self.write), other]);
    }

    fn contradicted(&self, judgement: &mut Judgement, rule: &'static Rule, records: [String; 2]) {
        let [one, other] = records;
        judgement.broken(rule, &self.object, self.write.what.received, one, other);
    }
}

/// The last of the readings that are enough: so many, and from the answer of the first to the question of the last so long.
fn shortest(
    mut off: Vec<Reading<'_>>,
    times: u64,
    window: SignedDuration,
) -> Option<Vec<Reading<'_>>> {
    let last = off.last()?.asked;
    let times = usize::try_from(times).unwrap_or(usize::MAX);
    let over = |reading: &Reading| last.duration_since(reading.answered) >= window - ROUNDING;
    let first = off.len().checked_sub(times)?;
    let begin = off[..=first].iter().rposition(over)?;
    off.drain(..begin);
    Some(off)
}
