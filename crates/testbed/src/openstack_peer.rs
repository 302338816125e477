//! Keystone and Nova from PyPI, which none of us wrote, with machines of the lab as Nova's instances.
//!
//! The cloud of [`crate::cloud::openstack`] only shows that the driver agrees with our reading of the API. These are the services themselves, with
//! their own tokens, access rules, states, conflicts and instance actions; only the hypervisor is played (`crates/testbed/openstack/compute.py`).

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Request, Response, request::Builder};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::{
    bmc::BmcCa,
    eventually::eventually,
    https::{Client, client},
    moment::Moment,
    paths::workspace,
    pki::write_private,
    ports::Port,
    power::Power,
    power_socket::PowerSocket,
    process::{Guard, Process, Spec},
    pypi,
};

/// How long it may take until each of them answers. They are up in six seconds; a laden machine takes longer.
const START: Duration = Duration::from_secs(120);
/// How long a state may take.
const CHANGE: Duration = Duration::from_secs(60);
/// The password of the administrator, and of the project's owner.
const PASSWORD: &str = "s3cret-of-people";

/// A running cloud. It ends when dropped, and with the guard.
pub struct OpenstackPeer {
    auth_url: String,
    nova: String,
    ca_pem: String,
    client: Client,
    /// Of the project's owner.
    token: String,
    facts: Value,
    control: PathBuf,
    sockets: Vec<PowerSocket>,
    identity: Process,
    compute: Process,
    _ports: [Port; 2],
    _scratch: TempDir,
}

impl OpenstackPeer {
    /// Starts a cloud at this address, with these machines as instances of one project on one host. An instance has the UUID of its machine.
    /// Installs both services first, if that has not been done, which takes a minute. Their logs go into `logs`.
    pub async fn start(
        address: IpAddr,
        machines: &[Arc<dyn Power>],
        ca: &BmcCa,
        guard: &Arc<Guard>,
        logs: &Path,
    ) -> Result<Self> {
        let requirements = sources().join("requirements.txt");
        let python = move || pypi::python("openstack", &requirements);
        let python = tokio::task::spawn_blocking(python).await??;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-openstack-")
            .tempdir()?;
        guard.remove_at_end(scratch.path())?;
        let of = |name: &str| scratch.path().join(name);
        let served = ca.serving(&[address], &[])?;
        let (certificate, key) = served.write(scratch.path(), "openstack")?;
        fs::write(of("ca.pem"), ca.pem())?;
        let mut sockets = Vec::new();
        let mut instances = Vec::new();
        for power in machines {
            let directory = of(power.system_uuid());
            fs::create_dir(&directory)?;
            let socket = PowerSocket::open(&directory, Arc::clone(power))?;
            instances.push(json!({
                "name": power.name(), "uuid": power.system_uuid().to_lowercase(), "socket": socket.path(),
            }));
            sockets.push(socket);
        }
        let ports = [Port::reserve()?, Port::reserve()?];
        let [keystone, nova] = ports
            .each_ref()
            .map(|port| SocketAddr::new(address, port.number()));
        let (auth_url, nova_url) = (
            format!("https://{keystone}/v3"),
            format!("https://{nova}/v2.1"),
        );
        let (facts, control) = (of("facts.json"), of("control.sock"));
        let common = |at: SocketAddr| {
            json!({
                "address": at.ip(), "port": at.port(), "certificate": certificate, "key": key, "ca": of("ca.pem"),
                "directory": scratch.path(), "keystone": auth_url, "nova": nova_url, "password": PASSWORD,
                "facts": facts, "control": control, "machines": instances,
            })
        };
        let run = |name: &str, at: SocketAddr| -> Result<Process> {
            let file = of(&format!("{name}.json"));
            write_private(&file, &common(at).to_string())?;
            Spec::new(name, &python, &logs.join(format!("openstack-{name}.log")))
                .args([sources().join(format!("{name}.py")), file])
                // Neither byte code beside our sources nor a log that comes late.
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("PYTHONUNBUFFERED", "1")
                .spawn(guard)
        };
        let until = async |process: &Process, there: &Path| {
            let what = format!("{} is up", process.name());
            let up = eventually(&what, START, async || {
                process.check()?;
                ensure!(there.exists(), "{} is not there", there.display());
                Ok(())
            });
            up.await
                .with_context(|| format!("the end of its log:\n{}", process.tail(15)))
        };
        let identity = run("identity", keystone)?;
        until(&identity, &facts).await?;
        let compute = run("compute", nova)?;
        until(&compute, &control).await?;
        let client = client(&ca.pem())?;
        let token = login(&client, &auth_url).await?;
        Ok(Self {
            facts: serde_json::from_slice(&fs::read(&facts)?)?,
            client,
            token,
            ca_pem: ca.pem(),
            nova: nova_url,
            auth_url,
            control,
            sockets,
            identity,
            compute,
            _ports: ports,
            _scratch: scratch,
        })
    }

    /// Keystone's URL.
    pub fn auth_url(&self) -> &str {
        &self.auth_url
    }

    /// The authority that signed the certificate of both, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// ID and secret of an application credential: `fence`, which may read instances and call their actions; `no_commands` and `no_instances`, each
    /// without one of these rights; `admin`; and `revoked`, which is none after [`Self::revoke`].
    pub fn credential(&self, name: &str) -> Result<[String; 2]> {
        serde_json::from_value(self.facts[name].clone()).with_context(|| name.to_owned())
    }

    /// Deletes the application credential, as its owner.
    pub async fn revoke(&self, name: &str) -> Result<()> {
        let [id, _] = self.credential(name)?;
        let owner = self.facts["owner"].as_str().unwrap_or_default();
        let url = format!(
            "{}/users/{owner}/application_credentials/{id}",
            self.auth_url
        );
        self.ask(Method::DELETE, &url, &Value::Null).await.map(drop)
    }

    /// Calls an action of an instance, such as `{"pause": null}`, as the owner of the project.
    pub async fn act(&self, instance: &str, action: &Value) -> Result<()> {
        let url = format!("{}/servers/{instance}/action", self.nova);
        self.ask(Method::POST, &url, action).await.map(drop)
    }

    /// Calls an action, and waits until the instance is in this `vm_state` without a task.
    pub async fn act_until(&self, instance: &str, action: &Value, state: &str) -> Result<()> {
        self.act(instance, action).await?;
        self.until(instance, state).await
    }

    /// Waits until the instance is in this `vm_state` without a task.
    pub async fn until(&self, instance: &str, state: &str) -> Result<()> {
        let url = format!("{}/servers/{instance}", self.nova);
        eventually(&format!("{instance} is {state}"), CHANGE, async || {
            let server = self.ask(Method::GET, &url, &Value::Null).await?;
            let server = &server["server"];
            let is_idle = server["OS-EXT-STS:task_state"].is_null();
            ensure!(
                is_idle && server["OS-EXT-STS:vm_state"] == state,
                "it is {server}"
            );
            Ok(())
        })
        .await
    }

    /// Starts or ends the service of the compute host. What is sent to one that has ended is carried out once it is back.
    pub async fn set_compute(&self, is_up: bool) -> Result<()> {
        let mut stream = BufReader::new(UnixStream::connect(&self.control).await?);
        let line = if is_up { b"up\n".as_slice() } else { b"down\n" };
        stream.get_mut().write_all(line).await?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        ensure!(
            answer == "ok\n",
            "it answers {answer:?}; the end of its log:\n{}",
            self.compute.tail(15)
        );
        Ok(())
    }

    /// What it did to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        let socket = self.sockets.get(machine);
        socket.map_or_else(Vec::new, PowerSocket::switched)
    }

    /// Logins that Keystone has answered.
    pub fn logins(&self) -> Result<usize> {
        let log = fs::read_to_string(self.identity.log())?;
        Ok(log.matches("\"POST /v3/auth/tokens").count())
    }

    /// Nova's process.
    pub fn process(&self) -> &Process {
        &self.compute
    }

    /// Asks one of them as the owner of the project.
    async fn ask(&self, method: Method, url: &str, body: &Value) -> Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("x-auth-token", &self.token)
            .header("openstack-api-version", "compute 2.84");
        let body = send(&self.client, request, body).await?.into_body();
        let body = body.collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// A token of the project's owner.
async fn login(client: &Client, auth_url: &str) -> Result<String> {
    let domain = json!({"id": "default"});
    let user = json!({"name": "owner", "domain": domain, "password": PASSWORD});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "cluster", "domain": domain}},
    }});
    let request = Request::post(format!("{auth_url}/auth/tokens"));
    let response = send(client, request, &body).await?;
    let token = response.headers().get("x-subject-token");
    let token = token.context("Keystone gives no token")?;
    Ok(token.to_str()?.to_owned())
}

async fn send(client: &Client, request: Builder, body: &Value) -> Result<Response<Incoming>> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let request = request.header("content-type", "application/json");
    let request = request.body(Full::new(body))?;
    let what = format!("{} {}", request.method(), request.uri());
    let response = client.request(request).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.into_body().collect().await?.to_bytes();
    bail!("{what}: {status}: {}", String::from_utf8_lossy(&body))
}

/// The folder with our part: the requirements and the programs that start the services.
fn sources() -> PathBuf {
    workspace().join("crates/testbed/openstack")
}
