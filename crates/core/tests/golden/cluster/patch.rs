//! The API server: it really applies the core's JSON Patches, tests and all, and keeps the NodeFence's status. A story may
//! have a write refused, or its answer lost.

use super::answers::Pending;
use super::{WALL, World};
use fencing_core::answer::Reply;
use fencing_core::decision::{Decision, Effect};
use fencing_core::observed::{
    AttachmentView, CLAIM, NodeView, OUT_OF_SERVICE, PodView, Ready, TaintView,
};
use fencing_core::record;
use fencing_core::reply::{Asked, learn};
use fencing_core::taint::{self, NodePatch};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What becomes of the next write, instead of being done.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// Done and answered, as without this.
    Done,
    /// Refused with this status and message.
    Refused(u16, String),
    /// Done, and the answer is lost.
    AnswerLost,
    /// Done, and done again by what stands in between: the answer is that to the second one.
    Repeated(u16, String),
    /// Not done, and answered in these words, which do not say so: an error of the API server's own (5xx), or too many requests.
    Fails(String),
    /// Not done, no answer: it may still land.
    OnItsWay,
}

impl World {
    /// Carries a decision out, and lets the core learn from the reply.
    pub fn act(&mut self, decision: Decision) {
        let asked = Asked::from(&decision.effect);
        let fate = match &decision.effect {
            Effect::Wait | Effect::Device { .. } => None,
            _ if self.fate.is_empty() => None,
            _ => Some(self.fate.remove(0)),
        };
        if let (
            Some(Fate::OnItsWay),
            Effect::Taint(patch) | Effect::Claim(patch) | Effect::DropClaim(patch),
        ) = (&fate, &decision.effect)
        {
            self.late = Some(patch.clone());
        }
        let done = match (&fate, decision.effect) {
            (_, Effect::Wait) => return,
            (
                _,
                Effect::Device {
                    order,
                    level,
                    number,
                    ..
                },
            ) => {
                let Some(level) = self.settings.levels.get(level).cloned() else {
                    return;
                };
                let answers = BTreeMap::new();
                return self.pending = Some(Pending {
                    order,
                    number,
                    level,
                    answers,
                });
            }
            (Some(Fate::Refused(..) | Fate::Fails(_) | Fate::OnItsWay), _) => Ok(()),
            (_, Effect::Close) => return self.ended = true,
            (_, effect) => self.write(effect),
        };
        let reply = match (fate, done) {
            (Some(Fate::Refused(status, message) | Fate::Repeated(status, message)), _) => {
                Reply::Refused(status, message)
            }
            (Some(Fate::Fails(message)), _) => Reply::Unknown(message),
            (Some(Fate::AnswerLost | Fate::OnItsWay), _) => {
                Reply::Unknown("no answer within 5 s".to_owned())
            }
            (None | Some(Fate::Done), Ok(())) => Reply::Done,
            (None | Some(Fate::Done), Err((status, message))) => Reply::Refused(status, message),
        };
        match &reply {
            Reply::Refused(status, message) => {
                self.notes.push(format!("refused: HTTP {status} {message}"))
            }
            Reply::Unknown(message) => self.notes.push(message.clone()),
            _ => {}
        }
        learn(&self.settings, &mut self.memory, asked, reply, self.now);
    }

    fn write(&mut self, effect: Effect) -> Result<(), (u16, String)> {
        match effect {
            Effect::Claim(patch)
            | Effect::DropClaim(patch)
            | Effect::Taint(patch)
            | Effect::Release(patch) => {
                self.now = self.now.max(patch.valid_from);
                self.patch(&patch)?;
            }
            Effect::Bind { uid, boot_id } => {
                self.settings.node_uid = Some(uid);
                self.settings.boot_id = Some(boot_id);
            }
            Effect::RecordIntent(attempt) => {
                record::intent(&mut self.status, &attempt, WALL);
            }
            Effect::RecordOn(attempt) => {
                record::on_intent(&mut self.status, &attempt, WALL);
            }
            Effect::StoreEvidence(evidence) => {
                record::evidence(&mut self.status, &evidence, &self.memory, self.now, WALL);
            }
            Effect::Evict(eviction) => {
                let evicted = |pod: &PodView| eviction.pods.iter().any(|gone| gone.uid == pod.uid);
                self.pods.retain(|pod| pod.finalizers || !evicted(pod));
            }
            // The CSI driver has yet to detach it: a story says when.
            Effect::Detach(detachment) => {
                let names = |volume: &AttachmentView| {
                    detachment
                        .attachments
                        .iter()
                        .any(|it| it.name == volume.name)
                };
                let volumes = self.volumes.iter_mut().filter(|volume| names(volume));
                volumes.for_each(|volume| volume.deleting = true);
            }
            Effect::DeleteNode(deletion) => {
                let node = self.node.as_mut().ok_or((404, "not found".to_owned()))?;
                if (&node.uid, &node.resource_version)
                    != (&deletion.uid, &deletion.resource_version)
                {
                    return Err((409, "the Node was modified".to_owned()));
                }
                node.deleting = true;
                if node.finalizers.is_empty() {
                    self.node = None;
                }
                self.status.detached_time.get_or_insert(WALL);
            }
            Effect::Wait | Effect::Device { .. } | Effect::Close => {}
        }
        Ok(())
    }

    /// Applies a patch as the API server does: the shipped admission policy's S6, then all operations or none.
    fn patch(&mut self, patch: &NodePatch) -> Result<(), (u16, String)> {
        let failed = |message: &str| (422, message.to_owned());
        let node = self.node.as_mut().ok_or((404, "not found".to_owned()))?;
        let mut object = object(node);
        for operation in patch.operations.as_array().into_iter().flatten() {
            // For the API server an absent field equals null; the json-patch crate disagrees.
            let absent = operation["value"].is_null() && object["spec"].get("taints").is_none();
            if operation["op"] == "test" && operation["path"] == "/spec/taints" && absent {
                continue;
            }
            let one: json_patch::Patch = serde_json::from_value(json!([operation]))
                .map_err(|error| failed(&error.to_string()))?;
            json_patch::patch(&mut object, &one)
                .map_err(|_| failed("a test of the patch failed"))?;
        }
        let taints = taints(&object["spec"]["taints"]);
        let added =
            |key: &str| taints.iter().any(|taint| taint.key == key) && node.taint(key).is_none();
        if node.ready() == Ready::True && (added(CLAIM) || added(OUT_OF_SERVICE)) {
            return Err((403, "S6: a Ready node may not be claimed".to_owned()));
        }
        node.taints = taints;
        self.versions += 1;
        Ok(())
    }

    /// A write that nobody heard of any more reaches the API server.
    pub fn land_late_write(&mut self) {
        let Some(patch) = self.late.take() else {
            return;
        };
        let note = match self.patch(&patch) {
            Ok(()) => "the late write lands".to_owned(),
            Err((status, message)) => format!("the late write is refused: HTTP {status} {message}"),
        };
        self.notes.push(note);
    }

    /// `refused STATUS WORDS`, `repeated STATUS WORDS`, `fails: WORDS`, `loses its answer`, `stays on its way`: the next one, or the one after those said
    /// before.
    pub fn next_write(&mut self, text: &str) -> Result<(), String> {
        self.fate.push(match text {
            "is done" => Fate::Done,
            "loses its answer" => Fate::AnswerLost,
            "stays on its way" => Fate::OnItsWay,
            _ if text.starts_with("fails: ") => Fate::Fails(text.replace("fails: ", "")),
            _ => {
                let repeated = text.strip_prefix("repeated ");
                let refused = repeated.or(text.strip_prefix("refused "));
                let answer = refused.ok_or("unknown fate")?;
                let (status, message) = answer.split_once(' ').ok_or("no words")?;
                let (status, message) =
                    (status.parse().map_err(|_| "no status")?, message.to_owned());
                match repeated {
                    Some(_) => Fate::Repeated(status, message),
                    None => Fate::Refused(status, message),
                }
            }
        });
        Ok(())
    }
}

/// The Node as the API server stores it.
fn object(node: &NodeView) -> Value {
    let mut object = json!({
        "metadata": {"uid": node.uid},
        "spec": {},
        "status": {"nodeInfo": {"bootID": node.boot_id}},
    });
    if !node.taints.is_empty() {
        object["spec"]["taints"] = node.taints.iter().map(taint::element).collect();
    }
    object
}

fn taints(list: &Value) -> Vec<TaintView> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let taint = |value: &Value| TaintView {
        key: text(&value["key"]).unwrap_or_default(),
        value: text(&value["value"]),
        effect: text(&value["effect"]).unwrap_or_default(),
        time_added: text(&value["timeAdded"]),
    };
    list.as_array().into_iter().flatten().map(taint).collect()
}
