//! moto, a model of AWS from PyPI that none of us wrote, with instances of one region, which may be machines of the lab: see
//! `crates/testbed/moto/region.py`.
//!
//! The region of [`crate::cloud::aws`] only shows that the driver agrees with our reading of the API. This one checks signatures and IAM's policies
//! by itself, gives keys for a role, and has states and errors of its own. No AWS is asked.

use std::{
    collections::HashMap,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
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

/// How long it may take until it answers. It is up in some seconds; a laden machine takes longer.
const START: Duration = Duration::from_secs(120);
/// Its region.
pub const REGION: &str = "eu-central-1";

/// What was made in it.
#[derive(Debug, Deserialize)]
struct Made {
    users: HashMap<String, [String; 2]>,
    role: String,
    instances: Vec<[String; 2]>,
}

/// A running region. It ends when dropped, and with the guard.
pub struct Moto {
    url: String,
    ca_pem: String,
    control: PathBuf,
    made: Made,
    sockets: Vec<PowerSocket>,
    process: Process,
    _port: Port,
    _scratch: TempDir,
}

impl Moto {
    /// Starts a region at this address, with so many instances, which run. Installs moto first, if that has not been done. Its log goes into
    /// `logs`.
    pub async fn start(
        address: IpAddr,
        instances: usize,
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let instances = vec![Value::Null; instances];
        let scratch = scratch(guard)?;
        Self::with(address, instances, Vec::new(), ca, (guard, logs), scratch).await
    }

    /// The same with machines of the lab as its instances, each with the private address that it has. An instance follows its machine within a
    /// tenth of a second: one whose machine goes off by itself was shut down by its guest.
    pub async fn before(
        address: IpAddr,
        machines: &[(Arc<dyn Power>, IpAddr)],
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let scratch = scratch(guard)?;
        let (mut instances, mut sockets) = (Vec::new(), Vec::new());
        for (power, private) in machines {
            let directory = scratch.path().join(power.system_uuid());
            fs::create_dir(&directory)?;
            let socket = PowerSocket::open(&directory, Arc::clone(power))?;
            instances.push(json!({"address": private, "socket": socket.path()}));
            sockets.push(socket);
        }
        Self::with(address, instances, sockets, ca, (guard, logs), scratch).await
    }

    async fn with(
        address: IpAddr,
        instances: Vec<Value>,
        sockets: Vec<PowerSocket>,
        ca: &BmcCa,
        (guard, logs): (&Arc<Guard>, &Path),
        scratch: TempDir,
    ) -> Result<Self> {
        let sources = workspace().join("crates/testbed/moto");
        let requirements = sources.join("requirements.txt");
        let python = move || pypi::python("moto", &requirements);
        let python = tokio::task::spawn_blocking(python).await??;
        let port = Port::reserve()?;
        let address = SocketAddr::new(address, port.number());
        let identity = ca.serving(&[address.ip()], &[])?;
        let (certificate, key) = identity.write(scratch.path(), "moto")?;
        let authority = scratch.path().join("ca.pem");
        fs::write(&authority, ca.pem())?;
        let control = scratch.path().join("control.sock");
        let made = scratch.path().join("made.json");
        let settings = json!({
            "address": address.ip(), "port": address.port(), "certificate": certificate, "key": key, "ca": authority,
            "region": REGION, "instances": instances, "made": made, "control": control,
        });
        let file = scratch.path().join("settings.json");
        write_private(&file, &settings.to_string())?;
        let process = Spec::new("moto", python, &logs.join("moto.log"))
            .args([sources.join("region.py"), file])
            // Neither byte code beside our sources nor a log that comes late.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .spawn(guard)?;
        eventually("moto judges requests", START, async || {
            process.check()?;
            ensure!(control.exists(), "it has no control socket yet");
            Ok(())
        })
        .await?;
        Ok(Self {
            url: format!("https://{address}"),
            ca_pem: ca.pem(),
            control,
            made: serde_json::from_slice(&fs::read(made)?)?,
            sockets,
            process,
            _port: port,
            _scratch: scratch,
        })
    }

    /// `https://ADDRESS:PORT`, of EC2 and of STS.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority that signed its certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// ID and secret of the key of a user: `fence` may do all that the driver does, `reader` only read, `stranger` neither.
    pub fn key(&self, user: &str) -> Result<[&str; 2]> {
        let key = self.made.users.get(user).context("no such user")?;
        Ok(key.each_ref().map(String::as_str))
    }

    /// ARN of the role that may do all that the driver does.
    pub fn role(&self) -> &str {
        &self.made.role
    }

    /// ID and private address of the instance of this place, counted from 0.
    pub fn instance(&self, place: usize) -> Result<[&str; 2]> {
        let instance = self.made.instances.get(place).context("no such instance")?;
        Ok(instance.each_ref().map(String::as_str))
    }

    /// Sets the reason of the last change of an instance's state.
    pub async fn set_reason(&self, place: usize, reason: &str) -> Result<()> {
        let [id, _] = self.instance(place)?;
        self.control(&json!([id, "reason", reason])).await
    }

    /// Calls EC2 as its administrator, by boto3's names. What is null stands for the instance.
    pub async fn call(&self, place: usize, method: &str, arguments: Value) -> Result<()> {
        let [id, _] = self.instance(place)?;
        self.control(&json!([id, "call", method, arguments])).await
    }

    async fn control(&self, line: &Value) -> Result<()> {
        let mut stream = BufReader::new(UnixStream::connect(&self.control).await?);
        let line = format!("{line}\n");
        stream.get_mut().write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        ensure!(answer == "ok\n", "moto does not know {line}");
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
        .prefix("nodefencing-moto-")
        .tempdir()?;
    guard.remove_at_end(scratch.path())?;
    Ok(scratch)
}
