//! The operator under test, run as its users run it: its own binary, the service account and RBAC of `deploy/`, never an
//! administrator.
//!
//! The lab knows nothing of the operator but its flags, its environment and its HTTP endpoints. It can be killed, stopped,
//! frozen and started again at any moment, and can be pointed at a proxy instead of the API server.

mod program;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::program::Program;
pub use self::program::{binary, plugins};
use crate::{clocks::Clocks, control_plane::ControlPlane, image::Image, plain_http};
use fencing_testbed::{
    ports::Port,
    process::{Guard, Process, Signal},
    usage::Usage,
};

/// Where `deploy/` puts the operator.
pub const NAMESPACE: &str = "node-fencing-system";
/// The service account that it has there.
pub const SERVICE_ACCOUNT: &str = "node-fencing-operator";

/// How to run the operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of its log and of its pod.
    pub name: String,
    /// The URL at which it finds the API server, if a proxy is in front of it.
    pub server: Option<String>,
    /// The node that it believes to run on, which it never fences.
    pub node_name: String,
    /// The arguments of its pod, where a pod has them; otherwise the lab's own.
    pub of_its_pod: Option<Vec<String>>,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
    /// What `ulimit` of the shell that starts its binary is given, such as `-n 1024`.
    pub ulimit: Option<&'static str>,
    /// The directory with the fence agents that its binary finds in `/usr/sbin`, in place of whatever is there. Needs root.
    pub agents: Option<PathBuf>,
    /// The image whose entry point runs in a container, in place of the binary that cargo builds.
    pub image: Option<Arc<Image>>,
    /// Whether [`Operator::start`] waits until it is ready. A test that keeps the API server from it cannot wait.
    pub wait_until_ready: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "operator".to_owned(),
            server: None,
            // None of the lab's machines: it runs beside them.
            node_name: "lab-operator-host".to_owned(),
            of_its_pod: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            ulimit: None,
            agents: None,
            image: None,
            wait_until_ready: true,
        }
    }
}

impl Options {
    /// What starts its binary.
    fn starters(&self) -> Vec<OsString> {
        let agents = self.agents.as_deref().map(program::with_agents);
        let limit = self.ulimit.map(program::limited);
        [agents, limit].into_iter().flatten().flatten().collect()
    }
}

/// The operator, running or not. Dropping it kills it.
#[derive(Debug)]
pub struct Operator {
    options: Options,
    program: Program,
    log: PathBuf,
    port: Port,
    guard: Arc<Guard>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
}

impl Operator {
    /// Builds the operator if need be, and starts it against a control plane on which `deploy/` has been applied.
    pub async fn start(control_plane: &ControlPlane, options: Options) -> Result<Self> {
        let server = options.server.as_deref();
        let kubeconfig =
            control_plane.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT, server);
        let kubeconfig = kubeconfig.await?;
        let guard = Arc::clone(control_plane.guard());
        let image = options.image.clone();
        let program = tokio::task::spawn_blocking(move || Program::new(image, kubeconfig, &guard));
        let this = Self {
            program: program.await??,
            log: control_plane.files().log(&options.name),
            port: Port::reserve()?,
            guard: Arc::clone(control_plane.guard()),
            state: Mutex::default(),
            options,
        };
        this.start_again().await?;
        Ok(this)
    }

    /// Starts a new process after the last one has ended, in the same pod, as a kubelet would.
    pub async fn start_again(&self) -> Result<()> {
        self.spawn()?;
        if self.options.wait_until_ready {
            self.ready(Duration::from_secs(30)).await
        } else {
            Ok(())
        }
    }

    fn spawn(&self) -> Result<()> {
        let mut state = self.lock();
        ensure!(
            state
                .process
                .as_ref()
                .is_none_or(|process| process.ended().is_some()),
            "the operator is running"
        );
        let lab = || {
            // The lab's BMCs are on loopback, where the operator sends no credentials unless it is told to. Of TEST-NET-1 is the address at
            // which it knocks to learn whether somebody answers for everybody: that knock would leave this host.
            let denied = ["--deny-device-cidr", "192.0.2.0/24"];
            let devices = ["--allow-device-cidr", "127.0.0.0/8"];
            let devices = devices.into_iter().chain(denied);
            let rest = ["--namespace", NAMESPACE, "--log-format", "json"];
            devices.chain(rest).map(str::to_owned).collect()
        };
        let bind = format!("127.0.0.1:{}", self.port.number());
        let mut arguments: Vec<String> = self.options.of_its_pod.clone().unwrap_or_else(lab);
        arguments.extend_from_slice(&self.options.arguments);
        // Last, for the last counts: pods have a network of their own each, and the lab has one.
        arguments.extend(["--http-bind", &bind].map(str::to_owned));
        let mut environment: Vec<_> = [
            ("NODE_NAME", self.options.node_name.as_str()),
            ("POD_NAME", &self.options.name),
            ("POD_NAMESPACE", NAMESPACE),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        environment.extend_from_slice(&self.options.environment);
        let name = &self.options.name;
        let spec = self.program.spec(
            name,
            &self.log,
            &arguments,
            &environment,
            self.options.starters(),
        )?;
        state.process = Some(spec.spawn(&self.guard)?);
        Ok(())
    }

    /// Waits until /readyz says so.
    pub async fn ready(&self, limit: Duration) -> Result<()> {
        self.wait_for("/readyz", limit).await
    }

    /// Waits until /livez says so: the process serves, whatever it can reach.
    pub async fn alive(&self, limit: Duration) -> Result<()> {
        self.wait_for("/livez", limit).await
    }

    async fn wait_for(&self, path: &str, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        loop {
            self.check()?;
            let words = match plain_http::get(self.port.number(), path).await {
                Ok((StatusCode::OK, _)) => return Ok(()),
                Ok((status, text)) => format!("{status} {text}"),
                Err(error) => format!("{error:#}"),
            };
            if Instant::now() > end {
                let tail = self.tail(15);
                bail!(
                    "{path} of the operator does not answer OK within {limit:?}: {words}\n{tail}"
                );
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Fails, with the end of its log, if it has ended.
    pub fn check(&self) -> Result<()> {
        self.with(Process::check)
    }

    /// SIGKILL: what the kernel's out-of-memory killer or a node's power loss does.
    pub fn kill(&self) -> Result<()> {
        self.with(Process::kill)
    }

    /// SIGTERM, and waits for its end. Fails if it takes longer than `limit` or does not end well.
    pub async fn stop(&self, limit: Duration) -> Result<()> {
        self.with(|process| process.signal(Signal::TERM))?;
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.with(|process| Ok(process.ended()))? {
                ensure!(
                    status.success(),
                    "the operator ended with {status} on SIGTERM:\n{}",
                    self.tail(15)
                );
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "the operator has not ended within {limit:?} of SIGTERM"
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// SIGSTOP: it stands still in the middle of whatever it does, and cannot notice.
    pub fn pause(&self) -> Result<()> {
        self.with(Process::pause)
    }

    /// SIGCONT: it goes on as if nothing had happened.
    pub fn resume(&self) -> Result<()> {
        self.with(|process| process.signal(Signal::CONT))
    }

    /// Its clocks, for a test to move while it is paused.
    pub fn clocks(&self) -> Result<Clocks> {
        self.with(Clocks::of)
    }

    /// Is there a process?
    pub fn is_running(&self) -> bool {
        self.lock()
            .process
            .as_ref()
            .is_some_and(|process| process.ended().is_none())
    }

    /// The port of 127.0.0.1 on which its HTTP server listens.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Gets a path of its HTTP server, such as `/metrics`.
    pub async fn get(&self, path: &str) -> Result<(StatusCode, String)> {
        plain_http::get(self.port.number(), path).await
    }

    /// Has it the Lease, as its metrics say?
    pub async fn leads(&self) -> Result<bool> {
        Ok(self.metric("node_fencing_leader").await? > 0.0)
    }

    /// The value of a metric without labels.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let (_, metrics) = self.get("/metrics").await?;
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("no metric {name}"))?;
        Ok(value.parse()?)
    }

    /// What anybody on its host can read of it: its command line and its environment.
    pub fn shown_by_the_kernel(&self) -> Result<Vec<u8>> {
        let pid = self.with(|process| Ok(process.pid()))?.as_raw_nonzero();
        let mut shown = Vec::new();
        for what in ["cmdline", "environ"] {
            shown.extend(std::fs::read(format!("/proc/{pid}/{what}"))?);
        }
        Ok(shown)
    }

    /// The process that runs now.
    pub fn pid(&self) -> Result<i32> {
        Ok(self
            .with(|process| Ok(process.pid()))?
            .as_raw_nonzero()
            .get())
    }

    /// What it uses.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.with(|process| Ok(process.pid()))?.as_raw_nonzero())
    }

    /// How many files it has open, and how many threads it has.
    pub fn holds(&self) -> Result<(u64, u64)> {
        let pid = self.with(|process| Ok(process.pid()))?.as_raw_nonzero();
        let count = |what: &str| -> Result<u64> {
            let entries = std::fs::read_dir(format!("/proc/{pid}/{what}"))?;
            Ok(entries.count() as u64)
        };
        Ok((count("fd")?, count("task")?))
    }

    /// How many files it may have open: the soft limit, and the hard one.
    pub fn open_files_max(&self) -> Result<(String, String)> {
        let pid = self.with(|process| Ok(process.pid()))?.as_raw_nonzero();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
        let mut lines = limits.lines();
        let limit = lines.find_map(|line| line.strip_prefix("Max open files"));
        let mut limit = limit.into_iter().flat_map(str::split_whitespace);
        let (soft, hard) = limit.next().zip(limit.next()).context("no limit")?;
        Ok((soft.to_owned(), hard.to_owned()))
    }

    /// Its log, all runs one after the other: JSON lines, and whatever a panic prints.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The lines of its log that are JSON.
    pub fn log_lines(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.log)?;
        Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }

    fn tail(&self, lines: usize) -> String {
        self.lock()
            .process
            .as_ref()
            .map(|process| process.tail(lines))
            .unwrap_or_default()
    }

    fn with<T>(&self, act: impl FnOnce(&Process) -> Result<T>) -> Result<T> {
        act(self
            .lock()
            .process
            .as_ref()
            .context("the operator has not been started")?)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
