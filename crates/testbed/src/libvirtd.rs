//! libvirtd, of which we wrote nothing, over mutual TLS, with a domain of libvirt's own test driver; and virsh beside the driver, as somebody else who
//! manages the same host.
//!
//! The test driver has no processes: its domain only has the states and reasons that libvirt gives to what is done to it. They live as long as one
//! connection to it is open. A daemon of root makes an empty directory below `/run`, and touches nothing else outside of its own.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::{
    debian::{self, Packages},
    eventually::eventually,
    fetch::run,
    moment::Moment,
    paths::workspace,
    pki::{Authority, Identity, User, write_private},
    ports::Port,
    power::Power,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
    sushy::Libvirt,
};

/// How long it may take until it listens. It is up in a second; a laden machine takes longer.
const START: Duration = Duration::from_secs(60);
/// Name and UUID of the domain that the test driver has.
pub const DOMAIN: &str = "test";
/// See [`DOMAIN`].
pub const UUID: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";

/// libvirt's daemon and its client, out of Debian's packages.
#[derive(Debug, Clone)]
pub struct Programs(Packages);

impl Programs {
    /// `None`: the test is to end here, and has been counted as skipped.
    pub async fn to_test(test: &str) -> Result<Option<Self>> {
        if !debian::available_to_test(test)? {
            return Ok(None);
        }
        let packages = ["libvirt-daemon", "libvirt-clients", "libvirt0"];
        let unpack = move || Packages::unpack("libvirtd", &packages);
        Ok(Some(Self(tokio::task::spawn_blocking(unpack).await??)))
    }
}

/// Machines of the lab as domains of libvirt's test driver: see `crates/testbed/libvirtd/domains.py`. It ends when dropped, and with the guard.
pub struct Domains {
    daemon: Libvirtd,
    relay: SocketAddr,
    sockets: Vec<PowerSocket>,
    _program: Process,
    _port: Port,
}

impl Domains {
    /// Defines them on the host, which has a log in `logs`, and starts them.
    pub async fn start(
        daemon: Libvirtd,
        libvirt: &Libvirt,
        machines: &[Arc<dyn Power>],
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let of = |name: &str| daemon.scratch.path().join(name);
        let (mut sockets, mut domains) = (Vec::new(), Vec::new());
        for power in machines {
            let directory = of(power.system_uuid());
            fs::create_dir(&directory)?;
            let socket = PowerSocket::open(&directory, Arc::clone(power))?;
            domains.push(json!({
                "name": power.name(), "uuid": power.system_uuid(), "socket": socket.path(),
            }));
            sockets.push(socket);
        }
        let ready = of("ready");
        let port = Port::reserve()?;
        let relay = SocketAddr::new(daemon.address.ip(), port.number());
        let pair = |at: SocketAddr| json!([at.ip(), at.port()]);
        let settings = json!({
            "uri": daemon.own_uri(), "domains": domains, "ready": ready, "host": pair(daemon.address), "relay": pair(relay),
        });
        let file = of("domains.json");
        write_private(&file, &settings.to_string())?;
        let program = workspace().join("crates/testbed/libvirtd/domains.py");
        let spec = Spec::new("domains", libvirt.python(), &logs.join("domains.log"));
        let environment = libvirt.environment();
        let process = environment
            .fold(spec.args([program, file]), |spec, (name, value)| {
                spec.env(name, value)
            })
            // Neither byte code beside our sources nor a log that comes late.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .env("HOME", daemon.scratch.path())
            .spawn(guard)?;
        eventually("the domains run", START, async || {
            process.check()?;
            ensure!(ready.exists(), "they are not defined");
            Ok(())
        })
        .await?;
        Ok(Self {
            daemon,
            relay,
            sockets,
            _program: process,
            _port: port,
        })
    }

    /// Where the operator finds the host.
    pub fn uri(&self) -> String {
        uri(self.relay)
    }

    /// A certificate of the host's authority for a client.
    pub fn client(&self) -> &Identity {
        self.daemon.client()
    }

    /// State and reason of the domain of this name, as virsh prints them.
    pub async fn state(&self, name: &str) -> Result<String> {
        self.daemon.virsh(&["domstate", "--reason", name]).await
    }

    /// What was done to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        let socket = self.sockets.get(machine);
        socket.map_or_else(Vec::new, PowerSocket::switched)
    }
}

fn uri(address: SocketAddr) -> String {
    format!("test+tls://{address}/default")
}

/// A running daemon. It ends when dropped, and with the guard.
pub struct Libvirtd {
    address: SocketAddr,
    ca_pem: String,
    client: Identity,
    programs: Programs,
    process: Process,
    _port: Port,
    scratch: TempDir,
}

impl Libvirtd {
    /// Starts it at this address. Its log goes into `logs`. `login`: what it asks for beside a certificate of its authority.
    pub async fn start(
        address: IpAddr,
        programs: Programs,
        login: &str,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let authority = Authority::new("the host's authority")?;
        Self::signed_by(&authority, address, programs, login, guard, logs).await
    }

    /// The same with certificates of this authority.
    pub async fn signed_by(
        authority: &Authority,
        address: IpAddr,
        programs: Programs,
        login: &str,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-libvirtd-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let port = Port::reserve()?;
        let server = authority.serving(&[address], &[])?;
        let client = authority.client(&User::new("fence", None))?;
        let (certificate, key) = server.write(scratch.path(), "server")?;
        // As clients of libvirt look for them.
        let ca = scratch.path().join("cacert.pem");
        fs::write(&ca, authority.pem())?;
        write_private(&scratch.path().join("clientcert.pem"), &client.certificate)?;
        write_private(&scratch.path().join("clientkey.pem"), &client.key)?;
        let empty = scratch.path().join("drivers");
        fs::create_dir(&empty)?;
        let directory = scratch.path().display();
        let settings = format!(
            "listen_tls = 1\nlisten_tcp = 0\nlisten_addr = \"{address}\"\ntls_port = \"{}\"\nauth_tls = \"{login}\"\n\
             key_file = \"{}\"\ncert_file = \"{}\"\nca_file = \"{}\"\nunix_sock_dir = \"{directory}\"\n\
             auth_unix_rw = \"none\"\nlog_outputs = \"1:stderr\"\nlog_level = 3\n\
             host_uuid = \"4c4c4544-0042-3510-8054-b4c04f4e4eff\"\n",
            port.number(),
            key.display(),
            certificate.display(),
            ca.display(),
        );
        let file = scratch.path().join("libvirtd.conf");
        write_private(&file, &settings)?;
        let daemon = programs.0.directory().join("usr/sbin/libvirtd");
        let spec = Spec::new("libvirtd", daemon, &logs.join("libvirtd.log"));
        let spec = spec.args(["--listen".into(), "--config".into(), file]);
        let spec = spec.args(["--pid-file".into(), scratch.path().join("pid")]);
        let environment = programs.0.environment();
        let process = environment
            .into_iter()
            .fold(spec, |spec, (name, value)| spec.env(name, value))
            // Without the drivers of hypervisors, and whatever they would look for on this host.
            .env("LIBVIRT_DRIVER_DIR", &empty)
            .env("LC_ALL", "C")
            .env("HOME", scratch.path())
            .env("XDG_RUNTIME_DIR", scratch.path())
            .spawn(guard)?;
        let this = Self {
            address: SocketAddr::new(address, port.number()),
            ca_pem: authority.pem(),
            client,
            programs,
            process,
            _port: port,
            scratch,
        };
        eventually("libvirtd listens", START, async || {
            this.process.check()?;
            TcpStream::connect(this.address).await?;
            Ok(())
        })
        .await?;
        Ok(this)
    }

    /// `test+tls://ADDRESS:PORT/default`.
    pub fn uri(&self) -> String {
        uri(self.address)
    }

    /// The authority that signed its certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A certificate of the same authority for a client.
    pub fn client(&self) -> &Identity {
        &self.client
    }

    /// The same for a client that has the files of this daemon.
    fn own_uri(&self) -> String {
        format!("{}?pkipath={}", self.uri(), self.scratch.path().display())
    }

    /// What virsh says to this, over a connection of its own to the same host.
    pub async fn virsh(&self, words: &[&str]) -> Result<String> {
        let uri = self.own_uri();
        let mut command = self.programs.0.command("virsh");
        let home = self.scratch.path().to_owned();
        let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
        let said = tokio::task::spawn_blocking(move || {
            let command = command.env("LC_ALL", "C").env("HOME", home);
            run(command.args(["--quiet", "--connect", &uri]).args(words))
        });
        Ok(said.await??.trim().to_owned())
    }
}
