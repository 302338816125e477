//! What holds of any answer and any provider ID.

use super::*;
use fencing_core::fixtures::cases;
use proptest::prelude::*;

/// Values that a field may have at a version that is not known here.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..6).prop_map(Value::from),
        "PowerState/[a-z]{0,12}|ProvisioningState/[a-z]{0,12}|.{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!([{"code": "PowerState/stopped"}, {"code": "PowerState/stopped"}])),
        Just(json!({"id": "x", "statuses": [], "hibernationEnabled": true})),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_other_code_is_off(power in "(P|p)owerState/[Ss]topp?(ed|ing) ?|PowerState/.{0,12}", provisioning in "ProvisioningState/(s|S)uccee?ded ?|.{0,20}") {
        let is_power = ["PowerState/stopped", "PowerState/deallocated"].contains(&power.as_str());
        let is_off = is_power && provisioning == "ProvisioningState/succeeded";
        prop_assert_eq!(reads_off(&vm(&[&provisioning, &power])), is_off);
    }

    #[test]
    fn no_json_panics(one in any_value(), other in any_value(), at in prop::sample::select(&[
        "/id", "/tags", "/sku", "/properties", "/properties/vmId", "/properties/instanceView", "/properties/additionalCapabilities",
        "/properties/hardwareProfile", "/properties/virtualMachineScaleSet", "/properties/instanceView/statuses",
    ][..])) {
        if let Some(vm) = read(&with(vm(&STOPPED), at, one.clone())) {
            let _ = (vm.said(), vm.restarter(), vm.model(), vm.uuid(), vm.check("x"));
        }
        let _ = facts::token(&json!({"access_token": one, "expires_in": other, "token_type": "Bearer"}));
        let page = serde_json::from_value::<Page>(json!({"value": [one], "nextLink": other}));
        let _ = page.is_ok();
        let rights = json!({"value": [{"actions": [one, other], "notActions": [one]}]});
        let rights = serde_json::from_value::<Permissions>(rights).map(|it| it.allow("a/b"));
        let _ = rights.is_ok();
    }

    #[test]
    fn no_text_leads_out_of_the_paths(text in "[./?#%a-z0-9-]{0,30}|.{0,20}") {
        let provider_id = provider_id().replace("worker-1", &text);
        if let Some(found) = places::resource(&provider_id) {
            prop_assert!(!found.id.contains("..") && !found.id.contains(['?', '#', '%']), "{}", found.id);
            prop_assert_eq!(found.id.matches('/').count(), 7);
        }
    }
}
