//! What Azure answers, as short documents of our own, and what is made of it.

mod calls;
mod lists;
mod login;
mod properties;

use super::*;
use crate::address::Address;
use fencing_core::reading::PowerState;
use serde_json::{Value, json};

const SUBSCRIPTION: &str = "b1e5d1a0-7c1f-4a51-9f3a-2d1f0c0ffee0";
const UUID: &str = "d0df4c54-4ecb-4a4b-9954-5bdf3ed5c3b8";

/// `spec.providerID` as Azure's cloud controller manager writes it.
fn provider_id() -> String {
    format!(
        "azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/mc_prod/providers/Microsoft.Compute/virtualMachines/worker-1"
    )
}

fn of_scale_set() -> String {
    format!(
        "azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/mc_prod/providers/Microsoft.Compute/virtualMachineScaleSets/aks-pool-vmss/virtualMachines/7"
    )
}

/// Its ID as the driver has it.
fn id() -> String {
    provider_id()["azure:///".len()..].to_lowercase()
}

fn node(provider_id: String) -> NodeFacts {
    NodeFacts {
        provider_id,
        system_uuid: UUID.to_owned(),
        ..NodeFacts::named("worker-1")
    }
}

fn azure(settings: &Value) -> Azure {
    let settings: AzureDriver = serde_json::from_value(settings.clone()).expect("settings");
    settings.provider()
}

fn statuses(codes: &[&str]) -> Value {
    let one = |code: &&str| json!({"code": code, "level": "Info", "displayStatus": "in words"});
    codes.iter().map(one).collect()
}

/// A machine with these statuses. Azure writes the group in upper case now and then.
fn vm(codes: &[&str]) -> Value {
    json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/MC_PROD/providers/Microsoft.Compute/virtualMachines/worker-1"),
        "name": "worker-1",
        "properties": {
            "vmId": UUID.to_uppercase(),
            "provisioningState": "Succeeded",
            "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
            "instanceView": {
                "vmAgent": {"statuses": statuses(&["ProvisioningState/unavailable"])},
                "statuses": statuses(codes),
            },
        },
    })
}

const STOPPED: [&str; 2] = ["ProvisioningState/succeeded", "PowerState/stopped"];
const RUNNING: [&str; 2] = ["ProvisioningState/succeeded", "PowerState/running"];

fn with(mut document: Value, at: &str, value: Value) -> Value {
    let (parent, name) = at.rsplit_once('/').expect("a path");
    let parent = document.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.expect("an object").insert(name.to_owned(), value);
    document
}

fn read(document: &Value) -> Option<Vm> {
    serde_json::from_value(document.clone()).ok()
}

fn faults(document: &Value) -> Vec<String> {
    read(document).expect("a machine").said().faults
}

fn reads_off(document: &Value) -> bool {
    read(document).is_some_and(|vm| vm.said().is_off())
}

#[test]
fn a_machine_is_off_by_its_power_state_and_nothing_at_work() {
    assert!(reads_off(&vm(&STOPPED)));
    assert!(reads_off(&vm(&[
        "PowerState/deallocated",
        "ProvisioningState/succeeded"
    ])));
    let state = |word: &str| {
        let said = read(&vm(&[STOPPED[0], word])).expect("a machine").said();
        (said.state, said.raw)
    };
    assert_eq!(
        state("PowerState/running"),
        (PowerState::On, "running".to_owned())
    );
    for between in ["starting", "stopping", "deallocating"] {
        let (state, raw) = state(&format!("PowerState/{between}"));
        assert_eq!(
            (state, raw.as_str()),
            (PowerState::Transitional, between),
            "{between}"
        );
    }
    for (code, raw) in [
        ("PowerState/unknown", "unknown"),
        ("PowerState/Stopped", "Stopped"),
        ("PowerState/", ""),
        ("powerState/stopped", "no PowerState"),
        ("OSState/generalized", "no PowerState"),
    ] {
        assert_eq!(state(code), (PowerState::Unknown, raw.to_owned()), "{code}");
    }
    let twice = vm(&[STOPPED[0], STOPPED[1], "PowerState/running"]);
    let said = read(&twice).expect("a machine").said();
    assert_eq!(said.raw, "stopped, running");
    assert_eq!(said.state, PowerState::Unknown);
}

#[test]
fn an_operation_at_work_or_failed_speaks_against_an_off() {
    for (code, fault) in [
        ("ProvisioningState/updating", "ProvisioningState updating"),
        ("ProvisioningState/creating", "ProvisioningState creating"),
        ("ProvisioningState/deleting", "ProvisioningState deleting"),
        (
            "ProvisioningState/failed/AllocationFailed",
            "ProvisioningState failed/AllocationFailed",
        ),
        ("ProvisioningState/Succeeded", "ProvisioningState Succeeded"),
        ("OSState/generalized", "ProvisioningState not shown"),
    ] {
        assert_eq!(faults(&vm(&[code, "PowerState/stopped"])), [fault]);
    }
    let two = vm(&[STOPPED[0], "ProvisioningState/updating", STOPPED[1]]);
    assert_eq!(faults(&two), ["ProvisioningState succeeded, updating"]);
}

#[test]
fn a_machine_that_may_be_hibernated_is_never_off() {
    let hibernated = [
        "ProvisioningState/succeeded",
        "PowerState/deallocated",
        "HibernationState/Hibernated",
    ];
    assert_eq!(faults(&vm(&hibernated)), ["HibernationState Hibernated"]);
    let fault = "hibernation is enabled, which may keep its memory";
    for codes in [&STOPPED[..], &hibernated[..2]] {
        for (enabled, is_off) in [
            (json!(false), true),
            (Value::Null, true),
            (json!(true), false),
            (json!("true"), false),
            (json!("odd"), false),
        ] {
            let capabilities = json!({"hibernationEnabled": enabled});
            let document = with(
                vm(codes),
                "/properties/additionalCapabilities",
                capabilities,
            );
            let expected: &[&str] = if is_off { &[] } else { &[fault] };
            assert_eq!(faults(&document), expected, "{codes:?} {enabled}");
        }
    }
    // Where it runs, none of it matters.
    let running = with(
        vm(&RUNNING),
        "/properties/additionalCapabilities",
        json!({"hibernationEnabled": true}),
    );
    assert!(faults(&running).is_empty());
}

#[test]
fn the_machine_follows_from_the_provider_id_alone() {
    let any = azure(&json!({}));
    let of = |provider_id: &str| {
        let id = any.machine(&node(provider_id.to_owned())).ok()?.id;
        Some(id)
    };
    assert_eq!(of(&provider_id()), Some(id()));
    let upper = provider_id().replace("mc_prod", "MC_Prod");
    assert_eq!(of(&upper), Some(id()));
    let instance = of(&of_scale_set()).expect("an instance");
    assert!(instance.ends_with("/virtualmachinescalesets/aks-pool-vmss/virtualmachines/7"));
    for other in [
        "",
        "worker-1",
        "aws:///eu-1a/i-0",
        "azure://worker-1",
        &provider_id().replace("azure:///", "azure:////"),
        &provider_id().replace("worker-1", ""),
        &provider_id().replace("worker-1", ".."),
        &provider_id().replace("worker-1", "..a"),
        &provider_id().replace("worker-1", "a?b"),
        &provider_id().replace("worker-1", "a%2fb"),
        &provider_id().replace("worker-1", "a/b"),
        &provider_id().replace("mc_prod", ".."),
        &provider_id().replace(SUBSCRIPTION, "prod"),
        &provider_id().replace("Microsoft.Compute", "Microsoft.Storage"),
        &provider_id().replace("virtualMachines", "disks"),
        &of_scale_set().replace("/7", "/seven"),
        &of_scale_set().replace("aks-pool-vmss", ".."),
        &of_scale_set().replace("/7", "/7/extensions"),
    ] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn a_node_of_another_subscription_or_group_is_refused() {
    let refused = |settings: Value| {
        let azure = azure(&settings);
        azure
            .machine(&node(provider_id()))
            .err()
            .map(|it| it.to_string())
    };
    let right = json!({"subscriptionID": SUBSCRIPTION.to_uppercase(), "resourceGroup": "MC_prod"});
    assert_eq!(refused(right), None);
    let other = SUBSCRIPTION.replace('b', "c");
    let said = refused(json!({"subscriptionID": other})).expect("a refusal");
    assert!(
        said.contains("`azure.subscriptionID` is another one"),
        "{said}"
    );
    let said = refused(json!({"resourceGroup": "mc_test"})).expect("a refusal");
    assert!(
        said.contains("`azure.resourceGroup` is another one"),
        "{said}"
    );
}

#[test]
fn a_machine_shows_who_it_is_and_what_starts_it_again() {
    let found = read(&vm(&RUNNING)).expect("a machine");
    assert_eq!(found.check(&id()), Ok(()));
    assert_eq!(found.uuid().as_deref(), Some(UUID));
    assert_eq!(found.model().as_deref(), Some("Standard_D4s_v5"));
    assert_eq!(found.restarter(), None);
    let another = id().replace("worker-1", "worker-2");
    assert!(found.check(&another).is_err());

    let restarter = |document: &Value| read(document).expect("a machine").restarter();
    let set = format!("/subscriptions/{SUBSCRIPTION}/.../virtualMachineScaleSets/flex");
    let flexible = with(
        vm(&RUNNING),
        "/properties/virtualMachineScaleSet",
        json!({"id": set}),
    );
    assert_eq!(restarter(&flexible).as_deref(), Some("scale set flex"));
    let path = of_scale_set()["azure://".len()..].to_owned();
    let instance = with(vm(&RUNNING), "/id", json!(path));
    let instance = with(instance, "/sku", json!({"name": "Standard_D2s_v3"}));
    let instance = with(instance, "/properties/hardwareProfile", json!({}));
    assert_eq!(
        restarter(&instance).as_deref(),
        Some("scale set aks-pool-vmss")
    );
    let spot = with(instance.clone(), "/properties/priority", json!("Spot"));
    let spot = read(&spot).expect("a machine").model();
    assert_eq!(spot.as_deref(), Some("Standard_D2s_v3, spot"));
    let pool = with(instance, "/tags", json!({"aks-managed-poolName": "pool"}));
    assert_eq!(restarter(&pool).as_deref(), Some("AKS, node pool pool"));
}

#[test]
fn a_link_is_followed_at_the_same_origin_and_below_its_path_alone() {
    let own = Address::parse("https://management.azure.com").expect("an address");
    let below = places::operations_of(&id()).expect("a path");
    let path = format!("{below}westeurope/operations/1?api-version=x&c=MII");
    let follow = |link: &str| places::path_of(link, &own, &below);
    let right = format!("https://management.azure.com{path}");
    assert_eq!(follow(&right).as_ref(), Ok(&path));
    let with_port = format!("https://management.azure.com:443{path}");
    assert!(follow(&with_port).is_ok());
    let cased = right.replace("microsoft.compute", "Microsoft.Compute");
    assert!(follow(&cased).is_ok());
    for link in [
        "",
        &path,
        &right.replace("https", "http"),
        &right.replace("management", "evil"),
        &right.replace("management.azure.com", "management.azure.com.example.org"),
        &right.replace("management.azure.com", "management.azure.com@example.org"),
        &right.replace("azure.com", "azure.com:8443"),
        &right.replace(SUBSCRIPTION, &SUBSCRIPTION.replace('b', "c")),
        &right.replace("westeurope", "../.."),
        &right.replace("westeurope", "west europe"),
        "https://management.azure.com/",
        &format!("{right}{}", "x".repeat(16 << 10)),
    ] {
        assert!(follow(link).is_err(), "{link}");
    }
}

#[test]
fn rights_are_read_with_their_wildcards_and_exceptions() {
    let own = places::power_off_of(&id());
    let of_set = places::power_off_of(&of_scale_set().to_lowercase());
    assert_ne!(own, of_set);
    for (actions, exceptions, is_allowed) in [
        (vec![own], vec![], true),
        (vec!["*"], vec![], true),
        (vec!["microsoft.compute/virtualMachines/*"], vec![], true),
        (vec!["Microsoft.Compute/*/powerOff/action"], vec![], true),
        (vec!["*/virtualMachines/*/action"], vec![], true),
        (vec!["*/read"], vec![], false),
        (vec!["Microsoft.Compute/*/read", of_set], vec![], false),
        (
            vec!["Microsoft.Compute/virtualMachines/powerOff"],
            vec![],
            false,
        ),
        (vec!["*/virtualMachines/*/powerOff/*/action"], vec![], false),
        (vec!["*"], vec!["Microsoft.Compute/*/action"], false),
        (vec![], vec![], false),
    ] {
        let found = json!({"value": [{"actions": actions, "notActions": exceptions}, {}]});
        let found: Permissions = serde_json::from_value(found).expect("permissions");
        assert_eq!(found.allow(own), is_allowed, "{actions:?} {exceptions:?}");
    }
}

#[test]
fn an_operation_ends_well_by_one_word() {
    let path = "/subscriptions/x/operations/0a?api-version=y";
    let follow = |status: &str, name: Value| {
        let found =
            json!({"status": status, "name": name, "error": {"code": "OperationPreempted"}});
        let found: facts::Operation = serde_json::from_value(found).expect("an operation");
        found.follow(path)
    };
    assert_eq!(follow("InProgress", json!("0A")), Follow::Running);
    assert_eq!(follow("Succeeded", json!("0A")), Follow::Done);
    assert_eq!(follow("Succeeded", Value::Null), Follow::Done);
    for (status, name) in [
        ("Failed", "0a"),
        ("Canceled", "0a"),
        ("succeeded", "0a"),
        ("", "0a"),
        ("Succeeded", "0b"),
    ] {
        let ended = follow(status, json!(name));
        let Follow::Failed(words) = ended else {
            panic!("{status} {name}: {ended:?}");
        };
        assert!(words.contains("OperationPreempted"), "{words}");
    }
}
