//! `fence_ipmilan` and `ipmitool`, out of Debian's packages.

use anyhow::{Result, ensure};
use fencing_testbed::bench::emulators::Emulated;
use fencing_testbed::bmc::Credentials;
use fencing_testbed::debian::Packages;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Pause between two looks at how much memory is used.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The unpacked programs.
pub struct Programs {
    fence_agents: Packages,
    ipmitool: Packages,
}

impl Programs {
    /// Fetches what is not there yet.
    pub async fn fetch() -> Result<Self> {
        let unpack = || -> Result<Self> {
            Ok(Self {
                fence_agents: Packages::unpack("fence-agents", &["fence-agents"])?,
                ipmitool: Packages::unpack("ipmitool", &["ipmitool"])?,
            })
        };
        tokio::task::spawn_blocking(unpack).await?
    }

    /// `ipmitool chassis power status`.
    pub async fn status(&self, bmc: &Emulated, suite: u32) -> Result<()> {
        let login = Credentials::default();
        let mut command: Command = self.ipmitool.command("ipmitool").into();
        command
            .args(["-I", "lanplus", "-L", "OPERATOR", "-C", &suite.to_string()])
            .args(["-H", &bmc.address.ip().to_string()])
            .args(["-p", &bmc.address.port().to_string()])
            .args(["-U", &login.username, "-P", &login.password])
            .args(["chassis", "power", "status"]);
        said(&command.output().await?, "Chassis Power is on")
    }

    /// `fence_ipmilan` with `action=off`, its options on standard input as Pacemaker gives them; all others are its defaults.
    pub async fn fence(&self, bmc: &Emulated, running: &Running) -> Result<()> {
        let login = Credentials::default();
        let root = self.fence_agents.directory();
        let options = [
            ("action", "off".to_owned()),
            ("ip", bmc.address.ip().to_string()),
            ("ipport", bmc.address.port().to_string()),
            ("username", login.username),
            ("password", login.password),
            ("lanplus", "1".to_owned()),
            ("cipher", "17".to_owned()),
            ("privlvl", "operator".to_owned()),
            ("ipmitool_path", self.ipmitool_path()),
        ];
        let options = options
            .map(|(key, value)| format!("{key}={value}\n"))
            .concat();
        let libraries = [
            root.join("usr/share/fence"),
            root.join("usr/lib/python3/dist-packages"),
        ];
        let mut child = Command::new(root.join("usr/sbin/fence_ipmilan"))
            .envs(self.fence_agents.environment())
            .env("PYTHONPATH", std::env::join_paths(libraries)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let _running = child.id().map(|pid| running.enter(pid));
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(options.as_bytes()).await?;
        }
        said(&child.wait_with_output().await?, "Success: Powered OFF")
    }

    /// The packages' own, or the host's where apt has found that it is there.
    fn ipmitool_path(&self) -> String {
        let own = self.ipmitool.directory().join("usr/bin/ipmitool");
        own.to_string_lossy().into_owned()
    }
}

fn said(output: &Output, words: &str) -> Result<()> {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && stdout.contains(words),
        "{}: `{}` {}",
        output.status,
        stdout.trim(),
        stderr.trim()
    );
    Ok(())
}

/// The processes that run now.
#[derive(Debug, Clone, Default)]
pub struct Running(Arc<Mutex<Vec<u32>>>);

/// One of them.
pub struct Entered {
    running: Running,
    pid: u32,
}

impl Running {
    fn enter(&self, pid: u32) -> Entered {
        self.with(|all| all.push(pid));
        Entered {
            running: self.clone(),
            pid,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks again and again at how much memory they and their children have between them, each shared page counted once: the
    /// most so far is in `peak`. Ends when it is dropped.
    pub async fn watch(&self, peak_bytes: &AtomicU64) {
        loop {
            let now: u64 = self.with(|all| all.iter().map(|pid| tree_bytes(*pid)).sum());
            peak_bytes.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.running.with(|all| all.retain(|pid| *pid != self.pid));
    }
}

/// The proportional set size of a process and all below it. Source: proc_pid_smaps(5). Nothing of a process that has just ended.
fn tree_bytes(pid: u32) -> u64 {
    let directory = Path::new("/proc").join(pid.to_string());
    let rollup = std::fs::read_to_string(directory.join("smaps_rollup")).unwrap_or_default();
    let kibibytes = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kibibytes =
        kibibytes.and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let children = directory
        .join("task")
        .join(pid.to_string())
        .join("children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let children = children.split_whitespace().flat_map(str::parse);
    kibibytes.unwrap_or_default() * 1024 + children.map(tree_bytes).sum::<u64>()
}
