//! sushy-tools' Redfish emulator, which none of us wrote, wired to a machine of the lab.
//!
//! A BMC of our own only shows that the operator agrees with our reading of the specification. This one is what
//! OpenStack's Ironic is tested with. Its answers and delays are its own: a reset is answered with 204, and the machine
//! stays on for up to 11 seconds more. One thing is replaced, its idea of power: see `e2e/sushy/emulator.py`.

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    bmc::{BmcCa, Credentials},
    https::{Leaf, client},
    machine::Power,
    moment::Moment,
    pki::write_private,
    ports::Port,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
    pypi,
    toolchain::workspace,
};

/// How long it may take until the emulator answers. It is up in a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);

/// A running emulator. It ends when dropped, and with the guard.
pub struct Sushy {
    address: SocketAddr,
    power: Arc<dyn Power>,
    credentials: Credentials,
    ca_pem: String,
    fingerprint: String,
    process: Process,
    socket: PowerSocket,
    _port: Option<Port>,
    _scratch: TempDir,
}

impl Sushy {
    /// Starts the emulator of a machine at this address: on port 443, or on any free one if that is taken or not
    /// allowed. Installs sushy-tools first, if that has not been done. Its log goes into `logs`.
    pub async fn start(
        address: IpAddr,
        power: Arc<dyn Power>,
        credentials: Credentials,
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let python = || pypi::python("sushy", &sources().join("requirements.txt"));
        let python = tokio::task::spawn_blocking(python).await??;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-sushy-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let (address, port) = free(address)?;
        let identity = ca.serving(&[address.ip()], &[])?;
        let (certificate, key) = identity.write(scratch.path(), "sushy")?;

        let socket = PowerSocket::open(scratch.path(), power.clone())?;

        let settings = json!({
            "address": address.ip(),
            "port": address.port(),
            "certificate": certificate,
            "key": key,
            "directory": scratch.path(),
            "socket": socket.path(),
            "uuid": power.system_uuid(),
            "name": power.name(),
            "username": credentials.username,
            "password": credentials.password,
        });
        let file = scratch.path().join("settings.json");
        write_private(&file, &settings.to_string())?;
        let log = logs.join(format!("sushy-{}.log", power.name()));
        let arguments: [PathBuf; 2] = [sources().join("emulator.py"), file];
        let process = Spec::new("sushy", python, &log)
            .args(arguments)
            // Neither byte code beside our sources nor a log that comes late.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .spawn(guard)?;
        let this = Self {
            address,
            power,
            credentials,
            ca_pem: ca.pem(),
            fingerprint: Leaf::new(&identity)?.fingerprint().to_owned(),
            process,
            socket,
            _port: port,
            _scratch: scratch,
        };
        this.wait_until_it_answers().await?;
        Ok(this)
    }

    async fn wait_until_it_answers(&self) -> Result<()> {
        let client = client(&self.ca_pem)?;
        let end = Instant::now() + START;
        loop {
            self.process.check()?;
            let root = http::Request::get(format!("{}/redfish/v1/", self.url()))
                .body(Full::<Bytes>::default())?;
            let answered = tokio::time::timeout(Duration::from_secs(5), client.request(root)).await;
            match answered {
                Ok(Ok(response)) if response.status().is_success() => return Ok(()),
                other => ensure!(
                    Instant::now() < end,
                    "sushy-tools does not answer: {other:?}; the end of its log:\n{}",
                    self.process.tail(15)
                ),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `https://address`, with the port unless it is 443.
    pub fn url(&self) -> String {
        match self.address {
            address if address.port() == 443 => format!("https://{}", address.ip()),
            address => format!("https://{address}"),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path of its machine's ComputerSystem.
    pub fn system_path(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.power.system_uuid())
    }

    /// Who may use it.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The authority that signed its certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// SHA-256 of its certificate (DER), 64 lower-case hex digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// What it did to the machine: when, and whether on or off.
    pub fn switched(&self) -> Vec<(Moment, bool)> {
        self.socket.switched()
    }

    /// Its process, whose log holds every request that it received.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// The folder with our part: the requirements and the program that starts the emulator.
fn sources() -> PathBuf {
    workspace().join("e2e/sushy")
}

/// An address that the emulator can bind. The port is given back in between; only a stranger to the lab could take it.
fn free(address: IpAddr) -> Result<(SocketAddr, Option<Port>)> {
    let preferred = SocketAddr::new(address, 443);
    if TcpListener::bind(preferred).is_ok() {
        return Ok((preferred, None));
    }
    let port = Port::reserve()?;
    Ok((SocketAddr::new(address, port.number()), Some(port)))
}
