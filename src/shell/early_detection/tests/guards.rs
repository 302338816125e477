//! S24: each guard of the shell, by what happens without it.

use super::*;
use crate::shell::act::{patch_node_status, patch_pod_status};
use crate::shell::observe;
use fencing_core::answer::Reply;
use fencing_core::taint::NodePatch;

async fn silent() -> Scene {
    Scene::of(policy("Enabled", "PowerOff"), Knocked::Silent).await
}

fn shared(scene: &mut Scene) -> &mut Context {
    Arc::get_mut(&mut scene.reporter.context).expect("it is not shared")
}

#[tokio::test]
async fn a_watch_that_was_broken_begins_all_silences_anew() {
    let broken = Err(watcher::Error::NoResourceVersion);
    for event in [Ok(Event::Init), broken] {
        let mut scene = silent().await;
        assert_eq!(scene.suspects(), ["worker-1"]);
        scene.reporter.heard(event, clock::since_boot());
        assert_eq!(scene.suspects(), [""; 0]);
    }
}

/// A Lease that is gone says nothing.
#[tokio::test]
async fn a_lease_that_is_deleted_is_no_silent_one() {
    let mut scene = silent().await;
    let gone = serde_json::from_value(lease("worker-1", RENEWED)).expect("a Lease");
    let gone = Ok(Event::Delete(gone));
    scene.reporter.heard(gone, clock::since_boot());
    assert_eq!(scene.suspects(), [""; 0]);
}

#[tokio::test]
async fn the_operators_own_node_is_not_suspected() {
    let mut scene = silent().await;
    shared(&mut scene).own_node = Some("worker-1".to_owned());
    assert_eq!(scene.suspects(), [""; 0]);
}

/// By the policy, and by the operator's own limit.
#[tokio::test]
async fn more_silent_nodes_than_may_be_fenced_are_not_suspected() {
    let mut scene = silent().await;
    shared(&mut scene).max_concurrent = Some(0);
    assert_eq!(scene.suspects(), [""; 0]);
    shared(&mut scene).max_concurrent = Some(9);
    assert_eq!(scene.suspects(), ["worker-1"]);
    let context = Arc::clone(&scene.reporter.context);
    let policies = context.caches.policies();
    let brakes = scene.reporter.brakes(&policies[0], &scene.node(), 2);
    assert_eq!((brakes.suspects, brakes.limit), (2, 1));
}

/// What is cut off falls silent one after the other, and whoever was reported is not Ready any more.
#[tokio::test]
async fn who_was_reported_a_moment_ago_counts_as_one_who_is_silent() {
    let mut scene = silent().await;
    let now = clock::since_boot();
    for (policy, stands, ago, is_free) in [
        ("all", true, 0, false),
        ("all", true, 59, false),
        ("all", true, 61, true),
        ("all", false, 0, true),
        ("others", true, 0, true),
    ] {
        let before = Reported {
            uid: "uid-2".to_owned(),
            boot_id: "boot-1".to_owned(),
            sent: now.saturating_sub(Duration::from_secs(ago)),
            heartbeat: HEARTBEAT.to_owned(),
            policy: policy.to_owned(),
            stands,
        };
        scene.reporter.reported = [("worker-2".to_owned(), before)].into();
        let policies = scene.reporter.context.caches.policies();
        let node = scene.node();
        let brakes = scene.reporter.brakes(&policies[0], &node, 1);
        let may = may_ask(&node, &brakes).is_ok();
        assert_eq!(may, is_free, "{policy} {stands} {ago}");
    }
}

#[tokio::test]
async fn while_no_other_kubelet_renews_its_lease_nobody_is_suspected() {
    let mut scene = silent().await;
    let gone = serde_json::from_value(lease("worker-2", RENEWED)).expect("a Lease");
    let gone = Ok(Event::Delete(gone));
    scene.reporter.heard(gone, clock::since_boot());
    assert_eq!(scene.suspects(), [""; 0]);
}

/// Whoever has fenced it before, another process perhaps.
#[tokio::test]
async fn a_boot_that_was_fenced_has_had_its_turn() {
    let mut scene = silent().await;
    let node = scene.node();
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
        "metadata": {"name": "worker-1-f0000001", "uid": "uid-fence", "resourceVersion": "7"},
        "spec": {
            "nodeName": "worker-1", "nodeUID": node.uid, "bootID": node.boot_id, "trigger": {"type": "NodeCondition"},
            "fence": {"mode": "PowerOff", "levels": [{"name": "bmc"}]},
        },
    });
    scene = Scene::with(
        policy("Enabled", "PowerOff"),
        Knocked::Silent,
        ready(HEARTBEAT),
        vec![fence],
    )
    .await;
    assert_eq!(scene.suspects(), [""; 0]);
}

#[tokio::test]
async fn without_the_rights_nothing_is_watched() {
    let scene = silent().await;
    assert!(
        !scene
            .reporter
            .is_wanted(&OptionalRights::of_early_detection())
    );
}

/// A node that is not to be fenced any more when the report is due.
#[tokio::test]
async fn what_is_excluded_meanwhile_is_not_reported() {
    let mut scene = silent().await;
    assert_eq!(scene.suspects(), ["worker-1"]);
    let mut node = ready(HEARTBEAT);
    node["metadata"]["annotations"] = json!({"nodefencing.io/exclude": "maintenance"});
    node["metadata"]["labels"]["nodefencing.io/exclude"] = json!("true");
    node["spec"]["unschedulable"] = json!(true);
    scene.cluster.put(NODE, 200, node);
    scene.reads_off().await;
    assert!(scene.written().is_empty());
}

/// What has no address cannot say that it is dead.
#[tokio::test]
async fn a_kubelet_whose_port_is_not_known_is_not_reported() {
    let scene = silent().await;
    let mut node = ready(HEARTBEAT);
    node["status"]["addresses"] = json!([]);
    let node = serde_json::from_value(node).expect("a Node");
    let knocked = observe::knock(&scene.reporter.context, &node).await;
    assert_eq!(knocked, Knocked::Unclear);
}

#[tokio::test]
async fn a_report_that_is_too_old_does_not_leave() {
    let scene = silent().await;
    let now = clock::since_boot();
    let patch = |valid_until| NodePatch {
        node: "worker-1".to_owned(),
        operations: json!([{"op": "test", "path": "/metadata/uid", "value": "uid-1"}]),
        valid_from: Duration::ZERO,
        valid_until: Some(valid_until),
    };
    let context = &scene.reporter.context;
    let old = patch(now.saturating_sub(Duration::from_millis(1)));
    let reply = patch_node_status(context, old).await;
    assert!(matches!(reply, Reply::NotSent(_)), "{reply:?}");
    assert!(scene.written().is_empty());
    let reply = patch_node_status(context, patch(now + Duration::from_secs(60))).await;
    assert_eq!(reply, Reply::Done);
}

/// S24: what was listed of the pods is as old by then as a new boot may be.
#[tokio::test]
async fn a_pod_is_not_turned_late() {
    let scene = silent().await;
    let past = clock::since_boot().saturating_sub(Duration::from_millis(1));
    let context = &scene.reporter.context;
    let reply = patch_pod_status(context, "shop", "web", (json!([]), past)).await;
    assert!(matches!(reply, Reply::NotSent(_)), "{reply:?}");
    let seen = scene.cluster.server.seen();
    assert!(!seen.iter().any(|it| it.line.starts_with("PATCH")));
}
