//! What is explored: which incident, which pods, and how often things may happen that would otherwise happen for ever.

use crate::budget::Budget;
use crate::views::Incident;
use crate::world::{Second, World};
use fencing_api::settings::{FenceMode, ReleaseMode};
use fencing_core::control::Control;

/// Mode ConfirmOnly, one pod, two operators; nothing may happen that needs a budget.
pub fn confirm_only() -> World {
    World {
        name: "ConfirmOnly",
        incident: Incident {
            mode: FenceMode::ConfirmOnly,
            tolerates: false,
            release: ReleaseMode::AfterDetach,
            expedited: true,
            turns_on: false,
            deletes: false,
            shares: false,
            writes: false,
            control: Control::ShownLately,
        },
        second: Second::None,
        starts_despite_claim: true,
        two: true,
        reads_ahead: false,
        proofs_die: false,
        stages: false,
        forgets: false,
        lies: false,
        budget: Budget::default(),
    }
}

/// The same in mode PowerOff.
pub fn power_off() -> World {
    let mut world = confirm_only();
    world.name = "PowerOff";
    world.incident.mode = FenceMode::PowerOff;
    world
}

/// One operator, and it turns the machine on again after the release. Nobody else does.
pub fn turned_on() -> World {
    let mut world = power_off();
    world.name = "PowerOff, turned on again";
    world.two = false;
    world.incident.turns_on = true;
    world
}

/// So many power-ons.
fn power_ons(number: u8) -> impl Fn(&mut World) {
    move |world| world.budget.power_ons = number
}

fn alone(world: &mut World) {
    world.two = false;
}

fn late_requests(world: &mut World) {
    world.budget.messages = 1;
}

fn deletion(world: &mut World) {
    world.budget.deletions = 1;
}

/// The kubelet writes once of a pod.
pub fn writes(world: &mut World) {
    (world.incident.writes, world.budget.writes) = (true, 1);
}

/// The device reads Off from before the incident on, as where a node was reported early by mistake.
pub fn liar(world: &mut World) {
    world.lies = true;
}

fn a_lie(world: &mut World) {
    world.budget.lies = 1;
}

/// The device reads Off of the running machine from the start, and an off command to it changes nothing: a stopped twin, an unused outlet.
pub fn never_on(world: &mut World) {
    world.incident.control = Control::Missing;
}

fn reuse(world: &mut World) {
    world.budget.bindings = 1;
}

fn crash(world: &mut World) {
    world.budget.crashes = 1;
}

/// Off commands that may take effect late, or not at all: so many. Every other is answered at once.
fn late_offs(number: u8) -> impl Fn(&mut World) {
    move |world| world.budget.commands = Some(number)
}

fn stages(world: &mut World) {
    world.stages = true;
}

fn forgets(world: &mut World) {
    world.forgets = true;
}

fn with(mut world: World, name: &'static str, changes: &[&dyn Fn(&mut World)]) -> World {
    world.name = name;
    changes.iter().for_each(|change| change(&mut world));
    world
}

/// What `make test` explores, each to its end; the largest is begun first.
pub fn of_every_test() -> Vec<World> {
    [
        of_two(),
        of_one(),
        of_one_that_turns_off(),
        of_deletion(),
        of_a_device_that_never_read_on(),
    ]
    .concat()
}

/// Two operators.
fn of_two() -> Vec<World> {
    let off = power_ons(0);
    vec![
        with(
            confirm_only(),
            "two operators, power-on",
            &[&power_ons(1), &forgets],
        ),
        with(
            power_off(),
            "PowerOff, two operators",
            &[&off, &late_offs(0), &forgets],
        ),
        with(
            confirm_only(),
            "two operators, replacement",
            &[&off, &reuse],
        ),
        with(confirm_only(), "two operators, a crash", &[&off, &crash]),
        with(confirm_only(), "two operators, stages", &[&off, &stages]),
        with(
            confirm_only(),
            "two operators, late request",
            &[&off, &late_requests, &forgets],
        ),
        with(
            confirm_only(),
            "two operators, Node deleted",
            &[&off, &deletion, &forgets],
        ),
    ]
}

/// One operator in mode ConfirmOnly, and a machine that is powered on.
fn of_one() -> Vec<World> {
    let on = power_ons(1);
    let world = |name, more: &[&dyn Fn(&mut World)]| {
        let mut changes: Vec<&dyn Fn(&mut World)> = vec![&alone, &on];
        changes.extend(more);
        with(confirm_only(), name, &changes)
    };
    vec![
        world("late request, replacement", &[&late_requests, &reuse]),
        world(
            "late request, another's taint",
            &[&late_requests, &|world| world.budget.foreign_taints = 1],
        ),
        world(
            "late request, Node copied",
            &[&late_requests, &|world| world.budget.copies = 1],
        ),
        world(
            "two crashes, replacement",
            &[&reuse, &|world| world.budget.crashes = 2],
        ),
        world("two power-ons, Node deleted", &[&power_ons(2), &deletion]),
        world(
            "old readings, reads ahead",
            &[&stages, &|world| {
                (world.proofs_die, world.reads_ahead) = (true, true);
            }],
        ),
        world("the device lies", &[&a_lie]),
        world("it lies, pods are written", &[&a_lie, &writes]),
        world(
            "a second pod tolerates",
            &[&|world| {
                (world.second, world.incident.tolerates) = (Second::Tolerates, true);
            }],
        ),
        world(
            "a second pod comes late",
            &[&|world| world.second = Second::ComesLate],
        ),
        world(
            "pod GC instead of Expedited",
            &[&|world| world.incident.expedited = false],
        ),
    ]
}

/// One operator in mode PowerOff.
fn of_one_that_turns_off() -> Vec<World> {
    let world = |name, more: &dyn Fn(&mut World)| with(power_off(), name, &[&alone, more]);
    vec![
        world("PowerOff", &power_ons(1)),
        world("PowerOff, late request", &late_requests),
        world("PowerOff, a crash", &crash),
        turned_on(),
    ]
}

/// `recovery.strategy: DeleteNode`.
pub fn deletes(world: &mut World) {
    world.incident.deletes = true;
}

/// One operator that deletes the Node, or two, and a kubelet that makes it anew.
fn of_deletion() -> Vec<World> {
    let (on, off) = (power_ons(1), power_ons(0));
    let world = |name, more: &[&dyn Fn(&mut World)]| {
        let mut changes: Vec<&dyn Fn(&mut World)> = vec![&alone, &deletes, &on];
        changes.extend(more);
        with(confirm_only(), name, &changes)
    };
    vec![
        world("DeleteNode, late request, reuse", &[&late_requests, &reuse]),
        world("DeleteNode, a crash, reuse", &[&crash, &reuse]),
        world(
            "DeleteNode, two power-ons",
            &[&power_ons(2), &|world| world.budget.deletions = 1],
        ),
        world(
            "DeleteNode, a pod that stays",
            &[&reuse, &|world| {
                world.second = Second::Stays;
                (world.incident.tolerates, world.incident.shares) = (true, true);
            }],
        ),
        world(
            "DeleteNode, a pod comes late",
            &[&|world| {
                (world.second, world.incident.shares) = (Second::ComesLate, true);
            }],
        ),
        with(
            power_off(),
            "DeleteNode, PowerOff",
            &[&alone, &deletes, &on, &late_offs(1)],
        ),
        with(
            confirm_only(),
            "DeleteNode, two operators",
            &[&deletes, &off],
        ),
    ]
}

/// A device that proves nothing (S25).
fn of_a_device_that_never_read_on() -> Vec<World> {
    vec![
        with(confirm_only(), "never On", &[&alone, &reuse, &never_on]),
        with(
            confirm_only(),
            "never On, two operators",
            &[&reuse, &never_on],
        ),
        with(
            power_off(),
            "never On, PowerOff",
            &[&alone, &reuse, &never_on],
        ),
        with(power_off(), "never On, PowerOff, two", &[&reuse, &never_on]),
    ]
}

/// Those in which it is looked at what is forgotten ([`crate::forget`]).
pub fn those_that_are_small() -> Vec<World> {
    vec![
        with(confirm_only(), "two operators, a crash", &[&crash]),
        with(confirm_only(), "two operators, Node deleted", &[&deletion]),
        with(power_off(), "PowerOff, a crash", &[&alone, &crash]),
    ]
}

/// What `make soak` explores, as far as the number of states allows.
pub fn of_the_soak() -> Vec<World> {
    let on = power_ons(1);
    vec![
        with(power_off(), "PowerOff, two, all kept", &[&late_offs(0)]),
        with(
            power_off(),
            "PowerOff, two, a crash",
            &[&late_offs(0), &crash, &forgets],
        ),
        with(power_off(), "PowerOff, two, a late off", &[&late_offs(1)]),
        with(power_off(), "PowerOff, two late offs", &[&late_offs(2)]),
        with(power_off(), "PowerOff, two, no power-on", &[]),
        with(confirm_only(), "two operators, power-on", &[&on]),
        with(power_off(), "PowerOff, two, power-on", &[&on, &forgets]),
        with(
            power_off(),
            "PowerOff, two, Node deleted",
            &[&late_offs(0), &deletion, &forgets],
        ),
        with(
            confirm_only(),
            "two, Node deleted, power-on",
            &[&on, &deletion, &forgets],
        ),
        with(
            confirm_only(),
            "two operators, late request",
            &[&on, &late_requests, &crash],
        ),
        with(
            confirm_only(),
            "two, a second pod tolerates",
            &[&on, &forgets, &|world| {
                (world.second, world.incident.tolerates) = (Second::Tolerates, true);
            }],
        ),
        with(
            confirm_only(),
            "two, a second pod comes late",
            &[&on, &forgets, &|world| world.second = Second::ComesLate],
        ),
        with(
            power_off(),
            "PowerOff, everything",
            &[&power_ons(2), &late_requests, &crash, &reuse],
        ),
    ]
}
