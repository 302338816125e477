//! The scheduler's questions, each with a node that answers yes and one that answers no.

use super::*;
use fencing_core::fixtures;
use serde_json::{Value, json};

fn machine(name: &str, change: impl FnOnce(&mut NodeView)) -> Machine {
    let mut view = fixtures::ready_node(name);
    change(&mut view);
    Machine {
        view,
        free: Amounts::from([("pods".to_owned(), 1_000_000_000)]),
    }
}

fn seat(machines: &mut [Machine], spec: Value) -> Result<String, Nowhere> {
    let mut whole = json!({"containers": []});
    json_patch::merge(&mut whole, &spec);
    let spec: PodSpec = serde_json::from_value(whole).expect("a spec");
    let wants = Wants {
        spec: Some(&spec),
        volumes: Vec::new(),
        asked: Amounts::from([("pods".to_owned(), 1_000_000_000)]),
    };
    place(machines, "dead", &wants)
}

#[test]
fn a_node_that_takes_no_pods_is_none() {
    let mut machines = [
        machine("dead", |_| ()),
        machine("cordoned", |it| it.unschedulable = true),
        machine("silent", |it| {
            it.conditions[0].status = "Unknown".to_owned()
        }),
        machine("leaving", |it| it.deleting = true),
    ];
    assert_eq!(seat(&mut machines, json!({})), Err(Nowhere::NoOtherNode));
}

#[test]
fn a_taint_keeps_those_away_that_do_not_tolerate_it() {
    let tainted = |effect: &str| {
        [machine("w2", |it| {
            it.taints = vec![fixtures::taint("dedicated", "gpu", effect)]
        })]
    };
    let refused = Err(Nowhere::Tainted("dedicated:NoSchedule".to_owned()));
    let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
    assert_eq!(seat(&mut tainted("NoSchedule"), json!({})), refused);
    assert_eq!(
        seat(&mut tainted("PreferNoSchedule"), json!({})),
        Ok("w2".to_owned())
    );
    for (toleration, is_tolerated) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "dedicated", "operator": "Exists"}), true),
        (json!({"key": "dedicated", "value": "gpu"}), true),
        (
            json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}),
            true,
        ),
        (json!({"key": "dedicated", "value": "cpu"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (
            json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}),
            false,
        ),
    ] {
        let seated = seat(&mut tainted("NoSchedule"), tolerating(toleration.clone()));
        assert_eq!(seated.is_ok(), is_tolerated, "{toleration}");
    }
}

#[test]
fn node_affinity_follows_upstream() {
    let label = |value: &str| {
        machine("w2", |it| {
            it.labels.insert("cores".to_owned(), value.to_owned());
        })
    };
    let wants = |operator: &str, values: Value| {
        let term =
            json!({"matchExpressions": [{"key": "cores", "operator": operator, "values": values}]});
        let required = json!({"nodeSelectorTerms": [term]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    };
    for (operator, values, matches) in [
        ("In", json!(["8", "16"]), true),
        ("NotIn", json!(["8"]), false),
        ("Exists", json!([]), true),
        ("DoesNotExist", json!([]), false),
        ("Gt", json!(["4"]), true),
        ("Lt", json!(["8"]), false),
        ("Unheard", json!(["8"]), false),
    ] {
        let seated = seat(&mut [label("8")], wants(operator, values));
        assert_eq!(seated.is_ok(), matches, "{operator}");
    }
    let empty = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}});
    assert_eq!(seat(&mut [label("8")], empty), Err(Nowhere::NoMatch));
}

#[test]
fn what_a_pod_takes_the_next_one_does_not_find() {
    let mut machines = [machine("w2", |_| ())];
    assert!(seat(&mut machines, json!({})).is_ok());
    let Err(Nowhere::NoRoom(short)) = seat(&mut machines, json!({})) else {
        panic!("it has room for one");
    };
    assert_eq!(short, "1 of pods, where Node w2 has 0 left");
}

#[test]
fn what_is_not_looked_at_is_said() {
    let spec = |extra: Value| -> PodSpec {
        let mut whole = json!({"containers": []});
        json_patch::merge(&mut whole, &extra);
        serde_json::from_value(whole).expect("a spec")
    };
    let term = json!([{"topologyKey": "kubernetes.io/hostname"}]);
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    assert!(overlooked(&spec(apart)).is_some_and(|it| it.contains("podAntiAffinity")));
    assert!(
        overlooked(&spec(json!({"hostNetwork": true}))).is_some_and(|it| it.contains("host ports"))
    );
    assert_eq!(overlooked(&spec(json!({}))), None);
}
