//! Histories that are broken in one way each, and the rule that must find it out.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::history::{History, Step, shift, shifted};
use crate::judge::replay::text;
use crate::judge::rules::*;
use crate::proxy::writes::{CLAIM, QUARANTINE};

/// What is wrong, the rule that finds it out, and how the good history comes to it.
pub type BadHistory = (&'static str, &'static Rule, fn(&mut History));

pub const MOMENT: SignedDuration = SignedDuration::from_millis(10);
pub const SECOND: SignedDuration = SignedDuration::from_secs(1);

pub const BAD_HISTORIES: &[BadHistory] = &[
    ("two writers of a volume", &ONE_WRITER, two_writers),
    ("a writer whose volume is elsewhere", &ATTACHED, |history| {
        let given = history.happened("Attached", "node-2");
        let given = history.journal[given]["at"].clone();
        let line = history.line(&given, MOMENT, Some("boot-x"));
        history.lines.push(line);
    }),
    ("a write after the proof", &SILENT, |history| {
        let last = history.reading(1)["answered"].clone();
        let line = history.line(&last, MOMENT, None);
        history.lines.push(line);
    }),
    ("the machine of the fenced boot runs", &DARK, |history| {
        let off = history.happened("PowerOff", "node-1");
        let at = history.journal[off]["at"].clone();
        history.journal[off]["at"] = json!(shifted(&at, SECOND * 2));
    }),
    ("a taint without a claim", &CLAIMED, |history| {
        let version = history.version(Step::Taint) - 1;
        history.copy(Step::Claim, SECOND, |event| {
            event["user"]["username"] = json!("a-human");
            event["responseObject"]["metadata"]["resourceVersion"] = json!(version.to_string());
            without(event, CLAIM);
        });
        without(history.step(Step::Taint), CLAIM);
    }),
    ("a pod that was bound dies too late", &QUIET, |history| {
        let late = history.read_at(0) + MOMENT;
        history.move_to(Step::Quiesce, late);
    }),
    ("a reading from before quiesce", &QUIET, |history| {
        let early = history.when(Step::Quiesce) - SignedDuration::from_millis(2);
        read_first_at(history, early);
    }),
    ("one reading of Off", &TWICE, |history| {
        let readings = history.evidence()["readings"].as_array_mut();
        readings.expect("a list").remove(0);
    }),
    ("two readings in a shorter time", &TWICE, |history| {
        let late = history.read_at(1) - MOMENT * 30;
        read_first_at(history, late);
    }),
    ("a reading from before the claim", &AFTER_CLAIM, |history| {
        let claimed = history.when(Step::Claim);
        history.move_to(Step::Quiesce, claimed - SECOND * 2);
        read_first_at(history, claimed - SECOND);
    }),
    ("On was told between", &ONLY_OFF, |history| {
        let mut other = history.reading(0).clone();
        shift(&mut other, MOMENT * 30);
        other["told"] = json!("On");
        history.devices.push(other);
    }),
    (
        "the kubelet renews its Lease between",
        &LIFELESS,
        |history| {
            let at = history.read_at(0) + MOMENT * 30;
            let renews = |event: &&Value| {
                let of = &event["objectRef"];
                let is_done = event["responseStatus"]["code"] == 200;
                is_done && of["resource"] == "leases" && of["name"] == "node-1"
            };
            let mut sign = history.audit.iter().find(renews).expect("a Lease").clone();
            sign["requestReceivedTimestamp"] = json!(at);
            sign["stageTimestamp"] = json!(at + MOMENT);
            history.audit.push(sign);
        },
    ),
    ("another boot at the taint", &LIFELESS, |history| {
        history.left_by(Step::Taint)["status"]["nodeInfo"]["bootID"] = json!("boot-x");
    }),
    ("a proof that is too old", &FRESH, |history| {
        let late = history.read_at(1) + SECOND * 21;
        history.move_to(Step::Taint, late);
    }),
    ("the pod is deleted by nobody else", &DYING, |history| {
        // It came under the claim, or the quiet would be at stake as well.
        let late = history.when(Step::Claim) + MOMENT;
        history.move_to(Step::Bind, late);
        history.remove(Step::Quiesce);
    }),
    ("a Ready node is claimed", &NOT_READY, |history| {
        ready(history.left_by(Step::Claim));
    }),
    ("a Ready node is tainted", &NOT_READY, |history| {
        ready(history.left_by(Step::Taint));
    }),
    (
        "another field of the Node is changed",
        &TAINTS_ONLY,
        |history| {
            let label = json!({"op": "add", "path": "/metadata/labels/x", "value": "y"});
            operations(history.step(Step::Taint)).push(label);
        },
    ),
    ("the whole Node is updated", &TAINTS_ONLY, |history| {
        history.step(Step::Lift)["verb"] = json!("update");
    }),
    ("a taint of others goes as well", &TAINTS_ONLY, |history| {
        without(history.step(Step::Taint), "node.kubernetes.io/unreachable");
    }),
    ("a human's out-of-service goes", &FOREIGN, |history| {
        history.step(Step::Taint)["user"]["username"] = json!("a-human");
    }),
    (
        "a taint with another date than its claim",
        &DATED,
        |history| {
            let taints =
                history.step(Step::Taint)["responseObject"]["spec"]["taints"].as_array_mut();
            let mut taints = taints.expect("taints").iter_mut();
            let taint = taints.find(|it| it["key"] == "node.kubernetes.io/out-of-service");
            taint.expect("the taint")["timeAdded"] = json!("2026-11-22T17:34:53Z");
        },
    ),
    ("a taint that tests another claim", &TESTED, |history| {
        let patch = operations(history.step(Step::Taint));
        let test = patch.iter_mut().find(|it| it["value"]["key"] == CLAIM);
        test.expect("a test")["value"]["value"] = json!("node-1-8519e79c-00000000");
    }),
    ("evidence over a newer record", &VERSIONED, |history| {
        history.step(Step::Evidence)["requestObject"]["metadata"] = json!({});
    }),
    ("a taint that tests no uid", &SAME_NODE, |history| {
        operations(history.step(Step::Taint)).retain(|it| it["path"] != "/metadata/uid");
    }),
    ("a NodeFence about a former Node", &SAME_NODE, |history| {
        history.evidence()["nodeUID"] = json!("uid-x");
    }),
    ("a pod is deleted by name", &POD_UID, |history| {
        history.step(Step::Evict)["requestObject"]["preconditions"] = json!({});
    }),
    ("a soft shutdown", &HARD_OFF, |history| {
        history.command()["name"] = json!("GracefulShutdown");
        history.command()["is_hard_off"] = json!(false);
    }),
    ("an off without a claim", &COMMAND_CLAIMED, |history| {
        let before = history.when(Step::Claim) - MOMENT;
        let asked = super::history::time(&history.command()["asked"]["wall"]);
        shift(history.command(), before.duration_since(asked));
    }),
    ("an off without an intent", &INTENT, |history| {
        history.remove(Step::Intent);
    }),
    ("an off of another device's intent", &INTENT, |history| {
        history.left_by(Step::Intent)["status"]["attempts"][0]["device"] = json!("node-1-pdu");
    }),
    ("an off after its attempt was closed", &INTENT, |history| {
        let after = history.when(Step::Evidence) + MOMENT * 3;
        let asked = super::history::time(&history.command()["asked"]["wall"]);
        shift(history.command(), after.duration_since(asked));
    }),
    ("an on under the taint", &ON_RELEASED, |history| {
        // So long under the claim that no look at the Node can be so old.
        let early = history.when(Step::Claim) - SECOND * 11;
        history.move_to(Step::Claim, early);
        // That it did not wait is another matter.
        let is_policy = |it: &Value| it["responseObject"]["kind"] == "NodeFencingPolicy";
        history.audit.retain(|it| !is_policy(it));
        let under = history.when(Step::Taint) + MOMENT;
        history.on_intended(under, "AfterRecovery");
        history.on(under + MOMENT);
    }),
    (
        "an on that nobody has written down",
        &ON_INTENT,
        |history| {
            let after = history.when(Step::Release) + SECOND;
            history.on(after);
        },
    ),
    ("an on that no policy asks for", &ON_POLICY, |history| {
        let after = history.when(Step::Release) + SECOND;
        history.on_intended(after, "Never");
        history.on(after + MOMENT);
    }),
    (
        "an on of what was not turned off",
        &ON_AFTER_OFF,
        |history| {
            let after = history.when(Step::Release) + SECOND;
            history.on_intended(after, "AfterRecovery");
            let refused = |event: &mut Value| {
                let attempts = event.pointer_mut("/responseObject/status/attempts");
                let attempts = attempts.and_then(Value::as_array_mut);
                for attempt in attempts.into_iter().flatten() {
                    if attempt["action"] == "PowerOff" {
                        attempt["result"] = json!("Refused");
                    }
                }
            };
            history.audit.iter_mut().for_each(refused);
            history.on(after + MOMENT);
        },
    ),
    ("a VolumeAttachment is left", &DETACHED, |history| {
        let after = history.when(Step::Release) + MOMENT;
        history.move_to(Step::Detach, after);
    }),
    ("volumesAttached is not empty", &DETACHED, |history| {
        let attached = json!([{"name": "v", "devicePath": ""}]);
        history.left_by(Step::Release)["status"]["volumesAttached"] = attached;
    }),
    ("a pod is left", &PODS_GONE, |history| {
        // It came under the claim, or the quiet would be at stake as well.
        let under_the_claim = history
            .when(Step::Claim)
            .duration_since(history.when(Step::Create));
        history.copy(Step::Create, under_the_claim + MOMENT, |event| {
            event["responseObject"]["metadata"]["uid"] = json!("uid-x");
            event["responseObject"]["metadata"]["name"] = json!("web-0");
            event["objectRef"]["name"] = json!("web-0");
            event["responseObject"]["spec"]["nodeName"] = json!("node-1");
        });
    }),
    (
        "the machine is on in the same boot",
        &OFF_OR_NEW_BOOT,
        |history| {
            last_reading_before_release(history)["told"] = json!("On");
        },
    ),
    (
        "the machine of a device without a log is on",
        &OFF_OR_NEW_BOOT,
        |history| {
            history.without_the_log();
            let tainted = history.when(Step::Taint) + MOMENT;
            power(history, "PowerOn", "boot-x", tainted);
        },
    ),
    (
        "nobody looked after the detach",
        &OFF_OR_NEW_BOOT,
        |history| {
            shift(last_reading_before_release(history), SECOND);
        },
    ),
    (
        "Manual, and no human lets it go",
        &RELEASE_MODE,
        |history| {
            for step in [Step::Intent, Step::Evidence] {
                history.left_by(step)["spec"]["release"]["mode"] = json!("Manual");
            }
        },
    ),
    ("no quarantine", &QUARANTINED, |history| {
        without(history.step(Step::Release), QUARANTINE);
    }),
    (
        "the quarantine goes in the same boot",
        &QUARANTINED,
        |history| {
            let boot = history.left_by(Step::Release)["status"]["nodeInfo"]["bootID"].clone();
            history.left_by(Step::Lift)["status"]["nodeInfo"]["bootID"] = boot;
        },
    ),
    (
        "the taint comes before the evidence",
        &EVIDENCE,
        |history| {
            let (after, version) = (
                history.when(Step::Taint) + MOMENT,
                history.version(Step::Taint) + 1,
            );
            history.move_to(Step::Evidence, after);
            history.left_by(Step::Evidence)["metadata"]["resourceVersion"] =
                json!(version.to_string());
        },
    ),
    (
        "the evidence is another claim's",
        &EVIDENCE_CLAIM,
        |history| {
            history.evidence()["claim"] = json!("node-1-8519e79c-00000000");
        },
    ),
    ("a reading that no device told", &EVIDENCE_TRUE, |history| {
        let told = history.reading(0).clone();
        history.devices.retain(|exchange| *exchange != told);
    }),
    (
        "a device without a log, and a machine with power",
        &WITNESSED,
        |history| {
            let lost = history.happened("PowerOff", "node-1");
            let boot = history.journal.remove(lost)["boot"].clone();
            let read = history.read_at(1) + MOMENT;
            history.without_the_log();
            power(history, "PowerOff", text(&boot), read);
        },
    ),
    ("readings of another machine", &EVIDENCE_TRUE, |history| {
        for exchange in &mut history.devices {
            if exchange["told"] == "Off" {
                exchange["device"] = json!("node-2-bmc");
                exchange["node"] = json!("node-2");
            }
        }
        for reading in [0, 1] {
            history.evidence()["readings"][reading]["device"] = json!("node-2-bmc");
        }
    }),
    (
        "readings of a device that was never asked",
        &EVIDENCE_TRUE,
        |history| {
            history.devices.push(json!({"whole": "node-3-bmc"}));
            for reading in [0, 1] {
                history.evidence()["readings"][reading]["device"] = json!("node-3-bmc");
            }
            // Which does not look at the release either.
            let boot = json!("boot-x");
            history.left_by(Step::Release)["status"]["nodeInfo"]["bootID"] = boot;
        },
    ),
];

/// A container of the node writes before the power cut, and again when the volume's next writer has begun.
fn two_writers(history: &mut History) {
    let cut = history.happened("PowerOff", "node-1");
    let before = history.journal[cut]["at"].clone();
    let begins = history.line(&before, -SECOND, Some("boot-x"));
    let next = history.lines.iter().find(|line| line.node == "node-2");
    let next = json!(next.expect("a writer elsewhere").at);
    let goes_on = history.line(&next, MOMENT, Some("boot-x"));
    history.lines.extend([begins, goes_on]);
    // By the attaches it would be found as well.
    history.journal.retain(|it| it["what"] != "Attached");
}

/// The first reading of the evidence was made at another time, and the device and the evidence agree about it.
fn read_first_at(history: &mut History, at: jiff::Timestamp) {
    let later = at.duration_since(history.read_at(0));
    shift(history.reading(0), later);
    history.evidence()["readings"][0]["time"] = json!(at);
    // The machine was on at that time: nobody asked.
    let asked = |it: &Value| super::history::time(&it["asked"]["wall"]);
    history
        .devices
        .retain(|it| it["told"] != "On" || asked(it) < at || asked(it) > at + SECOND * 2);
}

/// The machine of the fenced node gets power, or loses it.
fn power(history: &mut History, what: &str, boot: &str, at: jiff::Timestamp) {
    let first = &history.journal[0]["at"];
    let later = at.duration_since(super::history::time(&first["wall"]));
    let at = shifted(first, later);
    let happened = json!({"at": at, "what": what, "node": "node-1", "boot": boot});
    history.journal.push(happened);
}

fn last_reading_before_release(history: &mut History) -> &mut Value {
    let sent = history.when(Step::Release);
    let before = |event: &&mut Value| {
        event["device"] == "node-1-bmc" && super::history::time(&event["asked"]["wall"]) < sent
    };
    let devices = history.devices.iter_mut().filter(before);
    devices.last().expect("a reading before the release")
}

fn operations(event: &mut Value) -> &mut Vec<Value> {
    event["requestObject"].as_array_mut().expect("a JSON Patch")
}

pub fn without(event: &mut Value, key: &str) {
    let taints = event["responseObject"]["spec"]["taints"].as_array_mut();
    taints.expect("taints").retain(|taint| taint["key"] != key);
}

pub fn ready(node: &mut Value) {
    let conditions = node["status"]["conditions"].as_array_mut();
    let mut conditions = conditions.expect("conditions").iter_mut();
    let ready = conditions.find(|one| text(&one["type"]) == "Ready");
    ready.expect("Ready")["status"] = json!("True");
}
