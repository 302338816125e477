//! sushy-tools' Redfish emulator, which none of us wrote, wired to a machine of the lab.
//!
//! A BMC of our own only shows that the operator agrees with our reading of the specification. This one is what
//! OpenStack's Ironic is tested with. Its answers and delays are its own: a reset is answered with 204, and the machine
//! stays on for up to 11 seconds more. One thing is replaced, its idea of power: see `crates/testbed/sushy/emulator.py`.
//!
//! Its libvirt driver, which most people run, has its say about a domain that was saved: see [`Libvirt`].

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    bmc::{BmcCa, Credentials},
    debian::{self, Packages},
    fetch::run,
    https::{Leaf, client},
    moment::Moment,
    paths::workspace,
    pki::write_private,
    ports::Port,
    power::Power,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
    pypi,
    skip::or_skip,
};

/// How long it may take until the emulator answers. It is up in a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);

/// libvirt with its binding for Python, out of Debian's packages: sushy-tools' libvirt driver on a domain of libvirt's own test driver.
#[derive(Debug, Clone)]
pub struct Libvirt {
    packages: Packages,
    /// The Python that the binding is for, with sushy-tools.
    python: PathBuf,
}

impl Libvirt {
    /// `None`: the test is to end here, and has been counted as skipped.
    pub async fn to_test(test: &str) -> Result<Option<Self>> {
        if !debian::available_to_test(test)? {
            return Ok(None);
        }
        let unpack = || Packages::unpack("libvirt", &["python3-libvirt", "libvirt0"]);
        let this = Self {
            packages: tokio::task::spawn_blocking(unpack).await??,
            python: tokio::task::spawn_blocking(python).await??,
        };
        // Debian's binding is one for the Python of this Debian.
        let mut import = Command::new(&this.python);
        import
            .envs(this.environment())
            .args(["-c", "import libvirt"]);
        let works = run(&mut import).map(drop);
        let works = works.map_err(|error| format!("{error:#}"));
        Ok(or_skip(works, "libvirt for Python", test)?.then_some(this))
    }

    /// The Python that can import the binding, in this environment.
    pub(crate) fn python(&self) -> &Path {
        &self.python
    }

    /// See [`Self::python`].
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let modules = self
            .packages
            .directory()
            .join("usr/lib/python3/dist-packages");
        let modules = ("PYTHONPATH", modules.display().to_string());
        self.packages.environment().into_iter().chain([modules])
    }
}

fn python() -> Result<PathBuf> {
    pypi::python("sushy", &sources().join("requirements.txt"))
}

/// A running emulator. It ends when dropped, and with the guard.
pub struct Sushy {
    address: SocketAddr,
    power: Arc<dyn Power>,
    credentials: Credentials,
    ca_pem: String,
    fingerprint: String,
    process: Process,
    spec: Spec,
    guard: Arc<Guard>,
    socket: PowerSocket,
    _port: Option<Port>,
    _scratch: TempDir,
}

impl Sushy {
    /// Starts the emulator of a machine at this address: on port 443, or on any free one if that is taken or not
    /// allowed. Installs sushy-tools first, if that has not been done. Its log goes into `logs`. With libvirt, the machine is a domain, and is saved
    /// when it loses its power.
    pub async fn start(
        address: IpAddr,
        power: Arc<dyn Power>,
        credentials: Credentials,
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
        libvirt: Option<&Libvirt>,
    ) -> Result<Self> {
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
            "libvirt": libvirt.is_some(),
        });
        let file = scratch.path().join("settings.json");
        write_private(&file, &settings.to_string())?;
        let log = logs.join(format!("sushy-{}.log", power.name()));
        let arguments: [PathBuf; 2] = [sources().join("emulator.py"), file];
        let environment = libvirt.into_iter().flat_map(Libvirt::environment);
        let spec = Spec::new("sushy", python, &log).args(arguments);
        let spec = environment
            .fold(spec, |spec, (name, value)| spec.env(name, value))
            // Neither byte code beside our sources nor a log that comes late.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1");
        let process = spec.clone().spawn(guard)?;
        let this = Self {
            address,
            power,
            credentials,
            ca_pem: ca.pem(),
            fingerprint: Leaf::new(&identity)?.fingerprint().to_owned(),
            process,
            spec,
            guard: Arc::clone(guard),
            socket,
            _port: port,
            _scratch: scratch,
        };
        this.wait_until_it_answers().await?;
        Ok(this)
    }

    /// Starts it again, at its address, after its process was killed.
    pub async fn restart(&mut self) -> Result<()> {
        self.process = self.spec.clone().spawn(&self.guard)?;
        self.wait_until_it_answers().await
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

    /// Turns the machine on, as anybody with its credentials may.
    pub async fn turn_on(&self) -> Result<()> {
        let Credentials { username, password } = &self.credentials;
        let account = STANDARD.encode(format!("{username}:{password}"));
        let action = format!("{}/Actions/ComputerSystem.Reset", self.system_path());
        let on = http::Request::post(format!("{}{action}", self.url()))
            .header("Authorization", format!("Basic {account}"))
            .header("Content-Type", "application/json")
            .body(Full::<Bytes>::from(json!({"ResetType": "On"}).to_string()))?;
        let response = client(&self.ca_pem)?.request(on).await?;
        ensure!(response.status().is_success(), "{}", response.status());
        Ok(())
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
    workspace().join("crates/testbed/sushy")
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
