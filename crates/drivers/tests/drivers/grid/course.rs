//! What a fence does with a device, step by step, and what was seen of it: reading, command, the reads for a proof, and the judgement.

use super::cell::Bench;
use fencing_core::control::Control;
use fencing_core::device::DeviceReadings;
use fencing_core::identity_rule::IdentityRule;
use fencing_core::not_proven::NotProven;
use fencing_core::observed::{CLAIM, ConditionView, LeaseView, NodeView, TaintView};
use fencing_core::power_history::PowerHistory;
use fencing_core::proof::{Case, Proof, judge};
use fencing_core::reading::{PowerState, Reading};
use fencing_core::verification::{Require, Verification};
use fencing_drivers::clock::{self, Clock};
use fencing_drivers::confirm::{ConfirmPlan, Ended, Together, confirm};
use fencing_drivers::{DeviceError, OffOutcome, OnOutcome};
use fencing_testbed::power::Power;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// Consecutive readings of off that are asked for.
const READS: u32 = 3;
const PERIOD: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(100);

/// One fence of the machine behind a device.
pub struct Course<'a> {
    pub bench: &'a Bench,
    pub rule: IdentityRule,
    /// What the last reads for a proof have read.
    pub readings: Vec<Reading>,
    /// Readings of off, and proofs, that were made while the machine ran.
    pub invented: Vec<String>,
    begun: Duration,
}

/// What became of the command.
#[derive(Debug)]
pub enum Off {
    Sent(OffOutcome),
    /// The driver's error: certainly not carried out.
    Failed(DeviceError),
    /// Another machine answered, so that it was not sent.
    NotSent(NotProven),
}

/// Whether the machine has run all the while.
struct Running {
    changes: usize,
    is_on: bool,
}

impl Running {
    fn now(bench: &Bench) -> Self {
        let changes = bench.machine.changes();
        Self {
            changes: changes.len(),
            is_on: changes.last().is_some_and(|(_, is_on)| *is_on),
        }
    }

    /// It ran then, runs now, and was not off in between.
    fn is_until(&self, now: &Self) -> bool {
        self.is_on && now.is_on && self.changes == now.changes
    }
}

impl<'a> Course<'a> {
    pub fn of(bench: &'a Bench) -> Self {
        Self {
            bench,
            rule: bench.rule.clone(),
            readings: Vec::new(),
            invented: Vec::new(),
            begun: clock::since_boot(),
        }
    }

    /// Reads once.
    pub async fn look(&mut self) -> Result<Reading, DeviceError> {
        let before = Running::now(self.bench);
        let reading = self.bench.driver.open().observe().await?;
        let is_off = reading.state == PowerState::Off;
        if is_off && before.is_until(&Running::now(self.bench)) {
            self.invented.push(reading.raw.clone());
        }
        Ok(reading)
    }

    /// Prepares, judges who answers, and sends the command.
    pub async fn off(&mut self) -> Off {
        let mut session = self.bench.driver.open();
        let identity = match session.prepare_off().await {
            Ok(identity) => identity,
            Err(error) => return Off::Failed(error),
        };
        if let Err(refusal) = self.rule.check("device", &identity) {
            return Off::NotSent(refusal);
        }
        match session.force_off().await {
            Ok(outcome) => Off::Sent(outcome),
            Err(error) => Off::Failed(error),
        }
    }

    /// Prepares, judges who answers, and turns the machine on; none: another machine answers, or it does not read Off.
    pub async fn on(&mut self) -> Result<Option<OnOutcome>, DeviceError> {
        let mut session = self.bench.driver.open();
        let reading = session.prepare_on().await?;
        let is_ours = self.rule.check("device", &reading.identity).is_ok();
        if !is_ours || reading.state != PowerState::Off {
            return Ok(None);
        }
        session.power_on().await.map(Some)
    }

    /// It is off, and what keeps no off from arriving keeps no on from it; what runs is not told again.
    pub async fn comes_on(&mut self) -> Result<(), String> {
        let on = self.on().await;
        let is_on = self.bench.machine.is_on();
        if !matches!(on, Ok(Some(OnOutcome::Accepted))) || !is_on {
            return Err(format!("the on command ends with {on:?}, power {is_on}"));
        }
        match self.on().await {
            Ok(None) => Ok(()),
            again => Err(format!("it is turned on again: {again:?}")),
        }
    }

    /// Reads until there is a run of off, or time is up, or so often. After the second reading of off something may befall the device, until a reading
    /// is lost by it.
    pub async fn confirm(&mut self, within: Duration, readings_max: usize) -> Ended {
        let plan = ConfirmPlan {
            reads: READS,
            period: PERIOD,
            window: WINDOW,
            deadline: within,
        };
        let bench = self.bench;
        let alone = Together::new(Require::All, 1, plan, Clock::SYSTEM);
        let (mut before, mut invented) = (Running::now(bench), Vec::new());
        let (mut count, mut offs) = (0, 0);
        let watch = |reading: &Reading| {
            let now = Running::now(bench);
            count += 1;
            if reading.state == PowerState::Off {
                offs += 1;
                if before.is_until(&now) {
                    invented.push(reading.raw.clone());
                }
            }
            before = now;
            match (&bench.midway, reading.state) {
                (Some(midway), PowerState::Off) if offs == 2 => (midway.breaks)(),
                (Some(midway), PowerState::Unknown) => (midway.mends)(),
                _ => {}
            }
            match count < readings_max {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break("seen enough".to_owned()),
            }
        };
        let driver = bench.driver.as_ref();
        let confirmation = confirm(&alone, 0, driver, driver.open(), watch).await;
        self.invented.extend(invented);
        self.readings = confirmation.readings;
        confirmation.ended
    }

    /// What the product's rule makes of the last reads, beside a node without any sign of life, or one whose Lease has moved.
    pub fn proof(&mut self, lease_moved: bool) -> Result<Proof, NotProven> {
        let lease = |renewed: &str| LeaseView {
            renew_time: renewed.to_owned(),
        };
        let device = DeviceReadings {
            device: "device".to_owned(),
            version: "uid/1".to_owned(),
            identity: self.rule.clone(),
            outlets: false,
            covers: None,
            control: Control::Shown,
            readings: self.readings.clone(),
        };
        let case = Case {
            claim: "fence-n1",
            node_uid: "uid-1",
            boot_id: "boot-1",
            node: &node(),
            lease_before: &lease("renewal-1"),
            lease_now: &lease(if lease_moved {
                "renewal-2"
            } else {
                "renewal-1"
            }),
            written: None,
            quiesced: self.begun,
            devices: &[device],
            others: &[],
            require: Require::All,
            power_history: &PowerHistory::default(),
            verification: &Verification {
                off_reads_min: READS as usize,
                window: WINDOW,
            },
            commanded: false,
            kubelet_answers: false,
            confirmed_until: None,
        };
        let proof = judge(&case, clock::since_boot());
        if proof.is_ok() && self.bench.machine.is_on() {
            self.invented.push("a proof".to_owned());
        }
        proof
    }
}

/// A node that was claimed and shows no sign of life.
fn node() -> NodeView {
    let claim = TaintView {
        key: CLAIM.to_owned(),
        value: Some("fence-n1".to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: None,
    };
    let ready = ConditionView {
        kind: "Ready".to_owned(),
        status: "Unknown".to_owned(),
        transition: String::new(),
        heartbeat: String::new(),
    };
    NodeView {
        name: "node-1".to_owned(),
        uid: "uid-1".to_owned(),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: vec![claim],
        conditions: vec![ready],
        boot_id: "boot-1".to_owned(),
        system_uuid: crate::ipmi::UUID.to_owned(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}
