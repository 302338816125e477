//! The files that a real machine boots from: who it is, and how its kubelet and its container runtime are set.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::json;

use super::host;
use crate::{control_plane::Options, toolchain::kubernetes_minor};

/// Writes what stays the same over the life of a machine.
pub(super) fn write(
    directory: &Path,
    system_uuid: &str,
    kubelet: &serde_json::Value,
) -> Result<()> {
    let put = |file: &str, text: &str| {
        let path = directory.join(file);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("{}", path.display()))
    };
    // The kubelet takes the system UUID from SMBIOS, where the kernel shows it, and the machine ID from its own file.
    put("class/dmi/id/product_uuid", &format!("{system_uuid}\n"))?;
    put("machine-id", &format!("{}\n", system_uuid.replace('-', "")))?;
    put("network.conflist", NETWORK)?;
    put("containerd.toml", &containerd(&host::script("cni")))?;
    put("kubelet.json", &format!("{kubelet:#}\n"))
}

/// The network plugin's configuration, whose arrival in /run/cni makes the node's network ready.
const NETWORK: &str =
    "{\"cniVersion\":\"0.4.0\",\"name\":\"lab\",\"plugins\":[{\"type\":\"lab\"}]}\n";

/// Everything that needs a capability or a device that a machine of ours has not is switched off.
fn containerd(cni: &Path) -> String {
    let cni = cni.display();
    format!(
        r#"version = 2
root = "/run/disk/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.internal.v1.opt"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "nodefencing.io/lab-writer:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "/run/cni"
"#
    )
}

/// The kubelet's configuration. Most of it is about what a machine of ours has not.
pub(super) fn kubelet(group: &str, options: &Options) -> serde_json::Value {
    let mut kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "enforceNodeAllocatable": ["pods"],
        // Nobody is let in: it serves because it is there, and a port that answers is a sign of life.
        "enableServer": true,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "makeIPTablesUtilChains": false,
        "volumePluginDir": "/run/disk/kubelet/volume-plugins",
        "podLogsDir": "/run/disk/log/pods",
        // A developer's disk is often nearly full; that is no reason to evict the demo.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "10Mi", "imagefs.available": "10Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": false,
        "resolvConf": "",
        "registerNode": true,
    });
    let times = options.times.of_kubelet(options.node_monitor_grace);
    if let (Some(kubelet), Some(times)) = (kubelet.as_object_mut(), times.as_object()) {
        kubelet.extend(times.clone());
        // 1.30 has no such field, and runs on cgroup v1 (`kubelet/config/v1beta1/types.go`, v1.30 and v1.31).
        if kubernetes_minor() < 31 {
            kubelet.remove("failCgroupV1");
        }
    }
    kubelet
}
