//! Nodes on which nothing goes on by itself: counted once, and shown as long as it is so.

use super::*;
use fencing_core::observed::QUARANTINE;

const STATUS: &str = "PATCH /apis/nodefencing.io/v1alpha1/nodefences/fence/status";

/// A Node that is Ready under the quarantine of this boot.
fn quarantined(boot: &str) -> Value {
    let mut node = node("True", false, false);
    let taint = json!({"key": QUARANTINE, "value": boot, "effect": "NoSchedule"});
    node["spec"]["taints"] = json!([taint]);
    node
}

/// The NodeFence by which policy prod has proven it down in `boot-1`, and what that says of its proof by now.
fn released(confirmed_down: &str) -> Value {
    let mut fence = proven("uid-1", None);
    fence["spec"]["policyName"] = json!("prod");
    let told = json!({
        "type": "NodeConfirmedDown", "status": confirmed_down, "reason": "Proven", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let conditions = fence["status"]["conditions"].as_array_mut();
    conditions.expect("conditions").push(told);
    fence
}

impl Lab {
    /// Why the node is shown as stranded.
    fn stranded(&self) -> Vec<&'static str> {
        let rows = self.detector.context.stranded.rows();
        rows.into_iter().map(|(_, reason)| reason).collect()
    }

    /// How often a contradiction was counted.
    fn contradictions(&self) -> usize {
        let metrics = self.detector.context.metrics.render().expect("metrics");
        let counted = metrics
            .lines()
            .filter(|line| line.starts_with("node_fencing_contradictions_total"));
        let counts = counted.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        counts.sum()
    }
}

/// S22: the boot that was proven down lives after the release. It is counted once, whatever process comes after, and shown until it has rebooted.
#[tokio::test]
async fn a_machine_that_lives_on_after_the_release_is_counted_once_and_shown() {
    // The boot of the quarantine, what the record says of its proof; what is shown, counted, and written into the record.
    let table = [
        ("boot-1", "True", vec!["SameBoot"], 1, 1),
        // The operator was restarted after that.
        ("boot-1", "False", vec!["SameBoot"], 0, 0),
        // Another boot: the quarantine is lifted.
        ("boot-0", "True", vec![], 0, 0),
    ];
    for (boot, confirmed, shown, counted, written) in table {
        let (live, fence) = (quarantined(boot), released(confirmed));
        let mut lab = Lab::new(live.clone(), None, vec![fence.clone()]).await;
        lab.cluster.put(NODE, 200, live);
        lab.cluster
            .put(&format!("GET {FENCES}/fence"), 200, fence.clone());
        lab.cluster.put(STATUS, 200, fence);
        lab.writes().await;
        assert_eq!(lab.stranded(), shown, "{boot} {confirmed}");
        assert_eq!(lab.contradictions(), counted, "{boot} {confirmed}");
        let requests = lab.cluster.requests();
        let is_written = requests.iter().any(|it| it.starts_with(STATUS));
        assert_eq!(
            usize::from(is_written),
            written,
            "{boot} {confirmed} {requests:?}"
        );
        for _ in 0..3 {
            lab.writes().await;
        }
        assert_eq!(lab.contradictions(), counted, "{boot} {confirmed}");
    }
}

/// S22: nor has one gone down whose kubelet has reported since in that boot that it is not Ready.
#[tokio::test]
async fn a_machine_that_lives_on_and_is_not_ready_is_told_of_too() {
    let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-01T00:20:00Z");
    for (reported, shown) in [(before, vec![]), (after, vec!["SameBoot"])] {
        let mut live = quarantined("boot-1");
        live["status"]["conditions"][0]["status"] = json!("False");
        live["status"]["conditions"][0]["lastHeartbeatTime"] = json!(reported);
        let mut fence = released("True");
        fence["status"]["evidence"]["readyHeartbeatTime"] = json!(before);
        let mut lab = Lab::new(live.clone(), None, vec![fence]).await;
        lab.cluster.put(NODE, 200, live);
        lab.writes().await;
        assert_eq!(lab.stranded(), shown, "{reported}");
        assert_eq!(lab.contradictions(), shown.len(), "{reported}");
        assert_eq!(lab.told(), shown.len(), "{reported}");
    }
}

/// S22: its Node was deleted by whomever after the release, and its kubelet has made another: there is no quarantine any more.
#[tokio::test]
async fn a_machine_that_lives_on_under_a_node_made_anew_is_told_of_too() {
    for (uid, shown) in [("uid-2", vec!["SameBoot"]), ("uid-1", vec![])] {
        let mut live = node("True", false, false);
        live["metadata"]["uid"] = json!(uid);
        let mut lab = Lab::new(live.clone(), None, vec![released("True")]).await;
        lab.cluster.put(NODE, 200, live);
        lab.writes().await;
        assert_eq!(lab.stranded(), shown, "{uid}");
        assert_eq!(lab.told(), shown.len(), "{uid}");
    }
}

/// S22: one that was left to others (`recovery.strategy: None`) carries no quarantine.
#[tokio::test]
async fn a_machine_that_was_left_to_others_and_lives_is_told_of_too() {
    for (ready, shown) in [("True", vec!["SameBoot"]), ("Unknown", vec![])] {
        let live = node(ready, false, false);
        let mut fence = released("True");
        fence["spec"]["recovery"]["strategy"] = json!("None");
        fence["status"]["taintAppliedTime"] = Value::Null;
        fence["status"]["conditions"][0]["reason"] = json!("ConfirmedDown");
        let mut lab = Lab::new(live.clone(), None, vec![fence]).await;
        lab.cluster.put(NODE, 200, live);
        lab.writes().await;
        assert_eq!(lab.stranded(), shown, "{ready}");
        assert_eq!(lab.contradictions(), shown.len(), "{ready}");
        assert_eq!(lab.told(), shown.len(), "{ready}");
    }
}

/// L3: a taint that no record handles is shown as long as it stands, also while it cannot be looked at.
#[tokio::test]
async fn a_taint_that_no_record_handles_is_shown_until_it_is_gone() {
    let mut undecodable = fence(false);
    undecodable["spec"]["nodeName"] = json!(7);
    let mut left = node("True", false, false);
    let mark = json!({"key": DETACHING, "value": "boot-0", "effect": "NoExecute"});
    left["spec"]["taints"] = json!([mark]);
    let table = [
        (
            node("Unknown", true, true),
            vec![undecodable],
            (200, json!({})),
            "ClaimOrphaned",
        ),
        (
            node("Unknown", true, true),
            vec![],
            (200, fence(true)),
            "ClaimRestored",
        ),
        (left, vec![], failure(404, "not found"), "ClaimMissing"),
    ];
    for (live, cached, (code, stored), reason) in table {
        let mut lab = Lab::new(live.clone(), None, cached).await;
        lab.cluster.put(NODE, 200, live);
        let path = format!("GET {FENCES}/fence");
        lab.cluster.put(&path, code, stored);
        lab.writes().await;
        assert_eq!(lab.stranded(), [reason]);
        // Neither its record nor the Node itself.
        for request in [path.as_str(), NODE] {
            let (code, slow) = failure(500, "etcd is slow");
            lab.cluster.put(request, code, slow);
            lab.writes().await;
            assert_eq!(lab.stranded(), [reason], "{request}");
        }
        lab.cluster.put(NODE, 200, node("True", false, false));
        lab.writes().await;
        assert_eq!(lab.stranded(), Vec::<&str>::new(), "{reason}");
    }
}
