//! A real Prometheus, out of Debian's package: it scrapes what it is told to, loads rules, and is asked what it has seen.
//!
//! It scrapes every other second and evaluates every second, where a cluster takes half a minute: a test need not wait. Everything has the label `cluster`, as
//! of somebody who has more than one.

mod exporter;

use std::{collections::BTreeMap, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub use self::exporter::Exporter;
use crate::plain_http;
use fencing_testbed::debian::Packages;
use fencing_testbed::eventually::eventually;
use fencing_testbed::ports::Port;
use fencing_testbed::process::{Guard, Process, Spec};

/// Value of the label `cluster`.
pub const CLUSTER: &str = "lab";
/// How long it takes to start on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Names and values of labels.
pub type Labels = BTreeMap<String, String>;

/// What is scraped: a job and the ports of 127.0.0.1 that it has.
pub struct Job<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its targets.
    pub ports: Vec<u16>,
}

/// A running Prometheus. It ends when dropped, and with the guard.
pub struct Prometheus {
    packages: Packages,
    process: Process,
    port: Port,
}

/// One value, or one series.
#[derive(Debug, Clone, Deserialize)]
pub struct Series {
    /// Whose it is.
    pub metric: Labels,
    /// The value, of an instant query.
    #[serde(default)]
    value: Option<(f64, String)>,
    /// The values, of a range query.
    #[serde(default)]
    values: Vec<(f64, String)>,
}

impl Series {
    /// Times in seconds since the epoch, and what was then; none of them is NaN.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let all = self.value.iter().chain(&self.values);
        let numbers = all.filter_map(|(at, value)| Some((*at, value.parse().ok()?)));
        numbers
            .filter(|(_, value): &(f64, f64)| !value.is_nan())
            .collect()
    }
}

/// An alert that is pending or firing.
#[derive(Debug, Clone, Deserialize)]
pub struct Alert {
    /// Its labels, `alertname` among them.
    pub labels: Labels,
    /// What people are told.
    pub annotations: Labels,
    /// `pending` or `firing`.
    pub state: String,
}

impl Alert {
    /// Is it this alert, with these labels?
    pub fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has = |(key, value): &(&str, &str)| self.labels.get(*key).is_some_and(|it| it == value);
        has(&("alertname", name)) && labels.iter().all(has)
    }
}

impl Prometheus {
    /// Fetches the package if that has not been done, and starts it with these rules (the contents of a rules file). Files and log go into
    /// this directory.
    pub async fn start(
        guard: &Arc<Guard>,
        directory: &Path,
        rules: &Value,
        jobs: &[Job<'_>],
    ) -> Result<Self> {
        let unpack = || Packages::unpack("prometheus", &["prometheus"]);
        let packages = tokio::task::spawn_blocking(unpack).await??;
        let directory = directory.join("prometheus");
        std::fs::create_dir_all(&directory)?;
        let port = Port::reserve()?;
        std::fs::write(directory.join("rules.json"), rules.to_string())?;
        // JSON is YAML.
        let file = directory.join("prometheus.json");
        std::fs::write(&file, configuration(jobs).to_string())?;
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let arguments = [
            flag("config.file", &file.display()),
            flag("storage.tsdb.path", &directory.join("data").display()),
            flag(
                "web.listen-address",
                &format!("127.0.0.1:{}", port.number()),
            ),
            "--web.enable-admin-api".to_owned(),
            flag("log.level", &"warn"),
        ];
        let spec = Spec::new("prometheus", "prometheus", &directory.join("log")).args(arguments);
        let environment = packages.environment().into_iter();
        let process = environment
            .fold(spec, |spec, (key, value)| spec.env(key, value))
            .spawn(guard)?;
        let this = Self {
            packages,
            process,
            port,
        };
        eventually("Prometheus is ready", START, async || {
            this.process.check()?;
            let (status, words) = plain_http::get(this.port.number(), "/-/ready").await?;
            ensure!(status == StatusCode::OK, "{words}");
            Ok(())
        })
        .await?;
        Ok(this)
    }

    /// Waits until every target of every job is up.
    pub async fn wait_up(&self, targets: usize) -> Result<()> {
        eventually("every target is up", START, async || {
            let up = self.query("up == 1").await?;
            ensure!(up.len() == targets, "{} of {targets} are", up.len());
            Ok(())
        })
        .await
    }

    /// What an expression is now.
    pub async fn query(&self, expression: &str) -> Result<Vec<Series>> {
        let answer: Answer = self.get("query", &[("query", expression)]).await?;
        Ok(answer.result)
    }

    /// What an expression was, from then until now, each `step` seconds.
    pub async fn query_range(
        &self,
        expression: &str,
        from: Timestamp,
        step: u32,
    ) -> Result<Vec<Series>> {
        let now = Timestamp::now();
        let arguments = [
            ("query", expression),
            ("start", &from.to_string()),
            ("end", &now.to_string()),
            ("step", &step.to_string()),
        ];
        let answer: Answer = self.get("query_range", &arguments).await?;
        Ok(answer.result)
    }

    /// The alerts that are pending or firing.
    pub async fn alerts(&self) -> Result<Vec<Alert>> {
        let answer: Alerts = self.get("alerts", &[]).await?;
        Ok(answer.alerts)
    }

    /// Waits until this alert fires with these labels.
    pub async fn wait_firing(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        limit: Duration,
    ) -> Result<Alert> {
        eventually(&format!("{name} {labels:?} fires"), limit, async || {
            let alerts = self.alerts().await?;
            let fires = |it: &&Alert| it.is(name, labels) && it.state == "firing";
            let found = alerts.iter().find(fires).cloned();
            found.with_context(|| format!("there are {alerts:#?}"))
        })
        .await
    }

    /// Waits until this alert is neither firing nor pending with these labels.
    pub async fn wait_resolved(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        limit: Duration,
    ) -> Result<()> {
        eventually(&format!("{name} {labels:?} resolves"), limit, async || {
            let alerts = self.alerts().await?;
            let left = alerts.iter().find(|it| it.is(name, labels));
            left.map_or(Ok(()), |alert| bail!("there is {alert:#?}"))
        })
        .await
    }

    /// Forgets what the series that this selects were until now. To a rule that looks back a day, the day is over.
    pub async fn forget(&self, selector: &str) -> Result<()> {
        let path = path("admin/tsdb/delete_series", &[("match[]", selector)]);
        let (status, words) = plain_http::send_to(self.port.number(), Method::POST, &path).await?;
        ensure!(status == StatusCode::NO_CONTENT, "{status}: {words}");
        Ok(())
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// A command that runs promtool, which comes with it.
    pub fn promtool(&self) -> Command {
        self.packages.command("promtool")
    }

    async fn get<T: DeserializeOwned>(&self, what: &str, arguments: &[(&str, &str)]) -> Result<T> {
        let (_, text) = plain_http::get(self.port.number(), &path(what, arguments)).await?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(answer["status"] == "success", "{arguments:?}: {text}");
        Ok(serde_json::from_value(answer["data"].take())?)
    }
}

#[derive(Deserialize)]
struct Answer {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Alerts {
    alerts: Vec<Alert>,
}

fn configuration(jobs: &[Job<'_>]) -> Value {
    let job = |job: &Job<'_>| {
        let ports = job.ports.iter();
        let targets: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        // A label `node` of the target, as some have it, says where the replica runs; `node` of a series says what it is about.
        let labels = json!({"cluster": CLUSTER, "node": "where-it-runs"});
        json!({
            "job_name": job.name,
            "honor_labels": true,
            "static_configs": [{"targets": targets, "labels": labels}],
        })
    };
    json!({
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": ["rules.json"],
        "scrape_configs": jobs.iter().map(job).collect::<Vec<_>>(),
    })
}

fn path(what: &str, arguments: &[(&str, &str)]) -> String {
    let arguments = arguments
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let arguments: Vec<_> = arguments.collect();
    format!("/api/v1/{what}?{}", arguments.join("&"))
}

/// Percent-encoded, but for what may stand anywhere in a URL.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_survives_its_way_through_a_url() {
        let arguments = [("query", "sum(a{b=~\"c|d\"}) > 0"), ("match[]", "ä")];
        let expected =
            "/api/v1/query?query=sum%28a%7Bb%3D~%22c%7Cd%22%7D%29%20%3E%200&match%5B%5D=%C3%A4";
        assert_eq!(path("query", &arguments), expected);
    }

    #[test]
    fn what_is_no_number_is_no_point() {
        let series =
            json!({"metric": {"a": "b"}, "values": [[1.5, "2"], [2.5, "NaN"], [3.5, "+Inf"]]});
        let series: Series = serde_json::from_value(series).expect("a series");
        assert_eq!(series.points(), [(1.5, 2.0), (3.5, f64::INFINITY)]);
    }
}
