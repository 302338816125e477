use super::*;
use crate::control;
use fencing_core::fixtures;
use fencing_core::observed::QUARANTINE;
use serde_json::json;

type Change = fn(&mut World);

fn now() -> Timestamp {
    "2027-01-02T18:00:00Z".parse().expect("a time")
}

fn node(name: &str) -> NodeView {
    let mut node = fixtures::node();
    node.name = name.to_owned();
    node.labels = [("name".to_owned(), name.to_owned())].into();
    for condition in &mut node.conditions {
        if condition.kind == "Ready" {
            condition.status = "True".to_owned();
        }
    }
    node
}

fn policy(name: &str, mode: &str, node: &str) -> NodeFencingPolicy {
    let policy = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFencingPolicy", "metadata": {"name": name},
        "spec": {"nodeSelector": {"matchLabels": {"name": node}}, "fence": {"mode": mode}},
    });
    serde_json::from_value(policy).expect("a policy")
}

fn device(node: &str, ready: &str) -> FenceDevice {
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
        "metadata": {"name": format!("bmc-{node}"), "generation": 1},
        "spec": {"nodeName": node},
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": ready, "reason": "Unreachable", "message": "no route",
                "lastTransitionTime": "2027-01-02T17:00:00Z",
            }],
            "positiveControls": [control::tests::row(&self::node(node), "On")],
        },
    });
    serde_json::from_value(device).expect("a device")
}

fn fence(node: &str, mode: &str, succeeded: &str) -> NodeFence {
    let fence = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": format!("{node}-1")},
        "spec": {"nodeName": node, "trigger": {"type": "NodeCondition"}, "fence": {"mode": mode}},
        "status": {"conditions": [{
            "type": "Succeeded", "status": succeeded, "reason": "Fencing", "message": "off was sent",
            "lastTransitionTime": "2027-01-02T17:00:00Z",
        }]},
    });
    serde_json::from_value(fence).expect("a NodeFence")
}

fn told(world: &World) -> Vec<(String, State, String)> {
    let cells = cells(world, now()).into_iter();
    cells.map(|it| (it.name, it.state, it.why)).collect()
}

/// A node that is protected by policy and device `a`.
fn well() -> World {
    World {
        nodes: Ok(vec![node("a")]),
        policies: Ok(vec![policy("p", "PowerOff", "a")]),
        devices: Ok(vec![device("a", "True")]),
        fences: Ok(vec![]),
    }
}

#[test]
fn a_node_is_protected_by_a_policy_that_acts_and_a_device_that_could() {
    let one = |state, why: &str| vec![("a".to_owned(), state, why.to_owned())];
    let cases: [(Change, State, &str); 6] = [
        (|_| {}, State::Protected, "policy p, by bmc-a"),
        (
            |it| it.policies = Ok(vec![policy("p", "Observe", "a")]),
            State::AtRisk,
            "policy p only observes now",
        ),
        (
            |it| it.devices = Ok(vec![]),
            State::AtRisk,
            "policy p selects it, but no FenceDevice is for it",
        ),
        (
            |it| it.devices = Ok(vec![device("a", "False")]),
            State::AtRisk,
            "FenceDevice bmc-a is not ready: Unreachable: no route",
        ),
        (
            |it| it.policies = Ok(vec![policy("p", "PowerOff", "b")]),
            State::NotSelected,
            "no policy selects it",
        ),
        (
            |it| it.fences = Ok(vec![fence("a", "PowerOff", "Unknown")]),
            State::Fenced,
            "Fencing: off was sent",
        ),
    ];
    for (change, state, why) in cases {
        let mut world = well();
        change(&mut world);
        assert_eq!(told(&world), one(state, why));
    }
}

#[test]
fn what_only_observes_or_has_ended_fences_nobody() {
    for fence in [
        fence("a", "Observe", "Unknown"),
        fence("a", "PowerOff", "True"),
    ] {
        let mut world = well();
        world.fences = Ok(vec![fence]);
        assert_eq!(told(&world)[0].1, State::Protected);
    }
}

/// S22: whatever else there is to say of it, a node that is Ready in the boot that was confirmed off comes first.
#[test]
fn a_node_that_people_have_to_act_on_comes_first() {
    let mut world = well();
    let mut node = node("a");
    node.taints = vec![fixtures::taint(QUARANTINE, &node.boot_id, "NoSchedule")];
    world.nodes = Ok(vec![node]);
    let told = told(&world);
    assert_eq!(told[0].1, State::Stranded);
    assert!(
        told[0].2.starts_with("SameBoot: Ready in the boot"),
        "{told:?}"
    );
    assert_eq!(State::ALL[0], State::Stranded);
}

#[test]
fn policies_that_quarrel_put_a_node_at_risk() {
    let mut world = well();
    world.policies = Ok(vec![
        policy("p", "PowerOff", "a"),
        policy("q", "PowerOff", "a"),
    ]);
    let told = told(&world);
    assert_eq!(told[0].1, State::AtRisk);
    assert!(told[0].2.contains("priority"), "{told:?}");
}

/// Nobody is shown as protected over what they may not read.
#[test]
fn what_may_not_be_read_makes_a_node_unknown_in_words() {
    let cases: [(Change, &str); 3] = [
        (
            |it| it.policies = Err("no".to_owned()),
            "NodeFencingPolicies cannot be read",
        ),
        (
            |it| it.devices = Err("no".to_owned()),
            "FenceDevices cannot be read",
        ),
        (
            |it| it.nodes = Err("no".to_owned()),
            "Nodes cannot be read, so which policy selects it is not known",
        ),
    ];
    for (change, why) in cases {
        let mut world = well();
        change(&mut world);
        let unknown = ("a".to_owned(), State::Unknown, why.to_owned());
        assert_eq!(told(&world), [unknown]);
        world.fences = Ok(vec![fence("a", "PowerOff", "Unknown")]);
        assert_eq!(told(&world)[0].1, State::Fenced);
    }
}

#[test]
fn a_cell_names_the_device_whose_off_proves_nothing_of_its_node() {
    let why = |boot_id: &str| {
        let mut world = well();
        world.nodes.as_mut().expect("nodes")[0].boot_id = boot_id.to_owned();
        told(&world).remove(0)
    };
    let boot = node("a").boot_id;
    assert_eq!(why(&boot).2, "policy p, by bmc-a");
    let (_, state, words) = why("another");
    assert_eq!(state, State::Protected);
    assert_eq!(
        words,
        "policy p, by bmc-a; FenceDevice bmc-a has not read On in the node's current boot, so its Off proves nothing"
    );
}
