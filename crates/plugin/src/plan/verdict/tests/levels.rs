//! Which level a fence counts on, and what is said of its devices.

use super::*;

#[test]
fn the_first_level_that_is_ready_is_counted_on() {
    let levels = json!([
        {"name": "bmc", "deviceSelector": {"matchLabels": {"tier": "bmc"}}, "timeoutSeconds": 90},
        {"name": "pdu", "deviceSelector": {"matchLabels": {"tier": "pdu"}}},
    ]);
    let mut case = Case::of(json!({"fence": {"levels": levels}}));
    let labelled = |name: &str, status: &str| {
        device(
            "w1",
            status,
            json!({"metadata": {"name": name, "labels": {"tier": name}}}),
        )
    };
    case.devices = vec![labelled("bmc", "False"), labelled("pdu", "True")];
    case.judge(|it| {
        assert_eq!(it.passed_over, 90.0);
        assert!(it.verdict.obstacles.is_empty());
    });
    case.devices.remove(0);
    case.judge(|it| assert_eq!(it.passed_over, 0.0));
}

#[test]
fn what_turns_the_machine_on_again_is_named() {
    let mut case = Case::of(json!({}));
    let restarters =
        json!([{"nodeName": "w1", "by": "Proxmox HA"}, {"nodeName": "w2", "by": "another"}]);
    case.devices = vec![device(
        "w1",
        "True",
        json!({"status": {"restarters": restarters}}),
    )];
    case.judge(|it| {
        let named = it.verdict.notes.iter().filter(|it| it.contains("on again"));
        let named: Vec<&str> = named.filter_map(|it| it.split(" may ").next()).collect();
        assert_eq!(named, ["Proxmox HA"]);
    });
}

#[test]
fn a_level_that_only_a_human_answers_for_waits_for_one() {
    let mut case = Case::of(json!({}));
    case.devices = vec![device(
        "w1",
        "True",
        json!({"spec": {"ipmi": null, "manual": {}}}),
    )];
    assert_eq!(case.obstacles(), ["AwaitingConfirmation"]);
}
