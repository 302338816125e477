//! The service that the page about driver `webhook` shows, as it stands there, with a program that switches machines of a file each.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::{
    bmc::BmcCa,
    eventually::eventually,
    paths::workspace,
    pki::write_private,
    ports::Port,
    process::{Guard, Process, Spec},
};

/// How long it may take until it answers. It is up in half a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);
/// What opens it.
pub const TOKEN: &str = "8c1f0b6e-token-of-the-example";
/// A machine is a file with its state in it.
const TOOL: &str = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\ncase $1 in\nstatus) cat \"$2\" ;;\n*) echo \"$1\" > \"$2\" ;;\nesac\n";

/// A running service with one machine, which is on. It ends when dropped, and with the guard.
pub struct Example {
    url: String,
    machine: PathBuf,
    process: Process,
    _port: Port,
    _scratch: TempDir,
}

/// What the page shows.
pub fn script() -> Result<String> {
    let page = fs::read_to_string(workspace().join("docs/how-to/webhook.md"))?;
    let block = page.split_once("```python\n").map(|(_, rest)| rest);
    let block = block.and_then(|rest| rest.split_once("```")).map(|it| it.0);
    block.map(str::to_owned).context("the page shows no script")
}

impl Example {
    /// Starts this script at this address, for the machine of this Node with this system UUID. `client_ca`: clients need a certificate of it.
    pub async fn start(
        script: &str,
        address: IpAddr,
        (node, uuid): (&str, &str),
        (ca, client_ca): (&BmcCa, Option<&BmcCa>),
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-webhook-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let port = Port::reserve()?;
        let address = SocketAddr::new(address, port.number());
        let identity = ca.serving(&[address.ip()], &[])?;
        let (certificate, key) = identity.write(scratch.path(), "service")?;
        let at = |name: &str| scratch.path().join(name);
        let machine = at(uuid);
        fs::write(&machine, "on\n")?;
        fs::write(at("service.py"), script)?;
        fs::write(at("machines.json"), json!({node: uuid}).to_string())?;
        fs::write(at("tool"), TOOL)?;
        fs::set_permissions(at("tool"), fs::Permissions::from_mode(0o755))?;
        let spec = Spec::new("service.py", "python3", &logs.join("fence.log"))
            .args([at("service.py")])
            .args([address.ip().to_string(), address.port().to_string()])
            .args([certificate, key, at("machines.json"), at("tool")])
            .env("FENCE_TOKEN", TOKEN)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let spec = match client_ca {
            Some(ca) => {
                write_private(&at("clients.pem"), &ca.pem())?;
                spec.env("FENCE_CLIENT_CA", at("clients.pem"))
            }
            None => spec,
        };
        let process = spec.spawn(guard)?;
        eventually("the example listens", START, async || {
            process.check()?;
            TcpStream::connect(address).await?;
            Ok(())
        })
        .await?;
        Ok(Self {
            url: format!("https://{address}/v1"),
            machine,
            process,
            _port: port,
            _scratch: scratch,
        })
    }

    /// `https://ADDRESS:PORT/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What the machine's file says.
    pub fn state(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.machine)?.trim().to_owned())
    }

    /// Makes the machine's file say this.
    pub fn set_state(&self, state: &str) -> Result<()> {
        Ok(fs::write(&self.machine, state)?)
    }
}
