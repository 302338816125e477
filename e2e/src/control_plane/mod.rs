//! A real Kubernetes control plane on this machine, up in seconds, without containers.
//!
//! etcd, API server, controller-manager, scheduler, external-attacher and a storage array, as child processes. Every lab has
//! its own directory, ports, store and certificate authority, so that several run side by side. All of it
//! ends with the process that started it; see [`fencing_testbed::process`].

mod backup;
mod clients;
mod components;
mod files;
pub mod pool;
mod reuse;
mod snapshot;
mod store;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tokio::time::sleep;

pub use self::{backup::Backup, clients::client, components::Component, files::Files};
use crate::load;
use crate::rights;
use crate::times::Times;
use crate::toolchain::{Programs, Toolchain};
use fencing_testbed::deadline;
use fencing_testbed::{
    pki::Authority,
    process::{Guard, Process, Signal},
};

/// How to set up a control plane. The defaults are for tests: short times, a store that is thrown away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Beginning of the name of the lab's directory, such as the test's name.
    pub name: String,
    /// The times of the kubelets of real machines; set together with the next three by [`Times::of_control_plane`].
    pub times: Times,
    /// `--node-monitor-period`; Kubernetes' default is 5 s.
    pub node_monitor_period: Duration,
    /// `--node-monitor-grace-period`: without a Lease or status for so long, a node's Ready is Unknown. Kubernetes' default is
    /// 50 s. Nodes must renew their Lease several times within it.
    pub node_monitor_grace: Duration,
    /// `--node-startup-grace-period`; Kubernetes' default is 60 s.
    pub node_startup_grace: Duration,
    /// `--attach-detach-reconcile-sync-period`; 60 s is Kubernetes' default.
    pub attach_detach_resync: Duration,
    /// Seconds for which a pod tolerates an unreachable or not-ready node; `None` is Kubernetes' default, 300.
    pub toleration_seconds: Option<u32>,
    /// Whether attach/detach detaches by force after 6 minutes, as Kubernetes does by default. Off here: that is
    /// a detach without proof, and the operator's documentation tells users to switch it off.
    pub force_detach_on_timeout: bool,
    /// Keeps the store in this directory instead of one that is removed at the end.
    pub store_directory: Option<PathBuf>,
    /// Controllers of the controller-manager that do not run, by name.
    pub controllers_off: Vec<&'static str>,
    /// Which programs have to be built before it starts.
    pub programs: Programs,
    /// Further command line arguments of components.
    pub extra_arguments: Vec<(Component, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "lab".to_owned(),
            times: Times::Fast,
            node_monitor_period: Duration::from_secs(1),
            node_monitor_grace: Duration::from_secs(6),
            node_startup_grace: Duration::from_secs(10),
            attach_detach_resync: Duration::from_secs(60),
            toleration_seconds: None,
            force_detach_on_timeout: false,
            store_directory: None,
            controllers_off: Vec::new(),
            programs: Programs::All,
            extra_arguments: Vec::new(),
        }
    }
}

impl Options {
    /// The defaults, with a name for the lab's directory.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

/// A running control plane. Dropping it ends all its processes.
pub struct ControlPlane {
    options: Options,
    toolchain: Toolchain,
    files: Files,
    authority: Authority,
    admin: kube::Client,
    /// Marks the store as this lab's.
    token: String,
    processes: Mutex<BTreeMap<Component, Process>>,
    /// Of the store and the API server.
    server_guard: Arc<Guard>,
    /// Of everything else, which ends with this use: controllers, storage, and what a lab starts beside them.
    guard: Arc<Guard>,
    /// The byte of the audit log at which this use begins.
    pub(crate) audit_begin: u64,
    /// Somebody has stopped or signalled a component.
    is_tampered: AtomicBool,
    startup: Duration,
}

impl ControlPlane {
    /// Builds the programs if need be and starts everything. Returns when pods can be created.
    pub async fn start(options: Options) -> Result<Self> {
        deadline::begin();
        load::wait_for_room().await;
        let toolchain = {
            let programs = options.programs;
            tokio::task::spawn_blocking(move || Toolchain::build(programs)).await??
        };
        let begin = Instant::now();
        let server_guard = Guard::start()?;
        let files = Files::make(&options.name, &server_guard)?;
        let authority = Authority::new(&format!("lab {}", options.name))?;
        files.write(&authority)?;
        let admin = clients::client(&files.kubeconfig("admin")).await?;
        let mut this = Self {
            token: uuid::Uuid::new_v4().to_string(),
            processes: Mutex::default(),
            startup: Duration::ZERO,
            options,
            toolchain,
            files,
            authority,
            admin,
            server_guard,
            guard: Guard::start()?,
            audit_begin: 0,
            is_tampered: AtomicBool::new(false),
        };
        this.start_component(Component::Etcd).await?;
        this.start_component(Component::ApiServer).await?;
        this.start_controllers().await?;
        this.create_csi_driver().await?;
        this.startup = begin.elapsed();
        Ok(this)
    }

    /// Starts everything that works on what the API server has, and returns when pods can be created.
    async fn start_controllers(&self) -> Result<()> {
        self.start_component(Component::CsiController).await?;
        self.start_component(Component::ControllerManager).await?;
        self.start_component(Component::Scheduler).await?;
        self.start_component(Component::CsiAttacher).await?;
        self.wait_for_service_account("default", "default").await
    }

    /// How long [`ControlPlane::start`] took, without building.
    pub fn startup(&self) -> Duration {
        self.startup
    }

    /// Where its files are.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Its programs.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// For further processes that are to end with this use of the control plane.
    pub fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// How it was set up.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Starts a component that is not running; for etcd and the API server, waits until it serves.
    pub async fn start_component(&self, component: Component) -> Result<()> {
        self.start_by(component, &self.options).await
    }

    /// Has the controller-manager run anew without these of its controllers, as the flag `--controllers` of an administrator would; without
    /// none: as it was.
    pub async fn run_without(&self, controllers: &[&'static str]) -> Result<()> {
        self.stop_component(Component::ControllerManager)?;
        let options = Options {
            controllers_off: controllers.to_vec(),
            ..self.options.clone()
        };
        self.start_by(Component::ControllerManager, &options).await
    }

    async fn start_by(&self, component: Component, options: &Options) -> Result<()> {
        ensure!(
            !self.lock().contains_key(&component),
            "{} is running",
            component.name()
        );
        let guard = match component {
            Component::Etcd | Component::ApiServer => &self.server_guard,
            _ => &self.guard,
        };
        let process = component
            .spec(&self.toolchain, &self.files, options)
            .spawn(guard)?;
        match component {
            Component::Etcd => {
                store::claim(&process, &self.files.socket("etcd.sock:0"), &self.token).await?
            }
            Component::ApiServer => self.wait_until_ready(&process).await?,
            _ => {}
        }
        self.lock().insert(component, process);
        Ok(())
    }

    /// Kills a component (SIGKILL) and returns when it is gone.
    pub fn stop_component(&self, component: Component) -> Result<()> {
        self.is_tampered.store(true, Ordering::Relaxed);
        let process = self.lock().remove(&component);
        process
            .with_context(|| format!("{} is not running", component.name()))?
            .kill()
    }

    /// Makes etcd forget its past: lists that go on from there have expired. The store is not for the next test then.
    pub async fn compact(&self) -> Result<()> {
        self.is_tampered.store(true, Ordering::Relaxed);
        store::compact(&self.files.socket("etcd.sock:0")).await
    }

    /// Starts again whatever has ended by itself, etcd and the API server excepted, as a kubelet does with the static pods of a control
    /// plane. Returns what that was.
    pub async fn revive(&self) -> Result<Vec<Component>> {
        let is_dead = |component: &Component, process: &mut Process| {
            let is_server = matches!(component, Component::Etcd | Component::ApiServer);
            !is_server && process.ended().is_some()
        };
        let dead: Vec<_> = self.lock().extract_if(.., is_dead).collect();
        for (component, _) in &dead {
            self.start_component(*component).await?;
        }
        Ok(dead.into_iter().map(|(component, _)| component).collect())
    }

    /// Sends a signal to a component; SIGSTOP and SIGCONT make it hang and go on.
    pub fn signal_component(&self, component: Component, signal: Signal) -> Result<()> {
        self.is_tampered.store(true, Ordering::Relaxed);
        let processes = self.lock();
        processes
            .get(&component)
            .with_context(|| format!("{} is not running", component.name()))?
            .signal(signal)
    }

    /// Fails, with the end of its log, if a component has ended without being asked to.
    pub fn check(&self) -> Result<()> {
        self.lock().values().try_for_each(Process::check)
    }

    async fn wait_until_ready(&self, process: &Process) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            process.check()?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            match self.admin.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > end => {
                    bail!(
                        "the API server is not ready: {error}; the end of its log:\n{}",
                        process.tail(15)
                    );
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        rights::record(self);
        self.guard.end();
        self.server_guard.end();
    }
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane")
            .field("url", &self.url())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
