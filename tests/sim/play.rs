//! One seed from its first to its last moment: a healthy cluster, trouble, healing, and then everything has to come to its end.

use crate::bounds;
use crate::dice::Dice;
use crate::libc;
use crate::log::Log;
use crate::objects::{
    CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE, is_ended, ready, stage as stage_of, taint, text,
};
use crate::plan::Plan;
use crate::stage::{self, Stage};
use crate::world::World;
use serde::{Deserialize, Serialize};
use simapi::kinds::{FENCE, NODE};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The cluster is left alone for so long first: nodes report, devices are probed and pinned.
pub const WARM_UP: Duration = Duration::from_secs(45);
/// When all is made good again, everything has ended after so long.
const SETTLED: Duration = Duration::from_secs(2400);

/// What came of a seed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// How long it took, in its own time.
    pub virtual_seconds: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<String, u32>,
    /// How often each bound was judged.
    pub bounds: BTreeMap<String, u32>,
    /// Incidents.
    pub fences: u64,
    /// Nodes that were put out of service.
    pub tainted: u64,
    /// What was not as it must be.
    pub violations: Vec<String>,
}

/// Plays a seed on this thread, which does nothing else in its life.
pub fn play(seed: u64) -> (Outcome, Log) {
    simulated(seed, run(seed))
}

/// Runs this in time, randomness and order that follow from the seed.
pub fn simulated<T>(seed: u64, what: impl Future<Output = T>) -> T {
    libc::simulate(seed);
    fastrand::seed(seed);
    let _ = ahash::random_state::set_random_source(Counter(AtomicUsize::new(1)));
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(what)
}

/// In place of addresses, which differ from process to process.
struct Counter(AtomicUsize);

impl ahash::random_state::RandomSource for Counter {
    fn gen_hasher_seed(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

async fn run(seed: u64) -> (Outcome, Log) {
    let dice = Dice::new(seed);
    let plan = Plan::of(&dice);
    let world = World::new(stage::api(), dice);
    let log = world.log.clone();
    log.tell("PLAN", format!("{plan:?}"));
    let mut tasks = JoinSet::new();
    let stage = Stage::build(world, plan, &mut tasks);
    sleep(WARM_UP).await;
    stage.trouble().await;
    stage.heal();
    settle(&stage).await;
    bounds::judge(&stage);
    let [faults, bounds] = stage.world.counts();
    let courses = stage.judge.tally().courses;
    let tainted = courses.values().filter(|course| course.tainted.is_some());
    let outcome = Outcome {
        seed,
        virtual_seconds: libc::elapsed().as_secs(),
        faults,
        bounds,
        fences: u64::try_from(courses.len()).unwrap_or_default(),
        tainted: u64::try_from(tainted.count()).unwrap_or_default(),
        violations: stage.world.broken(),
    };
    tasks.abort_all();
    (outcome, log)
}

/// L3: everything ends.
pub async fn settle(stage: &Stage) {
    let healed = libc::elapsed();
    loop {
        sleep(Duration::from_secs(5)).await;
        let left = unsettled(stage);
        if left.is_empty() {
            (0..stage.world.api.all(&FENCE).len()).for_each(|_| stage.world.judged("L3"));
            break;
        }
        let waited = libc::elapsed().saturating_sub(healed);
        if waited > SETTLED {
            stage.world.violation(format!(
                "L3: {} s after all was made good: {}",
                waited.as_secs(),
                left.join("; ")
            ));
            break;
        }
        for node in stage.world.nodes() {
            stage.untaint(&node);
        }
        for name in stage.world.names() {
            if waited.as_secs() % 60 < 5 {
                // A fence that was under way may have turned it off.
                stage.world.power_on(&name, "by hand, once more");
            }
        }
    }
}

fn unsettled(stage: &Stage) -> Vec<String> {
    let mut left = Vec::new();
    for fence in stage.world.api.all(&FENCE) {
        if !is_ended(&fence) {
            let (name, node) = (
                text(&fence, "/metadata/name"),
                text(&fence, "/spec/nodeName"),
            );
            left.push(format!("{name} of {node} is {}", stage_of(&fence)));
        }
    }
    for name in stage.world.nodes() {
        let Some(node) = stage.world.api.get(&NODE, "", &name) else {
            left.push(format!("there is no Node {name}"));
            continue;
        };
        if ready(&node) != "True" {
            left.push(format!("{name} is not Ready"));
        }
        for key in [CLAIM, OUT_OF_SERVICE, DETACHING, QUARANTINE] {
            if taint(&node, key).is_some() {
                left.push(format!("{name} carries {key}"));
            }
        }
    }
    left.extend(without_writer(stage));
    left
}

/// Databases that nobody runs.
fn without_writer(stage: &Stage) -> Vec<String> {
    let wanted = (0..stage.plan.workload.databases).map(|at| format!("db-{at}"));
    let machines = stage.world.machines();
    let runs = |name: &String| {
        let mut all = machines
            .values()
            .flat_map(|machine| machine.containers.values());
        all.any(|container| container.pod == *name)
    };
    let idle = wanted.filter(|name| !runs(name));
    idle.map(|name| format!("nobody runs {name}")).collect()
}
