//! Deletions that are as they should be but for one thing, and which invariant that breaks.

mod restored;

use super::super::slips::{OTHER, ids};
use super::super::tests::{OPERATOR, OWN, Scene, leads, simulated};
use crate::libc::elapsed;
use crate::objects::{CLAIM, DETACHING, NAMESPACE, attachment, condition, taints};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use simapi::Request;
use simapi::kinds::{ATTACHMENT, CONFIG_MAP, FENCE, NODE};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

const HELD: &str = "csi-pv-data-db-0-a";

/// The one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Nothing,
    MarkWithoutAClaim,
    MarkWithoutAProof,
    MarkOfAnotherBoot,
    MarkOfAnotherDate,
    MarkOnAReadyNode,
    MarkWithAPodThatTolerates,
    DetachesWithoutTheMark,
    DetachesRightAfterTheMark,
    DetachesLongAfterTheMark,
    DetachesUnderAReadyNode,
    DetachesWithAPodLeft,
    DetachesWhileItIsWritten,
    DetachesOnAReadingOfBefore,
    DetachesOnAnOldReading,
    DetachesAfterAReadingOfOn,
    DetachesByAnother,
    DetachesWithoutEvidence,
    DetachesWithoutALease,
    DetachesInAClusterThatWentBack,
    DeletesWithoutTheMark,
    DeletesWithoutTheClaim,
    DeletesAClaimThatItHasNotSeen,
    DeletesAReadyNode,
    DeletesAnotherBoot,
    DeletesWithAnAttachmentLeft,
    DeletesOnAReadingOfBefore,
    DeletesWhileAnOffMayLand,
    DeletesWhileItRuns,
    DeletesWhileItIsWritten,
    DeletesWhatAHumanHasPutOutOfService,
}

/// And what it breaks.
const SLIPS: [(Slip, &[&str]); 31] = [
    (Slip::Nothing, &[]),
    (Slip::MarkWithoutAClaim, &["S9"]),
    (Slip::MarkWithoutAProof, &["S2"]),
    (Slip::MarkOfAnotherBoot, &["S9"]),
    (Slip::MarkOfAnotherDate, &["S9"]),
    (Slip::MarkOnAReadyNode, &["S6", "S9"]),
    (Slip::MarkWithAPodThatTolerates, &["S1", "S14", "S2"]),
    (Slip::DetachesWithoutTheMark, &["S9"]),
    // It may have been on its way.
    (Slip::DetachesRightAfterTheMark, &[]),
    (Slip::DetachesLongAfterTheMark, &["S9"]),
    (Slip::DetachesUnderAReadyNode, &["S9"]),
    (Slip::DetachesWithAPodLeft, &["S1", "S2"]),
    (Slip::DetachesWhileItIsWritten, &["S1"]),
    (Slip::DetachesOnAReadingOfBefore, &["S2"]),
    (Slip::DetachesOnAnOldReading, &["S2"]),
    (Slip::DetachesAfterAReadingOfOn, &["S2"]),
    (Slip::DetachesByAnother, &["S2", "S9"]),
    (Slip::DetachesWithoutEvidence, &["S17"]),
    (Slip::DetachesWithoutALease, &["L4"]),
    (Slip::DetachesInAClusterThatWentBack, &["S18"]),
    (Slip::DeletesWithoutTheMark, &["S9"]),
    (Slip::DeletesWithoutTheClaim, &["S9"]),
    (Slip::DeletesAClaimThatItHasNotSeen, &["S2", "S9"]),
    (Slip::DeletesAReadyNode, &["S9"]),
    (Slip::DeletesAnotherBoot, &["S9"]),
    (Slip::DeletesWithAnAttachmentLeft, &["S14", "S2"]),
    (Slip::DeletesOnAReadingOfBefore, &["S2"]),
    (Slip::DeletesWhileAnOffMayLand, &["S23"]),
    (Slip::DeletesWhileItRuns, &["S14"]),
    (Slip::DeletesWhileItIsWritten, &["S1"]),
    (Slip::DeletesWhatAHumanHasPutOutOfService, &["S8"]),
];

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

fn says_ready(it: &Scene) {
    it.node("kubelet", |node| {
        node["status"]["conditions"] = json!([condition("True")]);
    });
}

fn detaches(it: &Scene, actor: &str) {
    let place = ("", HELD);
    let api = &it.world.api;
    let deleted = api.delete(actor, &ATTACHMENT, place, &Value::Null);
    assert_eq!(deleted, Ok(true), "it is attached");
}

fn is_detached(it: &Scene) {
    let change = |held: &mut Value| held["metadata"]["finalizers"] = json!([]);
    let changed = it.world.api.change("csi", &ATTACHMENT, ("", HELD), change);
    assert_eq!(changed, Ok(true), "it is attached");
}

fn deletes(it: &Scene, actor: &str) {
    let api = &it.world.api;
    let deleted = api.delete(actor, &NODE, ("", "a"), &Value::Null);
    assert_eq!(deleted, Ok(true), "the Node is there");
}

async fn fence(slip: Slip) -> Vec<String> {
    let scene = Scene::new();
    let it = &scene;
    leads(&it.world, OTHER);
    let held = attachment("pv-data-db-0", "a");
    it.world
        .api
        .add("csi", &ATTACHMENT, held)
        .expect("attached");
    let uid = it.bound(slip != Slip::MarkWithAPodThatTolerates);
    if slip == Slip::MarkWithAPodThatTolerates {
        tolerates_everything(it);
    }
    it.taints(OPERATOR, &[OWN]);
    it.looks();
    if slip != Slip::MarkWithoutAProof {
        it.proves().await;
        pass(1).await;
    }
    if slip != Slip::DetachesWithAPodLeft && slip != Slip::MarkWithAPodThatTolerates {
        it.evict_if_proven(slip != Slip::MarkWithoutAProof);
    }
    marks(it, slip);
    if slip != Slip::DetachesOnAReadingOfBefore {
        it.reads(OPERATOR, true);
    }
    volumes(it, slip, &uid).await;
    pass(1).await;
    if slip != Slip::DeletesWithAnAttachmentLeft {
        is_detached(it);
    }
    it.world.with("a", |machine| machine.containers.clear());
    if slip != Slip::DeletesOnAReadingOfBefore {
        it.reads(OPERATOR, true);
    }
    node(it, slip, &uid);
    it.world.broken()
}

/// The volume's pod tolerates whatever stands on its Node.
fn tolerates_everything(it: &Scene) {
    let place = ("default", "db-0");
    let api = &it.world.api;
    let changed = api.change("human", &simapi::kinds::POD, place, |pod| {
        pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    });
    assert_eq!(changed, Ok(true), "the pod is there");
}

impl Scene {
    /// By its operator, or by Kubernetes where that has proven nothing.
    fn evict_if_proven(&self, is_proven: bool) {
        let options = json!({"gracePeriodSeconds": 0});
        let (place, api) = (("default", "db-0"), &self.world.api);
        match is_proven {
            true => self.evict(),
            false => drop(api.delete("gc", &simapi::kinds::POD, place, &options)),
        }
    }
}

fn marks(it: &Scene, slip: Slip) {
    match slip {
        Slip::DetachesWithoutTheMark => {}
        Slip::MarkWithoutAClaim => {
            it.taints("human", &[]);
            it.taints(OPERATOR, &["mark"]);
            it.taints("human", &["mark", OWN]);
        }
        Slip::MarkOfAnotherBoot => it.node(OPERATOR, |node| {
            let mark = json!({"key": DETACHING, "value": "a-boot-0", "effect": "NoExecute"});
            node["spec"]["taints"] = json!([taints(node)[0], mark]);
        }),
        Slip::MarkOfAnotherDate => it.node(OPERATOR, |node| {
            let mut mark = json!({"key": DETACHING, "value": "a-boot-1", "effect": "NoExecute"});
            mark["timeAdded"] = json!("2026-01-01T00:00:00Z");
            node["spec"]["taints"] = json!([taints(node)[0], mark]);
        }),
        Slip::MarkOnAReadyNode => {
            says_ready(it);
            it.taints(OPERATOR, &[OWN, "mark"]);
        }
        _ => it.taints(OPERATOR, &[OWN, "mark"]),
    }
}

/// A container is there and the machine reads Off: nothing else than what runs is against it.
fn writes_without_power(it: &Scene, uid: &str) {
    it.runs(uid);
    it.world.with("a", |machine| machine.on = false);
}

/// The VolumeAttachment is deleted.
async fn volumes(it: &Scene, slip: Slip, uid: &str) {
    match slip {
        Slip::DetachesRightAfterTheMark => it.taints("human", &[OWN]),
        Slip::DetachesLongAfterTheMark => {
            it.taints("human", &[OWN]);
            pass(2).await;
        }
        Slip::DetachesUnderAReadyNode => {
            says_ready(it);
            pass(2).await;
        }
        Slip::DetachesWhileItIsWritten => writes_without_power(it, uid),
        Slip::DetachesOnAnOldReading => {
            pass(17).await;
            leads(&it.world, OPERATOR);
        }
        Slip::DetachesAfterAReadingOfOn => it.reads(OPERATOR, false),
        Slip::DetachesWithoutEvidence => {
            it.record(|status| status["evidence"]["claim"] = json!("a-1-y"));
        }
        Slip::DetachesWithoutALease => {
            pass(16).await;
            it.reads(OPERATOR, true);
        }
        Slip::DetachesInAClusterThatWentBack => {
            it.judge.listed(OPERATOR, 9, elapsed());
            pass(1).await;
            it.judge.listed(OPERATOR, 8, elapsed());
            pass(2).await;
        }
        _ => {}
    }
    let by = match slip {
        Slip::DetachesByAnother => OTHER,
        _ => OPERATOR,
    };
    detaches(it, by);
}

/// The Node is deleted, where that is what it is about.
fn node(it: &Scene, slip: Slip, uid: &str) {
    let mut by = OPERATOR;
    match slip {
        Slip::DeletesWithoutTheMark => it.taints("human", &[OWN]),
        Slip::DeletesWithoutTheClaim => it.taints("human", &["mark"]),
        Slip::DeletesAClaimThatItHasNotSeen => by = OTHER,
        Slip::DeletesAReadyNode => says_ready(it),
        Slip::DeletesAnotherBoot => it.node("kubelet", |node| {
            node["status"]["nodeInfo"]["bootID"] = json!("a-boot-2");
        }),
        Slip::DeletesWhileAnOffMayLand => {
            it.judge.lands("a", elapsed() + Duration::from_secs(30));
        }
        Slip::DeletesWhileItRuns => it.world.with("a", |machine| machine.on = true),
        Slip::DeletesWhileItIsWritten => writes_without_power(it, uid),
        Slip::DeletesWhatAHumanHasPutOutOfService => it.taints("human", &[OWN, "mark", "oos"]),
        _ => {}
    }
    let is_of_volumes = format!("{slip:?}").starts_with("Detaches");
    if !is_of_volumes {
        deletes(it, by);
    }
}

#[test]
fn one_thing_that_is_not_as_it_should_be_is_flagged_and_nothing_else() {
    simulated(async {
        for (slip, expected) in SLIPS {
            let found = fence(slip).await;
            assert_eq!(ids(&found), expected, "{slip:?}: {found:?}");
        }
    });
}

/// S10, S9: the Node that has its name by then is another one, whatever stands on it.
#[test]
fn a_node_that_was_created_anew_is_not_deleted() {
    simulated(async {
        for (is_marked, expected) in [(true, "S10"), (false, "S9")] {
            let scene = Scene::new();
            scene.taints(OPERATOR, &[OWN]);
            let mut node = Value::clone(&scene.world.api.get(&NODE, "", "a").expect("a Node"));
            deletes(&scene, "human");
            let mark = json!({"key": DETACHING, "value": "a-boot-1", "effect": "NoExecute"});
            let claim = json!({"key": CLAIM, "value": OWN, "effect": "NoExecute"});
            node["metadata"] = json!({"name": "a"});
            node["spec"]["taints"] = match is_marked {
                true => json!([claim, mark]),
                false => json!([]),
            };
            scene.world.api.add("kubelet", &NODE, node).expect("a Node");
            scene.reads(OPERATOR, true);
            deletes(&scene, OPERATOR);
            let found = scene.world.broken();
            assert!(ids(&found).contains(&expected), "{is_marked}: {found:?}");
        }
    });
}

#[test]
fn nothing_is_deleted_but_pods_attachments_nodes_and_records_that_have_ended() {
    simulated(async {
        let scene = Scene::new();
        let api = &scene.world.api;
        let map = json!({"metadata": {"name": "map", "namespace": NAMESPACE}});
        api.add("human", &CONFIG_MAP, map).expect("a ConfigMap");
        let _ = api.delete(OPERATOR, &CONFIG_MAP, (NAMESPACE, "map"), &Value::Null);
        let _ = api.delete(OPERATOR, &FENCE, ("", "a-1"), &Value::Null);
        let found = scene.world.broken();
        assert_eq!(ids(&found), ["S17", "S7"], "{found:?}");
    });
}

/// S9, S10: whoever deletes says what it has seen.
#[test]
fn a_deletion_is_of_what_was_seen() {
    simulated(async {
        let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
        let one = format!("{attachments}/{HELD}");
        let pod = "/api/v1/namespaces/default/pods/db-0";
        let rows: [(&str, Value, &[&str]); 9] = [
            (
                "/api/v1/nodes/a",
                json!({"uid": "u", "resourceVersion": "1"}),
                &[],
            ),
            ("/api/v1/nodes/a", json!({"uid": "u"}), &["S9"]),
            ("/api/v1/nodes/a", json!({"resourceVersion": "1"}), &["S10"]),
            (&one, json!({"uid": "u"}), &[]),
            (pod, json!({"uid": "u", "resourceVersion": "1"}), &[]),
            (pod, json!({"uid": "u"}), &["S9"]),
            (&one, json!({}), &["S10"]),
            (attachments, json!({"uid": "u"}), &["S7"]),
            (
                "/api/v1/namespaces/a/secrets/b",
                json!({"uid": "u"}),
                &["S7"],
            ),
        ];
        for (path, preconditions, expected) in rows {
            let scene = Scene::new();
            let body = json!({"preconditions": preconditions}).to_string();
            let request = Request {
                actor: OPERATOR.into(),
                method: Method::DELETE,
                path: path.to_owned(),
                query: BTreeMap::new(),
                content_type: "application/json".to_owned(),
                accept: String::new(),
                body: Bytes::from(body),
            };
            scene.judge.deletes(OPERATOR, &request);
            let found = scene.world.broken();
            assert_eq!(ids(&found), expected, "{path} {preconditions}: {found:?}");
        }
    });
}
