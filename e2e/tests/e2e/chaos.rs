//! Nodes die at random, two replicas of the operator, the API server and BMCs fail at random beside them, and power comes back at random.
//! `make chaos` is the same with as many cycles as one likes.
//!
//! Twenty cycles, on five labs side by side: nearly all of their time they wait. The seeds are fixed, because a test that fails has to fail
//! again. They were chosen: together they throw everything that there is, and many a node stays away long enough to be put out of service.

use anyhow::{Result, ensure};
use e2e::chaos::{self, Kills, Plan};
use e2e::lab::{Kind, available_to_test};

const CYCLES: usize = 4;
/// The last one is for real nodes.
const SEEDS: [u64; 5] = [2808, 4303, 1145, 3127, 2260];

async fn nodes_die(kind: Kind, seed: u64) -> Result<()> {
    let name = format!("chaos-{seed}");
    if !available_to_test(kind, &name)? {
        return Ok(());
    }
    chaos::run(&Plan {
        name,
        kind,
        cycles: CYCLES,
        seed,
        kills: Kills::InSilence,
    })
    .await
}

macro_rules! chaos {
    ($($name:ident: $kind:ident by $seed:literal;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            nodes_die(Kind::$kind, SEEDS[$seed]).await
        }
    )* };
}

chaos! {
    simulated_nodes_that_die_at_random_corrupt_nothing_1: Simulated by 0;
    simulated_nodes_that_die_at_random_corrupt_nothing_2: Simulated by 1;
    simulated_nodes_that_die_at_random_corrupt_nothing_3: Simulated by 2;
    simulated_nodes_that_die_at_random_corrupt_nothing_4: Simulated by 3;
    real_nodes_that_die_at_random_corrupt_nothing: Real by 4;
}

#[test]
fn the_seeds_throw_everything_that_may_be_thrown_twice() {
    let thrown: Vec<String> = SEEDS
        .iter()
        .flat_map(|seed| chaos::thrown(*seed, CYCLES))
        .collect();
    for what in [
        " PowerCut",
        " KubeletHung",
        " Partitioned",
        " Killed",
        " Frozen",
        " CutOff",
        " Slow at",
        " AnswersLost",
        " ApiServerKilled",
        " ApiServerFrozen",
        "BMC Slow",
        "BMC Silent",
        "BMC Dark",
        "BMC Vague",
        "BMC Busy",
        "BMC Resets",
        "BMC Late",
        "BMC Idle",
        "detach Slow",
        "detach Hangs",
    ] {
        let times = thrown.iter().filter(|fate| fate.contains(what)).count();
        assert!(times >= 2, "{what}: {times} times in {thrown:#?}");
    }
}

/// The API server of the other labs is killed when nobody writes, so that all of its audit log can be judged. This one is killed with a write
/// of the operator under way: whether it was done nobody knows but the store, neither the operator nor the judge, and no volume has two writers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_killed_with_a_write_under_way_corrupts_nothing() -> Result<()> {
    chaos::killed_at_work("chaos-at-work", CYCLES).await
}

/// Chaos can fail: against a device that lies about a machine that shows no life there is no guard, and what follows is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_says_off_of_a_machine_that_writes_on_is_found_by_the_judge() -> Result<()> {
    let found = chaos::lie("chaos-lie").await?;
    for rule in ["S1-one-writer", "S1-silent-after-proof", "S1-dark-boot"] {
        let is_found = found.iter().any(|it| it.starts_with(rule));
        ensure!(is_found, "{rule} is not among {found:#?}");
    }
    Ok(())
}
