//! When may `out-of-service` go again? (docs/protocol.md, "The release gate")
//!
//! Never on a clock: the pods must be gone, the VolumeAttachments must not exist any more, and the machine must still be
//! off or have booted anew. A node that is Ready with the boot ID it was fenced with never went down: the device lied.

use super::observed::{AttachmentView, NodeView, Observed, PodView, Read, Ready};
use super::quiesce::{counted, hindering, shorten};

/// The kind, as messages count it.
pub const ATTACHMENT: &str = "VolumeAttachment";

/// Has the machine booted since it was fenced? Without a record of the fenced boot (an adopted taint) a Ready node is taken
/// to have.
pub fn booted_anew(node: &NodeView, fenced_boot: Option<&str>) -> bool {
    match fenced_boot {
        Some(fenced) => !node.boot_id.is_empty() && node.boot_id != fenced,
        None => node.ready() == Ready::True,
    }
}

/// Ready with the boot that was fenced: it never went down.
pub fn never_went_down(node: &NodeView, fenced_boot: Option<&str>) -> bool {
    node.ready() == Ready::True && fenced_boot.is_some_and(|fenced| node.boot_id == fenced)
}

/// VolumeAttachments that have to go; those of pods that tolerate `out-of-service` stay.
pub fn attached<'a>(
    attachments: &'a [AttachmentView],
    tolerated: &'a [String],
) -> impl Iterator<Item = &'a AttachmentView> {
    attachments
        .iter()
        .filter(|attachment| !tolerated.contains(&attachment.volume))
}

/// What still hinders the release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hindrance {
    /// These pods still exist.
    Pods(Vec<PodView>),
    /// These VolumeAttachments still exist.
    Attachments(Vec<AttachmentView>),
    /// `status.volumesAttached` still lists more volumes than the VolumeAttachments of tolerating pods.
    VolumesAttached(usize),
    /// This list is needed and could not be read, or not completely: which, and why, in words.
    NotRead(String),
    /// Nothing is known to be left, and the list that has to say so has not been asked for yet.
    LastList,
}

impl Hindrance {
    /// In words, naming the objects and their errors.
    pub fn message(&self) -> String {
        match self {
            Self::Pods(pods) => {
                let names: Vec<String> = pods
                    .iter()
                    .map(|pod| {
                        format!(
                            "{}{}",
                            pod.full_name(),
                            if pod.finalizers {
                                " (held by its finalizers)"
                            } else {
                                ""
                            }
                        )
                    })
                    .collect();
                let pods = counted(pods.len(), "pod");
                format!("waiting for {pods} to be deleted: {}", shorten(&names))
            }
            Self::Attachments(attachments) => {
                let names: Vec<String> = attachments
                    .iter()
                    .map(|attachment| match &attachment.detach_error {
                        Some(error) => {
                            format!("{} ({}: {error})", attachment.name, attachment.attacher)
                        }
                        None => format!("{} ({})", attachment.name, attachment.attacher),
                    })
                    .collect();
                let attachments = counted(attachments.len(), ATTACHMENT);
                format!("waiting for {attachments} to detach: {}", shorten(&names))
            }
            Self::VolumesAttached(number) => {
                format!("waiting for `status.volumesAttached` of the Node to empty: {number} left")
            }
            Self::NotRead(list) => format!("waiting for a complete list of {list}"),
            Self::LastList => {
                "reading a last complete list of VolumeAttachments before the release".to_owned()
            }
        }
    }
}

/// The first thing that hinders, by the node's pods (quorum), its VolumeAttachments (cache) and `volumesAttached`; none:
/// worth the last check, [`attachments_left`]. A Node that was deleted (`None`) lists no volumes any more.
pub fn hindrance(node: Option<&NodeView>, observed: &Observed) -> Option<Hindrance> {
    if let Some(left) = pods_left(observed, |_| true) {
        return Some(left);
    }
    let tolerated = &observed.tolerated_volumes;
    let left: Vec<AttachmentView> = attached(&observed.attachments_cached, tolerated)
        .cloned()
        .collect();
    if !left.is_empty() {
        return Some(Hindrance::Attachments(left));
    }
    let listed = node.map_or(0, |node| node.volumes_attached);
    let staying = observed.attachments_cached.len();
    let surplus = listed.saturating_sub(staying);
    (surplus > 0).then_some(Hindrance::VolumesAttached(surplus))
}

/// What hinders the deletion of the Node (`recovery.strategy: DeleteNode`): pods that use a volume, and VolumeAttachments. A pod without one goes by
/// pod GC once its Node is gone.
pub fn hindrance_of_deletion(observed: &Observed) -> Option<Hindrance> {
    if let Some(left) = pods_left(observed, |pod| pod.attachable) {
        return Some(left);
    }
    let left = observed.attachments_cached.clone();
    (!left.is_empty()).then_some(Hindrance::Attachments(left))
}

/// The pods that hinder and count, or that nobody knows whether there are any.
fn pods_left(observed: &Observed, counts: impl Fn(&PodView) -> bool) -> Option<Hindrance> {
    let Some(pods) = observed.pods.present() else {
        let list = format!("the node's pods{}", observed.pods.why());
        return Some(Hindrance::NotRead(list));
    };
    let left = hindering(pods).filter(|pod| counts(pod));
    let left: Vec<PodView> = left.cloned().collect();
    (!left.is_empty()).then_some(Hindrance::Pods(left))
}

/// The last check before a release: `Ok` only on a complete quorum LIST without a VolumeAttachment that has to go. A
/// node without VolumeAttachments fulfils it at once, which is why the pods are looked at first.
pub fn attachments_left(observed: &Observed) -> Result<(), Hindrance> {
    let attachments = match &observed.attachments {
        Read::Present(attachments) => attachments,
        Read::NotRead => return Err(Hindrance::LastList),
        unread @ (Read::Absent | Read::Failed(_)) => {
            let list = format!("the node's VolumeAttachments{}", unread.why());
            return Err(Hindrance::NotRead(list));
        }
    };
    let left: Vec<AttachmentView> = attached(attachments, &observed.tolerated_volumes)
        .cloned()
        .collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(Hindrance::Attachments(left))
    }
}

#[cfg(test)]
mod tests;
