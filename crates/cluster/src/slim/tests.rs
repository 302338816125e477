use super::*;
use fencing_core::quiesce::{Toleration, stays};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Of a pod with these tolerations, as the API server would give it.
fn stays_with(tolerations: &Value) -> bool {
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": tolerations}});
    let pod: Pod = serde_json::from_value(pod).expect("a Pod");
    pod_view(&pod).tolerates_out_of_service
}

/// What a real controller-manager did with them. A pod that is refused there never comes here, and would not count as one that stays.
#[test]
fn pods_stay_on_a_fenced_node_where_a_real_controller_manager_lets_them() {
    let table = include_str!("../../../../tests/data/tolerations.yaml");
    let rows: Vec<Value> = serde_saphyr::from_str(table).expect("a list");
    let wrong: Vec<_> = rows
        .iter()
        .filter(|row| stays_with(&row["tolerations"]) != (row["verdict"] == "stays"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for verdict in ["stays", "evicted", "refused"] {
        let count = rows.iter().filter(|row| row["verdict"] == verdict).count();
        assert!(count >= 6, "{count} {verdict}");
    }
}

/// S9: a Node that would stay when it is deleted, or is going already, is another thing than one that is not.
#[test]
fn what_holds_a_node_and_that_it_is_going_is_seen() {
    let seen = |metadata: Value| {
        let node: SlimNode = serde_json::from_value(json!({"metadata": metadata})).expect("a Node");
        let view = node.view();
        (view.finalizers, view.deleting)
    };
    assert_eq!(seen(json!({"name": "n"})), (Vec::new(), false));
    let going = json!({
        "name": "n", "finalizers": ["example.com/a"], "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    assert_eq!(seen(going), (vec!["example.com/a".to_owned()], true));
}

/// S1: what is not known to be a kubelet's own may be attached, whatever comes with a later Kubernetes.
#[test]
fn a_volume_that_no_kubelet_makes_up_for_itself_may_be_attached() {
    let attaches = |volume: Value| {
        let volumes = json!([volume]);
        let pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": volumes}});
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        pod_view(&pod).attachable
    };
    for of_kubelet in [
        json!({"name": "v", "emptyDir": {}}),
        json!({"name": "v", "hostPath": {"path": "/"}}),
        json!({"name": "v", "configMap": {"name": "c"}}),
        json!({"name": "v", "secret": {"secretName": "s"}}),
        json!({"name": "v", "projected": {"sources": []}}),
        json!({"name": "v", "downwardAPI": {}}),
        json!({"name": "v", "csi": {"driver": "inline"}}),
        json!({"name": "v", "image": {"reference": "i"}}),
    ] {
        assert!(!attaches(of_kubelet.clone()), "{of_kubelet}");
    }
    for other in [
        json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
        json!({"name": "v", "ephemeral": {}}),
        json!({"name": "v", "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}),
        json!({"name": "v", "of a later version": {}}),
    ] {
        assert!(attaches(other.clone()), "{other}");
    }
}

const TAINTS: [(&str, &str); 4] = [
    ("node.kubernetes.io/out-of-service", "nodeshutdown"),
    ("nodefencing.io/claim", "worker-1-4a5b6c7d-deadbeef"),
    ("node.kubernetes.io/unreachable", ""),
    ("node.kubernetes.io/not-ready", ""),
];

/// Upstream's `GetMatchingTolerations` and `getMinTolerationTime`, line by line: is `getMinTolerationTime` negative?
fn upstream(tolerations: &[Toleration]) -> bool {
    let mut used = Vec::new();
    for (key, value) in TAINTS {
        let mut tolerated = false;
        for it in tolerations {
            let wrong_effect = !it.effect.is_empty() && it.effect != "NoExecute";
            let wrong_key = !it.key.is_empty() && it.key != key;
            let right = match it.operator.as_str() {
                "" | "Equal" => it.value == value,
                "Exists" => true,
                _ => false,
            };
            if !wrong_effect && !wrong_key && right {
                used.push(it.seconds);
                tolerated = true;
                break;
            }
        }
        if !tolerated {
            return false;
        }
    }
    used.iter().all(Option::is_none)
}

fn any_toleration() -> impl Strategy<Value = Toleration> {
    let one_of = |words: Vec<&'static str>| prop::sample::select(words).prop_map(str::to_owned);
    let keys = TAINTS.map(|(key, _)| key);
    let keys = [&keys[..], &["", "", "", "example.com/other"]].concat();
    (
        one_of(keys),
        one_of(vec!["Exists", "Exists", "Equal", "", "Lt", "exists"]),
        one_of(vec!["", "", "nodeshutdown", "other"]),
        one_of(vec!["", "NoExecute", "NoExecute", "NoSchedule"]),
        prop::option::weighted(0.2, -1_i64..400),
    )
        .prop_map(|(key, operator, value, effect, seconds)| Toleration {
            key,
            operator,
            value,
            effect,
            seconds,
        })
}

/// The API server refuses others, as it does a time limit without NoExecute (`ValidateTolerations`).
fn is_well_formed(it: &Toleration) -> bool {
    let is_known = matches!(it.operator.as_str(), "" | "Equal" | "Exists");
    is_known
        && (!it.key.is_empty() || it.operator == "Exists")
        && (it.value.is_empty() || it.operator != "Exists")
}

mod properties {
    use super::*;
    use fencing_core::fixtures::cases;

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn any_tolerations_mean_what_they_mean_upstream_and_malformed_ones_nothing(
            tolerations in prop::collection::vec(any_toleration(), 0..6),
        ) {
            let mut well_formed = tolerations.clone();
            well_formed.retain(is_well_formed);
            prop_assert_eq!(stays(&tolerations), upstream(&well_formed));
        }
    }
}

/// S2: as `deploy/admission.yaml` has it.
#[test]
fn a_ready_pod_is_left_to_pod_gc_unless_it_is_being_disrupted() {
    let looks_alive = |conditions: &[(&str, &str)]| {
        let conditions = conditions.iter();
        let conditions: Vec<_> = conditions
            .map(|(kind, status)| match *status {
                "turned" => json!({"type": kind, "status": "False", "reason": "NodePoweredOff"}),
                status => json!({"type": kind, "status": status}),
            })
            .collect();
        let pod = json!({
            "metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"conditions": conditions},
        });
        let pod: Pod = serde_json::from_value(pod).expect("a Pod");
        pod_view(&pod).looks_alive
    };
    assert!(!looks_alive(&[]));
    assert!(!looks_alive(&[("Ready", "False")]));
    // By the operator itself, of a node that it has reported (S24).
    assert!(looks_alive(&[("Ready", "turned")]));
    assert!(looks_alive(&[("PodScheduled", "True"), ("Ready", "True")]));
    assert!(looks_alive(&[
        ("Ready", "True"),
        ("DisruptionTarget", "False")
    ]));
    assert!(!looks_alive(&[
        ("Ready", "True"),
        ("DisruptionTarget", "True")
    ]));
}
