//! The processes of the control plane and their command lines.
//!
//! Defaults of Kubernetes stay unless a line here says why not: what the lab shows is what a cluster does.

use std::path::PathBuf;

use super::{Files, Options};
use crate::toolchain::Toolchain;
use fencing_testbed::process::Spec;

/// The controllers that nodes, pods, volumes, workloads and Services depend on, and those that make a namespace usable. Each of the
/// others would log in with an account of its own and watch what a lab never has: certificate requests, jobs, quotas.
const CONTROLLERS: [&str; 20] = [
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "validatingadmissionpolicy-status-controller",
];

/// A process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// kube-controller-manager: node lifecycle, taint eviction, pod GC, attach/detach, workloads.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The lab's storage array, see [`crate::csi`].
    CsiController,
    /// The external-attacher, which turns VolumeAttachments into calls to the storage array.
    CsiAttacher,
}

impl Component {
    /// The name of its log file, and what messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::CsiController => "csi-controller",
            Self::CsiAttacher => "csi-attacher",
        }
    }

    /// How to start it. Sockets are named relative to the working directory, because a socket's path is
    /// limited to 108 bytes.
    pub(super) fn spec(self, toolchain: &Toolchain, files: &Files, options: &Options) -> Spec {
        let name = self.name();
        let log = match self {
            Self::Etcd | Self::ApiServer => files.server_log(name),
            _ => files.log(name),
        };
        let spec = match self {
            Self::CsiController | Self::CsiAttacher => {
                Spec::new(name, toolchain.program(name), &log)
            }
            _ => Spec::new(name, toolchain.program("control-plane"), &log).args([name]),
        };
        let arguments = match self {
            Self::Etcd => etcd(options),
            Self::ApiServer => api_server(files, options),
            Self::ControllerManager => controller_manager(files, options),
            Self::Scheduler => scheduler(files),
            Self::CsiController => csi_controller(files),
            Self::CsiAttacher => csi_attacher(files),
        };
        let extra = options
            .extra_arguments
            .iter()
            .filter(|(component, _)| *component == self);
        spec.args(arguments)
            .args(extra.map(|(_, argument)| argument))
            .directory(files.scratch())
            // A proxy of the developer's is not for the lab's traffic.
            .env("NO_PROXY", "*")
            // A tenth of a test's CPU time would be for collecting garbage before there is any to speak of.
            .env("GOGC", "off")
            .env("GOMEMLIMIT", "700MiB")
    }
}

fn etcd(options: &Options) -> Vec<String> {
    let data = options
        .store_directory
        .clone()
        .unwrap_or_else(|| PathBuf::from("etcd"));
    // It listens on sockets in the lab's own directory and advertises what nobody resolves: it has no peers.
    strings([
        &flag("name", "lab"),
        &flag("data-dir", data.display()),
        "--listen-client-urls=unix://etcd.sock:0",
        "--advertise-client-urls=http://etcd.invalid:1",
        "--listen-peer-urls=unix://etcd-peer.sock:0",
        "--initial-advertise-peer-urls=http://peer.invalid:1",
        "--initial-cluster=lab=http://peer.invalid:1",
        "--unsafe-no-fsync", // the store need not outlive the machine
        "--log-level=warn",
    ])
}

fn api_server(files: &Files, options: &Options) -> Vec<String> {
    let mut flags = strings([
        "--etcd-servers=unix://etcd.sock:0",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        // Loopback is no valid Endpoint, and nothing in the lab uses the Service `kubernetes`.
        "--endpoint-reconciler-type=none",
        &flag("secure-port", files.port()),
        &flag("tls-cert-file", files.pki("apiserver.crt").display()),
        &flag("tls-private-key-file", files.pki("apiserver.key").display()),
        &flag("client-ca-file", files.pki("ca.crt").display()),
        &flag(
            "service-account-key-file",
            files.pki("service-account.pub").display(),
        ),
        &flag(
            "service-account-signing-key-file",
            files.pki("service-account.key").display(),
        ),
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP", // names of the lab's nodes do not resolve
        &flag(
            "kubelet-client-certificate",
            files.pki("kubelet-client.crt").display(),
        ),
        &flag(
            "kubelet-client-key",
            files.pki("kubelet-client.key").display(),
        ),
        &flag(
            "audit-policy-file",
            files.pki("audit-policy.yaml").display(),
        ),
        &flag("audit-log-path", files.audit_log().display()),
        "--audit-log-maxsize=10000", // megabytes: never rotate
        "--profiling=false",
    ]);
    if let Some(seconds) = options.toleration_seconds {
        flags.push(flag("default-not-ready-toleration-seconds", seconds));
        flags.push(flag("default-unreachable-toleration-seconds", seconds));
    }
    flags
}

fn controller_manager(files: &Files, options: &Options) -> Vec<String> {
    strings([
        &flag(
            "kubeconfig",
            files.kubeconfig("kube-controller-manager").display(),
        ),
        "--leader-elect=false",
        &flag("controllers", running(&options.controllers_off)),
        "--use-service-account-credentials=true",
        // At its start it makes an account and a token for each of its controllers, which the default burst of 30 stretches
        // to over 4 s. The sustained rate stays Kubernetes' own.
        "--kube-api-burst=200",
        &flag(
            "service-account-private-key-file",
            files.pki("service-account.key").display(),
        ),
        &flag("root-ca-file", files.pki("ca.crt").display()),
        &flag("node-monitor-period", seconds(options.node_monitor_period)),
        &flag(
            "node-monitor-grace-period",
            seconds(options.node_monitor_grace),
        ),
        &flag(
            "node-startup-grace-period",
            seconds(options.node_startup_grace),
        ),
        &flag(
            "attach-detach-reconcile-sync-period",
            seconds(options.attach_detach_resync),
        ),
        &flag(
            "disable-force-detach-on-timeout",
            !options.force_detach_on_timeout,
        ),
        "--secure-port=0",
        "--profiling=false",
    ])
}

/// The controllers that run.
fn running(off: &[&str]) -> String {
    let mut on = CONTROLLERS.to_vec();
    on.retain(|name| !off.contains(name));
    assert_eq!(
        on.len() + off.len(),
        CONTROLLERS.len(),
        "no such controllers: {off:?}"
    );
    on.join(",")
}

fn scheduler(files: &Files) -> Vec<String> {
    strings([
        &flag("kubeconfig", files.kubeconfig("kube-scheduler").display()),
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    ])
}

fn csi_controller(files: &Files) -> Vec<String> {
    strings([
        "--endpoint=csi.sock",
        "--control=csi-control.sock",
        &flag("driver-name", crate::csi::DRIVER),
        &flag(
            "state-file",
            files.directory().join("csi-state.json").display(),
        ),
    ])
}

fn csi_attacher(files: &Files) -> Vec<String> {
    strings([
        &flag("kubeconfig", files.kubeconfig("csi-attacher").display()),
        // Absolute: of a relative address the attacher cannot watch the connection, and ends.
        &flag(
            "csi-address",
            format_args!("unix://{}", files.socket("csi.sock").display()),
        ),
        "--leader-election=false",
    ])
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn strings<const N: usize>(flags: [&str; N]) -> Vec<String> {
    flags.map(str::to_owned).to_vec()
}

/// As Go reads it.
fn seconds(duration: std::time::Duration) -> String {
    format!("{}ms", duration.as_millis())
}
