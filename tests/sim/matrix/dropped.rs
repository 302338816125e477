//! The events of one type about one kind of objects get lost, all of them, and nobody says so: the next list shows what has changed.

use super::stale::{befallen, has, tell};
use super::{WATCHED, eventually, has_ended, runner, strike, victim};
use crate::objects::CLAIM;
use crate::plan;
use crate::stage::Stage;
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, DEVICE, FENCE, Kind, NODE, POLICY};
use std::time::Duration;
use tokio::time::sleep;

/// What is done before the events get lost is known.
const KNOWN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
pub(super) struct Dropped {
    kind: &'static str,
    event: &'static str,
}

/// Each kind that is watched, each type of event.
pub(super) fn all() -> Vec<Dropped> {
    let events = ["ADDED", "MODIFIED", "DELETED"];
    let of_kind = |kind: &Kind| {
        let kind = kind.plural;
        events.map(|event| Dropped { kind, event })
    };
    WATCHED.into_iter().flat_map(of_kind).collect()
}

impl Dropped {
    pub(super) async fn happen(self, stage: &Stage) {
        let node = victim(stage);
        if self.kind == NODE.plural {
            self.node(stage, &node).await;
        } else if self.kind == DEVICE.plural {
            self.device(stage, &node).await;
        } else if self.kind == POLICY.plural {
            self.policy(stage, &node).await;
        } else {
            self.lose(stage);
            strike(stage, &node);
            if self.kind == FENCE.plural && self.event == "DELETED" {
                delete_record(stage, &node).await;
            }
        }
        let is_over = || match self.is_found_by_nobody() {
            true => befallen(stage) > 0,
            false => has_ended(stage, &node) || self.left_nothing(stage, &node),
        };
        eventually(stage, "its end", is_over).await;
        if self.kind == ATTACHMENT.plural {
            // And where nobody has been told what is attached.
            eventually(stage, "the database", || runner(stage).is_some()).await;
            let next = victim(stage);
            strike(stage, &next);
            eventually(stage, "the next one's end", || has_ended(stage, &next)).await;
        }
        if befallen(stage) == 0 {
            stage.world.violation(format!("{self:?}: nothing was lost"));
        }
    }

    fn lose(self, stage: &Stage) {
        tell(stage, |told| told.lost = Some((self.kind, self.event)));
    }

    /// Without its device, or its policy, no fence comes to an end: what is asked for is that it stays harmless.
    fn is_found_by_nobody(self) -> bool {
        self.event == "DELETED" && (self.kind == DEVICE.plural || self.kind == POLICY.plural)
    }

    /// Who deletes a record wants nothing to be left of it.
    fn left_nothing(self, stage: &Stage, node: &str) -> bool {
        let is_gone = stage.world.api.all(&FENCE).is_empty();
        self.kind == FENCE.plural && self.event == "DELETED" && is_gone && !has(stage, node, CLAIM)
    }

    async fn node(self, stage: &Stage, node: &str) {
        let api = &stage.world.api;
        let delete = || drop(api.delete("human", &NODE, ("", node), &Value::Null));
        match self.event {
            "ADDED" => {
                self.lose(stage);
                delete();
                stage.world.with(node, |machine| machine.reported = false);
                let is_back = || api.get(&NODE, "", node).is_some();
                eventually(stage, "it registers anew", is_back).await;
                sleep(KNOWN).await;
                strike(stage, node);
            }
            "MODIFIED" => {
                self.lose(stage);
                strike(stage, node);
            }
            _ => {
                strike(stage, node);
                eventually(stage, "the claim", || has(stage, node, CLAIM)).await;
                self.lose(stage);
                delete();
            }
        }
    }

    async fn device(self, stage: &Stage, node: &str) {
        let (api, name) = (&stage.world.api, format!("bmc-{node}"));
        let delete = || drop(api.delete("human", &DEVICE, ("", &name), &Value::Null));
        let secret = |secret: &'static str| {
            let _ = api.change("human", &DEVICE, ("", &name), |device| {
                device["spec"]["credentialsRef"]["name"] = json!(secret);
            });
        };
        match self.event {
            "ADDED" => delete(),
            "MODIFIED" => secret("missing"),
            _ => {}
        }
        sleep(KNOWN).await;
        strike(stage, node);
        // It is wanted now.
        let is_open = || !api.all(&FENCE).is_empty();
        eventually(stage, "the record", is_open).await;
        self.lose(stage);
        match self.event {
            "ADDED" => {
                // A machine that is new and already silent cannot be known by its identity.
                let mut device = plan::device(node, node);
                device["spec"]["identityCheck"] = json!("Skip");
                let _ = api.add("human", &DEVICE, device);
            }
            "MODIFIED" => secret(crate::objects::SECRET),
            _ => delete(),
        }
    }

    async fn policy(self, stage: &Stage, node: &str) {
        let api = &stage.world.api;
        let delete = || drop(api.delete("human", &POLICY, ("", "all"), &Value::Null));
        match self.event {
            "ADDED" => delete(),
            "MODIFIED" => {
                let _ = api.change("human", &POLICY, ("", "all"), |policy| {
                    policy["spec"]["fence"]["mode"] = json!("Observe");
                });
            }
            _ => {}
        }
        sleep(KNOWN).await;
        self.lose(stage);
        match self.event {
            "DELETED" => delete(),
            _ => stage.put_policy(),
        }
        strike(stage, node);
    }
}

/// A human deletes the record of a node that is claimed, which comes back.
async fn delete_record(stage: &Stage, node: &str) {
    eventually(stage, "the claim", || has(stage, node, CLAIM)).await;
    for fence in stage.world.api.all(&FENCE) {
        let name = fence["metadata"]["name"].as_str().unwrap_or_default();
        let _ = stage
            .world
            .api
            .delete("human", &FENCE, ("", name), &Value::Null);
    }
    stage.world.with(node, |machine| machine.hung = false);
}
