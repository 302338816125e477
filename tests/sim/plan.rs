//! What a seed is about: the cluster, its policy, and the faults that may happen in it. Each seed has some of them only, so that rare ones
//! meet each other alone as well as in a crowd (swarm testing).

use crate::controllers::Workload;
use crate::dice::Dice;
use crate::faults::Fault;
use crate::objects::{NAMESPACE, PASSWORD, SECRET};
use serde_json::{Value, json};
use std::time::Duration;

/// Of a hundred seeds those from here on have faults of many kinds.
const MIXED: u64 = 25;

/// Decided before anything happens.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Machines.
    pub machines: u64,
    /// Replicas of the operator.
    pub replicas: usize,
    /// The shipped admission policies stand.
    pub is_guarded: bool,
    /// What runs on them.
    pub workload: Workload,
    /// `fence.mode`.
    pub mode: &'static str,
    /// `verification.readPeriodSeconds`.
    pub read_period: u64,
    /// `verification.lateEffectSeconds`.
    pub late_effect: u64,
    /// The policy's `unhealthyConditions[0].durationSeconds`.
    pub wait: u64,
    /// `recovery.podDeletion`.
    pub pod_deletion: &'static str,
    /// `recovery.strategy` is DeleteNode, and no `OutOfServiceTaint`.
    pub deletes_node: bool,
    /// `release.mode`.
    pub release: &'static str,
    /// `powerOn.delaySeconds`; none: `powerOn.policy` is Never.
    pub power_on: Option<u64>,
    /// `budget.maxConcurrent`.
    pub concurrent: u64,
    /// `earlyDetection` is Enabled.
    pub is_early: bool,
    /// Faults that may happen.
    pub faults: Vec<Fault>,
    /// How often each of them does, at most.
    pub repeats: u64,
    /// How long they go on.
    pub trouble: Duration,
    /// Nodes that lose their power.
    pub outages: u64,
}

impl Plan {
    /// That of a seed.
    pub fn of(dice: &Dice) -> Self {
        // Some seeds are about one bound, where nothing else is in the way; the others about everything.
        let about = dice.between(0, 99);
        let faults = faults(dice, about);
        let mut plan = Self {
            machines: dice.between(2, 5),
            replicas: if dice.chance(60) { 2 } else { 1 },
            is_guarded: dice.chance(80),
            workload: Workload {
                databases: dice.between(1, 3),
                webs: dice.between(0, 2),
            },
            mode: if dice.chance(65) {
                "PowerOff"
            } else {
                "ConfirmOnly"
            },
            read_period: dice.between(1, 3),
            late_effect: *dice.pick(&[5, 15, 30, 60]),
            wait: dice.between(10, 20),
            pod_deletion: if dice.chance(65) {
                "Expedited"
            } else {
                "PodGC"
            },
            release: if dice.chance(75) {
                "AfterDetach"
            } else {
                "AfterRecovery"
            },
            deletes_node: false,
            power_on: None,
            concurrent: dice.between(1, 3),
            is_early: false,
            faults,
            repeats: dice.between(1, 3),
            trouble: dice.seconds(110, 260),
            outages: dice.between(1, 3),
        };
        // Where it may be asked for at all; by what is drawn already, so that nothing else of a seed depends on it.
        let may_turn_on = plan.mode == "PowerOff" && plan.release == "AfterDetach";
        let delay = plan.wait * 7 + plan.late_effect;
        plan.power_on = (may_turn_on && delay % 5 > 2).then_some(delay % 41);
        // Nor can a Node that is gone tell when its machine may be turned on.
        let may_delete = plan.pod_deletion == "Expedited"
            && plan.release == "AfterDetach"
            && plan.power_on.is_none();
        plan.deletes_node = may_delete && plan.trouble.as_millis().is_multiple_of(2);
        // Such a plan is rare, and its requests are few: somebody has to turn a machine on while one of them is on its way, and the operator to die.
        if about >= MIXED && plan.deletes_node {
            plan.faults.extend([Fault::PowerOn; 3]);
            plan.faults.push(Fault::Crash);
        }
        if about >= MIXED && plan.trouble.as_millis().is_multiple_of(3) {
            plan.faults.push(Fault::FenceByHand);
        }
        if about >= MIXED && plan.trouble.as_millis().is_multiple_of(7) {
            plan.faults.extend([Fault::Remediation; 2]);
        }
        // Rare by itself: most machines are off when they are turned off, and one that is reported early has to be.
        if about >= MIXED && plan.mode == "PowerOff" && plan.trouble.as_millis().is_multiple_of(5) {
            plan.faults.extend([Fault::OffIgnored; 3]);
        }
        plan.is_early = (plan.trouble.as_millis() / 6).is_multiple_of(2);
        if about >= MIXED && plan.is_early {
            plan.faults.extend(Fault::OF_EARLY);
        }
        plan
    }

    /// Nothing happens but that machines lose their power.
    pub fn is_calm(&self) -> bool {
        self.faults.is_empty()
    }

    /// Only these happen.
    pub fn only(&self, of: &[Fault]) -> bool {
        self.faults.iter().all(|fault| of.contains(fault))
    }

    /// Does the operator serve other controllers that ask for fences (`--callers`)?
    pub fn serves_callers(&self) -> bool {
        self.faults.contains(&Fault::Remediation)
    }

    /// Is `durationPolicy` SkipIfOff, as in one half of the seeds?
    pub fn skips_if_off(&self) -> bool {
        self.wait.is_multiple_of(2)
    }

    /// The NodeFencingPolicy.
    pub fn policy(&self) -> Value {
        let mut policy = json!({
            "metadata": {"name": "all"},
            "spec": {
                "nodeSelector": {},
                "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": self.wait}],
                "durationPolicy": if self.skips_if_off() { "SkipIfOff" } else { "Wait" },
                "fence": {
                    "mode": self.mode,
                    "levels": [{"name": "bmc", "retryPeriodSeconds": 2, "timeoutSeconds": 60}],
                    "verification": {"readPeriodSeconds": self.read_period, "lateEffectSeconds": self.late_effect},
                },
                "recovery": {
                    "strategy": if self.deletes_node { "DeleteNode" } else { "OutOfServiceTaint" },
                    "podDeletion": self.pod_deletion, "detachTimeoutSeconds": 120,
                },
                "release": {"mode": self.release, "timeoutSeconds": 120},
                "powerOn": {
                    "policy": if self.power_on.is_some() { "AfterRecovery" } else { "Never" },
                    "delaySeconds": self.power_on.unwrap_or(60), "timeoutSeconds": 60,
                },
                "budget": {"maxConcurrent": self.concurrent, "minHealthy": 0, "maxPerHour": 1000, "cooldownSeconds": 0},
                "exclusions": {"minUptimeSeconds": 0},
            },
        });
        if self.is_early {
            policy["spec"]["earlyDetection"] = json!("Enabled");
        }
        policy
    }
}

/// What may happen in a seed that is about this.
fn faults(dice: &Dice, about: u64) -> Vec<Fault> {
    match about {
        0..8 => Vec::new(),
        8..11 => vec![Fault::Storm],
        11..16 => vec![Fault::BmcHangs],
        16..22 => vec![Fault::Crash],
        22..MIXED => vec![Fault::Terminate],
        MIXED.. => {
            let share = *dice.pick(&[6, 12, 25]);
            // Some come below, by what is drawn already: draws of their own would change every other seed.
            let mut others = Fault::ALL.to_vec();
            let comes_below = |it: &Fault| {
                [Fault::FenceByHand, Fault::Remediation].contains(it)
                    || Fault::OF_EARLY.contains(it)
            };
            others.retain(|it| !comes_below(it) && dice.chance(share));
            others
        }
    }
}

/// The FenceDevice of a machine that is this Node.
pub fn device(node: &str, machine: &str) -> Value {
    json!({
        "metadata": {"name": format!("bmc-{node}")},
        "spec": {
            "nodeName": node,
            "credentialsRef": {"name": SECRET},
            "redfish": {
                "address": format!("http://bmc-{machine}.sim"), "systemID": "1", "tls": {"verification": "None"},
            },
            "probe": {"periodSeconds": 60},
        },
    })
}

/// The Secret of all BMCs.
pub fn secret() -> Value {
    use base64::Engine;
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    json!({
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {"username": encoded("fencer"), "password": encoded(PASSWORD)},
    })
}
