//! What other NodeFences may have on its way to the machine of an incident (S23).
//!
//! Each remembers its own commands only, and its record is closed when it ends, though one of them may land later: whoever begins next waits for it.

use fencing_api::fence::NodeFence;
use fencing_api::fence_status::AttemptAction;
use fencing_core::settings::{ForeignCommands, Settings};
use std::time::Duration;

/// Of these NodeFences, which are about the same node.
pub fn elsewhere(settings: &Settings, fences: &[NodeFence]) -> ForeignCommands {
    let is_another = |fence: &&NodeFence| fence.metadata.name.as_ref() != Some(&settings.fence);
    let others = fences.iter().filter(is_another);
    let (uid, boot) = (settings.node_uid.as_deref(), settings.boot_id.as_deref());
    let others = others.filter(|other| other.may_be_about(&settings.node, uid, boot));
    others.fold(ForeignCommands::default(), |all, other| {
        let open: Vec<AttemptAction> = other.commands_that_may_land().collect();
        let window = match open.is_empty() {
            true => Duration::ZERO,
            false => Duration::from_secs(other.spec.procedure.fence.landing_seconds()),
        };
        ForeignCommands {
            off: all.off || open.contains(&AttemptAction::PowerOff),
            on: all.on || open.contains(&AttemptAction::PowerOn),
            window: all.window.max(window),
            ..all
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures;
    use serde_json::{Value, json};

    fn other(change: impl FnOnce(&mut Value)) -> NodeFence {
        let mut fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {"name": "other"},
            "spec": {
                "nodeName": "worker-1", "nodeUID": "uid-1", "bootID": "boot-1", "trigger": {"type": "Manual"},
                "fence": {"mode": "PowerOff"}, "recovery": {}, "release": {}, "powerOn": {},
            },
            "status": {"completionTime": "2026-01-01T00:01:00Z", "attempts": [{
                "id": "n1-1", "device": "bmc", "action": "PowerOff", "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:01:00Z",
            }]},
        });
        change(&mut fence);
        serde_json::from_value(fence).expect("a NodeFence")
    }

    /// S23: by its result, for its end has closed it; and of this Node, in this boot.
    #[test]
    fn what_another_nodefence_has_sent_and_nobody_has_seen_land_may_land() {
        let result = |result: &'static str| {
            move |it: &mut Value| it["status"]["attempts"][0]["result"] = json!(result)
        };
        let of = |fence: NodeFence| {
            let elsewhere = elsewhere(&fixtures::settings(), &[fence]);
            (elsewhere.off, elsewhere.on)
        };
        assert_eq!(of(other(|_| {})), (true, false));
        assert_eq!(of(other(result("TimedOut"))), (true, false));
        assert_eq!(of(other(result("Succeeded"))), (false, false));
        assert_eq!(of(other(result("Refused"))), (false, false));
        let on = |it: &mut Value| it["status"]["attempts"][0]["action"] = json!("PowerOn");
        assert_eq!(of(other(on)), (false, true));
        for (field, value) in [
            ("/spec/nodeName", "worker-2"),
            ("/spec/bootID", "boot-2"),
            ("/metadata/name", "fence"),
        ] {
            let changed = other(|it| *it.pointer_mut(field).expect("a field") = json!(value));
            assert_eq!(of(changed), (false, false), "{field}");
        }
    }

    /// Its device may be slower than that of whoever waits, by its own policy.
    #[test]
    fn what_another_has_sent_may_land_as_late_as_its_own_settings_say() {
        let window = |result: Value| {
            let fence = other(|it| {
                it["spec"]["fence"] = json!({
                    "mode": "PowerOff", "verification": {"lateEffectSeconds": 600},
                    "levels": [{"name": "a", "timeoutSeconds": 90}, {"name": "b", "timeoutSeconds": 30}],
                });
                it["status"]["attempts"][0]["result"] = result;
            });
            let short = other(|it| it["metadata"]["name"] = json!("short"));
            elsewhere(&fixtures::settings(), &[fence, short]).window
        };
        assert_eq!(window(json!("TimedOut")), Duration::from_secs(690));
        // A command has 25 s, however little its level leaves.
        assert_eq!(window(json!("Succeeded")), Duration::from_secs(25 + 60));
        let none = elsewhere(&fixtures::settings(), &[]);
        assert_eq!(none.window, Duration::ZERO);
    }

    /// Somebody has deleted the Node, and the kubelet has made it anew in the boot that met the command.
    #[test]
    fn what_was_sent_to_a_node_that_was_made_anew_in_the_same_boot_may_land() {
        let off = |boot: Option<&str>| {
            let made_anew = other(|it| {
                it["spec"]["nodeUID"] = json!("uid-2");
                it["spec"]["bootID"] = json!(boot);
            });
            elsewhere(&fixtures::settings(), &[made_anew]).off
        };
        assert!(off(Some("boot-1")));
        assert!(!off(Some("boot-2")));
        assert!(!off(None));
    }

    /// A human's is bound by its record; one that is bound to nothing may be about anything.
    #[test]
    fn what_it_is_about_stands_in_the_record_of_a_human_s() {
        let off = |status: Value| {
            let fence = other(|it| {
                let spec = it["spec"].as_object_mut().expect("a spec");
                spec.retain(|key, _| key != "nodeUID" && key != "bootID");
                json_patch::merge(&mut it["status"], &status);
            });
            elsewhere(&fixtures::settings(), &[fence]).off
        };
        assert!(off(json!({})));
        assert!(off(json!({"nodeUID": "uid-1", "bootID": "boot-1"})));
        assert!(!off(json!({"nodeUID": "uid-1", "bootID": "boot-2"})));
        assert!(off(json!({"nodeUID": "uid-2", "bootID": "boot-1"})));
        assert!(!off(json!({"nodeUID": "uid-2"})));
    }
}
