//! Many machines lose their power while the network of their BMCs is down. As long as none of these answers the operator asks ever less often, and
//! wears out neither the API server nor its own files and memory; when the network is back, all Nodes are out of service soon (L5). No process ends
//! here (L4, L8), and others write no Node (L6): those are for `all_at_once`.
//!
//! The Nodes are objects without kubelets, the BMCs run in a process of their own, and a BMC that is dark answers not even TCP.
//! `cargo test --release --package e2e --test e2e -- all_dark:: --include-ignored --nocapture` has 500 of them, too, and prints how it went.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::audit::{OPERATOR, Request};
use e2e::bench::rest;
use e2e::bench::scale::cluster::{self, Cluster, Setting};
use e2e::bench::scale::storm::{counted, first_median_last, is_of_storm, out_of_service};
use e2e::bench::scale::terms_lost;
use e2e::lab::{Lab, has_taint};
use e2e::operator::{Operator, Options};
use e2e::proxy::writes::{OUT_OF_SERVICE, QUARANTINE};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::sleep;

use crate::dark_rack::{answers, lease};

/// How long the network is down once each incident is open: until the pause between two tries of a device is as long as it becomes (15 s), for two
/// of them.
const DARK: Duration = Duration::from_secs(100);
/// All incidents are open within this time, also on a machine that has other work: it begins what is tested here, and is no part of it.
const OPENED_WITHIN: Duration = Duration::from_secs(600);
/// Requests of the operator for each dead Node in a minute, while nothing answers. A look in vain takes 15 s, and so does the pause after it in the end:
/// some ten were counted. If the first pause of 5 s did not grow, there would be half as many again.
const REQUESTS_A_MINUTE_MAX: f64 = 12.0;
/// Most of which is of the debug build and its 500 incidents: some 120 MiB were counted.
const MEMORY_MAX: u64 = 256 << 20;

/// How much of it.
struct Size {
    /// Beginning of the name of its directory.
    name: &'static str,
    /// Nodes that die.
    dead: usize,
    /// What the operator may have open.
    files: u64,
    /// And what `ulimit` is given for that.
    ulimit: &'static str,
    /// All are out of service so soon after the network is back.
    within: Duration,
}

/// What happened to whom, and when.
struct Outage {
    dead: Range<usize>,
    /// The power and the network are lost.
    begun: Timestamp,
    /// Each of the dead has an incident.
    open: Timestamp,
    /// The network is back.
    returned: Timestamp,
}

impl Outage {
    /// From its beginning until all Nodes are out of service.
    async fn of(cluster: &mut Cluster, count: usize) -> Result<Self> {
        cluster.set_dark(true).await?;
        let (dead, begun) = cluster.cut(count).await?;
        let (waited, fences) = (Instant::now(), cluster.lab.api("NodeFence"));
        loop {
            let open = fences.list_metadata(&ListParams::default()).await?.items;
            if open.len() >= count {
                break;
            }
            let open = open.len();
            ensure!(
                waited.elapsed() < OPENED_WITHIN,
                "{open} of {count} are open"
            );
            sleep(Duration::from_secs(1)).await;
        }
        let open = Timestamp::now();
        sleep(DARK).await;
        let returned = Timestamp::now();
        cluster.set_dark(false).await?;
        let is_out = |node: &Node| has_taint(node, OUT_OF_SERVICE) || has_taint(node, QUARANTINE);
        cluster.wait(&dead, "out of service", is_out).await?;
        Ok(Self {
            dead,
            begun,
            open,
            returned,
        })
    }

    /// What the operator asked of the API server for their sake.
    async fn requests(&self, lab: &Lab) -> Result<Vec<Request>> {
        let audit = lab.control_plane.audit();
        audit.settled().await?;
        let mut ours = audit.requests_of(OPERATOR)?;
        let names = self.names();
        ours.retain(|it| it.received >= self.begun && is_of_storm(it, &names));
        Ok(ours)
    }

    fn names(&self) -> BTreeSet<String> {
        self.dead.clone().map(rest::name).collect()
    }

    /// While nothing answers, little is asked, ever less often, and not what is of use only after an Off.
    fn is_patient(&self, requests: &[Request]) -> Result<()> {
        let within = |from: Timestamp, to: Timestamp| {
            let all = requests.iter();
            let all = all.filter(|it| it.received >= from && it.received < to);
            all.collect::<Vec<&Request>>()
        };
        let (dark, nodes) = (within(self.open, self.returned), self.dead.len() as f64);
        let minutes = DARK.as_secs_f64() / 60.0;
        let each = dark.len() as f64 / nodes / minutes;
        println!("{each:.1} requests a dead Node and minute; in all of the dark:");
        for (kind, count) in counted(dark, self.returned) {
            let each = count.before_taint as f64 / nodes / minutes;
            println!("  {kind}: {each:.2}");
        }
        ensure!(each <= REQUESTS_A_MINUTE_MAX, "{each:.1} requests");
        let is_of = |it: &&Request, verb: &str, resource: &str| {
            it.verb == verb && it.object_ref.resource == resource
        };
        let all = within(self.begun, self.returned);
        let lists = all.iter().filter(|it| is_of(it, "list", "pods")).count();
        ensure!(lists == 0, "{lists} lists of pods before any Off");
        Ok(())
    }
}

async fn all_dark(size: Size) -> Result<()> {
    let count = size.dead;
    let setting = Setting {
        name: size.name,
        size: cluster::Size {
            nodes: count + 2,
            devices: count,
            volumes_each: 0,
        },
        controllers: false,
        emulator: env!("CARGO_BIN_EXE_lab").into(),
    };
    let mut cluster = Cluster::start(setting).await?;
    let options = Options {
        ulimit: Some(size.ulimit),
        ..Options::default()
    };
    // After each try a longer pause: the sooner they are as long as they become.
    let policy = json!({"fence": {
        "levels": [{"name": "bmc", "attempts": 1}],
        "verification": {"consecutiveOffReads": 2, "readPeriodSeconds": 1},
    }});
    let operator = cluster.operator_with(options, &policy).await?;
    let before = lease(&cluster.lab).await?;
    let worst = Mutex::default();
    let outage = tokio::select! {
        outage = Outage::of(&mut cluster, count) => outage?,
        failed = answers(&operator, &worst) => match failed? {},
    };
    let (slowest, files) = *worst.lock().expect("no panic");
    wears_nothing_out(&operator, files)?;
    ensure!(files < size.files, "{files} open files");
    println!("/livez and /metrics within {} ms", slowest.as_millis());
    ensure!(
        lease(&cluster.lab).await? == before,
        "another leader: {before:?}"
    );

    let requests = outage.requests(&cluster.lab).await?;
    outage.is_patient(&requests)?;
    let tainted = out_of_service(&outage.names(), &requests)?;
    let delays = tainted
        .values()
        .map(|at| at.duration_since(outage.returned));
    let mut delays: Vec<f64> = delays.map(|it| it.as_secs_f64()).collect();
    delays.sort_by(f64::total_cmp);
    let [first, median, last] = first_median_last(&delays).context("none")?;
    println!(
        "{count} out of service {first:.1} / {median:.1} / {last:.1} s (first, median, last) after the network was back"
    );
    ensure!(
        last <= size.within.as_secs_f64(),
        "the last one after {last:.1} s"
    );
    cluster.lab.verdict().await
}

fn wears_nothing_out(operator: &Operator, files: u64) -> Result<()> {
    let usage = operator.usage()?;
    let peak = usage.peak_bytes >> 20;
    let cpu = usage.cpu.as_secs_f64();
    println!("{files} open files, {peak} MiB at most, {cpu:.0} s of CPU");
    ensure!(usage.peak_bytes < MEMORY_MAX, "{peak} MiB");
    let log = std::fs::read_to_string(operator.log())?;
    ensure!(!log.contains("Too many open files"), "it ran out of files");
    ensure!(terms_lost(operator)? == 0, "it led no longer for a while");
    operator.check()
}

/// A debug build: 17 s were measured on two cores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_die_in_a_dark_network_and_are_out_of_service_when_it_is_back() -> Result<()> {
    all_dark(Size {
        name: "all-dark",
        dead: 100,
        files: 512,
        ulimit: "-n 512",
        within: Duration::from_secs(60),
    })
    .await
}

/// More than are looked at at the same time with so few files (256). A minute: of the pause before the next try 30 s may be ahead when the network
/// comes back, and what was silent is read for 10 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "for its figures: it takes minutes of both cores, and has to have them"]
async fn so_are_500_with_1024_files_within_a_minute() -> Result<()> {
    all_dark(Size {
        name: "all-dark-500",
        dead: 500,
        files: 1024,
        ulimit: "-n 1024",
        within: Duration::from_secs(60),
    })
    .await
}
