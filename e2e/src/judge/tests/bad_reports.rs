//! Early reports (S24) that are wrong in one way each, and a claim that is early without a reason (L1).

use serde_json::{Value, json};

use super::bad_histories::{BadHistory, SECOND, without};
use super::history::{History, Step};
use crate::judge::rules::{EARLY, WAITED};
use crate::proxy::writes::CLAIM;

pub const BAD_REPORTS: &[BadHistory] = &[
    ("an early report without its boot", &EARLY, |history| {
        report(history, |patch| drop(patch.remove(1)));
    }),
    ("one of whatever Ready is", &EARLY, |history| {
        report(history, |patch| drop(patch.remove(3)));
    }),
    ("one beside a kubelet's report", &EARLY, |history| {
        report(history, |patch| drop(patch.remove(4)));
    }),
    ("one that turns it to False", &EARLY, |history| {
        report(history, |patch| patch[5]["value"] = json!("False"));
    }),
    ("one with a heartbeat", &EARLY, |history| {
        let path = "/status/conditions/0/lastHeartbeatTime";
        let beats = json!({"op": "replace", "path": path, "value": "2026-11-22T17:34:50Z"});
        report(history, |patch| patch.push(beats));
    }),
    ("a claim within the policy's wait", &WAITED, |history| {
        for event in &mut history.audit {
            let waits = "/responseObject/spec/unhealthyConditions/0/durationSeconds";
            if let Some(seconds) = event.pointer_mut(waits) {
                *seconds = json!(11);
            }
        }
    }),
];

/// Puts an early report into the history, at the beginning, that is right but for one thing.
fn report(history: &mut History, change: impl FnOnce(&mut Vec<Value>)) {
    let version = history.version(Step::Claim) - 1;
    history.copy(Step::Claim, -SECOND, |event| {
        let ready = |field: &str| format!("/status/conditions/0/{field}");
        let test = |path: String, value: &str| json!({"op": "test", "path": path, "value": value});
        let set =
            |field: &str, value: &str| json!({"op": "add", "path": ready(field), "value": value});
        let mut patch = vec![
            test("/metadata/uid".to_owned(), "uid-1"),
            test("/status/nodeInfo/bootID".to_owned(), "boot-1"),
            test(ready("type"), "Ready"),
            test(ready("status"), "True"),
            test(ready("lastHeartbeatTime"), "2026-11-22T17:34:35Z"),
            set("status", "Unknown"),
            set("reason", "PoweredOff"),
        ];
        change(&mut patch);
        event["objectRef"]["subresource"] = json!("status");
        event["requestObject"] = json!(patch);
        event["responseObject"]["metadata"]["resourceVersion"] = json!(version.to_string());
        without(event, CLAIM);
    });
}
