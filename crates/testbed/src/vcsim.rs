//! vcsim, the vCenter of govmomi's simulator, which none of us wrote: see `crates/testbed/vcsim/main.go`.
//!
//! The vCenter of [`crate::cloud::vsphere`] only shows that the driver agrees with our reading of the API. This one has sessions, tasks, faults and
//! property collectors of its own; its VMs are its own too, unless it is started before machines of the lab. No vCenter runs here.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixStream},
};

use crate::{
    bmc::BmcCa,
    eventually::eventually,
    fetch::{self, run},
    moment::Moment,
    paths::workspace,
    pki::write_private,
    ports::Port,
    power::Power,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
};

/// How long it may take until it answers. It is up in a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);
/// User and password.
pub const LOGIN: [&str; 2] = ["fence", "s3cret & <more>"];

/// A running vCenter. It ends when dropped, and with the guard.
pub struct Vcsim {
    url: String,
    ca_pem: String,
    control: PathBuf,
    sockets: Vec<PowerSocket>,
    process: Process,
    _port: Port,
    _scratch: TempDir,
}

impl Vcsim {
    /// Starts a vCenter at this address, with VMs of these BIOS UUIDs, which run. Builds it first, if that has not been done.
    pub async fn start(
        address: IpAddr,
        uuids: &[&str],
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let scratch = scratch(guard)?;
        Self::with(address, uuids, Vec::new(), ca, (guard, logs), scratch).await
    }

    /// The same with machines of the lab as its VMs. A command switches the machine before the VM; a VM follows a machine that changes by itself
    /// within a tenth of a second.
    pub async fn before(
        address: IpAddr,
        machines: &[Arc<dyn Power>],
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let scratch = scratch(guard)?;
        let uuids: Vec<&str> = machines.iter().map(|it| it.system_uuid()).collect();
        let mut sockets = Vec::new();
        for power in machines {
            let directory = scratch.path().join(power.system_uuid());
            fs::create_dir(&directory)?;
            sockets.push(PowerSocket::open(&directory, Arc::clone(power))?);
        }
        Self::with(address, &uuids, sockets, ca, (guard, logs), scratch).await
    }

    async fn with(
        address: IpAddr,
        uuids: &[&str],
        sockets: Vec<PowerSocket>,
        ca: &BmcCa,
        (guard, logs): (&Arc<Guard>, &Path),
        scratch: TempDir,
    ) -> Result<Self> {
        let program = tokio::task::spawn_blocking(build).await??;
        let port = Port::reserve()?;
        let address = SocketAddr::new(address, port.number());
        let identity = ca.serving(&[address.ip()], &[])?;
        let (certificate, key) = identity.write(scratch.path(), "vcsim")?;
        let control = scratch.path().join("control.sock");
        let [user, password] = LOGIN;
        let settings = json!({
            "address": address, "certificate": certificate, "key": key, "user": user, "password": password,
            "control": control, "uuids": uuids, "sockets": sockets.iter().map(PowerSocket::path).collect::<Vec<_>>(),
        });
        let file = scratch.path().join("settings.json");
        write_private(&file, &settings.to_string())?;
        let process = Spec::new("vcsim", program, &logs.join("vcsim.log"))
            .args([file])
            .spawn(guard)?;
        eventually("vcsim listens", START, async || {
            process.check()?;
            TcpStream::connect(address).await?;
            ensure!(control.exists(), "it has no control socket yet");
            Ok(())
        })
        .await?;
        Ok(Self {
            url: format!("https://{address}"),
            ca_pem: ca.pem(),
            control,
            sockets,
            process,
            _port: port,
            _scratch: scratch,
        })
    }

    /// `https://ADDRESS:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority that signed its certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Sets a property: `vm 0 runtime.connectionState disconnected`, `host 0 runtime.connectionState notResponding`.
    pub async fn set(&self, line: &str) -> Result<()> {
        let mut stream = BufReader::new(UnixStream::connect(&self.control).await?);
        let line = format!("{line}\n");
        stream.get_mut().write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        ensure!(answer == "ok\n", "vcsim does not know {line}");
        Ok(())
    }

    /// What it did to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        let socket = self.sockets.get(machine);
        socket.map_or_else(Vec::new, PowerSocket::switched)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn scratch(guard: &Guard) -> Result<TempDir> {
    let scratch = tempfile::Builder::new()
        .prefix("nodefencing-vcsim-")
        .tempdir()?;
    guard.remove_at_end(scratch.path())?;
    Ok(scratch)
}

/// Builds it of the modules that `go.sum` pins. Blocks.
fn build() -> Result<PathBuf> {
    let sources = workspace().join("crates/testbed/vcsim");
    let read = |name: &str| fs::read(sources.join(name)).with_context(|| name.to_owned());
    let [main, module, sums] = [read("main.go")?, read("go.mod")?, read("go.sum")?];
    let version = run(Command::new("go").arg("version")).context("vcsim needs Go")?;
    let ingredients = [version.as_bytes(), &main, &module, &sums];
    let directory = fetch::once("vcsim", &ingredients, "vcsim's modules", |directory| {
        let mut build = Command::new("go");
        build.current_dir(&sources);
        build.args(["build", "-trimpath", "-mod=readonly", "-o"]);
        run(build.arg(directory).arg(".")).map(drop)
    })?;
    Ok(directory.join("vcsim"))
}
