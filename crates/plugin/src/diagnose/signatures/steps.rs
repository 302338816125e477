//! Steps of the way out that several signatures share.

use super::super::attachers;
use super::super::backends::of_volume;
use super::super::finding::{Step, step, steps};
use super::super::index::Index;
use kube::ResourceExt;

/// What comes before anybody takes a volume from a machine that nobody has proven down.
pub(super) fn power(index: &Index<'_>, node: &str) -> Vec<Step> {
    let command = match index.facts.is_installed() {
        true => "fence test",
        // Nobody reads its power then.
        false => "describe node",
    };
    steps(&format!(
        "# first check that the machine is off, and keep it off: if it runs, two nodes write to one volume
        kubectl {command} {node}"
    ))
}

/// The way out where a driver does not detach.
pub(super) fn refusing(
    index: &Index<'_>,
    driver: &str,
    attachment: &str,
    volume: Option<&str>,
) -> Vec<Step> {
    let error = steps(&format!(
        "# the current error (the attacher tries again after 1 s to 5 min); never remove its finalizer: the volume would stay attached at the storage
        kubectl get volumeattachment {attachment} -o yaml"
    ));
    // Where the machine is gone, too, the driver may not find it: then the storage is where it is ended.
    let storage = volume.map(|it| storage(index, it)).unwrap_or_default();
    [logs(index, driver), storage, error].concat()
}

/// What the attachers of a driver say.
pub(super) fn logs(index: &Index<'_>, driver: &str) -> Vec<Step> {
    let serving = attachers::of(index, driver);
    let logs = serving.pods.iter().take(2).flat_map(|pod| {
        let container = attachers::container(pod).unwrap_or("csi-attacher");
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        steps(&format!(
            "# log of the attacher
            kubectl -n {namespace} logs {name} -c {container} --tail=50"
        ))
    });
    logs.collect()
}

/// What the storage calls the volume, and the vendor's commands by which it shows who has it.
pub(super) fn storage(index: &Index<'_>, volume: &str) -> Vec<Step> {
    let csi = index.csi(volume);
    let handle = csi.map_or("HANDLE", |it| it.volume_handle.as_str());
    let row = index.volume(volume).and_then(of_volume);
    let commands = row.map(|it| it.orphan_commands(handle)).unwrap_or_default();
    let why = "at the storage: who has it; end that only if the machine that has it is off";
    let at_storage = commands.into_iter().map(|it| step(why, it));
    let mut fix = steps(&format!(
        "# what the storage calls the volume
        kubectl get pv {volume} -o jsonpath='{{.spec.csi}}'"
    ));
    fix.extend(at_storage);
    fix
}

/// What keeps a mount on a node whose kubelet answers.
pub(super) fn mounts(node: &str, volume: &str) -> Vec<Step> {
    steps(&format!(
        "# log of the kubelet about the volume (where NodeLogQuery is enabled; else journalctl -u kubelet on the node)
        kubectl get --raw '/api/v1/nodes/{node}/proxy/logs/?query=kubelet&pattern={volume}'
        # which mounts of it are left, and what keeps them busy
        kubectl debug node/{node} -it --image=busybox -- chroot /host sh -c 'grep {volume} /proc/mounts; fuser -vm $(grep {volume} /proc/mounts | cut -d\" \" -f2)'
        # if nothing helps: move its pods away, then restart the machine
        kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"
    ))
}
