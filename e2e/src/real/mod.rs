//! Real machines: kubelet, containerd, runc and a CSI driver in namespaces of their own.
//!
//! A machine is a process: PID 1 of a PID namespace, with mounts, network, host name and control groups of its own
//! (`e2e/real-node/init.sh`). Its kubelet is upstream's, and its containers are real processes that write to a real
//! mount. A power cut is the SIGKILL of PID 1: the kernel then ends every process and undoes every mount of the
//! machine within some tens of milliseconds, and nothing in it gets to say goodbye. What a disk would keep (the
//! directories of kubelet and containerd, logs) is kept for the next boot; `/run` is not, and the boot ID is new.
//!
//! Needs root and Debian's containerd and runc; see [`available`].

mod boot;
mod cable;
mod darkness;
mod files;
mod groups;
mod host;
mod processes;
mod room;
mod status;
mod suspension;
mod uplink;
mod wire;

use std::{
    collections::BTreeMap,
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use self::{boot::Running, cable::Cable, darkness::Dark, groups::Groups, uplink::Uplink};
pub use self::{host::available, processes::Usage, room::Room, wire::Wire};
use crate::{
    control_plane::ControlPlane,
    csi,
    machine::{Ailment, Boot, Machine},
    toolchain::Toolchain,
    volume::{Volumes, journal::Happening},
};
use fencing_testbed::{
    moment::Moment,
    power::Power,
    process::{Guard, Spec},
};

/// How long after the first pod runs the network plugin comes, on a boot whose pods are to run before the node is Ready.
const LATE_NETWORK: Duration = Duration::from_secs(3);

/// What a kubelet says that got no inotify instance (see [`Room`]).
const NO_INOTIFY: &str = "couldn't initialize inotify: too many open files";

/// A machine with a real kubelet. Dropping it cuts its power.
pub struct RealMachine {
    name: String,
    system_uuid: String,
    /// Its files, in the lab's directory.
    directory: PathBuf,
    /// The API server's, on 127.0.0.1 outside and inside.
    port: u16,
    environment: Vec<(&'static str, String)>,
    groups: Groups,
    cable: Cable,
    uplink: Uplink,
    status: status::Refusal,
    volumes: Arc<Volumes>,
    guard: Arc<Guard>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    dark: Option<Dark>,
    suspended: bool,
    ailment: Ailment,
    next_boot: Boot,
    boot_id: String,
    boots: u32,
}

impl RealMachine {
    /// A machine of that name, switched off, whose Node will have these labels beside those that every kubelet sets.
    /// Fails where [`available`] does.
    pub fn new(
        control_plane: &ControlPlane,
        volumes: &Arc<Volumes>,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Arc<Self>> {
        let files = control_plane.files();
        let directory = files.directory().join("machines").join(name);
        let lab = files.directory().file_name().unwrap_or_default();
        let groups = Groups::new(&format!("{}-{name}", lab.to_string_lossy()))?;
        let system_uuid = uuid::Uuid::new_v4().to_string();
        let kubelet = files::kubelet(groups.root(), control_plane.options());
        files::write(&directory, &system_uuid, &kubelet)?;

        let guard = Arc::clone(control_plane.guard());
        guard.at_end(&clean_up(&directory, &groups))?;
        let uplink = Uplink::reserve(&guard)?;
        let toolchain = control_plane.toolchain();
        let kubeconfig = control_plane.node_kubeconfig(name, None)?;
        let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
        let text = |path: &Path| path.display().to_string();
        let mut environment = vec![
            ("NODE", name.to_owned()),
            ("LABELS", labels.collect::<Vec<_>>().join(",")),
            ("MACHINE", text(&directory)),
            ("BIN", text(toolchain.directory())),
            ("IMAGE", text(&image(toolchain)?)),
            ("KUBECONFIG", text(&kubeconfig)),
            ("VOLUMES", text(volumes.root())),
            ("ATTACHMENTS", text(control_plane.array().socket())),
            ("DRIVER", csi::DRIVER.to_owned()),
        ];
        environment.extend(host::runtime()?.environment());
        environment.extend(uplink.environment());
        let url: http::Uri = control_plane.url().parse()?;
        let port = url.port_u16().context("the API server's URL has no port")?;
        let admin = control_plane.kubeconfig_for_admin();
        Ok(Arc::new(Self {
            name: name.to_owned(),
            system_uuid,
            directory,
            port,
            environment,
            groups,
            cable: Cable::new(),
            uplink,
            status: status::Refusal::new(toolchain, &admin, name),
            volumes: Arc::clone(volumes),
            guard,
            state: Mutex::default(),
        }))
    }

    /// The InternalIP of its Node: this host reaches it while the machine has power, and nobody else ever.
    pub fn address(&self) -> Ipv4Addr {
        self.uplink.address()
    }

    /// What it costs the host; nothing if it is off.
    pub fn usage(&self) -> Usage {
        let state = self.lock();
        let running = state.running.as_ref();
        running.map_or_else(Usage::default, |running| processes::usage(running.init()))
    }

    /// Where the logs of its last boot are: console, containerd, CSI driver and kubelet.
    pub fn logs(&self) -> PathBuf {
        self.boot_logs(self.lock().boots)
    }

    /// Kills the kubelet and nothing else; it is started again at once, as systemd would.
    pub fn restart_kubelet(&self) {
        if let Some(running) = &self.lock().running {
            processes::signal_kubelet(running.init(), Signal::KILL);
        }
    }

    fn boot_logs(&self, boot: u32) -> PathBuf {
        self.directory.join(format!("boot-{boot}"))
    }

    fn power_on(&self, state: &mut State) -> Result<()> {
        let boot = std::mem::take(&mut state.next_boot);
        self.status.set(boot.status_refused)?;
        state.boots += 1;
        state.boot_id = uuid::Uuid::new_v4().to_string();
        let logs = self.boot_logs(state.boots);
        fs::create_dir_all(&logs)?;
        let boot_id = format!("{}\n", state.boot_id);
        fs::write(self.directory.join("boot_id"), boot_id)?;
        // What hangs, hangs no more after a reboot. A pulled cable stays pulled.
        state.ailment = Ailment {
            partitioned: state.ailment.partitioned,
            ..Ailment::default()
        };
        remove(&self.hang_file())?;
        // Here and not at the power cut, because it takes longer than that.
        self.groups.remove()?;
        self.groups.create()?;
        self.end_darkness(state);
        self.uplink.clear();

        let at = Moment::now();
        let spec = self.init_process(&boot, &logs);
        let init_file = self.init_file();
        let running = Running::start(spec, &self.guard, &init_file, &self.cable, self.port)?;
        self.uplink.plug(!self.cable.is_pulled())?;
        state.running = Some(running);
        let (node, boot) = (self.name.clone(), state.boot_id.clone());
        let journal = self.volumes.journal();
        journal.record(at, Happening::PowerOn { node, boot });
        Ok(())
    }

    fn power_off(&self, state: &mut State) -> Result<()> {
        let Some(running) = state.running.take() else {
            return Ok(());
        };
        drop(running.cut()?);
        state.suspended = false;
        self.is_off(state)
    }

    /// No process of it is left: what is known of the boot that has ended.
    fn is_off(&self, state: &State) -> Result<()> {
        self.warn_if_starved(state.boots);
        let (node, boot) = (self.name.clone(), state.boot_id.clone());
        let journal = self.volumes.journal();
        journal.record(Moment::now(), Happening::PowerOff { node, boot });
        Ok(remove(&self.init_file())?)
    }

    /// Says so if the kubelet of this boot ran without its plugins: what its node did then is no finding.
    fn warn_if_starved(&self, boot: u32) {
        let log = self.boot_logs(boot).join("kubelet.log");
        if fs::read_to_string(&log).is_ok_and(|log| log.contains(NO_INOTIFY)) {
            eprintln!(
                "lab: the kubelet of {} ran without its plugins, and so without volumes: {NO_INOTIFY} \
                 (raise fs.inotify.max_user_instances, or run fewer at a time); see {}",
                self.name,
                log.display()
            );
        }
    }

    /// PID 1, in namespaces of its own. If `unshare` is killed, the kernel kills PID 1.
    fn init_process(&self, boot: &Boot, logs: &Path) -> Spec {
        let network = if boot.ready_needs_daemonset.is_some() {
            "daemonset".to_owned()
        } else if boot.pods_before_ready {
            format!("late:{}", LATE_NETWORK.as_secs())
        } else {
            "ready".to_owned()
        };
        let namespaces = ["--mount", "--pid", "--fork", "--uts", "--ipc", "--net"];
        let spec = Spec::new(&self.name, "unshare", &logs.join("console.log"))
            .args(namespaces)
            .args(["--kill-child=SIGKILL"])
            .args([host::script("init.sh")])
            .env("BOOT_LOGS", logs)
            .env("NETWORK", network)
            .env("KUBELET_DELAY", boot.delay.as_secs_f64().to_string());
        let environment = self.environment.iter();
        environment.fold(spec, |spec, (key, value)| spec.env(key, value))
    }

    fn init_file(&self) -> PathBuf {
        self.directory.join("init.pid")
    }

    fn hang_file(&self) -> PathBuf {
        self.directory.join("unmount-hung")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Power for RealMachine {
    fn name(&self) -> &str {
        &self.name
    }

    fn system_uuid(&self) -> &str {
        &self.system_uuid
    }

    fn is_on(&self) -> bool {
        let state = self.lock();
        state.running.is_some() && !state.suspended
    }

    fn set_power(&self, on: bool) {
        let mut state = self.lock();
        let result = match (on, state.running.is_some()) {
            (true, true) if state.suspended => self.resume(&mut state),
            (false, true) if state.suspended => Ok(()),
            (true, false) => self.power_on(&mut state),
            (false, true) => self.power_off(&mut state),
            _ => Ok(()),
        };
        drop(state);
        // A BMC cannot be told, and a machine in an unknown state is no ground to test on.
        result.unwrap_or_else(|error| {
            panic!(
                "failed to switch {} {}: {error:#}",
                self.name,
                if on { "on" } else { "off" }
            )
        });
    }
}

impl Machine for RealMachine {
    fn kind(&self) -> &'static str {
        "real"
    }

    fn boot_id(&self) -> String {
        self.lock().boot_id.clone()
    }

    fn ail(&self, ailment: Ailment) {
        let mut state = self.lock();
        state.ailment = ailment;
        let done = self.suffer(&state);
        done.unwrap_or_else(|error| panic!("failed to make {} ail: {error:#}", self.name));
    }

    fn go_dark(&self) {
        let mut state = self.lock();
        let done = self.go_dark_now(&mut state);
        done.unwrap_or_else(|error| panic!("{} does not go dark: {error:#}", self.name));
    }

    fn suspend(&self) {
        let mut state = self.lock();
        let done = self.suspend_now(&mut state);
        done.unwrap_or_else(|error| panic!("failed to suspend {}: {error:#}", self.name));
    }

    fn next_boot(&self, boot: Boot) {
        self.lock().next_boot = boot;
    }
}

impl Drop for RealMachine {
    fn drop(&mut self) {
        let mut state = self.lock();
        self.end_darkness(&mut state);
        let ended = self
            .power_off(&mut state)
            .and_then(|()| self.groups.remove());
        if let Err(error) = ended {
            eprintln!("lab: {}: {error:#}", self.name);
        }
        // The logs stay with the lab's; images and mount points are of no interest to anybody.
        for part in ["containerd", "kubelet"] {
            let _ = fs::remove_dir_all(self.directory.join("disk").join(part));
        }
    }
}

/// The OCI archive with the one image there is. The program that runs in it packs itself.
fn image(toolchain: &Toolchain) -> Result<PathBuf> {
    let archive = toolchain.directory().join("writer.tar");
    if !archive.exists() {
        let fresh = tempfile::NamedTempFile::new_in(toolchain.directory())?;
        let status = Command::new(toolchain.program("writer"))
            .arg("image")
            .arg(fresh.path())
            .status();
        ensure!(
            status.context("failed to run writer")?.success(),
            "writer could not make an image of itself"
        );
        fresh.persist(&archive)?;
    }
    Ok(archive)
}

/// What the guard runs if the lab cannot: the machine is being killed with the lab, and leaves control groups behind.
fn clean_up(directory: &Path, groups: &Groups) -> String {
    let init = directory.join("init.pid");
    let dark = format!(
        "for try in $(seq 500); do kill -0 $(cat '{}') || break; sleep 0.01; done",
        init.display()
    );
    format!("({dark}; {}) 2>/dev/null", groups.removal_command())
}

fn remove(file: &Path) -> io::Result<()> {
    fs::remove_file(file).or_else(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            Ok(())
        } else {
            Err(error)
        }
    })
}
