//! Is the protocol safe, whatever happens in between? All of it is tried.
//!
//! Two operators act at the same time on one node: the real [`step`] and [`learn`] of the core decide, and their JSON Patches are really
//! applied. Around them everything that can happen does, at every moment and in every order: power comes and goes, the network breaks,
//! kubelets start pods, requests arrive late or never, operators die. `cargo test --test model -- --nocapture` prints what was explored.
//! What each file is for:
//!
//! - `world`: the rules of the cluster. `operator`, `requests`, `record`: how an operator acts on it.
//! - `judge`: what must hold. `mutation`: what is taken away, to see that the model would notice.
//! - `state`, `explore`, `event`: one state, all states, and how the way to one is told.
//! - `brain`, `memory`, `views`, `server`: the real core, and the cluster in its types.
//!
//! [`step`]: node_fencing_operator::core::plan::step
//! [`learn`]: node_fencing_operator::core::reply::learn

mod brain;
mod configurations;
mod event;
mod explore;
mod judge;
mod memory;
mod mutants;
mod mutation;
mod operator;
mod record;
mod requests;
mod server;
mod state;
mod views;
mod world;

use configurations::confirm_only;
use explore::{Explorer, Found};
use node_fencing_operator::api::settings::FenceMode;
use world::World;

fn print(world: &World, found: &Found, seconds: f64) {
    println!(
        "{:30} {:>11} states {:>12} transitions, depth {:>3}, {} violations, {} stuck, {:.1} s{} {:?}",
        world.name,
        found.states,
        found.transitions,
        found.depth,
        usize::from(found.broken.is_some()),
        found.stuck,
        seconds,
        if found.is_complete { "" } else { " (not all)" },
        found.sizes,
    );
    if let Some((broken, story)) = &found.broken {
        println!("{broken:?}: {}", broken.words());
        for (number, line) in story.iter().enumerate() {
            println!("{:>4}. {line}", number + 1);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it measures how long it takes")]
fn confirm_only_is_safe() {
    let max = std::env::var("STATES").ok().and_then(|it| it.parse().ok());
    let env = |name: &str| -> Vec<u8> {
        std::env::var(name).ok().map_or(vec![0], |it| {
            it.split(',').map(|it| it.parse().unwrap()).collect()
        })
    };
    for two in env("TWO") {
        for ahead in env("AHEAD") {
            for die in env("DIE") {
                for stages in env("STAGES") {
                    for on in env("ON") {
                        for messages in env("MSG") {
                            for bind in env("BIND") {
                                for crashes in env("CRASH") {
                                    let mut world = World {
                                        two: two == 1,
                                        reads_ahead: ahead == 1,
                                        proofs_die: die == 1,
                                        stages: stages == 1,
                                        ..confirm_only()
                                    };
                                    world.budget.power_ons = on;
                                    world.budget.messages = messages;
                                    world.budget.bindings = bind;
                                    world.budget.crashes = crashes;
                                    if std::env::var("POWEROFF").is_ok() {
                                        world.incident.mode = FenceMode::PowerOff;
                                    }
                                    let begun = std::time::Instant::now();
                                    let found = Explorer::new(&world, None)
                                        .explore(max.unwrap_or(2_000_000));
                                    print!(
                                        "two {two} ahead {ahead} die {die} stages {stages} on {on} msg {messages} bind {bind} crash {crashes} "
                                    );
                                    print(&world, &found, begun.elapsed().as_secs_f64());
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
