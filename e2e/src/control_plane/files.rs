//! Where a control plane keeps its files.
//!
//! What the store and the API server read stays where it was made, as long as they run; all logs are in a directory for
//! each use of the control plane, called after the test whose evidence they are.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};

use super::Component;
use fencing_testbed::{
    paths::lab_directory,
    pki::{self, Authority, User},
    ports::Port,
    process::Guard,
};

const AUDIT_LOG: &str = "audit.log";

/// Where the files of one lab are.
#[derive(Debug)]
pub struct Files {
    /// The directory of the first use, where the API server has its certificates and logs.
    server: PathBuf,
    /// Logs and kubeconfigs of this use: `target/lab/run/NAME-PID-N`. Stays when the lab ends: it is the evidence of
    /// whatever went wrong. Later labs remove the oldest.
    directory: PathBuf,
    /// Sockets and the store, below the system's temporary directory because a socket's path must be short. Always removed.
    scratch: PathBuf,
    port: Port,
}

impl Files {
    /// A new lab's. The guard will remove the scratch directory.
    pub(super) fn make(name: &str, guard: &Guard) -> Result<Self> {
        let directory = directory_for(name)?;
        let scratch = tempfile::Builder::new()
            .prefix("nodefencing-lab-")
            .tempdir()?
            .keep();
        guard.remove_at_end(&scratch)?;
        Ok(Self {
            server: directory.clone(),
            directory,
            scratch,
            port: Port::reserve()?,
        })
    }

    /// Begins another directory, for another use of the same API server. The logs that go on are there too.
    pub(super) fn renew(&mut self, name: &str, authority: &Authority) -> Result<()> {
        self.directory = directory_for(name)?;
        for log in [Component::Etcd, Component::ApiServer] {
            let log = log.name();
            std::fs::hard_link(self.server_log(log), self.log(log))?;
        }
        std::fs::hard_link(self.server.join(AUDIT_LOG), self.audit_log())?;
        self.write_kubeconfigs(authority)
    }

    /// Writes what the API server and its clients need.
    pub(super) fn write(&self, authority: &Authority) -> Result<()> {
        let pki = self.server.join("pki");
        std::fs::create_dir(&pki)?;
        pki::write_private(&pki.join("ca.crt"), &authority.pem())?;
        pki::write_signing_key(&pki, "service-account")?;
        pki::write_private(
            &pki.join("audit-policy.yaml"),
            include_str!("audit-policy.yaml"),
        )?;
        let names = ["localhost".to_owned(), "kubernetes.default.svc".to_owned()];
        authority
            .serving(&[Ipv4Addr::LOCALHOST.into()], &names)?
            .write(&pki, "apiserver")?;
        let to_kubelets = User::new("kube-apiserver-kubelet-client", Some("system:masters"));
        authority
            .client(&to_kubelets)?
            .write(&pki, "kubelet-client")?;
        self.write_kubeconfigs(authority)
    }

    fn write_kubeconfigs(&self, authority: &Authority) -> Result<()> {
        let url = self.url();
        let users = [
            ("admin", User::admin()),
            (
                "kube-controller-manager",
                User::new("system:kube-controller-manager", None),
            ),
            ("kube-scheduler", User::new("system:kube-scheduler", None)),
            (
                "csi-attacher",
                User::new("csi-attacher", Some("system:masters")),
            ),
        ];
        for (name, user) in users {
            let identity = authority.client(&user)?;
            let text = pki::kubeconfig(
                &url,
                &authority.pem(),
                &pki::Credentials::Certificate(&identity),
            );
            pki::write_private(&self.kubeconfig(name), &text)?;
        }
        Ok(())
    }

    /// The log of a process of that name, of this use.
    pub fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Where the store and the API server write their logs.
    pub(super) fn server_log(&self, name: &str) -> PathBuf {
        self.server.join(format!("{name}.log"))
    }

    /// The API server's audit log, of this use and those before it.
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join(AUDIT_LOG)
    }

    /// A file of the certificate authority.
    pub fn pki(&self, name: &str) -> PathBuf {
        self.server.join("pki").join(name)
    }

    /// The kubeconfig of a user of that name.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.directory.join("kubeconfig").join(name)
    }

    /// A unix socket of that name.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// The directory with the logs and kubeconfigs of this use.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The working directory of all components.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port())
    }
}

/// Makes a directory that nobody else in the world has.
fn directory_for(name: &str) -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let runs = lab_directory().join("run");
    remove_old(&runs);
    let directory = runs.join(format!("{name}-{}-{number}", std::process::id()));
    // Process IDs come round again, in containers soon.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.join("kubeconfig"))
        .with_context(|| format!("failed to make {}", directory.display()))?;
    Ok(directory)
}

/// Removes all but the latest directories of labs that have ended.
fn remove_old(runs: &Path) {
    const KEPT: usize = 24;
    let Ok(entries) = std::fs::read_dir(runs) else {
        return;
    };
    let mut ended: Vec<_> = entries
        .flatten()
        .filter(|entry| {
            owner(&entry.file_name().to_string_lossy()).is_some_and(|pid| !is_alive(pid))
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    ended.sort();
    ended.truncate(ended.len().saturating_sub(KEPT));
    for (_, path) in ended {
        // Another lab may be removing it as well.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// The process ID in the name of a lab's directory.
fn owner(name: &str) -> Option<u32> {
    name.rsplit('-').nth(1)?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
