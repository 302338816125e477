//! What a Prism Central answers, as short documents of our own, and what is made of it.

mod calls;

use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::{Value, json};

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
const OTHER: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e32";
const TASK: &str = "ZXJnb24=:0b9e4f3e-4a5c-4a6e-9b55-1a2b3c4d5e6f";

fn node() -> NodeFacts {
    NodeFacts {
        provider_id: format!("nutanix://{UUID}"),
        ..NodeFacts::named("worker-1")
    }
}

/// A VM that is off.
fn off() -> Value {
    json!({
        "$objectType": "vmm.v4.ahv.config.Vm", "$reserved": {"$fv": "v4.r0"},
        "extId": UUID, "name": "worker-1", "biosUuid": UUID, "powerState": "OFF",
        "isAgentVm": false, "isCrossClusterMigrationInProgress": false,
        "cluster": {"extId": OTHER}, "numSockets": 4,
    })
}

fn with(mut document: Value, name: &str, value: Option<Value>) -> Value {
    let fields = document.as_object_mut().expect("an object");
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
    document
}

fn vm(document: &Value) -> Option<Vm> {
    serde_json::from_value(document.clone()).ok()
}

fn reads_off(document: &Value) -> bool {
    vm(document).is_some_and(|vm| vm.said().is_off())
}

fn task(document: &Value) -> Task {
    serde_json::from_value(document.clone()).expect("a task")
}

#[test]
fn only_off_is_off_and_not_while_the_vm_moves() {
    assert!(reads_off(&off()));
    let state = |word: &str| {
        let vm = vm(&with(off(), "powerState", Some(word.into())));
        vm.expect("a VM").said().state
    };
    assert_eq!(state("ON"), PowerState::On);
    for unknown in [
        "PAUSED",
        "UNDETERMINED",
        "$UNKNOWN",
        "$REDACTED",
        "Off",
        "off",
        "",
    ] {
        assert_eq!(state(unknown), PowerState::Unknown, "{unknown}");
    }
    let none = vm(&with(off(), "powerState", None)).expect("a VM").said();
    assert_eq!(
        (none.state, none.raw.as_str()),
        (PowerState::Unknown, "no powerState")
    );
    let moves = with(
        off(),
        "isCrossClusterMigrationInProgress",
        Some(json!(true)),
    );
    let said = vm(&moves).expect("a VM").said();
    assert_eq!(said.faults, ["moves to another cluster"]);
}

#[test]
fn another_vm_of_the_same_name_may_be_the_machine() {
    let of = |id: &str, name: &str| {
        let document = with(off(), "extId", Some(json!(id)));
        vm(&with(document, "name", Some(json!(name)))).expect("a VM")
    };
    let own = vm(&off()).expect("a VM");
    for (other, may) in [
        (of(OTHER, "worker-1"), true),
        (of(OTHER, "db-1"), false),
        (of(UUID, "worker-1"), false),
    ] {
        assert_eq!(other.may_stand_for(&own), may, "{other:?}");
    }
}

#[test]
fn the_machine_follows_from_the_provider_id_or_the_system_uuid() {
    let id = |provider_id: &str| {
        let node = NodeFacts {
            provider_id: provider_id.to_owned(),
            system_uuid: OTHER.to_uppercase(),
            ..NodeFacts::named("worker-1")
        };
        Nutanix.machine(&node).map(|id| id.id).ok()
    };
    assert_eq!(id(&format!("nutanix://{UUID}")).as_deref(), Some(UUID));
    assert_eq!(
        id(&format!("nutanix://{}", UUID.to_uppercase())).as_deref(),
        Some(UUID)
    );
    assert_eq!(id("").as_deref(), Some(OTHER));
    for other in [
        "nutanix://",
        "nutanix://../../prism",
        "nutanix://00000000-0000-0000-0000-000000000000",
        "vsphere://4c4c4544-0042-3510-8054-b4c04f4e4e31",
        UUID,
    ] {
        assert_eq!(id(other), None, "{other}");
    }
}

#[test]
fn a_task_is_followed_if_it_is_the_one_that_was_begun() {
    let path = format!("{TASKS}/{TASK}");
    let of = |status: &str| task(&json!({"extId": TASK, "status": status}));
    let follow = |task: &Task| task.follow(&path, "in state Off");
    assert_eq!(of("RUNNING").id(), Some(TASK));
    for running in ["QUEUED", "RUNNING", "CANCELING"] {
        assert_eq!(follow(&of(running)), Follow::Running, "{running}");
    }
    assert_eq!(follow(&of("SUCCEEDED")), Follow::Done);
    for failed in [
        "FAILED",
        "CANCELED",
        "SUSPENDED",
        "$UNKNOWN",
        "succeeded",
        "",
    ] {
        assert!(matches!(follow(&of(failed)), Follow::Failed(_)), "{failed}");
    }
    let other = task(&json!({"extId": "ZXJnb24=:1", "status": "SUCCEEDED"}));
    assert!(matches!(follow(&other), Follow::Failed(_)));
    for (wanted, actual, is_so) in [
        ("in state Off", "Off", true),
        ("in state On", "On", true),
        // A VM that is on was not turned off, whatever else was wrong.
        ("in state Off", "On", false),
        ("in state On", "Off", false),
        ("", "Off", false),
    ] {
        let words = format!("InvalidVmState: Cannot complete request in state {actual}");
        let errors = json!([{"message": words}]);
        let ended = json!({"extId": TASK, "status": "FAILED", "errorMessages": errors});
        let ended = task(&ended).follow(&path, wanted);
        let is_already = matches!(ended, Follow::Already(_));
        let has_failed = matches!(ended, Follow::Failed(_));
        assert_eq!(
            (is_already, has_failed),
            (is_so, !is_so),
            "{wanted}, {actual}"
        );
    }
    for id in ["", "../../vms", "a/b", "a?b", "a b", &"a".repeat(129)] {
        assert_eq!(task(&json!({"extId": id})).id(), None, "{id}");
    }
}

#[test]
fn a_request_has_an_id_of_its_own_that_is_a_uuid_of_version_4() {
    let [one, other] = [(); 2].map(|()| request_id());
    assert_ne!(one, other);
    let digit = |at: usize| one.chars().nth(at);
    assert_eq!((one.len(), digit(14)), (36, Some('4')));
    assert!(digit(19).is_some_and(|it| "89ab".contains(it)), "{one}");
}

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "[A-Z$_]{0,12}|OFF|ON|.{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"OFF": true, "extId": UUID})),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_word_is_off(value in any_value()) {
        let is_same = value == json!("OFF");
        prop_assert_eq!(reads_off(&with(off(), "powerState", Some(value))), is_same);
    }

    #[test]
    fn no_json_panics(one in any_value(), other in any_value()) {
        let odd = json!({"data": {"error": [one, {"code": other}]}, "extId": one, "errorMessages": [other]});
        let _ = (vm(&odd), facts::words(odd.to_string().as_bytes()));
        let _ = serde_json::from_value::<Task>(odd).map(|it| it.follow("/x", "in state Off"));
    }
}
