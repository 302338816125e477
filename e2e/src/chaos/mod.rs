//! `make chaos`: nodes die, operators and BMCs fail, power comes back, all at random moments, and the records are judged.
//!
//! One lab with three machines, two replicas of the operator behind a proxy each, and two pods with a volume each. A cycle deals a
//! [`Fate`], lets it befall the lab, heals everything, and waits until the lab is whole again: every incident has ended, no taint of
//! the operator's is left, the pods run. Then the volume oracle and the judge read what was recorded from the beginning, and at the end
//! the replicas hold no more than they did before.

mod ailing;
mod cycle;
mod dice;
mod fate;
mod rest;
mod scene;

use std::time::Duration;

use anyhow::Result;

use self::cycle::Cycle;
use self::fate::{Ailing, Death, Detach, Fate, Fates, Mishap, Victim};
use self::scene::{MACHINES, Scene};
use crate::judge::Judgement;
use crate::lab::Kind;

/// How the API server is killed, when it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kills {
    /// A moment after whoever writes was silenced, so that nothing it has done is missing in the audit log, and everything can be judged.
    InSilence,
    /// With a write of the operator under way, which may be done and not logged: what is judged are the volumes, and each record by itself.
    AtWork,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the lab.
    pub name: String,
    /// What runs on the machines.
    pub kind: Kind,
    /// How many cycles.
    pub cycles: usize,
    /// What the dice begin with.
    pub seed: u64,
    /// How the API server is killed.
    pub kills: Kills,
}

impl Plan {
    /// Reads what was recorded so far, and judges what of it can be.
    async fn judged(&self, scene: &Scene) -> Result<Judgement> {
        let judgement = scene.lab.judged().await?;
        Ok(match self.kills {
            Kills::InSilence => judgement,
            Kills::AtWork => judgement.of_single_records(),
        })
    }
}

/// Runs the cycles and prints what they were like; fails at the first in which something is wrong, and if something leaks.
pub async fn run(plan: &Plan) -> Result<()> {
    let scene = Scene::set(plan).await?;
    let before = scene.held().await?;
    let mut run = Tally::default();
    let fates = Fates::of(plan.seed, MACHINES).take(plan.cycles);
    for (number, fate) in fates.enumerate() {
        let number = number + 1;
        println!("cycle {number}: {fate}");
        if let Err(error) = run.live(plan, &scene, &fate).await {
            run.print(plan);
            return Err(error.context(format!("cycle {number} of seed {}: {fate}", plan.seed)));
        }
    }
    run.print(plan);
    println!("judged: {}", plan.judged(&scene).await?.counts);
    let after = scene.nothing_leaks(before).await?;
    for (number, (before, after)) in before.into_iter().zip(after).enumerate() {
        println!("replica {} at rest, before: {before}", number + 1);
        println!("replica {} at rest, after:  {after}", number + 1);
    }
    match plan.kills {
        Kills::InSilence => scene.lab.verdict().await,
        // Each cycle has been judged.
        Kills::AtWork => Ok(()),
    }
}

/// One cycle after the other in which a node dies and the API server is killed with a write of the operator under way.
pub async fn killed_at_work(name: &str, cycles: usize) -> Result<()> {
    let plan = Plan {
        name: name.to_owned(),
        kind: Kind::Simulated,
        cycles,
        seed: 0,
        kills: Kills::AtWork,
    };
    let scene = Scene::set(&plan).await?;
    let mut run = Tally::default();
    for number in 0..cycles {
        let number = u32::try_from(number)?;
        // The first write after this is the record, the claim, its status or the taint; and each time the kill comes a little later on its way.
        let at = Duration::from_millis(15_500) + number * Duration::from_millis(700);
        let fate = Fate {
            victim: Victim::OfPod(0),
            death: Death::PowerCut,
            cured_at: Duration::ZERO,
            power_on_at: Duration::from_secs(40),
            ailing: Ailing::Nothing,
            well_at: Duration::ZERO,
            mishap: Mishap::ApiServerKilled,
            replica: None,
            mishap_at: at,
            mishap_for: Duration::from_secs(2) + number * Duration::from_millis(5),
            detach: Detach::Prompt,
            prompt_at: Duration::ZERO,
        };
        println!("cycle {}: {fate}", number + 1);
        run.live(&plan, &scene, &fate).await?;
    }
    run.print(&plan);
    Ok(())
}

/// What this seed throws, in words.
pub fn thrown(seed: u64, cycles: usize) -> Vec<String> {
    let fates = Fates::of(seed, MACHINES).take(cycles);
    fates.map(|fate| fate.to_string()).collect()
}

/// One cycle in which a device says Off whatever its machine does, and the node shows no life: nothing that the operator could ask tells
/// it otherwise. Returns what the judge found.
pub async fn lie(name: &str) -> Result<Vec<String>> {
    let plan = Plan {
        name: name.to_owned(),
        kind: Kind::Simulated,
        cycles: 1,
        seed: 0,
        kills: Kills::InSilence,
    };
    // A taint, a detach and a second writer come first, on however busy a host.
    let never = Duration::from_secs(120);
    let fate = Fate {
        victim: Victim::OfPod(0),
        death: Death::Partitioned,
        cured_at: never,
        power_on_at: never,
        ailing: Ailing::Lies,
        well_at: never,
        mishap: Mishap::None,
        replica: None,
        mishap_at: never,
        mishap_for: Duration::ZERO,
        detach: Detach::Prompt,
        prompt_at: never,
    };
    let scene = Scene::set(&plan).await?;
    // Whether the lab becomes whole again is not what is asked here.
    let _ = tokio::time::timeout(never, scene.cycle(&fate)).await;
    let judgement = scene.lab.judged().await?;
    Ok(judgement
        .violations
        .iter()
        .map(ToString::to_string)
        .collect())
}

/// What the cycles were like so far.
#[derive(Debug, Default)]
struct Tally {
    cycles: Vec<Cycle>,
    violations: usize,
}

impl Tally {
    async fn live(&mut self, plan: &Plan, scene: &Scene, fate: &Fate) -> Result<()> {
        let lived = scene.cycle(fate).await;
        // What was written is judged also where the lab did not become whole.
        let judgement = plan.judged(scene).await?;
        self.violations = judgement.violations.len();
        judgement.ensure_good()?;
        scene.lab.volumes_are_whole().await?;
        let cycle = lived?;
        let seconds = |time: &Duration| format!("{:.1} s", time.as_secs_f64());
        for recovery in &cycle.recoveries {
            println!("  a pod runs elsewhere after {}", seconds(recovery));
        }
        println!("  whole {} after the last fault", seconds(&cycle.whole));
        self.cycles.push(cycle);
        Ok(())
    }

    fn print(&self, plan: &Plan) {
        let (cycles, violations) = (&self.cycles, self.violations);
        println!(
            "{} cycles became whole, {violations} violations, on {:?} nodes by seed {}",
            cycles.len(),
            plan.kind,
            plan.seed
        );
        let recoveries = cycles.iter().flat_map(|it| &it.recoveries);
        spread(
            "recoveries, from the death to the pod elsewhere",
            recoveries,
        );
        let whole = cycles.iter().map(|it| &it.whole);
        spread("whole again, from the last fault", whole);
    }
}

/// Median and 99th percentile.
fn spread<'a>(what: &str, times: impl Iterator<Item = &'a Duration>) {
    let mut times: Vec<f64> = times.map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len().max(1) - 1));
    let (Some(median), Some(last)) = (at(50), at(99)) else {
        return println!("{what}: none");
    };
    let count = times.len();
    println!("{what}: {count}, median {median:.1} s, p99 {last:.1} s");
}
