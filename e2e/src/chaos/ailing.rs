//! What is wrong with the BMC of a machine, in the terms of the BMC that it has: Redfish or IPMI.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::fate::Ailing;
use super::scene::Scene;
use crate::lab::Rig;
use fencing_testbed::bmc::{self, Bmc, Effect, Reading};
use fencing_testbed::https::Line;
use fencing_testbed::ipmi::{self, IpmiBmc, PowerBit};

/// IPMI's completion code of a node that is busy.
const NODE_BUSY: u8 = 0xc0;
/// How long a BMC that is late takes to do what it has accepted.
const LATE: Duration = Duration::from_secs(3);

/// The BMC that a FenceDevice names.
#[derive(Clone, Copy)]
pub(super) enum Controller<'a> {
    Redfish(&'a Bmc),
    Ipmi(&'a IpmiBmc),
}

impl Scene {
    /// That of this machine.
    pub(super) fn controller<'a>(&'a self, rig: &'a Rig) -> Controller<'a> {
        match self.ipmi.get(rig.machine.name()) {
            Some(bmc) => Controller::Ipmi(bmc),
            None => Controller::Redfish(&rig.bmc),
        }
    }
}

impl Controller<'_> {
    /// From now on this is wrong with it.
    pub(super) fn ail(self, ailing: Ailing) -> Result<()> {
        match self {
            Self::Redfish(bmc) => redfish(bmc, ailing),
            Self::Ipmi(bmc) => ipmi(bmc, ailing),
        }
    }

    /// Nothing is.
    pub(super) fn heal(self) -> Result<()> {
        match self {
            Self::Redfish(bmc) => bmc.heal(),
            Self::Ipmi(bmc) => bmc.heal(),
        }
    }
}

fn redfish(bmc: &Bmc, ailing: Ailing) -> Result<()> {
    use bmc::{Nonsense, Reply, Which};
    match ailing {
        Ailing::Nothing => {}
        Ailing::Slow => bmc.faults(|it| it.latency = Duration::from_secs(2)),
        Ailing::Silent => bmc.set_line(Line::BlackHole)?,
        Ailing::Dark => bmc.set_line(Line::Dark)?,
        Ailing::Vague => bmc.faults(|it| it.power_state = Reading::Absent),
        Ailing::Busy => bmc.faults(|it| {
            let busy = Reply::new(Which::Any, Nonsense::Status(503, None));
            it.replies.push(busy);
        }),
        Ailing::Resets => bmc.faults(|it| it.reset_reused_connection = true),
        Ailing::Late => bmc.faults(|it| it.effect = Effect::After(LATE)),
        Ailing::Idle => bmc.faults(|it| it.effect = Effect::Ignored),
        Ailing::Lies => bmc.faults(|it| {
            it.effect = Effect::Ignored;
            it.power_state = Reading::Says(json!("Off"));
        }),
    }
    Ok(())
}

fn ipmi(bmc: &IpmiBmc, ailing: Ailing) -> Result<()> {
    use ipmi::{Nonsense, Reply, Which};
    match ailing {
        Ailing::Nothing => {}
        // A login is four answers, and a call has ten seconds.
        Ailing::Slow => bmc.faults(|it| it.network.answers.delay = Duration::from_secs(1)),
        Ailing::Silent => bmc.set_line(Line::BlackHole)?,
        Ailing::Dark => bmc.set_line(Line::Dark)?,
        Ailing::Vague => bmc.faults(|it| {
            let short = Reply::new(Which::CHASSIS_STATUS, Nonsense::ShortData(0));
            it.replies.push(short);
        }),
        Ailing::Busy => bmc.faults(|it| {
            for which in [Which::CHASSIS_STATUS, Which::PowerOff] {
                it.replies
                    .push(Reply::new(which, Nonsense::Code(NODE_BUSY)));
            }
        }),
        // It has lost the session of whoever comes back, and a part of what is said to it.
        Ailing::Resets => {
            bmc.forget_sessions();
            bmc.faults(|it| it.network.answers.lost = 0.3);
        }
        Ailing::Late => bmc.faults(|it| it.effect = Effect::After(LATE)),
        Ailing::Idle => bmc.faults(|it| it.effect = Effect::Ignored),
        Ailing::Lies => bmc.faults(|it| {
            it.effect = Effect::Ignored;
            it.power = PowerBit::Says(false);
        }),
    }
    Ok(())
}
