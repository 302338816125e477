//! D1 and D2 of a silent node with volumes, before any pod waits for them; and why nobody fences it.

use super::super::super::finding::Object;
use super::*;
use serde_json::json;

/// A silent node with a volume, and nobody waits for it yet.
fn early() -> World {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    world.events.clear();
    world.pods = vec![pod("db-0", "Running", Some("worker-1"))];
    world
}

/// Its pods are evicted after five minutes only, and whoever is called before that asks what there is.
#[test]
fn d1_and_d2_a_silent_node_with_volumes_before_any_pod_waits() {
    let mut world = early();
    let found = world.only();
    assert_eq!(found.id, Id::D1);
    assert!(
        seen(&found, "no pod elsewhere waits for it yet: pv-1"),
        "{found:#?}"
    );
    assert!(found.objects.contains(&Object::of_cluster("pv", "pv-1")));
    assert!(found.title.contains("is silent"), "{found:#?}");
    world.nodes[0]["status"]["conditions"][0]["status"] = json!("False");
    assert!(world.only().title.contains("is not Ready"));
    let fencing = condition("Succeeded", "Unknown", "Fencing", "bmc is asked");
    world.fences = vec![fence("worker-1", "PowerOff", fencing)];
    let found = world.only();
    assert_eq!(found.id, Id::D2);
    assert!(
        seen(&found, "is Fencing for 60s, deadline <none>"),
        "{found:#?}"
    );
    // Nothing is taken by hand from a machine that nobody has proven down.
    for unsafe_ in ["taint", "delete", "confirm"] {
        assert!(!commands(&found, unsafe_), "{found:#?}");
    }
}

#[test]
fn not_d1_of_a_node_that_is_ready_or_has_no_volume_that_is_kept_from_others() {
    let change = |change: fn(&mut World)| {
        let mut world = early();
        change(&mut world);
        world.ids()
    };
    assert_eq!(change(|_| ()), [Id::D1]);
    assert!(change(|it| it.nodes[0] = node("worker-1", "True")).is_empty());
    assert!(change(|it| it.attachments[0]["spec"]["nodeName"] = json!("worker-2")).is_empty());
    assert!(change(|it| it.attachments[0]["status"]["attached"] = json!(false)).is_empty());
    let shared = |it: &mut World| {
        it.volumes = vec![volume("ebs.csi.aws.com", &["ReadWriteMany"])];
    };
    assert!(change(shared).is_empty());
    assert!(change(|it| it.nodes[0]["status"]["conditions"] = json!([])).is_empty());
}

/// The policy says nothing of its own, for the record of this outage has.
#[test]
fn d1_says_that_the_incident_of_this_outage_was_denied_or_has_ended() {
    let mut world = early();
    let waits = json!([{"type": "Ready", "status": "Unknown", "durationSeconds": 60}]);
    world.policies = vec![policy("PowerOff", json!({"unhealthyConditions": waits}))];
    assert!(seen(&world.only(), "should have begun"));
    let view = world.facts().nodes.items[0].view();
    let of = world.facts().policies.items.remove(0);
    let effective = fencing_core::window::Effective::without_windows(&of);
    let name =
        fencing_core::outage::fence_name(&view, &of, &effective, &of.spec.unhealthy_conditions[0]);
    let still_on = condition("Succeeded", "False", "StillOn", "the BMC reads On");
    let mut ended = fence("worker-1", "PowerOff", still_on);
    ended["metadata"]["name"] = json!(name);
    world.fences = vec![ended.clone()];
    let found = world.only();
    let told = format!("NodeFence {name} of this outage has ended StillOn: the BMC reads On");
    assert!(seen(&found, &told), "{found:#?}");
    assert!(!seen(&found, "should have begun"), "{found:#?}");
    let again = |found: &Finding| {
        let step = found.fix.iter().find(|it| it.command.contains(" now "));
        step.expect("a step").why.clone()
    };
    assert!(!again(&found).contains("agrees"), "{found:#?}");
    // A human's fence asks for no pause: whoever has paused it is asked.
    let paused = json!([{"name": "ada"}]);
    world.policies[0]["spec"]["pauseRequests"] = paused;
    let found = world.only();
    assert!(
        again(&found).starts_with("if the person who denied it agrees: "),
        "{found:#?}"
    );
    world.policies[0]["spec"]["pauseRequests"] = json!([]);
    ended["spec"]["trigger"] = json!({
        "type": "NodeCondition", "conditionType": "Ready", "conditionStatus": "Unknown",
        "unhealthySinceTime": "2026-11-26T06:50:00Z",
    });
    ended["spec"]["approval"] = json!({
        "decision": "Denied", "user": "ada", "reason": "I am at it", "time": "2026-11-26T06:52:00Z",
    });
    ended["metadata"]["name"] = json!("of-another-generation");
    world.fences = vec![ended];
    let found = world.only();
    assert!(
        seen(&found, "was denied by ada: I am at it; its policy opens"),
        "{found:#?}"
    );
    assert!(commands(&found, "kubectl fence explain"), "{found:#?}");
}

/// `recovery.strategy: None`: whoever is told that the policy should have acted, and that no replica leads, looks in the wrong place.
#[test]
fn d1_says_that_a_proof_was_left_to_others_and_what_speaks_against_it() {
    let mut world = early();
    world.policies = vec![policy("PowerOff", json!({}))];
    let ended = condition("Succeeded", "True", "ConfirmedDown", "it is down");
    let mut left = proven(fence("worker-1", "PowerOff", ended), "True");
    left["spec"]["policyName"] = json!("workers");
    left["status"]["evidence"]["readyHeartbeatTime"] = json!("2026-11-26T06:49:00Z");
    world.fences = vec![left];
    let found = world.only();
    assert!(
        seen(&found, "the consumer of that proof, not the operator"),
        "{found:#?}"
    );
    assert!(commands(&found, "kubectl fence explain worker-1-fence"));
    let told = world.fences[0]["status"]["conditions"].as_array_mut();
    told.expect("a list")[1]["status"] = json!("False");
    let found = world.only();
    assert!(seen(&found, "do not rely on the proof"), "{found:#?}");
}

#[test]
fn d1_says_how_long_a_node_that_was_fenced_a_moment_ago_is_left_alone() {
    let mut world = early();
    world.policies = vec![policy(
        "PowerOff",
        json!({"budget": {"cooldownSeconds": 3600}}),
    )];
    let recovered = condition("Succeeded", "True", "Recovered", "it is back");
    let mut last = fence("worker-1", "PowerOff", recovered);
    last["spec"]["bootID"] = json!("boot-0");
    last["status"]["completionTime"] = json!("2026-11-26T06:30:00Z");
    world.fences = vec![last];
    let found = world.only();
    assert!(seen(&found, "fences it in 30m"), "{found:#?}");
    assert!(
        found.title.ends_with("is silent, and is not fenced yet"),
        "{found:#?}"
    );
    assert!(seen(&found, "`budget.cooldownSeconds`"), "{found:#?}");
}

/// Whoever has paused it may be at the machine.
#[test]
fn d1_does_not_pass_over_who_has_paused_the_policy() {
    let mut world = early();
    let pause = json!([{"name": "ada", "reason": "rack 7", "expireTime": "2026-11-26T09:00:00Z"}]);
    world.policies = vec![policy("PowerOff", json!({"pauseRequests": pause}))];
    let found = world.only();
    assert!(
        seen(&found, "ada (rack 7, until 2026-11-26T09:00:00Z)"),
        "{found:#?}"
    );
    let is_asked_first = |found: &Finding| {
        let mut steps = found.fix.iter();
        let now = steps.find(|it| it.command.contains("fence now"));
        now.is_some_and(|it| it.why.starts_with("if the person who denied it agrees"))
    };
    assert!(is_asked_first(&found), "{found:#?}");
    // So it is of a pause that something else comes before.
    let other = json!([{"type": "Ready", "status": "False", "durationSeconds": 60}]);
    world.policies[0]["spec"]["unhealthyConditions"] = other;
    let found = world.only();
    assert!(
        seen(&found, "Besides, policy workers is paused"),
        "{found:#?}"
    );
    assert!(is_asked_first(&found), "{found:#?}");
}

/// The record of what it would do is no reason, the mode is; unless the policy has come to act since.
#[test]
fn d1_says_that_a_policy_only_observes_whether_it_has_said_so_yet_or_not() {
    let mut world = early();
    world.policies = vec![policy("Observe", json!({}))];
    let observed = condition("Succeeded", "Unknown", "Observed", "would fence");
    for fences in [Vec::new(), vec![fence("worker-1", "Observe", observed)]] {
        world.fences = fences;
        assert!(
            seen(&world.only(), "only observes now"),
            "{:#?}",
            world.only()
        );
    }
    world.policies = vec![policy("PowerOff", json!({}))];
    assert!(!seen(&world.only(), "observes"), "{:#?}", world.only());
}
