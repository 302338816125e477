//! When a pod runs again, as `kubectl fence plan` predicts it and as it is. `make bench-plan` measures it on a machine that does nothing else and holds
//! the error to its limit; every test prints it.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab};
use e2e::workload::{is_ready, node_of};
use fencing_testbed::bench::Cores;
use fencing_testbed::bench::awake::Awake;
use fencing_testbed::bench::table::{Table, median, spread};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;

use super::{DEAD, app, held, pods};

/// How far the median of the predicted times may be from what is measured.
const ERROR_MAX: f64 = 0.25;
/// Power cuts of the benchmark.
const ROUNDS: usize = 5;

/// From the power loss until another pod of the same app runs.
#[derive(Debug)]
pub(super) struct Time {
    app: String,
    /// In seconds.
    predicted: f64,
    /// In seconds.
    measured: f64,
}

impl Time {
    fn error(&self) -> f64 {
        (self.predicted - self.measured).abs() / self.measured
    }
}

/// Waits until another pod of each of these apps is Ready elsewhere, and returns after how many seconds each of them was.
pub(super) async fn measured(
    lab: &Lab,
    begun: Instant,
    before: &BTreeMap<String, Pod>,
    apps: &[String],
) -> Result<BTreeMap<String, f64>> {
    let mut took = BTreeMap::new();
    let what = format!("others of {apps:?} run elsewhere");
    let all = eventually(&what, LIMIT, async || {
        let now = begun.elapsed().as_secs_f64();
        for pod in pods(lab).await?.iter().filter(|it| is_ready(it)) {
            let old = before.get(&app(pod));
            let is_new = old.is_some_and(|it| it.uid() != pod.uid() && node_of(pod) != DEAD);
            if is_new && apps.contains(&app(pod)) {
                took.entry(app(pod)).or_insert(now);
            }
        }
        ensure!(took.len() == apps.len(), "only {took:?} do");
        Ok(took.clone())
    });
    all.await
}

/// What the plan says of the pods that recover, beside what was measured.
pub(super) fn beside(
    plan: &[Value],
    took: &BTreeMap<String, f64>,
    before: &BTreeMap<String, Pod>,
) -> Result<Vec<Time>> {
    let recover = plan.iter().filter(|it| it["outcome"] == "Recovers");
    let times = recover.map(|told| {
        let of_name = |it: &(&String, &Pod)| told["name"] == it.1.name_any().as_str();
        let (app, _) = before.iter().find(of_name).context("a pod of the node")?;
        Ok(Time {
            app: app.clone(),
            predicted: told["afterSeconds"]
                .as_f64()
                .with_context(|| format!("no time is predicted for {app}"))?,
            measured: took[app],
        })
    });
    times.collect()
}

/// One row a pod, and the median of all errors.
pub(super) fn table(rounds: &[Vec<Time>]) -> String {
    let columns = ["predicted", "measured", "error"];
    let mut table = Table::new("pod of", columns.map(str::to_owned));
    let all = || rounds.iter().flatten();
    let apps: Vec<&String> = rounds
        .first()
        .into_iter()
        .flatten()
        .map(|it| &it.app)
        .collect();
    for name in apps {
        let of = || all().filter(|it| &it.app == name);
        let cells = [
            spread("s", 1, of().map(|it| it.predicted)),
            spread("s", 1, of().map(|it| it.measured)),
            spread("%", 0, of().map(|it| it.error() * 100.0)),
        ];
        table.words(&format!("`{name}`"), cells);
    }
    let errors = spread("%", 0, all().map(|it| it.error() * 100.0));
    table.words("all of them", ["", "", &errors].map(str::to_owned));
    table.to_string()
}

// Ignored, for it holds a time to a quarter, which says nothing on a machine that runs other tests beside it; what becomes of each pod is held by every
// run, in the test beside this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark, which needs the machine to itself: make bench-plan"]
async fn predictions_are_a_quarter_off_at_most() -> Result<()> {
    let awake = Awake::every_core()?;
    let before = Cores::now();
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        rounds.push(held(&format!("plan-{round}"), None).await?);
    }
    awake.check()?;
    println!(
        "{ROUNDS} power cuts, cores kept awake; {}. Median (minimum to maximum).\n\n{}",
        Cores::now().since(&before),
        table(&rounds)
    );
    let mut errors: Vec<f64> = rounds.iter().flatten().map(Time::error).collect();
    errors.sort_by(f64::total_cmp);
    let error = median(&errors).context("nothing recovered")?;
    ensure!(error <= ERROR_MAX, "the median error is {error:.2}");
    Ok(())
}
