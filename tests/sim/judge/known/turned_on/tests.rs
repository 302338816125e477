//! An on that is as it should be but for one thing, and which invariant that breaks.

use super::super::super::slips::{OTHER, ids};
use super::super::super::tests::{OPERATOR, OWN, Scene, leads, simulated};
use crate::libc::elapsed;
use crate::objects::now;
use serde_json::{Value, json};
use simapi::kinds::{FENCE, NODE};
use std::time::Duration;
use tokio::time::sleep;

/// The one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Nothing,
    NoLook,
    LooksLongBefore,
    SeesAClaim,
    SeesOutOfService,
    SeesTheMark,
    NoIntent,
    IntentOfAnother,
    IntentThatHasEnded,
    IntentForAnotherMachine,
    IntentInARecordOfAnotherNode,
    IntentInARecordOfAnotherUid,
    IntentInARecordThatDoesNotAsk,
    NoOff,
    OffThatWasRefused,
    OffOfAnotherMachine,
    OffOfAnotherRecord,
    OffMayLand,
    TakenSince,
    TakenByOneThatIsGone,
    LeaseIsOver,
}

/// And what it breaks.
const SLIPS: [(Slip, &[&str]); 21] = [
    (Slip::Nothing, &[]),
    (Slip::NoLook, &["S11"]),
    (Slip::LooksLongBefore, &["S11"]),
    (Slip::SeesAClaim, &["S11"]),
    (Slip::SeesOutOfService, &["S11"]),
    (Slip::SeesTheMark, &["S11"]),
    (Slip::NoIntent, &["S11"]),
    (Slip::IntentOfAnother, &["S11"]),
    (Slip::IntentThatHasEnded, &["S11"]),
    (Slip::IntentForAnotherMachine, &["S11"]),
    (Slip::IntentInARecordOfAnotherNode, &["S11"]),
    (Slip::IntentInARecordOfAnotherUid, &["S11"]),
    (Slip::IntentInARecordThatDoesNotAsk, &["S11"]),
    (Slip::NoOff, &["S11"]),
    (Slip::OffThatWasRefused, &["S11"]),
    (Slip::OffOfAnotherMachine, &["S11"]),
    (Slip::OffOfAnotherRecord, &["S11"]),
    (Slip::OffMayLand, &["S23"]),
    (Slip::TakenSince, &["S11"]),
    (Slip::TakenByOneThatIsGone, &[]),
    (Slip::LeaseIsOver, &["L4"]),
];

fn attempt(id: &str, device: &str, action: &str) -> Value {
    json!({
        "id": id, "level": "bmc", "device": device, "action": action, "startTime": now(), "deadlineTime": now(),
    })
}

fn ended(mut attempt: Value, result: &str) -> Value {
    attempt["completionTime"] = json!(now());
    attempt["result"] = json!(result);
    attempt
}

/// The record with these commands, as this process has written it.
fn writes(it: &Scene, actor: &str, fence: &str, attempts: &[&Value]) {
    let api = &it.world.api;
    let written = api.change(actor, &FENCE, ("", fence), |fence| {
        fence["status"]["attempts"] = json!(attempts);
    });
    assert_eq!(written, Ok(true), "{fence} changes");
}

/// Two records, one of which asks for it.
fn records(it: &Scene, slip: Slip) {
    let node = it.world.api.get(&NODE, "", "a").expect("a Node");
    for (name, is_asked) in [("a-2", true), ("a-3", false)] {
        let (of, uid) = match slip {
            Slip::IntentInARecordOfAnotherNode => ("b", json!("another")),
            Slip::IntentInARecordOfAnotherUid => ("a", json!("another")),
            _ => ("a", node["metadata"]["uid"].clone()),
        };
        let record = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": of, "nodeUID": uid, "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]},
                "powerOn": {"policy": if is_asked { "AfterRecovery" } else { "Never" }},
            },
        });
        it.world
            .api
            .add(OPERATOR, &FENCE, record)
            .expect("a record");
    }
}

async fn turned_on(slip: Slip) -> Vec<String> {
    let scene = Scene::new();
    let it = &scene;
    leads(&it.world, OTHER);
    records(it, slip);
    let fence = match slip {
        Slip::IntentInARecordThatDoesNotAsk => "a-3",
        _ => "a-2",
    };
    let off = match slip {
        Slip::OffThatWasRefused => ended(attempt("1", "bmc-a", "PowerOff"), "Refused"),
        Slip::OffOfAnotherMachine => ended(attempt("1", "bmc-b", "PowerOff"), "Succeeded"),
        _ => ended(attempt("1", "bmc-a", "PowerOff"), "Succeeded"),
    };
    if slip != Slip::NoOff {
        let open = attempt("1", off["device"].as_str().unwrap_or_default(), "PowerOff");
        let first = match slip {
            Slip::OffOfAnotherRecord => "a-3",
            _ => fence,
        };
        writes(it, OPERATOR, first, &[&open]);
        writes(it, OPERATOR, first, &[&off]);
    }
    let device = match slip {
        Slip::IntentForAnotherMachine => "bmc-b",
        _ => "bmc-a",
    };
    let on = attempt("2", device, "PowerOn");
    let before: &[&Value] = match slip {
        Slip::NoOff | Slip::OffOfAnotherRecord => &[],
        _ => &[&off],
    };
    let by = match slip {
        Slip::IntentOfAnother => OTHER,
        _ => OPERATOR,
    };
    if slip != Slip::NoIntent {
        writes(it, by, fence, &[before, &[&on]].concat());
    }
    if slip == Slip::IntentThatHasEnded {
        let on = ended(on, "Succeeded");
        writes(it, OPERATOR, fence, &[before, &[&on]].concat());
    }
    sees(it, slip).await;
    it.judge.turned_on(OPERATOR, "a");
    it.world.broken()
}

/// What it has seen of the Node, and when.
async fn sees(it: &Scene, slip: Slip) {
    match slip {
        Slip::SeesAClaim => it.taints("human", &[OWN]),
        Slip::SeesOutOfService => it.taints("human", &["oos"]),
        Slip::SeesTheMark => it.taints("human", &["mark"]),
        Slip::LeaseIsOver => sleep(Duration::from_secs(16)).await,
        Slip::OffMayLand => it.judge.lands("a", elapsed() + Duration::from_secs(30)),
        _ => {}
    }
    if [Slip::TakenSince, Slip::TakenByOneThatIsGone].contains(&slip) {
        taken(it, slip).await;
    }
    if slip != Slip::NoLook {
        it.looks();
    }
    if slip == Slip::LooksLongBefore {
        sleep(Duration::from_secs(2)).await;
    }
}

/// It has put the Node out of service and released it, and another NodeFence has claimed it since.
async fn taken(it: &Scene, slip: Slip) {
    leads(&it.world, OPERATOR);
    let node = it.world.api.get(&NODE, "", "a").expect("a Node");
    let written = it.world.api.change(OPERATOR, &FENCE, ("", "a-2"), |fence| {
        let mut evidence = Scene::evidence(&node);
        evidence["claim"] = json!("a-2-x");
        fence["status"]["evidence"] = evidence;
    });
    assert_eq!(written, Ok(true), "the evidence");
    it.taints(OPERATOR, &["a-2-x"]);
    it.proves().await;
    it.taints(OPERATOR, &["a-2-x", "oos"]);
    it.taints(OPERATOR, &[]);
    sleep(Duration::from_secs(1)).await;
    it.taints(OPERATOR, &["a-3-x"]);
    it.taints(OPERATOR, &[]);
    sleep(Duration::from_secs(3)).await;
    if slip == Slip::TakenByOneThatIsGone {
        let gone = it
            .world
            .api
            .delete("human", &FENCE, ("", "a-3"), &Value::Null);
        assert_eq!(gone, Ok(true), "the other one goes");
    }
}

#[test]
fn one_thing_that_is_not_as_it_should_be_is_flagged_and_nothing_else() {
    simulated(async {
        for (slip, expected) in SLIPS {
            let found = turned_on(slip).await;
            assert_eq!(ids(&found), expected, "{slip:?}: {found:?}");
        }
    });
}
