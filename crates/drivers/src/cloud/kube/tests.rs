//! What an API server answers, in short.

use super::kept::SHORT_BYTES_MAX;
use super::lists::LIST_BYTES_MAX;
use super::*;
use crate::NodeFacts;
use crate::cloud::fixtures::Service;
use crate::http::Target;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;

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

/// What every object has, and nothing else.
#[derive(Debug, Deserialize)]
struct Thing {
    metadata: Meta,
}

impl Object for Thing {
    const KIND: &'static str = "Thing";

    fn kind(&self) -> Option<&str> {
        None
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// All things that a service lists, whose every page is this one.
async fn listed(page: &Value) -> Result<List<Thing>, String> {
    let service = Service::new().await;
    for request in [
        "GET /things?limit=100",
        "GET /things?limit=100&continue=bmV4dA",
    ] {
        service.answer(request, "200 OK", "", page);
    }
    let parts = service.parts(NodeFacts::named("worker-1"), &[("secret", "value")]);
    let account = ("kubevirt", crate::cloud::account::Pace::USUAL);
    let accounts = &parts.accounts;
    let account = accounts.of(account, &parts.address, &parts.secret, parts.clock);
    let target = Target {
        address: parts.address,
        tls: None,
        credentials: parts.credentials,
        rules: parts.rules,
    };
    let mut io = Io::new(Arc::new(target), account, parts.clock);
    let answers = answers("a right");
    let listed = list::<Thing>(&mut io, "/things", "", &answers).await;
    listed.map_err(|error| error.to_string())
}

fn page(things: usize, thing: &Value, mark: &str) -> Value {
    let items: Vec<&Value> = (0..things).map(|_| thing).collect();
    json!({"kind": "ThingList", "metadata": {"resourceVersion": "1", "continue": mark}, "items": items})
}

#[tokio::test]
async fn a_page_has_no_more_objects_than_were_asked_for() {
    let thing = json!({"metadata": {"name": "a"}});
    let all = listed(&page(100, &thing, "")).await.expect("a list");
    assert_eq!(all.items.len(), 100);
    let error = listed(&page(101, &thing, "")).await.expect_err("too many");
    assert!(error.contains("more than 100 entries"), "{error}");
}

#[tokio::test]
async fn all_pages_together_are_not_longer_than_a_list() {
    let thing = json!({"metadata": {"annotations": {"a": "x".repeat(4_000_000)}}});
    let error = listed(&page(1, &thing, "bmV4dA")).await.expect_err("long");
    assert!(
        error.contains(&format!("{LIST_BYTES_MAX} bytes")),
        "{error}"
    );
}

#[test]
fn of_an_object_only_what_is_read_is_kept() {
    let meta = |annotations: Value, owners: usize| {
        let owner = json!({"kind": "K", "name": "n"});
        let owners: Vec<&Value> = (0..owners).map(|_| &owner).collect();
        let meta = json!({"annotations": annotations, "ownerReferences": owners});
        serde_json::from_value::<Meta>(meta).map_err(|error| error.to_string())
    };
    let all = json!({
        "a": "b", "odd": {"c": [1]}, "kubevirt.io/domain": "d", "reboot.metal3.io/x": "", "reboot.metal3.io": "",
        "baremetalhost.metal3.io/detached": "", "baremetalhost.metal3.io/paused": "", "baremetalhost.metal3.io/status": "{}",
    });
    let kept = meta(all, 1).expect("metadata");
    let kept = kept.annotations.expect("annotations");
    let names: Vec<&str> = kept.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "baremetalhost.metal3.io/detached",
            "baremetalhost.metal3.io/paused",
            "kubevirt.io/domain",
            "reboot.metal3.io",
            "reboot.metal3.io/x",
        ]
    );
    assert_eq!(meta(Value::Null, 100).expect("metadata").annotations, None);
    assert!(meta(json!({"kubevirt.io/domain": 1}), 1).is_err());
    // What is left out could be what counts.
    assert!(meta(Value::Null, 101).is_err());
    let many = |count: usize| {
        let name = |at: usize| (format!("reboot.metal3.io/{at}"), Value::from(""));
        meta((0..count).map(name).collect(), 1).is_ok()
    };
    assert!(many(64));
    assert!(!many(65));
}

#[test]
fn a_long_document_says_nothing_of_a_request() {
    let of = |length: usize| {
        let status = json!({"kind": "Status", "reason": "Conflict", "message": ""});
        let rest = length - status.to_string().len();
        let status = json!({"kind": "Status", "reason": "Conflict", "message": "x".repeat(rest)});
        words(&reply(409, &status)).0
    };
    assert_eq!(of(SHORT_BYTES_MAX), "Conflict");
    assert_eq!(of(SHORT_BYTES_MAX + 1), "");
}

#[test]
fn only_a_review_that_says_no_denies() {
    let denies = |review: Value| short::<Review>(&reply(201, &review)).denies();
    assert!(denies(json!({"status": {"allowed": false}})));
    for other in [
        json!({"status": {"allowed": true}}),
        json!({"status": {"allowed": null}}),
        json!({"status": {"allowed": "false"}}),
        json!({"status": {}}),
        json!({}),
        Value::Null,
    ] {
        assert!(!denies(other.clone()), "{other}");
    }
}
