//! What is shown to whoever gives their word, to the last blank.

use super::*;
use fencing_api::device_status::PowerState;
use fencing_core::fixtures;
use fencing_core::observed::ConditionView;
use serde_json::Value;
use signs::Said;

mod given;
mod held;

const SHOWN: &str = "\
Node worker-1 (nodefence/worker-1-5c0ffee5) of the cluster
https://kubernetes.example.com:6443
last report of the kubelet: 2027-01-02T17:55:00Z
DEVICE         POWER       READ
worker-1-bmc   Off         2m ago
pdu            <unknown>   <never>
worker-1-bmc read Off 2m ago or longer; if a level of the incident has it, no
confirmation may be needed
The incident is Pending: the operator has not started it yet; see `kubectl fence
check` if that lasts
1 pod is bound to it
NAMESPACE   POD          VOLUMES
shop        postgres-0   1
If this machine is running, two nodes will write to one volume.
";

#[test]
fn what_is_known_of_the_node_stands_before_the_question() {
    let bmc = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "worker-1-bmc"},
        "spec": {"nodeName": "worker-1", "ipmi": {"address": "bmc"}},
        "status": {"powerState": "Off", "lastSuccessTime": "2027-01-02T17:58:00Z"},
    });
    let silent = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "pdu"},
        "spec": {"nodeName": "worker-1", "ipmi": {"address": "pdu"}},
    });
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let pod = json!({
        "metadata": {"name": "postgres-0", "namespace": "shop"},
        "spec": {"containers": [], "volumes": [claim, {"name": "cache", "emptyDir": {}}]},
    });
    let device = |it| serde_json::from_value(it).expect("a FenceDevice");
    let scene = Scene {
        node: NodeView {
            name: "worker-1".to_owned(),
            conditions: vec![ConditionView {
                kind: "Ready".to_owned(),
                status: "Unknown".to_owned(),
                transition: "2027-01-02T17:56:00Z".to_owned(),
                heartbeat: "2027-01-02T17:55:00Z".to_owned(),
            }],
            ..fixtures::node()
        },
        devices: vec![device(bmc), device(silent)],
        pods: Ok(vec![serde_json::from_value(pod).expect("a pod")]),
        others: Vec::new(),
    };
    let now = "2027-01-02T18:00:00Z".parse().expect("a time");
    let server = "https://kubernetes.example.com:6443";
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "worker-1-5c0ffee5"},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}},
    });
    let fence = serde_json::from_value(fence).expect("a NodeFence");
    let shown = shown(&scene, &fence, server, now);
    assert_eq!(shown, SHOWN);
    assert!(
        shown
            .lines()
            .all(|it| it.len() <= super::super::table::WIDTH)
    );
}

/// A node that is silent since 18:00, and a device that read this at that time.
fn scene(power: &str, read: &str) -> (Scene, NodeFence) {
    let node: Value = json!({
        "metadata": {"name": "node-1", "uid": "uid-1"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2027-01-02T18:00:00Z"}]},
    });
    let node: SlimNode = serde_json::from_value(node).expect("a Node");
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "node-1-bmc"},
        "spec": {"nodeName": "node-1", "driver": {"redfish": {"address": "https://192.0.2.1"}}},
        "status": {"powerState": power, "lastSuccessTime": read},
    });
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-now-abcde"},
        "spec": {"nodeName": "node-1", "trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}},
    });
    let scene = Scene {
        node: node.view(),
        devices: vec![serde_json::from_value(device).expect("a FenceDevice")],
        pods: Ok(Vec::new()),
        others: Vec::new(),
    };
    (scene, serde_json::from_value(fence).expect("a NodeFence"))
}

#[test]
fn a_device_that_read_on_in_the_outage_is_told_with_how_it_is_read_anew() {
    let (scene, fence) = scene("On", "2027-01-02T18:00:20Z");
    let words = against(&scene, &fence).expect_err("it reads On");
    for part in [
        "FenceDevice node-1-bmc read On at 2027-01-02T18:00:20Z",
        "confirm again once this one does not answer (kubectl fence status --output wide)",
        "kubectl fence cancel node-1-now-abcde --reason WHY",
        "kubectl fence test node-1 --device node-1-bmc",
        "kubectl fence now node-1 --mode ConfirmOnly --reason WHY",
    ] {
        assert!(words.contains(part), "no `{part}` in {words}");
    }
}

#[test]
fn a_reading_from_before_the_outage_is_shown_as_one_and_speaks_against_nothing() {
    let now = "2027-01-02T18:01:00Z".parse().expect("a time");
    let plain = "NO DEVICE HAS BEEN READ IN THIS OUTAGE\n";
    let (old, fence) = scene("On", "2027-01-02T17:59:00Z");
    against(&old, &fence).expect("it says nothing of the outage");
    let text = shown(&old, &fence, "https://192.0.2.9", now);
    assert!(text.contains("2m ago, before the outage\n"), "{text}");
    assert!(text.contains(plain), "{text}");
    assert!(!text.contains("Type the node's name"), "{text}");
    let (new, fence) = scene("Off", "2027-01-02T18:00:50Z");
    let text = shown(&new, &fence, "https://192.0.2.9", now);
    assert!(
        text.contains("10s ago\n") && !text.contains(plain),
        "{text}"
    );
    // What the incident has read is newer than either.
    let spec = json!({"trigger": {"type": "Manual"}});
    let fence = self::fence(&spec, &json!([reading("node-1-bmc", "Unknown")]));
    let text = shown(&old, &fence, "https://192.0.2.9", now);
    let row = "node-1-bmc   Unknown   in this incident, for 30s\n";
    assert!(text.contains(row) && text.contains(plain), "{text}");
    assert!(!text.contains("READ ON"), "{text}");
    // What a probe read before the device fell silent is not forgotten with it.
    let (mut probed, unread) = scene("Unknown", "2027-01-02T18:00:20Z");
    let status = probed.devices[0].status.as_mut().expect("a status");
    status.last_on_time = "2027-01-02T18:00:20Z".parse().ok();
    against(&probed, &unread).expect("somebody has gone to look");
    let text = shown(&probed, &unread, "https://192.0.2.9", now);
    for words in [
        "node-1-bmc   Unknown   not known; it answered 40s ago\n",
        "node-1-bmc READ ON 40s AGO, IN THIS OUTAGE",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    assert!(!text.contains(plain), "{text}");
    let status = probed.devices[0].status.as_mut().expect("a status");
    status.last_off_time = "2027-01-02T18:00:30Z".parse().ok();
    let text = shown(&probed, &unread, "https://192.0.2.9", now);
    assert!(!text.contains("READ ON") && !text.contains(plain), "{text}");
    // A machine whose network was cut says nothing either.
    let mut cut = reading("node-1-bmc", "Unknown");
    cut["lastOnTime"] = json!("2027-01-02T18:00:20Z");
    let mut off = cut.clone();
    off["powerState"] = json!("Off");
    let off = self::fence(&spec, &json!([off]));
    let text = shown(&old, &off, "https://192.0.2.9", now);
    assert!(!text.contains("READ ON"), "{text}");
    let said = "node-1-bmc READ ON 40s AGO, IN THIS OUTAGE: unless its power was cut since then,\nthis machine is running\n";
    let text = shown(
        &old,
        &self::fence(&spec, &json!([cut])),
        "https://192.0.2.9",
        now,
    );
    assert!(text.contains(said), "{text}");
    let (probed, _) = scene("On", "2027-01-02T18:00:20Z");
    let text = shown(&probed, &fence, "https://192.0.2.9", now);
    assert!(text.contains(said), "{text}");
}

/// Who was refused may have the node fenced anew, whose NodeFence has read nothing yet.
#[test]
fn what_a_device_said_to_an_earlier_incident_of_the_outage_it_has_said() {
    let now = "2027-01-02T18:01:00Z".parse().expect("a time");
    let (mut scene, _) = scene("Off", "2027-01-02T17:59:00Z");
    let spec = json!({"trigger": {"type": "Manual"}});
    let fence = self::fence(&spec, &json!([]));
    let shown = |said: Value, scene: &mut Scene| {
        scene.others = vec![self::fence(&spec, &json!([said]))];
        shown(scene, &fence, "https://192.0.2.9", now)
    };
    let said = |state: &str, on: Option<&str>| {
        let mut said = reading("node-1-bmc", state);
        said["lastOnTime"] = json!(on);
        said
    };
    let (within, before) = (Some("2027-01-02T18:00:20Z"), Some("2027-01-02T17:00:00Z"));
    for (said, is_on, is_silent) in [
        (said("Unknown", within), true, false),
        (said("Unknown", before), false, true),
        // It has told what became of that.
        (said("Off", within), false, false),
        (said("Off", None), false, false),
    ] {
        let text = shown(said, &mut scene);
        let found = [
            text.contains("READ ON 40s AGO, IN THIS OUTAGE"),
            text.contains("NO DEVICE HAS BEEN READ"),
        ];
        assert_eq!(found, [is_on, is_silent], "{text}");
    }
    // So has one that was probed since.
    let (mut scene, _) = self::scene("Off", "2027-01-02T18:00:40Z");
    let text = shown(said("Unknown", within), &mut scene);
    assert!(!text.contains("READ ON"), "{text}");
}

/// What another machine has answered says nothing of this one.
#[test]
fn an_off_of_another_machine_is_no_sign_of_this_one() {
    let (mut scene, fence) = scene("Off", "2027-01-02T18:00:20Z");
    let said = |scene: &Scene| Said::of(scene, &scene.devices[0], &fence).last_off();
    assert!(said(&scene).is_some());
    let wrong = json!({
        "type": "IdentityVerified", "status": "False", "reason": "WrongMachine", "message": "", "lastTransitionTime": "2027-01-02T18:00:20Z",
    });
    let status = scene.devices[0].status.as_mut().expect("a status");
    status.conditions = vec![serde_json::from_value(wrong).expect("a condition")];
    assert_eq!(said(&scene), None);
    // An On is heard all the same: of one that cannot say who it is nobody knows better.
    let status = scene.devices[0].status.as_mut().expect("a status");
    status.power_state = Some(PowerState::On);
    let said = Said::of(&scene, &scene.devices[0], &fence);
    assert!(said.last_on().is_some());
}

/// Whoever reads for a while is not to give a word by what has been overtaken meanwhile.
#[test]
fn an_on_or_a_warning_that_came_while_somebody_read_is_a_new_sign() {
    let (mut scene, _) = scene("Off", "2027-01-02T17:59:00Z");
    let spec = json!({"trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}});
    let silent = reading("node-1-bmc", "Unknown");
    let mut before = fence(&spec, &json!([silent]));
    let was = Signs::of(&scene, &before);
    let refused = |fence: &NodeFence| refuse(&scene, fence, Some(&was)).err();
    assert!(refused(&before).is_none());
    let mut later = silent.clone();
    later["sinceTime"] = json!("2027-01-02T18:00:55Z");
    assert!(refused(&fence(&spec, &json!([later]))).is_none());
    later["lastOnTime"] = json!("2027-01-02T18:00:50Z");
    let on = refused(&fence(&spec, &json!([later]))).expect("it is on");
    let told = "changed meanwhile and was not confirmed: FenceDevice node-1-bmc read On at 2027-01-02T18:00:50Z";
    assert!(on.to_string().contains(told), "{on}");
    let mut warns = |words: &[&str]| {
        let status = before.status.as_mut().expect("a status");
        status.contradictions = words.iter().map(|&it| it.to_owned()).collect();
        before.clone()
    };
    let contradicted = warns(&["it renews its Lease"]);
    let words = refused(&contradicted).expect("it is alive").to_string();
    assert!(
        words.contains("Contradiction: it renews its Lease"),
        "{words}"
    );
    // Another one of a kind is new, and one that has gone is not.
    let was = Signs::of(&scene, &contradicted);
    let news = |of: &NodeFence| Signs::of(&scene, of).news(&was);
    assert!(news(&warns(&["it renews its Lease", "it runs pods"])).is_some());
    assert!(news(&warns(&[])).is_none());
    // Its kubelet has reported in a new boot, though it is not Ready yet.
    let fence = warns(&[]);
    scene.node.boot_id = "boot-9".to_owned();
    let news = Signs::of(&scene, &fence).news(&was).expect("it has booted");
    assert!(news.contains("Node node-1 has rebooted"), "{news}");
}

/// A NodeFence of the node, with what it has read last.
fn fence(spec: &Value, readings: &Value) -> NodeFence {
    let mut all = json!({"nodeName": "node-1"});
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
        "spec": all, "status": {"powerReadings": readings},
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

fn reading(device: &str, state: &str) -> Value {
    let reads = if device.ends_with("pdu") {
        "Outlets"
    } else {
        "Machine"
    };
    json!({"device": device, "powerState": state, "reads": reads, "sinceTime": "2027-01-02T18:00:30Z"})
}

#[test]
fn a_word_is_refused_while_the_incident_reads_on_in_every_mode() {
    let (mut scene, _) = scene("On", "2027-01-02T17:59:00Z");
    for mode in ["ConfirmOnly", "PowerOff"] {
        let spec = json!({"trigger": {"type": "NodeCondition"}, "fence": {"mode": mode}});
        for state in ["On", "Transitional"] {
            let on = fence(&spec, &json!([reading("node-1-bmc", state)]));
            let refused = against(&scene, &on).expect_err("it reads On");
            let told = format!(
                "manual confirmation rejected: FenceDevice node-1-bmc reads {state} in NodeFence node-1-5c0ffee5 since 2027-01-02T18:00:30Z;"
            );
            assert!(refused.starts_with(&told), "{refused}");
            for way_out in [
                "kubectl fence status node-1 --watch",
                "kubectl fence cancel node-1-5c0ffee5 --reason WHY, then kubectl fence now node-1 --mode ConfirmOnly",
            ] {
                assert!(refused.contains(way_out), "{refused}");
            }
        }
        // What is unknown speaks against no word; and a device that is gone, or another node's by now, is asked no more.
        for (device, state) in [("node-1-bmc", "Unknown"), ("node-9-bmc", "On")] {
            let fence = fence(&spec, &json!([reading(device, state)]));
            assert_eq!(against(&scene, &fence), Ok(()), "{device} {state}");
        }
        let both = json!([reading("node-9-bmc", "On"), reading("node-1-bmc", "On")]);
        against(&scene, &fence(&spec, &both)).expect_err("one of them is there");
        // What the incident has read is newer than the status of the device: somebody has pulled the cord since.
        let (probed, _) = self::scene("On", "2027-01-02T18:00:20Z");
        let silent = fence(&spec, &json!([reading("node-1-bmc", "Unknown")]));
        assert_eq!(against(&probed, &silent), Ok(()));
        against(&probed, &fence(&spec, &json!([]))).expect_err("it has read nothing yet");
    }
    // Whoever has pulled the cords has left the outlets on.
    let outlets = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "node-1-pdu"},
        "spec": {"nodeName": "node-1", "pdu": {"address": "192.0.2.2", "model": "APCRackPDU2", "outlets": [3]}},
        "status": {"powerState": "On", "lastSuccessTime": "2027-01-02T18:00:20Z"},
    });
    scene
        .devices
        .push(serde_json::from_value(outlets).expect("a FenceDevice"));
    let spec = json!({"trigger": {"type": "Manual"}, "fence": {"mode": "ConfirmOnly"}});
    let on = fence(&spec, &json!([reading("node-1-pdu", "On")]));
    assert_eq!(against(&scene, &on), Ok(()));
}

#[test]
fn a_word_is_refused_where_it_would_move_nothing() {
    let (scene, _) = scene("On", "2027-01-02T17:59:00Z");
    // A mark without a record is released by one, whatever a device has said before: it is asked no more.
    let adopted = json!({"trigger": {"type": "External"}, "fence": {"mode": "Observe"}});
    let adopted = fence(&adopted, &json!([]));
    let (probed, _) = self::scene("On", "2027-01-02T18:00:20Z");
    for scene in [&scene, &probed] {
        assert_eq!(against(scene, &adopted), Ok(()));
    }
    assert!(another(&adopted).ends_with("(kubectl delete nodefence node-1-5c0ffee5)"));
    // What was refused once is never taken back, though nobody has given a word yet.
    let proves = json!({"trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff"}});
    let mut refuted = fence(&proves, &json!([]));
    assert_eq!(against(&scene, &refuted), Ok(()));
    let status = refuted.status.as_mut().expect("a status");
    status.confirmation_refused = Some("FenceDevice bmc reads On".to_owned());
    let refused = against(&scene, &refuted).expect_err("it counts for nothing");
    assert!(
        refused.contains(
            "accepts no manual confirmation: FenceDevice bmc reads On; to confirm again: "
        ),
        "{refused}"
    );
    let observes = json!({"trigger": {"type": "NodeCondition"}, "fence": {"mode": "Observe"}});
    let refused = against(&scene, &fence(&observes, &json!([]))).expect_err("it only observes");
    assert!(
        refused.contains("kubectl fence now node-1 --mode ConfirmOnly"),
        "{refused}"
    );
}
