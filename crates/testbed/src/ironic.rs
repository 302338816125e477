//! Ironic from PyPI, OpenStack's bare metal service, which none of us wrote: what Metal3 sits on.
//!
//! Its API and its conductor are one process, and its hardware type `redfish` speaks to sushy-tools' emulators ([`crate::sushy`]) before machines
//! of the lab. Nothing of it is replaced. See `crates/testbed/ironic/service.py` for how it is set up.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    bmc::BmcCa,
    eventually::eventually,
    https::{Client, client},
    paths::workspace,
    pki::write_private,
    ports::Port,
    process::{Guard, Process, Spec},
    pypi,
    sushy::Sushy,
};

/// How long it may take until it answers, or until it has read a new node. Both take some ten seconds; a laden machine takes longer.
const START: Duration = Duration::from_secs(180);
/// The microversion that baremetal-operator asks for at least is 1.89; this one has the fields that are read here.
const VERSION: &str = "1.95";

/// A running Ironic. It ends when dropped, and with the guard.
pub struct Ironic {
    url: String,
    ca: PathBuf,
    client: Client,
    process: Process,
    _port: Port,
    _scratch: TempDir,
}

impl Ironic {
    /// Starts it at this address. It reads the power of its nodes again after each period of `sync`, and turns them back to what it knows. Installs
    /// it first, if that has not been done, which takes a minute. Its log goes into `logs`.
    pub async fn start(
        address: IpAddr,
        sync: Duration,
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let requirements = sources().join("requirements.txt");
        let python = move || pypi::python("ironic", &requirements);
        let python = tokio::task::spawn_blocking(python).await??;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-ironic-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let served = ca.serving(&[address], &[])?;
        let (certificate, key) = served.write(scratch.path(), "ironic")?;
        let authority = scratch.path().join("ca.pem");
        fs::write(&authority, ca.pem())?;
        let port = Port::reserve()?;
        let settings = json!({
            "address": address, "port": port.number(), "certificate": certificate, "key": key, "directory": scratch.path(),
            "sync_seconds": sync.as_secs(),
        });
        let file = scratch.path().join("settings.json");
        write_private(&file, &settings.to_string())?;
        let process = Spec::new("ironic", python, &logs.join("ironic.log"))
            .args([sources().join("service.py"), file])
            // Neither byte code beside our sources nor a log that comes late.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .spawn(guard)?;
        let this = Self {
            url: format!("https://{}/v1", SocketAddr::new(address, port.number())),
            ca: authority,
            client: client(&ca.pem())?,
            process,
            _port: port,
            _scratch: scratch,
        };
        eventually("Ironic is up", START, async || {
            this.process.check()?;
            // The API answers before the conductor has its drivers.
            let drivers = this.get("/drivers").await?;
            ensure!(drivers["drivers"][0]["name"] == "redfish", "{drivers}");
            Ok(())
        })
        .await?;
        Ok(this)
    }

    /// Makes a node of this name, whose BMC is that emulator, and waits until its power was read.
    pub async fn enrol(&self, name: &str, bmc: &Sushy) -> Result<()> {
        let login = bmc.credentials();
        let node = json!({
            "driver": "redfish", "name": name,
            "driver_info": {
                "redfish_address": bmc.url(), "redfish_system_id": bmc.system_path(), "redfish_verify_ca": self.ca,
                "redfish_username": login.username, "redfish_password": login.password,
            },
        });
        self.ask(Method::POST, "/nodes", &node).await?.taken()?;
        let state = format!("/nodes/{name}/states/provision");
        let manage = json!({"target": "manage"});
        self.ask(Method::PUT, &state, &manage).await?.taken()?;
        eventually(&format!("{name} is manageable"), START, async || {
            let node = self.node(name).await?;
            ensure!(
                node["provision_state"] == "manageable" && node["power_state"].is_string(),
                "{node}"
            );
            Ok(())
        })
        .await
    }

    /// The node of this name, with all of its fields.
    pub async fn node(&self, name: &str) -> Result<Value> {
        self.get(&format!("/nodes/{name}")).await
    }

    /// Asks for `power on` or `power off` of the node of this name, and returns its answer: 202 where it is taken, 409 while the node is locked.
    pub async fn set_power(&self, name: &str, target: &str) -> Result<StatusCode> {
        let path = format!("/nodes/{name}/states/power");
        let target = json!({"target": target});
        Ok(self.ask(Method::PUT, &path, &target).await?.status)
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path, &Value::Null).await?.taken()
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Answer> {
        let what = format!("{method} {path}");
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("x-openstack-ironic-api-version", VERSION)
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        let response = self.client.request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { what, status, body })
    }
}

/// What it answered to which request.
struct Answer {
    what: String,
    status: StatusCode,
    body: Bytes,
}

impl Answer {
    fn taken(self) -> Result<Value> {
        if !self.status.is_success() {
            let text = String::from_utf8_lossy(&self.body);
            bail!("{}: {}: {text}", self.what, self.status);
        }
        Ok(serde_json::from_slice(&self.body).unwrap_or_default())
    }
}

/// The folder with our part: the requirements and the program that starts it.
fn sources() -> PathBuf {
    workspace().join("crates/testbed/ironic")
}
