//! A container of the image, in the surroundings of a pod: a read-only root, no capability, the service account's files, and the API
//! server by a name that `/etc/hosts` has. Its network is the lab's.
//!
//! Debian's runc runs it, which passes signals on. A SIGKILL ends runc alone: the container ends with the lab.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::Image;
use crate::operator::NAMESPACE;
use fencing_testbed::{
    debian::Packages,
    fetch::run,
    process::{Guard, Spec},
};

/// Where every pod has its service account's token.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A name of the API server for which its certificate is good.
const SERVER: &str = "kubernetes.default.svc";

/// How to run an image's entry point.
#[derive(Debug)]
pub struct Container {
    image: Arc<Image>,
    runtime: Packages,
    bundle: PathBuf,
    port: String,
}

impl Container {
    /// For a client of the API server that this kubeconfig names, with the token that it has. Blocks.
    pub fn new(image: Arc<Image>, kubeconfig: &Path, guard: &Guard) -> Result<Self> {
        let bundle = tempfile::Builder::new()
            .prefix("nodefencing-image-")
            .tempdir()?
            .keep();
        let port = surroundings(&bundle, &Kubeconfig::read_from(kubeconfig)?)?;
        let runtime = Packages::unpack("runc", &["runc"])?;
        let [(path, programs), (library_path, libraries)] = runtime.environment();
        let (directory, id) = (bundle.display(), id(&bundle)?);
        guard.at_end(&format!(
            "{path}='{programs}' {library_path}='{libraries}' \
             runc --root '{directory}/state' delete --force {id}; rm -rf '{directory}'"
        ))?;
        Ok(Self {
            image,
            runtime,
            bundle,
            port,
        })
    }

    /// What starts the entry point with these arguments and variables.
    pub fn spec(
        &self,
        name: &str,
        log: &Path,
        arguments: &[String],
        environment: &[(String, String)],
    ) -> Result<Spec> {
        let config = self.config(arguments, environment)?;
        fs::write(self.bundle.join("config.json"), config.to_string())?;
        let spec = Spec::new(name, "runc", log)
            .args(["--root".into(), self.bundle.join("state")])
            .args(["run".into(), "--bundle".into(), self.bundle.clone()])
            .args([id(&self.bundle)?]);
        let variables = self.runtime.environment().into_iter();
        Ok(variables.fold(spec, |spec, (key, value)| spec.env(key, value)))
    }

    fn config(&self, arguments: &[String], environment: &[(String, String)]) -> Result<Value> {
        let mut command = self.image.entry_point()?;
        command.extend_from_slice(arguments);
        let server = [
            format!("KUBERNETES_SERVICE_HOST={SERVER}"),
            format!("KUBERNETES_SERVICE_PORT={}", self.port),
        ];
        let variables = environment
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let variables: Vec<String> = variables.chain(server).collect();
        let bind = |name: &str, to: &str| {
            let from = self.bundle.join(name);
            json!({"destination": to, "source": from, "type": "bind", "options": ["bind", "ro", "nosuid", "nodev", "noexec"]})
        };
        let files = [bind("account", ACCOUNT), bind("hosts", "/etc/hosts")];
        confined(&self.image, &command, &variables, &files)
    }
}

impl Image {
    /// What another of its programs says, in such a container but without an API server. Blocks, and fails if the program does.
    pub fn say(&self, command: &[&str]) -> Result<String> {
        let bundle = tempfile::Builder::new()
            .prefix("nodefencing-image-")
            .tempdir()?;
        let bundle = bundle.path();
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let config = confined(self, &command, &self.environment()?, &[])?;
        fs::write(bundle.join("config.json"), config.to_string())?;
        let mut runc = Packages::unpack("runc", &["runc"])?.command("runc");
        runc.arg("--root").arg(bundle.join("state"));
        runc.arg("run").arg("--bundle").arg(bundle).arg(id(bundle)?);
        run(runc.stdin(Stdio::null()))
    }
}

/// What a kubelet asks for, for the pod of `deploy/`: that this command runs as the image's user, with these variables and these mounts.
fn confined(
    image: &Image,
    command: &[String],
    variables: &[String],
    mounts: &[Value],
) -> Result<Value> {
    let (uid, gid) = image.user()?;
    let mut all = vec![
        json!({"destination": "/proc", "source": "proc", "type": "proc"}),
        json!({"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755"]}),
    ];
    all.extend_from_slice(mounts);
    Ok(json!({
        "ociVersion": "1.0.2",
        "root": {"path": image.root(), "readonly": true},
        "process": {
            "args": command,
            "env": variables,
            "cwd": "/",
            "user": {"uid": uid, "gid": gid},
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "mounts": all,
        "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]},
    }))
}

/// The container's name: that of a directory which nobody else in the world has, because control groups are called after it.
fn id(bundle: &Path) -> Result<&str> {
    let name = bundle.file_name().and_then(|name| name.to_str());
    name.context("a directory without a name")
}

/// Writes what a kubelet would lay around the container. Returns the API server's port.
fn surroundings(bundle: &Path, kubeconfig: &Kubeconfig) -> Result<String> {
    let cluster = kubeconfig
        .clusters
        .first()
        .and_then(|it| it.cluster.as_ref());
    let cluster = cluster.context("a kubeconfig without a cluster")?;
    let server = cluster.server.as_deref().unwrap_or_default();
    let (_, port) = server.rsplit_once(':').context("a server without a port")?;
    let authority = cluster.certificate_authority_data.as_deref();
    let authority = BASE64_STANDARD.decode(authority.context("no authority")?)?;
    // The type keeps the token to itself.
    let user = serde_json::to_value(&kubeconfig.auth_infos)?;
    let token = user.pointer("/0/user/token").and_then(Value::as_str);

    let account = bundle.join("account");
    fs::create_dir(&account)?;
    readable(&account.join("ca.crt"), &authority)?;
    readable(&account.join("namespace"), NAMESPACE.as_bytes())?;
    readable(
        &account.join("token"),
        token.context("no token")?.as_bytes(),
    )?;
    let hosts = format!("127.0.0.1 localhost\n127.0.0.1 {SERVER}\n");
    readable(&bundle.join("hosts"), hosts.as_bytes())?;
    Ok(port.to_owned())
}

/// Writes a file that the image's user can read, whatever the umask. The bundle itself is root's alone.
fn readable(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    Ok(())
}
