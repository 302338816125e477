//! The lab that is watched: a node and a policy for each case, two replicas, and a Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Rig, Setup};
use e2e::operator::{self, Operator};
use e2e::prometheus::{Exporter, Job, Prometheus};
use e2e::proxy::Proxy;
use e2e::workload::{Template, wait_node_ready};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cause_of;
use crate::replicas::standby_by;

/// What befalls the nodes, by their numbers from 1; also the names of their policies.
const CASES: [&str; 13] = [
    "stuck", "detach", "release", "approval", "storm", "ghost", "flapping", "refused", "silent",
    "stranger", "twin", "spare", "reported",
];
/// The label of a node that says which case it is.
const CASE: &str = "lab/case";
/// A stage is late after a minute at the earliest, and an approval after two; a device that has lied is read for longer than usual.
pub const LATE: Duration = LIMIT.saturating_mul(2);

/// A lab under the eyes of Prometheus.
pub struct Scene {
    pub lab: Lab,
    /// In front of the API server, for both replicas.
    pub proxy: Proxy,
    pub replicas: [Operator; 2],
    _exporter: Exporter,
    pub prometheus: Prometheus,
    /// The one that does not detach.
    pub volume: String,
    /// When it began to watch.
    pub begin: Timestamp,
    begun: Instant,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    fired: BTreeSet<String>,
    resolved: BTreeSet<String>,
}

fn labels(number: usize) -> BTreeMap<String, String> {
    [(CASE.to_owned(), CASES[number - 1].to_owned())].into()
}

/// The mode of a case's policy, and what it is besides the lab's.
fn policy(case: &str) -> (&'static str, Value) {
    let level =
        |timeout: u32| json!([{"name": "bmc", "retryPeriodSeconds": 1, "timeoutSeconds": timeout}]);
    match case {
        "stuck" => ("ConfirmOnly", json!({"fence": {"levels": level(10)}})),
        "detach" => (
            "ConfirmOnly",
            json!({"recovery": {"detachTimeoutSeconds": 60}}),
        ),
        "release" => (
            "ConfirmOnly",
            json!({"release": {"mode": "Manual", "timeoutSeconds": 60}}),
        ),
        "approval" => (
            "ConfirmOnly",
            json!({"fence": {"approval": {"mode": "Manual"}}}),
        ),
        "storm" => ("PowerOff", json!({"budget": {"minHealthy": "100%"}})),
        "flapping" => ("PowerOff", json!({})),
        "reported" => ("ConfirmOnly", json!({"earlyDetection": "Enabled"})),
        _ => ("ConfirmOnly", json!({})),
    }
}

impl Scene {
    /// Everything at rest, and in sight of a Prometheus with these rules.
    pub async fn set(rules: &Value) -> Result<Self> {
        let mut setup = Setup::new("prometheus", CASES.len()).alone();
        setup.labels = labels;
        let lab = Lab::start(setup).await?;
        lab.grant("early-detection").await?;
        let proxy = lab.proxy()?;
        lab.grant("headroom").await?;
        let options = operator::Options {
            server: Some(proxy.url()),
            arguments: vec!["--headroom".to_owned()],
            ..operator::Options::default()
        };
        let leader = lab.operator_with(options).await?;
        let replicas = [leader, standby_by(&lab, Some(proxy.url())).await?];
        let exporter = Exporter::start(lab.control_plane.admin())?;
        let jobs = [
            Job {
                name: "node-fencing-operator",
                ports: replicas.iter().map(Operator::port).collect(),
            },
            Job {
                name: "kube-state-metrics",
                ports: vec![exporter.port()],
            },
        ];
        let plane = &lab.control_plane;
        let directory = plane.files().directory();
        let prometheus = Prometheus::start(plane.guard(), directory, rules, &jobs).await?;
        prometheus.wait_up(3).await?;
        let mut this = Self {
            lab,
            proxy,
            replicas,
            _exporter: exporter,
            prometheus,
            volume: String::new(),
            begin: Timestamp::now(),
            begun: Instant::now(),
            seen: Mutex::default(),
        };
        this.lab.wait_protected().await?;
        for case in CASES {
            let (mode, mut changes) = policy(case);
            changes["nodeSelector"] = json!({"matchLabels": {CASE: case}});
            this.lab.policy_named(case, mode, changes).await?;
        }
        this.volume = this.database("detach").await?;
        this.database("flapping").await?;
        Ok(this)
    }

    /// A StatefulSet on the node of a case. Returns its volume.
    async fn database(&self, case: &str) -> Result<String> {
        let pinned = Template {
            node: Some(node(case)?),
            ..Template::default()
        };
        let workloads = &self.lab.workloads;
        let volume = workloads.stateful_set(case, &pinned).await?;
        workloads.wait_running(&format!("{case}-0"), LIMIT).await?;
        Ok(volume)
    }

    pub fn rig(&self, case: &str) -> Result<&Rig> {
        self.lab.rig_of(&node(case)?)
    }

    /// Cuts or restores the power of a case's machine.
    pub fn power(&self, case: &str, on: bool) -> Result<()> {
        self.rig(case)?.machine.set_power(on);
        Ok(())
    }

    /// Waits until Kubernetes has this to say of a case's node.
    pub async fn wait_ready(&self, case: &str, ready: &str) -> Result<()> {
        let admin = self.lab.control_plane.admin();
        wait_node_ready(admin, &node(case)?, ready, LIMIT)
            .await
            .map(drop)
    }

    /// The alert fires with these labels, in words that have something to say.
    pub async fn fires(&self, alert: &str, labels: &[(&str, &str)]) -> Result<()> {
        let found = self.prometheus.wait_firing(alert, labels, LATE).await?;
        for words in ["summary", "description", "runbook"] {
            let said = found.annotations.get(words);
            let said = said.with_context(|| format!("{alert} has no {words}"))?;
            let is_whole = !["<no value>", "<error", "%!"]
                .iter()
                .any(|bad| said.contains(bad));
            ensure!(is_whole, "{alert} says `{said}`");
        }
        let fires = format!("fires: {}", cause_of(alert));
        self.tell(alert, &fires, |seen| &mut seen.fired);
        Ok(())
    }

    /// The alert is over.
    pub async fn resolves(&self, alert: &str, labels: &[(&str, &str)]) -> Result<()> {
        self.prometheus.wait_resolved(alert, labels, LATE).await?;
        self.tell(alert, "is over", |seen| &mut seen.resolved);
        Ok(())
    }

    fn tell(
        &self,
        alert: &str,
        what: &str,
        whose: impl FnOnce(&mut Seen) -> &mut BTreeSet<String>,
    ) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        whose(&mut seen).insert(alert.to_owned());
        let at = self.begun.elapsed().as_secs();
        eprintln!("{at:4} s: {alert} {what}");
    }

    /// The alerts that fired, and those that resolved.
    pub fn seen(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.fired.clone(), seen.resolved.clone())
    }

    /// promtool has nothing against what either replica exports now.
    pub async fn scrapes_are_valid(&self) -> Result<()> {
        for replica in &self.replicas {
            let (_, text) = replica.get("/metrics").await?;
            let mut promtool = self
                .prometheus
                .promtool()
                .args(["check", "metrics"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut input = promtool.stdin.take().context("no input")?;
            input.write_all(text.as_bytes())?;
            drop(input);
            let output = promtool.wait_with_output()?;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            ensure!(
                output.status.success() && said.is_empty(),
                "promtool: {said}{text}"
            );
        }
        Ok(())
    }
}

/// The node of a case.
pub fn node(case: &str) -> Result<String> {
    let number = CASES.iter().position(|it| *it == case);
    let number = number.with_context(|| format!("no case {case}"))? + 1;
    Ok(format!("node-{number}"))
}

/// The device of its node.
pub fn device(case: &str) -> Result<String> {
    Ok(format!("{}-bmc", node(case)?))
}
