//! fakepve, a Proxmox VE cluster from PyPI that none of us wrote, with machines of the lab as its VMs.
//!
//! The cluster of [`crate::cloud::proxmox`] only shows that the driver agrees with our reading of the API. This one has locks, HA, quorum, tasks and
//! offline nodes of its own: see `crates/testbed/fakepve/cluster.py`. No Proxmox VE itself runs here.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixStream},
};

use crate::{
    bmc::BmcCa,
    eventually::eventually,
    moment::Moment,
    paths::workspace,
    pki::write_private,
    ports::Port,
    power::Power,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
    pypi,
};

/// How long it may take until it answers. It is up in a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);
/// ID and secret of the API token.
pub const TOKEN: [&str; 2] = ["root@pam!fence", "s3cret-token"];
/// The VMID of the first machine; the others follow.
pub const FIRST_VM: u32 = 101;

/// A running cluster. It ends when dropped, and with the guard.
pub struct FakePve {
    url: String,
    ca_pem: String,
    control: PathBuf,
    sockets: Vec<PowerSocket>,
    process: Process,
    _port: Port,
    _scratch: TempDir,
}

impl FakePve {
    /// Starts a cluster of the nodes `pve1`, `pve2` and `pve3` at this address, with these machines as VMs of the first two in turn. Installs
    /// fakepve first, if that has not been done. Its log goes into `logs`.
    pub async fn start(
        address: IpAddr,
        machines: &[Arc<dyn Power>],
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let sources = workspace().join("crates/testbed/fakepve");
        let requirements = sources.join("requirements.txt");
        let python = move || pypi::python("fakepve", &requirements);
        let python = tokio::task::spawn_blocking(python).await??;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-fakepve-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let port = Port::reserve()?;
        let address = SocketAddr::new(address, port.number());
        let identity = ca.serving(&[address.ip()], &[])?;
        let (certificate, key) = identity.write(scratch.path(), "fakepve")?;
        let mut sockets = Vec::new();
        let mut vms = Vec::new();
        for (number, power) in (FIRST_VM..).zip(machines) {
            let directory = scratch.path().join(number.to_string());
            fs::create_dir(&directory)?;
            let socket = PowerSocket::open(&directory, Arc::clone(power))?;
            vms.push(json!({
                "vmid": number,
                "name": power.name(),
                "node": if number % 2 == 1 { "pve1" } else { "pve2" },
                "uuid": power.system_uuid(),
                "socket": socket.path(),
            }));
            sockets.push(socket);
        }
        let control = scratch.path().join("control.sock");
        let [token, secret] = TOKEN;
        let settings = json!({
            "address": address.ip(), "port": address.port(), "certificate": certificate, "key": key,
            "token": token, "secret": secret, "control": control, "machines": vms,
        });
        let file = scratch.path().join("settings.json");
        write_private(&file, &settings.to_string())?;
        let process = Spec::new("fakepve", python, &logs.join("fakepve.log"))
            .args([sources.join("cluster.py"), file])
            // Neither byte code beside our sources nor a log that comes late.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .spawn(guard)?;
        eventually("fakepve listens", START, async || {
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

    /// Sets a field of a VM: `lock`, `ha_state`, `stop_secs`.
    pub async fn set(&self, vm: u32, field: &str, value: Value) -> Result<()> {
        self.control(&json!(["vm", vm, field, value])).await
    }

    /// Calls a method of the cluster: `lose_quorum`, `set_node_offline`.
    pub async fn call(&self, method: &str, arguments: &[&str]) -> Result<()> {
        let mut line = vec!["call", method];
        line.extend(arguments);
        self.control(&json!(line)).await
    }

    async fn control(&self, line: &Value) -> Result<()> {
        let mut stream = BufReader::new(UnixStream::connect(&self.control).await?);
        let line = format!("{line}\n");
        stream.get_mut().write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        ensure!(answer == "ok\n", "fakepve does not know {line}");
        Ok(())
    }

    /// What it did to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        self.sockets
            .get(machine)
            .map_or_else(Vec::new, PowerSocket::switched)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
