//! Of which nodes no incident is opened, because their policy is paused or because of what the Node says.

use super::*;
use jiff::SignedDuration;

/// The reason of a node that is left alone, as its policy and the metrics show it.
fn kept_off(lab: &Lab) -> Vec<&'static str> {
    let kept_off = lab.detector.context.delays.kept_off();
    kept_off.into_iter().map(|(_, reason)| reason).collect()
}

/// The policy with these fields on top.
fn changed(changes: Value) -> Value {
    let mut policy = policy();
    json_patch::merge(&mut policy["spec"], &changes);
    policy
}

/// S13: the cache does not know of it yet, or has known it all along.
#[tokio::test]
async fn no_incident_is_opened_of_a_node_that_its_policy_keeps_its_hands_off() {
    let down = || node("Unknown", false, false);
    let cordoned = || {
        let mut node = down();
        node["spec"]["unschedulable"] = json!(true);
        node
    };
    let recovered = || {
        let mut node = cordoned();
        node["status"]["conditions"][0]["status"] = json!("True");
        node
    };
    let paused =
        |expires: &str| changed(json!({"pauseRequests": [{"name": "ops", "expireTime": expires}]}));
    for (policy, cached, live, opened, told) in [
        (policy(), cordoned(), cordoned(), 0, vec!["Excluded"]),
        (policy(), down(), cordoned(), 0, vec!["Excluded"]),
        (policy(), down(), recovered(), 0, vec![]),
        // It would not be fenced anyway.
        (
            changed(json!({"fence": {"mode": "Observe"}})),
            cordoned(),
            cordoned(),
            0,
            vec![],
        ),
        (
            changed(json!({"exclusions": {"cordoned": "Fence"}})),
            cordoned(),
            cordoned(),
            1,
            vec![],
        ),
        (
            paused("2099-01-01T00:00:00Z"),
            down(),
            down(),
            0,
            vec!["Paused"],
        ),
        (paused("2001-01-01T00:00:00Z"), down(), down(), 1, vec![]),
    ] {
        let mut lab = Lab::new(cached.clone(), Some(policy.clone()), vec![]).await;
        lab.cluster.put(NODE, 200, live.clone());
        assert_eq!(lab.writes().await, (opened, 0), "{policy} {cached} {live}");
        assert_eq!(kept_off(&lab), told, "{policy} {cached} {live}");
    }
}

/// L5: nobody changes anything any more, and the detector looks again by itself.
#[tokio::test]
async fn a_pause_that_expires_lets_the_incident_be_opened() {
    let expires = clock::wall() + SignedDuration::from_millis(1500);
    let policy =
        changed(json!({"pauseRequests": [{"name": "ops", "expireTime": expires.to_string()}]}));
    let down = node("Unknown", false, false);
    let mut lab = Lab::new(down.clone(), Some(policy), vec![]).await;
    lab.cluster.put(NODE, 200, down);
    assert_eq!(lab.writes().await.0, 0);
    assert_eq!(kept_off(&lab), ["Paused"]);
    let due = lab.detector.next_due().expect("a look when it expires");
    assert!(due <= clock::since_boot() + Duration::from_millis(1500));
    while !kept_off(&lab).is_empty() {
        let due = lab.detector.next_due().expect("another look");
        tokio::time::sleep(due.saturating_sub(clock::since_boot())).await;
        lab.detector.run_due().await;
    }
    let created = |line: &String| line.starts_with("POST ");
    assert_eq!(
        lab.cluster
            .requests()
            .iter()
            .filter(|it| created(it))
            .count(),
        1
    );
}

/// Nobody can tell what the policy says, so that nothing is begun by it; and that is told, whatever the mode beside it.
#[tokio::test]
async fn no_incident_is_opened_by_a_policy_with_a_window_of_no_known_zone() {
    let window = |zone: &str| json!({"name": "night", "days": ["Mon"], "start": "22:00", "end": "06:00", "timeZone": zone, "approvalMode": "Manual"});
    for (mode, zone, opened, told) in [
        ("PowerOff", "Moon/Base", 0, vec!["InvalidWindow"]),
        ("Observe", "Moon/Base", 0, vec!["InvalidWindow"]),
        ("PowerOff", "Europe/Berlin", 1, vec![]),
        ("Observe", "Europe/Berlin", 1, vec![]),
    ] {
        let policy = changed(json!({"fence": {"mode": mode}, "windows": [window(zone)]}));
        let down = node("Unknown", false, false);
        let mut lab = Lab::new(down.clone(), Some(policy), vec![]).await;
        lab.cluster.put(NODE, 200, down);
        assert_eq!(lab.writes().await, (opened, 0), "{mode} {zone}");
        assert_eq!(kept_off(&lab), told, "{mode} {zone}");
    }
}
