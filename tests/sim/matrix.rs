//! Three lists that leave nothing to chance: the operator dies at each write of the protocol, each kind of object is told of late or again,
//! and each kind of event gets lost.
//!
//! A case is a run of its own in virtual time, as a seed is, with nothing wrong in it but what it is about. It is judged as a seed is, and
//! has to come to its end as a seed has to. `CASE=dropped:3 cargo test --test sim case_of_the_matrix -- --nocapture` tells its story.

mod crash;
mod dropped;
mod stale;

use crate::controllers::Workload;
use crate::log::{Log, Weight};
use crate::objects::{is_ended, text};
use crate::plan::Plan;
use crate::play::{WARM_UP, settle, simulated};
use crate::process::{self, LOG, MARK, Said};
use crate::stage::{self, Stage};
use crate::world::{Machine, World};
use crate::{dice::Dice, libc};
use simapi::kinds::{ATTACHMENT, DEVICE, FENCE, Kind, NODE, POLICY};
use std::collections::BTreeMap;
use std::env;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Names the case to the process that plays it, as `dropped:3`.
const CASE: &str = "SIMULATED_CASE";
/// What that process says when it has found nothing.
const GOOD: &str = "good";
/// Whatever has to happen has happened by then: a list that is begun anew, and a whole fence.
const PATIENCE: Duration = Duration::from_secs(900);

/// The kinds that the operator watches.
static WATCHED: [&Kind; 5] = [&NODE, &ATTACHMENT, &FENCE, &DEVICE, &POLICY];

/// One of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Crash,
    Stale,
    Dropped,
}

impl List {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Crash, "crash"),
        (Self::Stale, "stale"),
        (Self::Dropped, "dropped"),
    ];

    fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(list, _)| *list == self);
        own.map_or("", |(_, name)| name)
    }

    /// What each of its cases is about.
    fn cases(self) -> Vec<String> {
        let words = |case: &dyn std::fmt::Debug| format!("{case:?}");
        match self {
            Self::Crash => crash::all().iter().map(|case| words(case)).collect(),
            Self::Stale => stale::all().iter().map(|case| words(case)).collect(),
            Self::Dropped => dropped::all().iter().map(|case| words(case)).collect(),
        }
    }

    async fn happen(self, number: usize, stage: &Stage) {
        match self {
            Self::Crash => crash::all()[number].happen(stage).await,
            Self::Stale => stale::all()[number].happen(stage).await,
            Self::Dropped => dropped::all()[number].happen(stage).await,
        }
    }
}

/// A cluster in which nothing goes wrong by itself.
fn plan(replicas: usize) -> Plan {
    Plan {
        machines: 3,
        replicas,
        is_guarded: true,
        workload: Workload {
            databases: 1,
            webs: 1,
        },
        mode: "PowerOff",
        read_period: 1,
        late_effect: 5,
        wait: 10,
        pod_deletion: "Expedited",
        deletes_node: false,
        release: "AfterDetach",
        power_on: None,
        concurrent: 1,
        is_early: false,
        faults: Vec::new(),
        repeats: 1,
        trouble: Duration::ZERO,
        outages: 0,
    }
}

/// Plays a case on this thread, which does nothing else in its life: what was broken, and what happened.
fn play(list: List, number: usize) -> (Vec<String>, Log) {
    let seed = u64::try_from(number).unwrap_or_default();
    simulated(seed, async {
        let world = World::new(stage::api(), Dice::new(seed));
        let log = world.log.clone();
        let mut tasks = JoinSet::new();
        let replicas = match list {
            List::Crash => crash::all()[number].replicas(),
            List::Stale | List::Dropped => 1,
        };
        let stage = Stage::build(world, plan(replicas), &mut tasks);
        sleep(WARM_UP).await;
        list.happen(number, &stage).await;
        stage.heal();
        settle(&stage).await;
        tasks.abort_all();
        (stage.world.broken(), log)
    })
}

/// Waits until this holds; what never comes is a violation.
async fn eventually(stage: &Stage, what: &str, holds: impl Fn() -> bool) -> bool {
    let begun = libc::elapsed();
    while !holds() {
        if libc::elapsed() > begun + PATIENCE {
            stage.world.violation(format!("it never came: {what}"));
            return false;
        }
        sleep(Duration::from_millis(100)).await;
    }
    true
}

/// The machine that runs the database.
fn runner(stage: &Stage) -> Option<String> {
    let machines = stage.world.machines();
    let mut all = machines.iter();
    let has_it = |machine: &Machine| machine.containers.values().any(|it| it.pod == "db-0");
    let found = all.find(|(_, machine)| has_it(machine));
    found.map(|(name, _)| name.clone())
}

fn victim(stage: &Stage) -> String {
    runner(stage).expect("somebody runs the database")
}

/// Its kubelet hangs, and its containers run on: nothing but an off command makes it safe to leave.
fn strike(stage: &Stage, machine: &str) {
    stage.world.log.tell(machine, "its kubelet hangs");
    stage.world.with(machine, |machine| machine.hung = true);
}

/// All NodeFences of this node have ended, and there is one.
fn has_ended(stage: &Stage, node: &str) -> bool {
    let fences = stage.world.api.all(&FENCE);
    let mut own = fences
        .iter()
        .filter(|fence| text(fence, "/spec/nodeName") == node)
        .peekable();
    own.peek().is_some() && own.all(|fence| is_ended(fence))
}

/// Plays a list, each case in a process of its own; what was broken, by the case.
fn played(list: List, expected: usize) {
    let cases = list.cases();
    let broken = Mutex::new(BTreeMap::new());
    let count = u64::try_from(cases.len()).expect("a number");
    process::each(0..count, |number| {
        let number = usize::try_from(number).expect("an index");
        let said = process(list, number, &[]);
        let found = said.line().unwrap_or(&said.error);
        if found != GOOD {
            let words = format!("{}:{number} {}: {found}", list.name(), cases[number]);
            broken.lock().expect("what is broken").insert(number, words);
        }
        ControlFlow::Continue(())
    });
    let broken = broken.into_inner().expect("what is broken");
    let broken: Vec<String> = broken.into_values().collect();
    let good = cases.len() - broken.len();
    println!("{} {good}/{}", list.name(), cases.len());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert_eq!(cases.len(), expected);
}

fn process(list: List, number: usize, others: &[(&str, &str)]) -> Said {
    let case = format!("{}:{number}", list.name());
    process::run("matrix::one_case", (CASE, &case), others)
}

/// The case that this names.
fn named(text: &str) -> Option<(List, usize)> {
    let (name, number) = text.split_once(':')?;
    let (list, _) = List::ALL.into_iter().find(|(_, own)| *own == name)?;
    Some((list, number.parse().ok()?))
}

#[test]
fn a_death_at_any_write_is_survived_by_the_same_by_another_and_by_both() {
    played(List::Crash, 81);
}

#[test]
fn what_a_watch_tells_late_or_again_decides_nothing() {
    played(List::Stale, 18);
}

#[test]
fn what_no_watch_has_told_is_found_by_a_list() {
    played(List::Dropped, 15);
}

/// Prints what happens in case `CASE`.
#[test]
fn case_of_the_matrix() {
    let case = env::var("CASE").unwrap_or_else(|_| "crash:0".to_owned());
    let wanted = named(&case).filter(|(list, number)| *number < list.cases().len());
    let (list, number) = wanted.unwrap_or_else(|| {
        panic!("CASE={case} is no case; say CASE=dropped:3, or another of crash, stale and dropped")
    });
    let said = process(list, number, &[(LOG, process::wanted_log())]);
    let story = said.answer().unwrap_or(&said.text);
    assert!(story.contains("its kubelet hangs"), "{story}");
    println!("{}\n{story}", list.cases()[number]);
}

#[test]
#[ignore = "the other tests run it, in a process of its own for each case"]
fn one_case() {
    let Some((list, number)) = env::var(CASE).ok().as_deref().and_then(named) else {
        panic!("{CASE} names no case");
    };
    let (broken, log) = play(list, number);
    let found = match broken.is_empty() {
        true => GOOD.to_owned(),
        false => broken.join("; "),
    };
    let story = match env::var(LOG).as_deref() {
        Ok("story") => log.text(Weight::Story),
        Ok(_) => log.text(Weight::Detail),
        Err(_) => String::new(),
    };
    println!("{MARK}{found}\n{story}");
}
