//! What may be taken for a dead machine, again and again, and how often a machine that ran was reported as off (S24): never, if all is well.
//!
//! Kubelets stand still or begin anew, nodes are cut off, the API server is away, BMCs begin anew and read Off for a moment, watches are late or end. Now
//! and then a machine does lose its power, and has to be reported. `make soak` has a hundred thousand disturbances, every test a thousand.

use crate::dice::Dice;
use crate::faults::early;
use crate::libc::elapsed;
use crate::plan::Plan;
use crate::play::{self, WARM_UP};
use crate::process::{self, MARK};
use crate::stage::{self, Stage};
use crate::world::World;
use serde::{Deserialize, Serialize};
use simapi::kinds::NODE;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Names the run to the process that plays it.
pub const RUN: &str = "SIMULATED_DISTURBANCES";
/// Disturbances of one run.
const OF_ONE_RUN: u32 = 500;
/// Those of `make soak`.
pub const GOAL: u32 = 100_000;

const PAUSES: &str = "pauses of kubelets";
const RESTARTS: &str = "restarts of kubelets";
const OUTAGES: &str = "outages of the API server";
const PARTITIONS: &str = "partitions";
/// What a living kubelet can look dead by.
const COUNTED: [&str; 4] = [PAUSES, RESTARTS, OUTAGES, PARTITIONS];
const LOSSES: &str = "machines that lost their power";
/// Beside them.
const OTHERS: [&str; 3] = ["restarts of BMCs", "troubles of watches", LOSSES];
/// A Lease that was silent for longer than the operator waits, though its kubelet lived.
const SILENCES: &str = "S24 silence";
const REPORTS: &str = "S24 report";

/// What came of some runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Found {
    counts: BTreeMap<String, u32>,
    /// What was not as it must be.
    pub violations: Vec<String>,
}

impl Found {
    fn of(&self, what: &str) -> u32 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Disturbances of machines that ran.
    pub fn disturbances(&self) -> u32 {
        COUNTED.iter().map(|it| self.of(it)).sum()
    }

    /// Machines that were off, and that were reported.
    pub fn reports(&self) -> u32 {
        self.of(REPORTS)
    }

    /// Leases that were silent for too long.
    pub fn silences(&self) -> u32 {
        self.of(SILENCES)
    }

    fn add(&mut self, run: u64, other: Self) {
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        let told = other.violations.into_iter();
        self.violations
            .extend(told.map(|it| format!("run {run}: {it}")));
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |what: &[&str]| {
            let parts = what.iter().map(|it| format!("{} {it}", self.of(it)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let is_false = |it: &&String| it.contains("S24:");
        writeln!(
            f,
            "early detection: {} ({} in all): {} false reports",
            list(&COUNTED),
            self.disturbances(),
            self.violations.iter().filter(is_false).count(),
        )?;
        writeln!(
            f,
            "beside {}; {} Leases of living kubelets were silent for 12 s or more, {} machines that were off were reported",
            list(&OTHERS),
            self.silences(),
            self.reports(),
        )?;
        self.violations
            .iter()
            .take(20)
            .try_for_each(|it| writeln!(f, "{it}"))
    }
}

/// So many disturbances at least, in runs of their own.
pub fn play(least: u32) -> Found {
    let found = Mutex::new(Found::default());
    process::each(1..u64::MAX, |run| {
        let of_run = of_process(run);
        let mut found = found.lock().expect("what was found");
        found.add(run, of_run);
        match found.disturbances() >= least || !found.violations.is_empty() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.into_inner().expect("what was found")
}

fn of_process(run: u64) -> Found {
    let said = process::run("one_run_of_disturbances", (RUN, &run.to_string()), &[]);
    let found = said.line().and_then(|line| serde_json::from_str(line).ok());
    found.unwrap_or_else(|| Found {
        violations: vec![format!("it did not come to an end: {}", said.error)],
        ..Found::default()
    })
}

/// The run that the environment names, in this process, and its story where that is wanted.
pub fn one_run() {
    let run = env::var(RUN).ok().and_then(|it| it.parse().ok());
    let run: u64 = run.unwrap_or_else(|| panic!("{RUN} is not set"));
    // Seeds of the other tests are below.
    let (found, story) = play::simulated((1 << 40) + run, disturb(Dice::new((1 << 40) + run)));
    if env::var_os("DETAIL").is_some() {
        print!("{story}");
    }
    println!("{MARK}{}", serde_json::to_string(&found).expect("JSON"));
}

async fn disturb(dice: Dice) -> (Found, String) {
    let mut plan = Plan::of(&dice);
    plan.faults.clear();
    (plan.is_early, plan.deletes_node) = (true, false);
    (plan.machines, plan.replicas, plan.outages) = (6, 2, 0);
    let mut world = World::new(stage::api(), dice.clone());
    world.own_node = Some("worker-1".to_owned());
    world.requests_max = u32::MAX;
    let log = world.log.clone();
    let mut tasks = JoinSet::new();
    let stage = Stage::build(world, plan, &mut tasks);
    sleep(WARM_UP).await;
    let labelled = stage
        .world
        .api
        .change("human", &NODE, ("", "worker-0"), |node| {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
        });
    assert_eq!(labelled, Ok(true), "a Node of the control plane");
    let mut trouble = JoinSet::new();
    for _ in 0..OF_ONE_RUN {
        sleep(dice.millis(500, 7000)).await;
        trouble.spawn(happens(stage.clone()));
    }
    while trouble.join_next().await.is_some() {}
    stage.heal();
    play::settle(&stage).await;
    let mut found = Found {
        counts: BTreeMap::new(),
        violations: stage.world.broken(),
    };
    for counts in stage.world.counts() {
        found.counts.extend(counts);
    }
    tasks.abort_all();
    (found, log.text(crate::log::Weight::Story))
}

/// One of them.
async fn happens(stage: Stage) {
    let (world, dice) = (&stage.world, &stage.world.dice);
    let machine = dice.pick(&world.names()).clone();
    let lives = {
        let machine = world.machine(&machine);
        machine.on
            && machine.reported
            && !machine.hung
            && !machine.cut
            && elapsed() >= machine.up_at
    };
    let time = dice.seconds(1, 28);
    let kind = dice.between(0, 99);
    let is_up = !world.switches().api_away;
    let what = match kind {
        0..36 => PAUSES,
        36..56 => RESTARTS,
        56..66 => OUTAGES,
        66..84 => PARTITIONS,
        84..92 => OTHERS[0],
        92..96 => OTHERS[1],
        _ => LOSSES,
    };
    if !lives || !is_up {
        return;
    }
    world.count(what);
    world
        .log
        .tell("FAULT", format!("{what}: {machine}, {} s", time.as_secs()));
    match kind {
        0..36 => hold(&stage, &machine, time).await,
        36..56 => early::restart(&stage, &machine, time).await,
        56..66 => early::outage(&stage, time).await,
        66..84 => cut(&stage, &machine, time).await,
        84..92 => early::restart_bmc(&stage, &machine).await,
        92..96 => late_watch(&stage, time).await,
        _ => {
            world.fails(&machine, "its power fails");
            sleep(Duration::from_secs(60) + time).await;
            world.power_on(&machine, "by hand");
        }
    }
    // Who was taken for dead in the end, and turned off, is turned on again.
    sleep(Duration::from_secs(90)).await;
    world.power_on(&machine, "by hand, after all");
}

async fn hold(stage: &Stage, machine: &str, time: Duration) {
    stage.world.with(machine, |machine| machine.hung = true);
    sleep(time).await;
    stage.world.with(machine, |machine| machine.hung = false);
}

async fn cut(stage: &Stage, machine: &str, time: Duration) {
    stage.world.with(machine, |machine| machine.cut = true);
    sleep(time).await;
    stage.world.with(machine, |machine| machine.cut = false);
}

async fn late_watch(stage: &Stage, time: Duration) {
    if stage.world.dice.chance(50) {
        stage.world.api.compact();
        stage.world.api.end_watches();
        return;
    }
    let Some(network) = stage.network() else {
        return;
    };
    network.faults().watch_lag = time;
    sleep(time).await;
    network.faults().watch_lag = Duration::ZERO;
}
