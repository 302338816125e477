//! Which host is whose.

use super::*;

#[test]
fn the_host_is_the_one_of_the_machine_in_the_provider_id() {
    let check = |document: &Value, provider_id: &str| {
        let provider_id = provider_id.to_owned();
        let node = NodeFacts {
            provider_id,
            ..node()
        };
        let metal3 = metal3(Some("racks"), Some("host-1"));
        let id = metal3.machine(&node).expect("an id");
        host(document).check(&id)
    };
    assert_eq!(check(&off(), "metal3://racks/host-1/machine-1"), Ok(()));
    assert_eq!(check(&off(), &format!("metal3://{UID}")), Ok(()));
    let says = |result: Result<(), String>| result.expect_err("another machine");
    let other = says(check(&off(), "metal3://racks/host-1/machine-2"));
    assert!(
        other.contains("the consumer machine-1 and not machine-2"),
        "{other}"
    );
    let freed = with(off(), "/spec/consumerRef", None);
    assert!(says(check(&freed, "metal3://racks/host-1/machine-1")).contains("consumer none"));
    let kind = with(off(), "/spec/consumerRef/kind", Some(json!("HostClaim")));
    assert!(check(&kind, "metal3://racks/host-1/machine-1").is_err());
    let renewed = with(
        off(),
        "/metadata/uid",
        Some(json!("0a1b2c3d-0000-4000-8000-000000000002")),
    );
    assert!(says(check(&renewed, &format!("metal3://{UID}"))).contains("has the uid"));
    let none = with(off(), "/metadata/uid", Some(json!("")));
    assert!(check(&none, "metal3://racks/host-1/machine-1").is_err());
}

#[test]
fn settings_and_provider_id_lead_to_one_host_or_to_none() {
    let id = |namespace, name, provider_id: &str| {
        let provider_id = provider_id.to_owned();
        let node = NodeFacts {
            provider_id,
            ..node()
        };
        metal3(namespace, name).machine(&node).map(|id| id.id).ok()
    };
    let full = "metal3://racks/host-1/machine-1";
    for (namespace, name) in [
        (None, None),
        (Some("racks"), None),
        (Some("racks"), Some("host-1")),
    ] {
        assert_eq!(id(namespace, name, full).as_deref(), Some("racks/host-1"));
    }
    assert_eq!(id(Some("other"), None, full), None);
    assert_eq!(id(Some("racks"), Some("host-2"), full), None);
    let old = format!("metal3://{UID}");
    assert_eq!(
        id(Some("racks"), Some("host-1"), &old).as_deref(),
        Some("racks/host-1")
    );
    // By the uid alone it would not be seen that another Node names the same host.
    assert_eq!(id(Some("racks"), None, &old), None);
    assert_eq!(id(None, Some("host-1"), &old), None);
    assert_eq!(id(None, None, &old), None);
    assert_eq!(
        id(Some("racks"), Some("host-1"), "").as_deref(),
        Some("racks/host-1")
    );
    assert_eq!(id(Some("racks"), None, ""), None);
    for other in [
        "metal3://",
        "metal3://a/b",
        "metal3://a/b/c/d",
        "metal3://a/../c",
        "metal3://a/b/c?d",
        "metal3://A",
        "kubevirt://a",
    ] {
        assert_eq!(id(Some("racks"), None, other), None, "{other}");
    }
    for other in ["metal3://", "metal3://host-1/x", "metal3://A"] {
        assert_eq!(id(Some("racks"), Some("host-1"), other), None, "{other}");
    }
    // A host in the settings does not make up for the provider ID of something else.
    assert_eq!(id(Some("racks"), Some("host-1"), "aws:///a/i-1"), None);
}
