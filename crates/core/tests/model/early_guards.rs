//! Each guard of a report (S24) is missing once: without it a report is wrong, and with it none is, in a world in which nothing else is in the way.

use crate::early::steps;
use crate::early_state::{Broken, Device, Event, State, World};
use std::collections::{HashMap, VecDeque};

/// A guard that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The Lease has to be silent by the operator's own clock.
    Silence,
    /// A watch that was broken begins all silences anew.
    BeginAnew,
    /// Another kubelet has to have renewed its Lease since.
    OthersRenew,
    /// No more nodes may be silent than may be fenced.
    TooMany,
    /// Who was reported a moment ago counts as silent.
    CountsReported,
    /// The operator's own node is not reported.
    OwnNode,
    /// The control plane is not reported.
    ControlPlane,
    /// Once for each boot.
    Once,
    /// The Lease is read by quorum.
    LeaseByQuorum,
    /// The kubelet's port is asked.
    Port,
    /// Off has to be read twice, with time between.
    Twice,
    /// The device has to have read On just before.
    OnBefore,
    /// What was read in another boot says nothing of this one.
    SameBoot,
    /// The patch tests the uid.
    TestUid,
    /// The patch tests the heartbeat.
    TestHeartbeat,
    /// The patch tests the boot and the heartbeat: a kubelet of another boot that has reported has left another heartbeat too, so that each of the two
    /// tests alone keeps the report from its Node.
    TestBootAndHeartbeat,
}

/// What was found: the first violation with the way to it, and how many states there are.
struct Found {
    broken: Option<(Broken, Vec<Event>)>,
    states: usize,
}

/// Everything that can happen, nearest first; of what is broken only what is asked for.
fn explore(world: &World, missing: Option<Guard>, only: &[Broken]) -> Found {
    let first = world.first();
    let mut known: HashMap<State, Option<(State, Event)>> = HashMap::from([(first, None)]);
    let mut ahead = VecDeque::from([first]);
    while let Some(s) = ahead.pop_front() {
        for (event, next, broken) in steps(world, &s, missing) {
            if let Some(broken) = broken.filter(|it| only.contains(it)) {
                let mut way = vec![event];
                let mut at = s;
                while let Some((before, event)) = known[&at] {
                    way.push(event);
                    at = before;
                }
                way.reverse();
                let states = known.len();
                return Found {
                    broken: Some((broken, way)),
                    states,
                };
            }
            if let std::collections::hash_map::Entry::Vacant(free) = known.entry(next) {
                free.insert(Some((s, event)));
                ahead.push_back(next);
            }
        }
    }
    Found {
        broken: None,
        states: known.len(),
    }
}

/// Times that pass are told as one.
fn told(way: &[Event]) -> String {
    let parts = way.chunk_by(|one, other| one == other);
    let parts = parts.map(|part| match part {
        [one] => format!("{one:?}"),
        [one, ..] => format!("{one:?} x{}", part.len()),
        [] => String::new(),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// In this world the guard is all that is in the way.
fn is_needed(guard: Guard, broken: Broken, world: &World) {
    let all = explore(world, None, &[broken]);
    let without = explore(world, Some(guard), &[broken]);
    let (what, way) = without
        .broken
        .unwrap_or_else(|| panic!("{guard:?} is not missed in {} states", without.states));
    println!(
        "{guard:?}: 0 violations in {} states; without it {what:?} after {} steps: {}",
        all.states,
        way.len(),
        told(&way)
    );
    assert_eq!(all.broken, None, "with all guards, {guard:?} among them");
    assert_eq!(what, broken);
}

/// A device that lies from some moment on, and a port that is dark.
fn lies() -> World {
    World {
        device: Device::Lies,
        dark: true,
        ..World::honest()
    }
}

/// A node that may be cut off.
fn cut(device: Device) -> World {
    World {
        device,
        cuts: true,
        ..World::honest()
    }
}

/// Power comes and goes, and the device says so.
fn power() -> World {
    World {
        losses: 1,
        ..World::honest()
    }
}

/// Whatever else goes wrong, and in whatever order: where the device says what is, no machine that runs is reported.
#[test]
fn where_the_device_is_honest_no_report_is_wrong() {
    let all = [
        Broken::False,
        Broken::Another,
        Broken::Overwrites,
        Broken::Again,
    ];
    let worlds = [
        World {
            cuts: true,
            late_watch: true,
            ..power()
        },
        World {
            dark: true,
            hangs: true,
            outages: true,
            ..power()
        },
        World {
            dark: true,
            late_watch: true,
            stands_still: true,
            ..power()
        },
        World {
            cuts: true,
            outages: true,
            ..power()
        },
        World {
            dark: true,
            copies: true,
            ..power()
        },
    ];
    let mut states = 0;
    for world in worlds {
        let found = explore(&world, None, &all);
        assert_eq!(found.broken, None, "{world:?}");
        states += found.states;
    }
    println!("an honest device: 0 wrong reports in {states} states");
}

/// That none is wrong is not for want of any.
#[test]
fn a_machine_that_is_off_is_reported() {
    let found = explore(
        &World {
            own: true,
            ..power()
        },
        Some(Guard::OwnNode),
        &[Broken::Forbidden],
    );
    assert!(found.broken.is_some());
}

#[test]
fn a_kubelet_that_renews_its_lease_is_not_suspected() {
    is_needed(Guard::Silence, Broken::False, &lies());
}

#[test]
fn an_outage_of_the_api_server_is_no_silence() {
    let world = World {
        outages: true,
        ..lies()
    };
    is_needed(Guard::BeginAnew, Broken::False, &world);
}

#[test]
fn an_api_server_that_stands_still_stands_still_for_all() {
    let world = World {
        stands_still: true,
        steady: false,
        in_step: true,
        ..lies()
    };
    is_needed(Guard::OthersRenew, Broken::False, &world);
}

#[test]
fn a_rack_that_is_cut_off_is_more_than_may_be_fenced() {
    let world = World {
        rack: true,
        ..cut(Device::Lies)
    };
    is_needed(Guard::TooMany, Broken::False, &world);
    let before = World {
        rack_before: true,
        ..cut(Device::Lies)
    };
    is_needed(Guard::CountsReported, Broken::False, &before);
}

#[test]
fn a_watch_that_is_late_is_corrected_by_a_quorum() {
    let world = World {
        late_watch: true,
        ..lies()
    };
    is_needed(Guard::LeaseByQuorum, Broken::False, &world);
}

#[test]
fn a_kubelet_that_stands_still_has_a_port_that_answers() {
    let world = World {
        dark: false,
        hangs: true,
        ..lies()
    };
    is_needed(Guard::Port, Broken::False, &world);
}

#[test]
fn a_device_that_restarts_reads_off_for_a_moment() {
    is_needed(Guard::Twice, Broken::False, &cut(Device::LiesForAMoment));
}

#[test]
fn a_device_that_is_stuck_has_not_read_on_just_before() {
    is_needed(Guard::OnBefore, Broken::False, &cut(Device::Stuck));
}

#[test]
fn an_off_of_the_boot_before_is_no_off_of_this_one() {
    let dark = World {
        dark: true,
        ..power()
    };
    is_needed(Guard::SameBoot, Broken::False, &dark);
}

#[test]
fn a_boot_is_reported_once() {
    is_needed(Guard::Once, Broken::Again, &cut(Device::Lies));
}

#[test]
fn the_operators_own_node_and_the_control_plane_are_left_alone() {
    let own = World {
        own: true,
        ..power()
    };
    is_needed(Guard::OwnNode, Broken::Forbidden, &own);
    let control_plane = World {
        control_plane: true,
        ..power()
    };
    is_needed(Guard::ControlPlane, Broken::Forbidden, &control_plane);
}

#[test]
fn a_report_lands_on_the_node_that_was_judged_or_nowhere() {
    let copied = World {
        copies: true,
        ..power()
    };
    is_needed(Guard::TestUid, Broken::Another, &copied);
    is_needed(Guard::TestBootAndHeartbeat, Broken::Another, &power());
    is_needed(Guard::TestHeartbeat, Broken::Overwrites, &cut(Device::Lies));
}
