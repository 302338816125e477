//! Another controller asks for a fence.

use super::*;
use fencing_api::remediation::RemediationReference;

/// The policy in this mode, which waits so many seconds.
fn waiting(mode: &str, seconds: u32) -> Value {
    let mut policy = policy();
    policy["spec"]["unhealthyConditions"][0]["durationSeconds"] = json!(seconds);
    policy["spec"]["durationPolicy"] = json!("Wait");
    policy["spec"]["fence"]["mode"] = json!(mode);
    policy
}

/// The NodeFence that is opened, beside these, where `uid-r` asks for one of that node.
async fn opened(ready: &str, policy: Value, asked_for: &str, fences: Vec<Value>) -> Option<Value> {
    let live = || node(ready, false, false);
    let mut lab = Lab::new(live(), Some(policy), fences).await;
    lab.cluster.put(NODE, 200, live());
    let made = format!("POST {FENCES}");
    lab.cluster.put(&made, 201, fence(false));
    let remediation = RemediationReference {
        namespace: "fencing".to_owned(),
        name: "any".to_owned(),
        uid: "uid-r".to_owned(),
    };
    let asking = (
        "uid-r".to_owned(),
        (remediation, Some(asked_for.to_owned())),
    );
    lab.detector.context.callers.note([asking].into());
    lab.writes().await;
    let mut seen = lab.cluster.server.seen().into_iter();
    let record = seen.find(|it| it.line.starts_with(&made));
    record.map(|it| it.body)
}

/// L1: it skips the duration of a condition that the node shows, and makes no policy act that does not.
#[tokio::test]
async fn a_node_that_a_remediation_asks_for_is_not_waited_for() {
    for (ready, mode, seconds, asked_for, opened_for) in [
        ("Unknown", "PowerOff", 60, "worker-1", Some(Some("uid-r"))),
        (
            "Unknown",
            "ConfirmOnly",
            60,
            "worker-1",
            Some(Some("uid-r")),
        ),
        // The policy's wait is over: the incident is its own.
        ("Unknown", "PowerOff", 0, "worker-1", Some(None)),
        ("Unknown", "PowerOff", 60, "worker-2", None),
        ("Unknown", "Observe", 60, "worker-1", None),
        ("True", "PowerOff", 60, "worker-1", None),
    ] {
        let record = opened(ready, waiting(mode, seconds), asked_for, vec![]).await;
        let record = record.as_ref();
        let found = record.map(|it| it["spec"]["trigger"]["remediation"]["uid"].as_str());
        assert_eq!(found, opened_for, "{ready} {mode} {seconds} {asked_for}");
    }
}

/// L1: who may withdraw a remediation keeps no policy from fencing the node.
#[tokio::test]
async fn what_was_withdrawn_is_opened_again_by_its_policy_alone() {
    let again =
        |seconds, fences| opened("Unknown", waiting("PowerOff", seconds), "worker-1", fences);
    let mut withdrawn = again(60, vec![]).await.expect("a NodeFence");
    withdrawn["metadata"]["uid"] = json!("uid-fence");
    withdrawn["status"] = fence(true)["status"].clone();
    assert_eq!(again(60, vec![withdrawn.clone()]).await, None);
    let own = again(0, vec![withdrawn.clone()]).await;
    let own = own.expect("a NodeFence");
    assert_ne!(own["metadata"]["name"], withdrawn["metadata"]["name"]);
    assert_eq!(own["spec"]["trigger"]["remediation"], Value::Null);
}
