//! D1, D2 and D8.

use super::*;
use serde_json::json;

#[test]
fn d1_a_dead_node_that_nobody_fences_because_no_policy_selects_it() {
    let found = World::waiting("Unknown", EXCLUSIVE).only();
    assert_eq!(found.id, Id::D1);
    assert!(seen(&found, "exclusively attached"), "{found:#?}");
    assert!(seen(&found, "Ready Unknown for 10m"), "{found:#?}");
    assert!(seen(&found, "no NodeFencingPolicy selects"), "{found:#?}");
    assert!(
        commands(&found, "kubectl label node worker-1"),
        "{found:#?}"
    );
    assert!(
        commands(&found, "kubectl fence now worker-1 --reason"),
        "{found:#?}"
    );
}

#[test]
fn d1_a_dead_node_in_the_words_of_kubernetes_1_37() {
    let words = "Waiting for detach for volume \"pv-1\" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node";
    assert_eq!(World::waiting("Unknown", words).ids(), [Id::D1]);
}

/// As it is after eviction: the old pod is Terminating, so attach/detach names it.
#[test]
fn d1_is_told_from_a_rollout_by_the_node_although_attach_detach_names_a_pod() {
    let mut world = World::rolling(json!({"type": "RollingUpdate"}));
    world.nodes[0] = node("worker-1", "Unknown");
    deleting(&mut world.pods[1]);
    let found = world.only();
    assert_eq!(found.id, Id::D1);
    assert!(seen(&found, "Terminating"), "{found:#?}");
}

/// A StatefulSet starts no second pod of a name, so no event ever tells of the volume.
#[test]
fn d1_a_pod_that_cannot_leave_a_dead_node_is_enough() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    world.events.clear();
    world.attachments.clear();
    world.pods = vec![pod("db-0", "Running", Some("worker-1"))];
    assert!(world.ids().is_empty(), "it is not evicted yet");
    deleting(&mut world.pods[0]);
    assert_eq!(world.ids(), [Id::D1]);
}

/// Attach/detach says it once, and events last for an hour.
#[test]
fn d1_does_without_the_event_once_a_detach_would_have_taken_place() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    world.events.clear();
    let waits = |world: &World| seen(&world.only(), "pod shop/db-new waits for volume pv-1");
    assert!(!waits(&world), "it waits for ten seconds");
    world.pods[0]["metadata"]["creationTimestamp"] = json!("2026-11-26T05:00:00Z");
    assert!(waits(&world));
    // Several nodes may have it: it waits for something else.
    world.volumes = vec![volume("ebs.csi.aws.com", &["ReadWriteMany"])];
    assert!(world.ids().is_empty());
}

#[test]
fn d1_the_scheduler_that_waits_for_a_pod_on_a_dead_node_is_no_matter_of_scheduling() {
    let mut world = World::waiting("Unknown", "");
    let words = "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.";
    world.pods = vec![
        pod("db-new", "Pending", None),
        pod("db-old", "Running", Some("worker-1")),
    ];
    world.claims = vec![claim(&["ReadWriteOncePod"])];
    world.events = vec![event("db-new", "FailedScheduling", words)];
    assert_eq!(world.ids(), [Id::D1]);
}

#[test]
fn d1_says_why_the_policy_that_selects_the_node_does_not_act() {
    let of = |policy| {
        let mut world = World::waiting("Unknown", EXCLUSIVE);
        world.policies = vec![policy];
        world.only()
    };
    let observes = of(policy("Observe", json!({})));
    assert!(seen(&observes, "only observes now"), "{observes:#?}");
    // By its own mode a human's fence would do no more than it does.
    assert!(
        commands(&observes, "kubectl fence now worker-1 --mode ConfirmOnly"),
        "{observes:#?}"
    );
    let paused = of(policy(
        "PowerOff",
        json!({"pauseRequests": [{"name": "ada"}]}),
    ));
    assert!(
        seen(&paused, "paused by its `pauseRequests`: ada"),
        "{paused:#?}"
    );
    let waits = json!({"unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 3600}]});
    let waits = of(policy("PowerOff", waits));
    assert!(
        seen(&waits, "fences it in 50m: Ready=Unknown has to last 3600 s"),
        "{waits:#?}"
    );
    let other = json!({"unhealthyConditions": [{"type": "Ready", "status": "False", "durationSeconds": 60}]});
    let other = of(policy("PowerOff", other));
    assert!(
        seen(
            &other,
            "watches for Ready=False, not for Ready=Unknown; add Ready=Unknown to `unhealthyConditions`"
        ),
        "{other:#?}"
    );
    let mut bare = policy("PowerOff", json!({}));
    bare["status"]["unprotectedNodes"] = json!(["worker-1"]);
    assert!(seen(&of(bare), "has its devices ready for Node worker-1"));
    let idle = of(policy("PowerOff", json!({})));
    assert!(seen(&idle, "should have begun"), "{idle:#?}");
}

#[test]
fn d1_two_policies_of_one_priority_are_a_conflict() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    let mut second = policy("PowerOff", json!({}));
    second["metadata"]["name"] = json!("others");
    world.policies = vec![policy("PowerOff", json!({})), second];
    let found = world.only();
    assert!(
        seen(&found, "policies others, workers all select Node worker-1"),
        "{found:#?}"
    );
    // Which refuses a node that two policies govern.
    let way_out: Vec<&str> = found.fix.iter().map(|it| it.command.as_str()).collect();
    let governs = way_out
        .iter()
        .position(|it| it.contains(r#"others --type=merge -p '{"spec":{"priority":1}}'"#));
    let fences = way_out
        .iter()
        .position(|it| it.contains("kubectl fence now"));
    assert!(governs.is_some() && governs < fences, "{way_out:#?}");
}

#[test]
fn d1_tells_how_the_last_incident_has_ended_and_an_observed_one_is_none() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    world.policies = vec![policy("PowerOff", json!({}))];
    let denied = condition("Succeeded", "False", "Denied", "ada has denied it");
    let observed = condition("Succeeded", "Unknown", "Observed", "would fence");
    world.fences = vec![
        fence("worker-1", "PowerOff", denied),
        fence("worker-1", "Observe", observed),
    ];
    let found = world.only();
    assert_eq!(found.id, Id::D1);
    assert!(
        seen(&found, "has ended Denied: ada has denied it"),
        "{found:#?}"
    );
}

#[test]
fn d1_that_cannot_be_explained_for_want_of_rights_says_so() {
    let mut facts = World::waiting("Unknown", EXCLUSIVE).facts();
    facts.policies.unknown = Some("nodefencingpolicies is forbidden".to_owned());
    let found = crate::diagnose::signatures::findings(&facts);
    let found = found.first().expect("a finding");
    assert!(
        seen(found, "are unknown: nodefencingpolicies is forbidden"),
        "{found:#?}"
    );
    assert!(commands(found, "kubectl fence now worker-1"), "{found:#?}");
}

#[test]
fn d1_without_the_operator_has_kubernetes_own_way_out_behind_a_warning() {
    let mut facts = World::waiting("Unknown", EXCLUSIVE).facts();
    facts.policies.unknown = Some(
        "the cluster has no API group `nodefencing.io`: the operator is not installed".to_owned(),
    );
    let found = crate::diagnose::signatures::findings(&facts);
    let found = found.first().expect("a finding");
    assert!(
        commands(found, "out-of-service=nodeshutdown:NoExecute"),
        "{found:#?}"
    );
    assert!(!commands(found, "kubectl fence now"), "{found:#?}");
    assert!(
        found.fix.iter().any(|it| it.why.contains("no power")),
        "{found:#?}"
    );
    // Its kubelet speaks, so it has power: under the taint its pods would go on writing to volumes that others get.
    let conditions = facts.nodes.items[0].status.known.conditions.as_mut();
    conditions.expect("conditions")[0].status = "False".to_owned();
    let found = crate::diagnose::signatures::findings(&facts);
    let found = found.first().expect("a finding");
    assert_eq!(found.id, Id::D1);
    assert!(!commands(found, "out-of-service"), "{found:#?}");
}

#[test]
fn d2_the_same_while_a_nodefence_is_open() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    let fencing = condition("Succeeded", "Unknown", "Fencing", "bmc is asked");
    world.fences = vec![fence("worker-1", "PowerOff", fencing)];
    let found = world.only();
    assert_eq!(found.id, Id::D2);
    assert!(
        seen(&found, "is Fencing for 60s, deadline <none>: bmc is asked"),
        "{found:#?}"
    );
    assert!(
        commands(&found, "kubectl fence status worker-1 --watch"),
        "{found:#?}"
    );
    assert!(!commands(&found, "approve"), "{found:#?}");
    world.fences[0]["spec"]["fence"]["approval"] = json!({"mode": "Manual"});
    let held = condition("Held", "True", "AwaitingApproval", "asks for you");
    let conditions = world.fences[0]["status"]["conditions"]
        .as_array_mut()
        .expect("a list");
    conditions.push(held);
    assert!(commands(&world.only(), "kubectl fence approve worker-1"));
    // As the operator records one that waits for nothing else.
    let asks = condition("Succeeded", "Unknown", "AwaitingApproval", "asks for you");
    world.fences[0]["status"]["conditions"] = json!([asks]);
    assert!(commands(&world.only(), "kubectl fence approve worker-1"));
    // It waits for that first, and what holds it then no approval lifts.
    let paused = condition("Held", "True", "Paused", "asks for you");
    world.fences[0]["status"]["conditions"] = json!([paused]);
    assert!(commands(&world.only(), "kubectl fence deny worker-1"));
    // A brake that an approval lifts, and what no approval brings back.
    world.fences[0]["spec"]["fence"]["approval"] = json!({"mode": "Automatic"});
    let storm = condition("Held", "True", "MinHealthy", "too many at once");
    world.fences[0]["status"]["conditions"] = json!([storm]);
    let last = world.only().fix.pop().expect("a step");
    assert!(
        last.why
            .starts_with("only if this machine is known to be down"),
        "{last:?}"
    );
    assert_eq!(
        last.command,
        "kubectl fence approve worker-1 --reason \"WHY\""
    );
    assert!(!commands(&world.only(), "deny"), "{:#?}", world.only());
    world.fences[0]["spec"]["desiredState"] = json!("Released");
    assert!(!commands(&world.only(), "approve"), "{:#?}", world.only());
    world.fences[0]["spec"]["desiredState"] = json!("Fenced");
    // What a person has to know before they go by it.
    world.fences[0]["status"]["confirmationRefused"] = json!("the BMC reads On");
    world.fences[0]["status"]["contradictions"] = json!(["off, and it renewed its Lease"]);
    for says in [
        "Confirmation rejected: the BMC reads On",
        "Contradiction: off, and",
    ] {
        assert!(seen(&world.only(), says), "{says}: {:#?}", world.only());
    }
    let another = "is of another Node of this name";
    assert!(!seen(&world.only(), another), "{:#?}", world.only());
    // Made anew, and booted since: the proof of the one before says nothing of it.
    world.fences[0]["spec"]["bootID"] = json!("boot-0");
    assert!(seen(&world.only(), another), "{:#?}", world.only());
    world.fences[0]["spec"]["recovery"] = json!({"strategy": "None"});
    assert!(world.only().cause.contains("frees no volume"));
    // What its operator's words offer is offered here.
    let asks = "cut its power, and set `spec.manualConfirmation`";
    world.fences[0]["status"] = json!({"conditions": [
        condition("Succeeded", "Unknown", "Fencing", asks),
        condition("Escalated", "True", "DeviceFailed", asks),
    ]});
    assert!(commands(&world.only(), "kubectl fence confirm worker-1"));
    world.fences[0]["status"]["conditions"][1]["status"] = json!("False");
    assert!(!commands(&world.only(), "confirm"), "{:#?}", world.only());
    // An incident of another node is none of this one.
    world.fences[0]["spec"]["nodeName"] = json!("worker-2");
    assert_eq!(world.ids(), [Id::D1]);
}

/// A human's taint without a NodeFence.
#[test]
fn d12_and_neither_d1_nor_d2_where_the_node_is_out_of_service() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    taint(&mut world.nodes[0], "node.kubernetes.io/out-of-service");
    assert_eq!(world.ids(), [Id::D12]);
}

/// Its pod tolerates everything, and the node is out of service.
fn staying() -> World {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    let mut stays = pod("db-0", "Running", Some("worker-1"));
    stays["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    stays["metadata"]["ownerReferences"] = owned("StatefulSet", "db");
    world.pods = vec![stays];
    taint(&mut world.nodes[0], "node.kubernetes.io/out-of-service");
    world
}

#[test]
fn d8_pods_that_tolerate_what_evicts_all_others() {
    let mut world = staying();
    let found = world.only();
    assert_eq!(found.id, Id::D8);
    for command in [
        "kubectl -n shop edit statefulset/db",
        "kubectl fence history worker-1",
        "kubectl fence test worker-1",
        "kubectl -n shop delete pod db-0",
    ] {
        assert!(commands(&found, command), "{found:#?}");
    }
    // Proven, so nobody has to look at the machine.
    let detaching = condition("Succeeded", "Unknown", "Detaching", "1 volume is left");
    world.fences = vec![proven(fence("worker-1", "PowerOff", detaching), "True")];
    let found = world.found();
    let found = found.iter().find(|it| it.id == Id::D8).expect("D8");
    assert!(seen(found, "worker-1-fence confirmed its machine off"));
    assert!(!commands(found, "kubectl fence test"), "{found:#?}");
    // On a word alone, and against what a device has said: that is told, and the machine is looked at once more.
    world.fences[0]["status"]["evidence"]["readings"] = json!([{
        "device": "manualConfirmation", "powerState": "Off", "raw": "confirmed by eve", "time": "2026-11-26T06:57:00Z",
    }]);
    world.fences[0]["status"]["contradictingDevices"] = json!(["bmc"]);
    let found = world.found();
    let found = found.iter().find(|it| it.id == Id::D8).expect("D8");
    assert!(seen(found, "confirmed off by hand"), "{found:#?}");
    assert!(seen(found, "FenceDevice bmc"), "{found:#?}");
    assert!(commands(found, "kubectl fence test"), "{found:#?}");
    world.fences.clear();
    // Its kubelet speaks, so the pod may write: it is not deleted under the taint.
    world.nodes[0]["status"]["conditions"][0]["status"] = json!("False");
    let found = world.only();
    assert!(!commands(&found, "delete pod"), "{found:#?}");
    world.nodes[0]["status"]["conditions"][0]["status"] = json!("Unknown");
    // Which tolerates what every pod tolerates for five minutes.
    world.pods[0]["spec"]["tolerations"] = json!([
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]);
    assert_eq!(world.ids(), [Id::D12]);
}

/// Such as those of a network plugin's DaemonSet, which tolerate everything on every node that dies.
#[test]
fn not_d8_without_a_claim_that_it_keeps() {
    let mut world = staying();
    world.pods[0]["spec"]["volumes"] = json!([]);
    assert_eq!(world.ids(), [Id::D12]);
}

#[test]
fn not_d8_of_a_pod_that_pod_gc_takes_or_before_the_node_is_out_of_service() {
    let mut world = staying();
    deleting(&mut world.pods[0]);
    assert_eq!(world.ids(), [Id::D12]);
    let mut world = staying();
    world.nodes[0]["spec"] = json!({});
    assert_eq!(world.ids(), [Id::D1]);
}
