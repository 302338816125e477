//! Steps of the way out that several signatures share.

use super::super::attachers;
use super::super::backends::of_volume;
use super::super::finding::{Step, step};
use super::super::index::Index;
use fencing_cluster::slim::SlimPod;
use kube::ResourceExt;

/// What comes before anybody takes a volume from a machine that nobody has proven down.
pub(super) fn power(index: &Index<'_>, node: &str) -> Step {
    let command = match index.facts.is_installed() {
        true => format!("kubectl fence test {node}"),
        // Nobody reads its power then.
        false => format!("kubectl describe node {node}"),
    };
    step(
        "first see for yourself that the machine is off, and keep it off: whoever takes its volumes while it runs has two nodes write to one",
        command,
    )
}

/// The way out where a driver does not detach.
pub(super) fn refusing(
    index: &Index<'_>,
    driver: &str,
    attachment: &str,
    volume: Option<&str>,
) -> Vec<Step> {
    let mut fix = logs(index, driver);
    // Where the machine is gone, too, the driver may not find it: then the storage is where it is ended.
    fix.extend(volume.map(|it| storage(index, it)).unwrap_or_default());
    fix.push(step(
        "the error, as it is now; the attacher tries again after 1 s to 5 min. Never strip its finalizer: that leaves the volume attached at the storage",
        format!("kubectl get volumeattachment {attachment} -o yaml"),
    ));
    fix
}

/// What the attachers of a driver say.
pub(super) fn logs(index: &Index<'_>, driver: &str) -> Vec<Step> {
    let serving = attachers::of(index, driver);
    serving.pods.iter().take(2).map(|it| log(it)).collect()
}

/// What the storage calls the volume, and the vendor's commands by which it shows who has it.
pub(super) fn storage(index: &Index<'_>, volume: &str) -> Vec<Step> {
    let object = index.volume(volume);
    let csi = object.and_then(|it| it.spec.as_ref()?.csi.as_ref());
    let handle = csi.map_or("HANDLE", |it| it.volume_handle.as_str());
    let row = object.and_then(of_volume);
    let commands = row.map(|it| it.orphan_commands(handle)).unwrap_or_default();
    let named = step(
        "what the storage calls the volume",
        format!("kubectl get pv {volume} -o jsonpath='{{.spec.csi}}'"),
    );
    let at_storage = commands.into_iter().map(|it| {
        step(
            "at the storage: who has it; end that only if the machine that has it is off",
            it,
        )
    });
    std::iter::once(named).chain(at_storage).collect()
}

/// What keeps a mount on a node whose kubelet answers.
pub(super) fn mounts(node: &str, volume: &str) -> Vec<Step> {
    vec![
        step(
            "what the kubelet says of the volume (where NodeLogQuery is enabled; else journalctl -u kubelet on the node)",
            format!(
                "kubectl get --raw '/api/v1/nodes/{node}/proxy/logs/?query=kubelet&pattern={volume}'"
            ),
        ),
        step(
            "which mounts of it are left, and what keeps them busy",
            format!(
                "kubectl debug node/{node} -it --image=busybox -- chroot /host sh -c 'grep {volume} /proc/mounts; fuser -vm $(grep {volume} /proc/mounts | cut -d\" \" -f2)'"
            ),
        ),
        step(
            "if nothing helps: move its pods away, then restart the machine",
            format!("kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"),
        ),
    ]
}

fn log(pod: &SlimPod) -> Step {
    let container = attachers::container(pod).unwrap_or("csi-attacher");
    let namespace = pod.namespace().unwrap_or_default();
    step(
        "what the attacher says",
        format!(
            "kubectl -n {namespace} logs {} -c {container} --tail=50",
            pod.name_any()
        ),
    )
}
