//! moto, a model of AWS from PyPI that none of us wrote, with instances of one region: see `crates/testbed/moto/region.py`.
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
    paths::workspace,
    pki::write_private,
    ports::Port,
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
        let sources = workspace().join("crates/testbed/moto");
        let requirements = sources.join("requirements.txt");
        let python = move || pypi::python("moto", &requirements);
        let python = tokio::task::spawn_blocking(python).await??;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-moto-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
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

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
