//! What the API server shows of a storage's fence, as short objects of our own, and what is made of it.

mod calls;
mod clients;

use super::object::{NetworkFence, Purpose, State, name, new};
use fencing_core::fixtures::cases;
use proptest::prelude::*;
use serde_json::{Value, json};

const CIDR: &str = "10.0.0.7/32";
const NAME: &str = "worker-1.rbd";

fn purpose() -> Purpose {
    Purpose {
        node: "worker-1".to_owned(),
        node_uid: "uid-1".to_owned(),
        boot_id: "boot-1".to_owned(),
        fence: "fence".to_owned(),
    }
}

/// As CSI-Addons shows it once the storage has shut the node out.
fn fenced() -> Value {
    let mut object = new(NAME, "rbd", &[CIDR.to_owned()], &purpose());
    object["metadata"]["uid"] = json!("uid-fence");
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["finalizers"] = json!(["csiaddons.openshift.io/network-fence"]);
    object["status"] = json!({"result": "Succeeded", "message": "fencing operation successful"});
    object
}

fn with(mut object: Value, at: &str, value: Value) -> Value {
    *object.pointer_mut(at).expect("a field") = value;
    object
}

fn parsed(object: &Value) -> NetworkFence {
    serde_json::from_value(object.clone()).expect("a NetworkFence")
}

fn state(object: &Value) -> State {
    parsed(object).state()
}

#[test]
fn it_is_fenced_only_by_the_words_of_a_fencing_on_what_nobody_has_changed() {
    assert_eq!(state(&fenced()), State::Fenced);
    assert_eq!(parsed(&fenced()).purpose(), Some(purpose()));
    for (at, value) in [
        ("/status/result", json!("Failed")),
        ("/status/result", json!("")),
        ("/status/result", json!("succeeded")),
        ("/status/message", json!("unfencing operation successful")),
        ("/status/message", json!("fencing operation successful ")),
        ("/status/message", json!("")),
        ("/status", json!({})),
        ("/metadata/generation", json!(2)),
        ("/metadata/generation", json!(0)),
        ("/metadata/generation", json!(3)),
        ("/spec/fenceState", json!("Unfenced")),
        ("/spec/fenceState", json!("")),
        ("/spec/fenceState", json!("fenced")),
    ] {
        let object = with(fenced(), at, value.clone());
        assert_ne!(state(&object), State::Fenced, "{at} {value}");
    }
    let mut deleted = fenced();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    assert_eq!(state(&deleted), State::Deleting);
}

/// There is no observedGeneration: after the change it still says that the fencing has succeeded.
#[test]
fn it_is_unfenced_only_by_the_words_of_an_unfencing() {
    let flipped = with(fenced(), "/spec/fenceState", json!("Unfenced"));
    let flipped = with(flipped, "/metadata/generation", json!(2));
    let said = "Succeeded: fencing operation successful".to_owned();
    assert_eq!(state(&flipped), State::Unfencing(said));
    let done = with(
        flipped.clone(),
        "/status/message",
        json!("unfencing operation successful"),
    );
    assert_eq!(state(&done), State::Unfenced);
    let failed = with(done, "/status/result", json!("Failed"));
    assert!(matches!(state(&failed), State::Unfencing(_)));
    let silent = with(flipped, "/status", json!({}));
    assert_eq!(state(&silent), State::Unfencing(String::new()));
}

#[test]
fn only_what_bears_our_label_and_all_annotations_is_ours() {
    let mut unlabelled = fenced();
    unlabelled["metadata"]["labels"] = json!({});
    assert_eq!(parsed(&unlabelled).purpose(), None);
    for key in ["node", "node-uid", "boot-id", "node-fence"] {
        let mut object = fenced();
        let annotations = object["metadata"]["annotations"]
            .as_object_mut()
            .expect("annotations");
        assert!(
            annotations
                .remove(&format!("nodefencing.io/{key}"))
                .is_some(),
            "{key}"
        );
        assert_eq!(parsed(&object).purpose(), None, "{key}");
    }
}

#[test]
fn an_unfenced_object_of_the_same_address_lets_the_node_in() {
    let lets_in = |state: &str, cidrs: &[&str]| {
        let object = with(fenced(), "/spec/fenceState", json!(state));
        let object = with(object, "/spec/cidrs", json!(cidrs));
        parsed(&object).lets_in(&parsed(&fenced()))
    };
    assert!(lets_in("Unfenced", &[CIDR]));
    assert!(lets_in("Unfenced", &["10.9.9.9/32", "10.0.0.0/24"]));
    assert!(lets_in("", &[CIDR]));
    assert!(!lets_in(
        "Unfenced",
        &["10.0.0.8/32", "nonsense", "fd00::7/128"]
    ));
    assert!(!lets_in("Fenced", &[CIDR]));
}

#[test]
fn a_node_has_one_object_of_a_class() {
    assert_eq!(name("worker-1", "rbd"), NAME);
    assert_eq!(
        new(NAME, "rbd", &[CIDR.to_owned()], &purpose())["spec"],
        json!({
            "networkFenceClassName": "rbd", "fenceState": "Fenced", "cidrs": [CIDR],
            // As the controller's update leaves it: without these its generation were 2.
            "driver": "", "secret": {},
        })
    );
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_words_are_fenced(result in "Succeeded|Failed|.{0,12}", message in "(un)?fencing operation successful|.{0,40}", generation in 0_i64..4) {
        let object = with(fenced(), "/status", json!({"result": result, "message": message}));
        let object = with(object, "/metadata/generation", json!(generation));
        let is_it = (result.as_str(), message.as_str(), generation) == ("Succeeded", "fencing operation successful", 1);
        prop_assert_eq!(state(&object) == State::Fenced, is_it);
    }

    #[test]
    fn no_cidr_panics(one in ".{0,40}|[0-9.:/a-f]{0,30}", other in ".{0,40}|[0-9.:/a-f]{0,30}") {
        let object = |cidr: &str| parsed(&with(fenced(), "/spec/cidrs", json!([cidr])));
        let (one, other) = (object(&one), object(&other));
        let _ = (one.lets_in(&other), one.has_cidrs());
    }
}
