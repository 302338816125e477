//! The machine is turned on again by its operator: the one command that comes after the release.

use crate::brain::Brain;
use crate::event::{Event, Step};
use crate::judge::Broken;
use crate::mutation::Mutation;
use crate::operator::hear;
use crate::state::{Job, State};
use crate::talk::{Act, Heard};
use crate::views::{self, DEVICE, Incident};
use fencing_core::attempt::OnResult;
use fencing_core::device::DeviceReadings;
use fencing_core::power_on::PowerOn;
use std::collections::BTreeMap;
use std::time::Duration;

/// At once: every pause may take as long as it likes anyway, and the node as well.
pub fn wanted() -> PowerOn {
    PowerOn {
        delay: Duration::ZERO,
        timeout: Duration::from_secs(900),
        stop: None,
        hold: None,
    }
}

/// What is prepared for a command.
pub fn prepared(act: Act) -> Job {
    match act {
        Act::On => Job::OnPrepared,
        _ => Job::OffPrepared,
    }
}

/// What becomes of the command.
pub fn answer(is_sent: bool) -> BTreeMap<String, OnResult> {
    let result = match is_sent {
        true => OnResult::Accepted,
        false => OnResult::NotSent(String::new()),
    };
    [(DEVICE.to_owned(), result)].into()
}

/// Right before an on command leaves, the power and the Node are read once more. It takes effect at once: one that is late is a machine that
/// somebody powers on, which may happen at any time.
pub fn leaves(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let node = &s.node;
    let is_free = node.claim().is_none() && !node.out_of_service();
    let is_as_it_was = node.uid == 1 && node.boot == 1 && !node.ready;
    let is_released = is_free && is_as_it_was && node.quarantined() == Some(1);
    let is_checked = brain.mutation != Some(Mutation::OnBeforeRelease);
    let mut next = *s;
    if s.on || !is_released && is_checked {
        hear(brain, &mut next, x, Heard::TurnedOn(false));
        steps.push(Step::new(Event::OnNotSent(x), next, None));
        return;
    }
    let may_land = s.commands.iter().any(|command| command.is_there);
    let broken = (!is_free || may_land).then_some(Broken::S11);
    next.on = true;
    next.boot += 1;
    hear(brain, &mut next, x, Heard::TurnedOn(true));
    steps.push(Step::new(Event::OnLeaves(x), next, broken));
}

/// What the device has read of the machine before it was turned off.
pub fn read_on(incident: &Incident) -> DeviceReadings {
    let on = views::reading(true, views::LONG_BEFORE);
    DeviceReadings::of(&views::device(incident.control), vec![on])
}
