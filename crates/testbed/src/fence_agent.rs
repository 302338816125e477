//! A fence agent of our own, a program in a directory of its own, and ClusterLabs' agents out of Debian's package.
//!
//! Ours (`crates/testbed/fence_agent/fake.py`) behaves as their common library does, or lies, hangs, floods or leaves children behind. Theirs is
//! what judges ours, and what users run.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::Result;
use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    debian::Packages, fetch::run, moment::Moment, power::Power, power_socket::PowerSocket,
};

/// The name of the agent: one that is reviewed.
pub const NAME: &str = "fence_ipmilan";

/// An agent of ours, and the machine behind it. Gone when dropped.
pub struct FakeAgent {
    directory: TempDir,
    socket: PowerSocket,
    address: Ipv4Addr,
}

/// What one run of it saw.
#[derive(Debug, Clone, Deserialize)]
pub struct AgentRun {
    /// What it was asked to do.
    pub action: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
    /// Its standard input.
    pub input: String,
    /// Its process ID.
    pub pid: i32,
}

impl FakeAgent {
    /// One that behaves like this, which `fake.py` explains: `honest` as the real ones do.
    pub fn new(machine: Arc<dyn Power>, manner: &str) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("fence-agent-").tempdir()?;
        let socket = PowerSocket::open(directory.path(), machine)?;
        executable(
            &directory.path().join(NAME),
            include_str!("../fence_agent/fake.py"),
        )?;
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let agent = Self {
            directory,
            socket,
            address: [127, 85, high, low].into(),
        };
        agent.behave(manner)?;
        Ok(agent)
    }

    /// From now on it behaves like this.
    pub fn behave(&self, manner: &str) -> Result<()> {
        let new = self.directory.path().join("manner.new");
        fs::write(&new, manner)?;
        Ok(fs::rename(&new, self.directory.path().join("manner"))?)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of its device, which no other has. Nobody is there, and nobody is asked.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// When it switched the machine, and whether on.
    pub fn switched(&self) -> Vec<(Moment, bool)> {
        self.socket.switched()
    }

    /// Its runs, in order.
    pub fn runs(&self) -> Vec<AgentRun> {
        let text = fs::read_to_string(self.directory.path().join("runs")).unwrap_or_default();
        let runs = text.lines().map(serde_json::from_str);
        runs.collect::<Result<_, _>>().unwrap_or_default()
    }

    /// The children that it has started, once it has.
    pub fn children(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.directory.path().join("children")).unwrap_or_default();
        text.split_whitespace().flat_map(str::parse).collect()
    }
}

/// Does this process run, a dead one that nobody has reaped aside?
#[must_use]
pub fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Debian's agents, unpacked, in a directory where each is called as there.
pub struct DebianAgents {
    directory: TempDir,
}

impl DebianAgents {
    /// Unpacks them if that has not been done. Blocks.
    pub fn unpack() -> Result<Self> {
        let agents = Packages::unpack("fence-agents", &["fence-agents"])?;
        let ipmitool = Packages::unpack("ipmitool", &["ipmitool"])?;
        let directory = tempfile::Builder::new().prefix("fence-agents-").tempdir()?;
        let root = agents.directory();
        let libraries = std::env::join_paths([
            root.join("usr/share/fence"),
            root.join("usr/lib/python3/dist-packages"),
        ])?;
        let mut exports = format!("export PYTHONPATH='{}'\n", libraries.to_string_lossy());
        let of = [agents.environment(), ipmitool.environment()];
        let libraries = of.iter().map(|[_, (_, value)]| value.as_str());
        let libraries: Vec<&str> = libraries.collect();
        exports += &format!("export LD_LIBRARY_PATH='{}'\n", libraries.join(":"));
        let program = root.join("usr/sbin").join(NAME);
        let tool: PathBuf = ipmitool.directory().join("usr/bin/ipmitool");
        // The package is not installed, so that the agent has to be shown where its tool is: no user of the driver can do that.
        let script = format!(
            "#!/bin/sh\n{exports}{{ cat; echo ipmitool_path='{}'; }} | '{}'\n",
            tool.display(),
            program.display()
        );
        executable(&directory.path().join(NAME), &script)?;
        Ok(Self { directory })
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Another process writes it: a child of ours that is between fork and exec would hold it open for writing, and then it cannot be run.
fn executable(file: &Path, text: &str) -> Result<()> {
    let source = file.with_extension("text");
    fs::write(&source, text)?;
    let mut install = Command::new("install");
    run(install.args(["-m", "755"]).args([&source, file])).map(drop)
}
