//! What an API server answers, in short.

use super::*;
use bytes::Bytes;

fn reply(status: u16, body: &Value) -> Reply {
    Reply {
        status: StatusCode::from_u16(status).expect("a status"),
        phrase: None,
        retry_after: None,
        offers_other_login: false,
        location: None,
        headers: Default::default(),
        body: Ok(Bytes::from(body.to_string())),
    }
}

const VMI: Named<'_> = Named {
    group: "kubevirt.io",
    resource: "virtualmachineinstances",
    name: "worker-1",
};

#[test]
fn absent_is_what_the_api_server_names_as_absent() {
    let absent = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "virtualmachineinstances.kubevirt.io \"worker-1\" not found",
        "details": {"name": "worker-1", "group": "kubevirt.io", "kind": "virtualmachineinstances"},
    });
    assert!(is_absent(&reply(404, &absent), VMI));
    assert!(!is_absent(&reply(403, &absent), VMI));
    let differs = |at: &str, value: Value| {
        let mut other = absent.clone();
        *other.pointer_mut(at).expect("a field") = value;
        !is_absent(&reply(404, &other), VMI)
    };
    for (at, value) in [
        ("/kind", json!("Other")),
        ("/reason", json!("Forbidden")),
        ("/details/name", json!("worker-2")),
        ("/details/group", json!("")),
        ("/details/kind", json!("namespaces")),
        ("/details", json!({})),
    ] {
        assert!(differs(at, value.clone()), "{at} {value}");
    }
    // The group is not served, and what a proxy says.
    let group = json!({
        "kind": "Status", "reason": "NotFound", "details": {}, "code": 404,
        "message": "the server could not find the requested resource",
    });
    assert!(!is_absent(&reply(404, &group), VMI));
    assert!(!is_absent(&reply(404, &json!("404 page not found")), VMI));
}

#[test]
fn a_name_leads_nowhere_else_in_a_path() {
    for name in ["worker-1", "a", "0.b-c"] {
        assert!(is_name(name), "{name}");
    }
    let long = "a".repeat(254);
    for name in ["", "..", "a/b", "a?b", "A", "a%2f", "-a", "a.", "ä", &long] {
        assert!(!is_name(name), "{name}");
    }
}

#[test]
fn the_kubeconfig_is_for_the_address() {
    let address = Address::parse("https://infra:6443").expect("an address");
    let is_it = |server: &str| check_server(server, &address).is_ok();
    assert!(is_it("https://infra:6443"));
    assert!(is_it("https://infra:6443/"));
    for server in [
        "https://infra",
        "http://infra:6443",
        "https://other:6443",
        "https://infra:6443/k8s/clusters/c",
        "",
    ] {
        assert!(!is_it(server), "{server}");
    }
}

#[test]
fn only_a_status_has_a_reason() {
    let of = |value: Value| words(&reply(409, &value)).0;
    assert_eq!(
        of(json!({"kind": "Status", "reason": "Conflict"})),
        "Conflict"
    );
    assert_eq!(of(json!({"reason": "Conflict"})), "");
    assert_eq!(of(json!([1])), "");
}

#[test]
fn brackets_within_a_text_are_no_nesting() {
    for (document, expected) in [
        ("{}", 1),
        (r#"{"a": [{"b": 1}, {}]}"#, 3),
        (r#"{"a": "[[[{{{\"[["}"#, 1),
        ("]]]]", 0),
        ("[[[[", 4),
    ] {
        assert_eq!(depth(document.as_bytes()), expected, "{document}");
    }
}
