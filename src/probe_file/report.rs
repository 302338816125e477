//! What a probe found, as text for an engineer and as JSON for a script.

use crate::shell::probe::judge::{Judgement, Part};
use fencing_api::conditions::ConditionStatus;
use fencing_api::device::FenceDevice;
use fencing_core::control::{self, NO_POSITIVE_CONTROL};
use fencing_core::identity::MISMATCH;
use fencing_core::identity_rule::IdentityRule;
use fencing_core::reading::Reading;
use fencing_drivers::Probe;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// Everything that there is to say.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    device: String,
    driver: &'static str,
    node: String,
    /// The first thing that stands in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    power_off: Option<Off>,
    verdict: Verdict,
    /// What a clean one comes to.
    #[serde(skip)]
    clean: String,
}

#[derive(Debug, Serialize)]
struct Problem {
    reason: &'static str,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Verdict {
    Clean,
    OffProven,
    NotClean,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(rename = "millis")]
    took_ms: u128,
    power_state: String,
    raw: String,
    faults: Vec<String>,
    #[serde(rename = "systemUUID")]
    system_uuid: Option<String>,
    serial_number: Option<String>,
    vendor: Option<String>,
    model: Option<String>,
    firmware: Option<String>,
    power_restore_policy: Option<String>,
    cipher_suites: Vec<u8>,
    clock_time: Option<String>,
    clock_ahead_seconds: Option<i64>,
    certificate_expiry: Option<String>,
}

/// A power-off and the readings after it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Off {
    /// What became of the command.
    pub command: String,
    /// What was read afterwards.
    #[serde(serialize_with = "readings")]
    pub readings: Vec<Reading>,
    /// They prove it.
    pub is_proven: bool,
    /// Why, or why not.
    #[serde(rename = "message")]
    pub words: String,
}

impl Off {
    /// It ended before any reading: what became of the command, and why.
    pub fn ended(command: &str, words: String) -> Self {
        Self {
            command: command.to_owned(),
            readings: Vec::new(),
            is_proven: false,
            words,
        }
    }
}

impl Report {
    /// Nothing is known yet.
    pub fn new(device: &FenceDevice, node: &str) -> Self {
        Self {
            device: device.metadata.name.clone().unwrap_or_default(),
            driver: device.spec.driver_name(),
            node: node.to_owned(),
            problem: None,
            notes: Vec::new(),
            answer: None,
            power_off: None,
            verdict: Verdict::NotClean,
            clean: String::new(),
        }
    }

    /// Is there nothing in the way?
    pub fn is_clean(&self) -> bool {
        self.verdict != Verdict::NotClean
    }

    /// Is there nothing in the way of a power-off? A machine that is off already may be turned off.
    pub fn may_be_turned_off(&self) -> bool {
        let lacks_control = |problem: &Problem| problem.reason == NO_POSITIVE_CONTROL;
        self.is_clean() || self.problem.as_ref().is_some_and(lacks_control)
    }

    /// What the operator would say of it.
    pub fn judged(&mut self, judgement: &Judgement) {
        let Part {
            status,
            reason,
            words,
        } = &judgement.ready;
        match status {
            ConditionStatus::True => {
                self.verdict = Verdict::Clean;
                self.clean.clone_from(words);
            }
            ConditionStatus::False | ConditionStatus::Unknown => {
                self.stands_in_the_way(reason, words.clone());
            }
        }
    }

    /// Keys of the Secret whose value ended in a newline.
    pub fn trimmed(&mut self, keys: &[&str]) {
        if !keys.is_empty() {
            let keys = keys.join(" and ");
            self.notes.push(format!(
                "the Secret's {keys} ended in a newline, which was dropped"
            ));
        }
    }

    /// The device's answer, and whether the right machine gave it.
    pub fn answered(&mut self, probe: &Probe, rule: &IdentityRule, took: Duration) {
        let reading = &probe.reading;
        self.answer = Some(Answer {
            took_ms: took.as_millis(),
            power_state: format!("{:?}", reading.state),
            raw: reading.raw.clone(),
            faults: reading.faults.clone(),
            system_uuid: reading.identity.system_uuid.clone(),
            serial_number: reading.identity.serial_number.clone(),
            vendor: probe.vendor.clone(),
            model: probe.model.clone(),
            firmware: probe.firmware.clone(),
            power_restore_policy: probe.power_restore_policy.clone(),
            cipher_suites: probe.cipher_suites.clone(),
            clock_time: probe.clock.map(|clock| clock.time.to_string()),
            clock_ahead_seconds: probe.clock.map(|clock| clock.ahead_seconds()),
            certificate_expiry: probe.certificate_expiry.map(|expiry| expiry.at.to_string()),
        });
        if *rule == IdentityRule::Skip && self.driver == "pdu" {
            self.notes.push(
                "the machine's identity was not compared, because an outlet names none: try the wiring once, with the node drained".to_owned(),
            );
        } else if *rule == IdentityRule::Skip {
            self.notes.push(
                "the machine's identity was not compared: give the node's `.status.nodeInfo.systemUUID` with --node-uuid".to_owned(),
            );
        }
        if *rule != IdentityRule::Skip && reading.identity.system_uuid.is_none() {
            self.notes.push(
                "the device names no machine, so none was compared: try the wiring once, with the node drained".to_owned(),
            );
        }
        if control::reads_off(reading) {
            self.notes.push(
                "an Off is valid only after an On with its Node Ready; probe it again, each outlet included, with the machine on".to_owned(),
            );
        }
        // Whoever names the machine means it, though the operator compares nothing where the settings say so.
        if rule.is_another(&reading.identity)
            && let Err(wrong) = rule.check(&self.device, &reading.identity)
        {
            self.stands_in_the_way(MISMATCH, wrong.to_string());
        }
    }

    /// What the power-off has come to.
    pub fn off(&mut self, off: Off) {
        self.verdict = match off.is_proven {
            true => Verdict::OffProven,
            false => Verdict::NotClean,
        };
        // It was off before, and a power-off does not ask for that.
        self.problem = None;
        self.power_off = Some(off);
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn stands_in_the_way(&mut self, reason: &'static str, message: String) {
        self.verdict = Verdict::NotClean;
        self.problem.get_or_insert(Problem { reason, message });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "FenceDevice  {} ({}), node {}",
            self.device, self.driver, self.node
        )?;
        if let Some(answer) = &self.answer {
            answer.fmt(f)?;
        }
        for note in &self.notes {
            writeln!(f, "note         {note}")?;
        }
        if let Some(off) = &self.power_off {
            writeln!(f, "power off    {}", off.command)?;
            for reading in &off.readings {
                let took = reading.answered.saturating_sub(reading.asked).as_millis();
                writeln!(
                    f,
                    "reading      {} {:?} ({}), {took} ms",
                    reading.wall, reading.state, reading.raw
                )?;
            }
            writeln!(f, "             {}", off.words)?;
        }
        match (&self.problem, self.verdict) {
            (Some(problem), _) => {
                writeln!(f, "verdict      {}: {}", problem.reason, problem.message)
            }
            (None, Verdict::Clean) => writeln!(f, "verdict      clean: {}", self.clean),
            (None, Verdict::OffProven) => {
                writeln!(f, "verdict      off, confirmed by its device")
            }
            (None, Verdict::NotClean) => writeln!(f, "verdict      not confirmed off"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |word: &Option<String>| word.clone().unwrap_or_else(|| "not told".to_owned());
        writeln!(f, "answers      in {} ms", self.took_ms)?;
        writeln!(f, "power        {} ({})", self.power_state, self.raw)?;
        for fault in &self.faults {
            writeln!(
                f,
                "fault        {fault}: no reading of Off is valid with it"
            )?;
        }
        writeln!(f, "system UUID  {}", or_none(&self.system_uuid))?;
        let machine = [
            &self.vendor,
            &self.model,
            &self.firmware,
            &self.serial_number,
        ];
        let machine: Vec<&str> = machine.into_iter().flatten().map(String::as_str).collect();
        if !machine.is_empty() {
            writeln!(f, "machine      {}", machine.join(", "))?;
        }
        writeln!(f, "restores     {}", or_none(&self.power_restore_policy))?;
        if !self.cipher_suites.is_empty() {
            let suites: Vec<String> = self.cipher_suites.iter().map(u8::to_string).collect();
            writeln!(f, "suites       {}", suites.join(", "))?;
        }
        if let (Some(time), Some(ahead)) = (&self.clock_time, self.clock_ahead_seconds) {
            let differs = match ahead {
                0 => "as ours".to_owned(),
                1.. => format!("{ahead} s ahead of ours"),
                _ => format!("{} s behind ours", ahead.unsigned_abs()),
            };
            writeln!(f, "clock        {time}, {differs}")?;
        }
        match &self.certificate_expiry {
            Some(expiry) => writeln!(f, "certificate  valid until {expiry}"),
            None => Ok(()),
        }
    }
}

fn readings<S: serde::Serializer>(readings: &[Reading], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(readings.iter().map(|reading| {
        serde_json::json!({
            "time": reading.wall.to_string(),
            "powerState": format!("{:?}", reading.state),
            "raw": reading.raw,
            "millis": u64::try_from(reading.answered.saturating_sub(reading.asked).as_millis()).unwrap_or(u64::MAX),
        })
    }))
}
