//! The machine's power, and what its device says of it.

use crate::event::Event;
use crate::state::{Container, State};

impl State {
    /// Does the device read Off? It is the only one to say so.
    pub fn reads_off(&self) -> bool {
        !self.on || self.lies
    }
}

/// Power comes and goes, and with it everything that ran; and what the device says of it need not be so.
pub fn events(
    s: &State,
    lies_for_good: bool,
    can: &mut impl FnMut(Event, bool, &dyn Fn(&mut State)),
) {
    // Where the device proves nothing, a machine that is off waits for people: only one that runs can be hurt.
    can(Event::PowerLoss, s.on && !never_on(s), &|n| {
        turned_off(n);
        spend_accepted(n);
    });
    can(Event::PowerOn, !s.on && s.budget.power_ons > 0, &|n| {
        n.budget.power_ons -= 1;
        forgotten(n);
        n.on = true;
        n.boot += 1;
    });
    let may_suspend = s.on && !never_on(s) && s.budget.suspends > 0;
    can(Event::Suspends, may_suspend, &|n| {
        n.budget.suspends -= 1;
        (n.on, n.lies, n.suspended) = (false, false, true);
        spend_accepted(n);
    });
    can(Event::Resumes, s.suspended, &|n| {
        (n.on, n.suspended) = (true, false);
    });
    can(Event::Lies, s.on && !s.lies && s.budget.lies > 0, &|n| {
        n.budget.lies -= 1;
        (n.lies, n.deceived) = (true, true);
    });
    let is_liar = s.lies && s.deceived && !lies_for_good;
    can(Event::TellsTheTruth, is_liar, &|n| n.lies = false);
    for place in 0..s.commands.len() {
        if !s.commands[place].is_there {
            continue;
        }
        let is_awaited = s.commands[place].awaited != [false; 2];
        let is_to_come = !s.commands[place].landed && (s.on || !is_awaited);
        can(Event::OffLands(s.on), is_to_come, &|n| {
            // An off changes nothing of what is off already: what is suspended stays so.
            if n.on && !never_on(n) {
                turned_off(n);
            }
            n.commands[place].landed = true;
        });
        can(Event::OffLost, !is_awaited, &|n| {
            n.commands[place] = Default::default()
        });
    }
}

/// What the core assumes of a device (`core::attempt`): a command that it has taken is not kept for later once the machine is off,
/// whatever has turned it off.
pub fn spend_accepted(s: &mut State) {
    let commands = s
        .commands
        .iter_mut()
        .filter(|command| command.accepted && !s.on);
    commands.for_each(|command| command.landed = true);
}

fn turned_off(s: &mut State) {
    s.on = false;
    s.lies = false;
    forgotten(s);
}

/// Its memory is gone.
fn forgotten(s: &mut State) {
    s.suspended = false;
    s.pods
        .iter_mut()
        .for_each(|pod| pod.container = Container::None);
}

/// Has the device never read On of the machine (S25)? It is none that begins to lie.
fn never_on(s: &State) -> bool {
    s.lies && !s.deceived
}
