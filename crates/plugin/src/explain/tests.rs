//! The narrative to the last blank.

use super::super::fences::WarningKind;
use super::super::timeline::Kind;
use super::*;
use serde_json::{Value, json};

const NARRATIVE: &str = "\
Node worker-1 (nodefence/worker-1-5c0ffee5, policy workers): Recovered
  every volume has detached, and the taint that says that the machine is out of
  service is gone again
  ACTION REQUIRED DeadlineExceeded: Verifying has lasted for longer than policy
  workers gives it

2027-01-02 18:00:00 UTC
  +0s     Node worker-1 became Ready=Unknown
  +0s     policy workers opened the incident
  +2m5s   FenceDevice worker-1-bmc read Off (`\"PowerState\": \"Off\"`, 12 ms), in
          the level bmc, under the claim
  +3h30m  the taint was gone again
";

fn moment(time: &str, words: &str) -> Moment {
    Moment {
        kind: Kind::Other,
        time: format!("2027-01-02T{time}Z").parse().expect("a time"),
        words: words.to_owned(),
    }
}

#[test]
fn each_moment_stands_with_the_time_since_the_first_and_its_lines_hang() {
    let explanation = Explanation {
        node: "worker-1".to_owned(),
        fence: "worker-1-5c0ffee5".to_owned(),
        policy: Some("workers".to_owned()),
        stage: "Recovered".to_owned(),
        message: "every volume has detached, and the taint that says that the machine is out of service is gone again".to_owned(),
        escalated: None,
        contradictions: Vec::new(),
        warnings: vec![Warning {
            kind: WarningKind::Escalated,
            words: "DeadlineExceeded: Verifying has lasted for longer than policy workers gives it".to_owned(),
            fact: String::new(),
        }],
        timeline: vec![
            moment("18:00:00", "Node worker-1 became Ready=Unknown"),
            moment("18:00:00.4", "policy workers opened the incident"),
            moment(
                "18:02:05",
                "FenceDevice worker-1-bmc read Off (`\"PowerState\": \"Off\"`, 12 ms), in the level bmc, under the claim",
            ),
            moment("21:30:00", "the taint was gone again"),
        ],
    };
    let told = narrative(&explanation);
    assert_eq!(told, NARRATIVE);
    assert!(
        told.lines()
            .all(|it| it.len() <= super::super::table::WIDTH)
    );
}

/// The API keeps whole seconds, and a fast array needs less than one for it all.
#[test]
fn what_is_dated_by_the_same_second_is_told_in_the_order_in_which_it_comes_about() {
    let at = "2027-01-02T18:00:00Z";
    let reading = |raw: &str| json!({"device": "bmc", "level": "bmc", "powerState": "Off", "raw": raw, "time": at, "roundTripMillis": 21});
    let volume = json!({
        "volumeAttachment": "csi-1", "persistentVolume": "pv", "attacher": "csi", "state": "Detached", "detachedTime": at,
    });
    let attempt = |result: Value| json!({"device": "bmc", "action": "PowerOff", "startTime": at, "completionTime": at, "result": result});
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "worker-1-5c0ffee5", "creationTimestamp": at},
        "spec": {
            "nodeName": "worker-1", "policyName": "workers",
            "trigger": {"type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown", "unhealthySinceTime": at, "dueTime": at},
        },
        "status": {
            "detectedTime": at, "approvedTime": at, "taintAppliedTime": at, "detachedTime": at, "taintRemovedTime": at, "completionTime": at,
            "attempts": [attempt(json!("Succeeded"))], "volumes": [volume],
            "evidence": {
                "claim": "c", "nodeUID": "u", "nodeBootID": "b", "quiescedTime": at, "provenTime": at,
                "readings": [reading("off"), reading("0x00")],
            },
            "conditions": [{"type": "Succeeded", "status": "True", "reason": "Recovered", "message": "over", "lastTransitionTime": at}],
        },
    });
    let fence: NodeFence = serde_json::from_value(fence).expect("a NodeFence");
    let moments = explanation(&fence).timeline;
    let told = moments.iter().map(|it| {
        let words = it.words.split_whitespace().take(4);
        words.collect::<Vec<_>>().join(" ")
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "Node worker-1 became Ready=Unknown",
            "policy workers opened the",
            "the policy's wait was",
            "the operator started the",
            "it was no longer",
            "no pod could start",
            "off was sent to",
            "off to FenceDevice bmc",
            "FenceDevice bmc read Off",
            "FenceDevice bmc read Off",
            "the machine was confirmed",
            "taint set: pods and",
            "VolumeAttachment csi-1 had detached",
            "everything had detached",
            "the taint was removed",
            "Recovered: over",
        ]
    );
}
