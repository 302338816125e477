//! Which pods and VolumeAttachments there were on which node, from when until when.

use jiff::Timestamp;
use serde_json::Value;

use super::replay::text;
use super::run::{Line, Run};
use crate::audit::Request;
use crate::proxy::writes::{CLAIM, OUT_OF_SERVICE};

/// What evicts from a node while it is fenced: taints of NoExecute, with their values.
const OF_A_FENCED_NODE: [(&str, &str); 4] = [
    (OUT_OF_SERVICE, "nodeshutdown"),
    (CLAIM, "<a value that is made up for each claim>"),
    ("node.kubernetes.io/unreachable", ""),
    ("node.kubernetes.io/not-ready", ""),
];

/// From being bound to a node to being gone.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    /// The write that made it.
    pub(super) created: &'a Line<Request>,
    /// The Node's name, and the write that bound it there.
    pub(super) bound: Option<(&'a str, &'a Line<Request>)>,
    /// Every deletion of it that was granted, in order.
    pub(super) deletions: Vec<&'a Line<Request>>,
    /// The write that made the next pod of its name.
    next: Option<&'a Line<Request>>,
}

/// From its creation to its end.
#[derive(Debug)]
pub(super) struct Attachment<'a> {
    pub(super) node: &'a str,
    pub(super) created: &'a Line<Request>,
    /// The write with which it was gone.
    pub(super) gone: Option<&'a Line<Request>>,
}

impl<'a> Pod<'a> {
    /// How it is called in a report.
    pub(super) fn told(&self) -> String {
        format!("pod {}/{}", self.namespace, self.name)
    }

    fn spec(&self) -> &'a Value {
        &self.created.what.response_object["spec"]
    }

    /// The mirror of a static pod, which ends with its kubelet only.
    pub(super) fn is_mirror(&self) -> bool {
        let annotations = &self.created.what.response_object["metadata"]["annotations"];
        annotations["kubernetes.io/config.mirror"].is_string()
    }

    /// Does it tolerate what a fenced node is tainted with, for ever?
    pub(super) fn tolerates(&self) -> bool {
        let tolerations = self.spec()["tolerations"].as_array();
        let matches = |toleration: &&Value, taint: &str, value: &str| {
            let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
            let of_this_taint = match text(&toleration["operator"]) {
                "Exists" => key.is_empty() || key == taint,
                _ => key == taint && text(&toleration["value"]) == value,
            };
            of_this_taint && (effect.is_empty() || effect == "NoExecute")
        };
        // Of each taint the first toleration that matches decides. No value is that of a claim.
        OF_A_FENCED_NODE.iter().all(|(taint, value)| {
            let mut all = tolerations.into_iter().flatten();
            let first = all.find(|toleration| matches(toleration, taint, value));
            first.is_some_and(|first| first["tolerationSeconds"].is_null())
        })
    }

    /// Might it use a volume that is attached?
    pub(super) fn has_claims(&self) -> bool {
        let volumes = self.spec()["volumes"].as_array();
        let mut volumes = volumes.into_iter().flatten();
        volumes.any(|volume| {
            volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object()
        })
    }

    /// The write with which it was gone, or the first that shows it: a deletion may take effect and be answered with an error, as when
    /// the power of the machine goes off whose kubelet has asked for it.
    pub(super) fn gone(&self) -> Option<&'a Line<Request>> {
        let mut deletions = self.deletions.iter().copied();
        let gone = deletions.find(|write| is_without_grace(write) && !has_finalizers(write));
        gone.or(self.next)
    }

    /// Was it deleted, and do only its finalizers keep it? When they go nobody can tell from other writes.
    pub(super) fn is_kept(&self) -> bool {
        let mut deletions = self.deletions.iter();
        deletions.any(|write| has_finalizers(write))
    }

    /// Was it on this node before then, for certain?
    pub(super) fn was_on(&self, node: &str, then: Timestamp) -> bool {
        self.bound
            .is_some_and(|(on, write)| on == node && write.what.answered < then)
    }
}

fn is_without_grace(write: &Line<Request>) -> bool {
    write.what.response_object["metadata"]["deletionGracePeriodSeconds"] == 0
}

fn has_finalizers(write: &Line<Request>) -> bool {
    let finalizers = write.what.response_object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

/// Is the write about this object's very incarnation?
fn is_of(write: &Request, uid: &str) -> bool {
    let named = &write.response_object["metadata"]["uid"];
    named.is_null() || named == uid
}

pub(super) fn pods(run: &Run) -> Vec<Pod<'_>> {
    let mut pods: Vec<Pod> = Vec::new();
    let writes = run.writes.iter();
    for write in writes.filter(|write| write.what.object_ref.resource == "pods") {
        let (of, made) = (&write.what.object_ref, &write.what.response_object);
        match (write.what.verb.as_str(), of.subresource.as_str()) {
            ("create", "") => {
                let node = made["spec"]["nodeName"].as_str();
                let name = text(&made["metadata"]["name"]);
                let mut latest_first = pods.iter_mut().rev();
                let is_before = |pod: &&mut Pod| pod.namespace == of.namespace && pod.name == name;
                if let Some(before) = latest_first.find(is_before) {
                    before.next = Some(write);
                }
                pods.push(Pod {
                    namespace: &of.namespace,
                    name,
                    uid: text(&made["metadata"]["uid"]),
                    created: write,
                    bound: node.map(|node| (node, write)),
                    deletions: Vec::new(),
                    next: None,
                });
            }
            ("create", "binding") => {
                let body = &write.what.request_object;
                let uid = body["metadata"]["uid"].as_str();
                let pod = find(&mut pods, &write.what, |pod| {
                    uid.is_none_or(|uid| uid == pod.uid)
                });
                if let Some(pod) = pod {
                    pod.bound = Some((text(&body["target"]["name"]), write));
                }
            }
            ("delete", "") | ("create", "eviction") => {
                if let Some(pod) = find(&mut pods, &write.what, |pod| is_of(&write.what, pod.uid)) {
                    pod.deletions.push(write);
                }
            }
            ("deletecollection", "") => {
                let listed = made["items"].as_array();
                for pod in pods.iter_mut().filter(|pod| pod.namespace == of.namespace) {
                    let is_it = |item: &Value| item["metadata"]["uid"] == pod.uid;
                    if listed.is_none_or(|items| items.iter().any(is_it)) {
                        pod.deletions.push(write);
                    }
                }
            }
            _ => {}
        }
    }
    pods
}

/// The latest pod of the name that the request is about.
fn find<'a, 'b>(
    pods: &'b mut [Pod<'a>],
    write: &Request,
    is_it: impl Fn(&Pod) -> bool,
) -> Option<&'b mut Pod<'a>> {
    let of = &write.object_ref;
    let mut latest_first = pods.iter_mut().rev();
    latest_first.find(|pod| pod.namespace == of.namespace && pod.name == of.name && is_it(pod))
}

pub(super) fn attachments(run: &Run) -> Vec<Attachment<'_>> {
    let mut attachments: Vec<(&str, Attachment)> = Vec::new();
    let writes = run.writes.iter();
    for write in writes.filter(|write| write.what.object_ref.resource == "volumeattachments") {
        let object = &write.what.response_object;
        let metadata = &object["metadata"];
        let uid = text(&metadata["uid"]);
        if write.what.verb == "create" {
            let attachment = Attachment {
                node: text(&object["spec"]["nodeName"]),
                created: write,
                gone: None,
            };
            attachments.push((uid, attachment));
            continue;
        }
        // It goes with its deletion, or when that has been granted with its last finalizer.
        let finalizers = metadata["finalizers"].as_array();
        let is_free = finalizers.is_none_or(Vec::is_empty);
        let is_deleted = write.what.verb == "delete" || metadata["deletionTimestamp"].is_string();
        if is_free && is_deleted && write.what.object_ref.subresource.is_empty() {
            // An answer that is a Status has only the name, of the latest.
            let name = &write.what.object_ref.name;
            let mut latest_first = attachments.iter_mut().rev();
            let is_it = |uid_of: &str, made: &Attachment| match uid {
                "" => text(&made.created.what.response_object["metadata"]["name"]) == name,
                uid => uid == uid_of,
            };
            if let Some((_, attachment)) = latest_first.find(|(uid, made)| is_it(uid, made)) {
                attachment.gone.get_or_insert(write);
            }
        }
    }
    attachments
        .into_iter()
        .map(|(_, attachment)| attachment)
        .collect()
}
