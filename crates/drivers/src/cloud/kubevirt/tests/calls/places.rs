//! Where earlier runs of a machine may still be.

use super::*;

const A: &str = "GET /api/v1/nodes/infra-a";
const B: &str = "GET /api/v1/nodes/infra-b";
const POD: &str = "GET /api/v1/namespaces/tenant/pods?limit=100&fieldSelector=metadata.name%3Dvirt-launcher-worker-1-abcde";

fn infra(name: &str, ready: &str) -> Value {
    with(infra_node(ready), "/metadata/name", Some(json!(name)))
}

/// A cluster whose node infra-a is Ready and whose infra-b is like this.
async fn cluster(ready: &str) -> Service {
    let service = service().await;
    service.now(A, "200 OK", "", infra("infra-a", "True"));
    service.now(B, "200 OK", "", infra("infra-b", ready));
    service
}

/// The machine is seen in this run, there; none: the run has no node yet.
async fn seen(service: &Service, driver: &Arc<dyn FenceDriver>, run: &str, node: Option<&str>) {
    let vmi = with(vmi(), "/metadata/uid", Some(json!(run)));
    let vmi = with(vmi, "/status/nodeName", node.map(|it| json!(it)));
    service.now(VM, "200 OK", "", running());
    service.now(VMI, "200 OK", "", vmi);
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::On);
}

/// What speaks against an Off of it once it is stopped.
async fn against(service: &Service, driver: &Arc<dyn FenceDriver>) -> Vec<String> {
    stop(service);
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.state, PowerState::Off);
    reading.faults
}

#[tokio::test]
async fn where_an_earlier_run_was_counts_until_that_node_answers_for_it() {
    let service = cluster("Unknown").await;
    let driver = driver(&service);
    seen(&service, &driver, "uid-1", Some("infra-b")).await;
    seen(&service, &driver, "uid-2", Some("infra-a")).await;
    let fault = ["infra node infra-b not Ready"];
    assert_eq!(against(&service, &driver).await, fault);
    // It answers now, and is not forgotten for that: no run was seen.
    service.now(B, "200 OK", "", infra("infra-b", "True"));
    assert!(against(&service, &driver).await.is_empty());
    service.now(B, "200 OK", "", infra("infra-b", "False"));
    assert_eq!(against(&service, &driver).await, fault);
    // It answers while another run is seen: it is forgotten.
    service.now(B, "200 OK", "", infra("infra-b", "True"));
    seen(&service, &driver, "uid-2", Some("infra-a")).await;
    service.now(B, "200 OK", "", infra("infra-b", "False"));
    assert!(against(&service, &driver).await.is_empty());
}

#[tokio::test]
async fn a_node_with_a_pod_of_the_machine_is_not_forgotten() {
    let service = cluster("True").await;
    let driver = driver(&service);
    seen(&service, &driver, "uid-1", Some("infra-b")).await;
    let left = pod("virt-launcher-worker-1-abcde");
    service.now(PODS, "200 OK", "", list(HEADS, vec![left.clone()]));
    let is_on = |node: Value| {
        let left = with(left.clone(), "/spec", Some(json!({"nodeName": node})));
        service.now(POD, "200 OK", "", list("PodList", vec![left]));
    };
    let fault = ["infra node infra-b not Ready"];
    // One that is on no node yet may come there.
    for node in [json!("infra-b"), Value::Null] {
        is_on(node);
        seen(&service, &driver, "uid-2", Some("infra-a")).await;
    }
    let none = list(HEADS, vec![]);
    service.now(PODS, "200 OK", "", none.clone());
    service.now(B, "200 OK", "", infra("infra-b", "Unknown"));
    assert_eq!(against(&service, &driver).await, fault);
    // Its own pod elsewhere says that it is not there.
    service.now(PODS, "200 OK", "", list(HEADS, vec![left.clone()]));
    service.now(B, "200 OK", "", infra("infra-b", "True"));
    is_on(json!("infra-a"));
    seen(&service, &driver, "uid-2", Some("infra-a")).await;
    service.now(PODS, "200 OK", "", none);
    service.now(B, "200 OK", "", infra("infra-b", "Unknown"));
    assert!(against(&service, &driver).await.is_empty());
}

#[tokio::test]
async fn a_run_without_a_node_is_known_once_that_run_has_one() {
    let unknown = ["infra node unknown, as it was not read while it ran"];
    let service = cluster("True").await;
    let driver = driver(&service);
    seen(&service, &driver, "uid-1", None).await;
    assert_eq!(against(&service, &driver).await, unknown);
    seen(&service, &driver, "uid-1", Some("infra-a")).await;
    assert!(against(&service, &driver).await.is_empty());
    // Another run says nothing of where that one went.
    seen(&service, &driver, "uid-2", None).await;
    seen(&service, &driver, "uid-3", Some("infra-a")).await;
    assert_eq!(against(&service, &driver).await, unknown);
}

#[tokio::test]
async fn a_run_without_a_node_hides_no_node_of_an_earlier_one() {
    let service = cluster("Unknown").await;
    let driver = driver(&service);
    seen(&service, &driver, "uid-1", Some("infra-b")).await;
    seen(&service, &driver, "uid-2", None).await;
    seen(&service, &driver, "uid-2", Some("infra-a")).await;
    let fault = ["infra node infra-b not Ready"];
    assert_eq!(against(&service, &driver).await, fault);
}

#[tokio::test]
async fn of_more_nodes_than_are_remembered_none_is_known() {
    let service = cluster("True").await;
    let driver = driver(&service);
    for number in 1..=9 {
        let node = format!("infra-{number}");
        let path = NODE.replace("infra-1", &node);
        service.now(&path, "200 OK", "", infra(&node, "Unknown"));
        seen(&service, &driver, "uid-1", Some(&node)).await;
        if number == 8 {
            assert_eq!(against(&service, &driver).await.len(), 8);
        }
    }
    assert_eq!(
        against(&service, &driver).await,
        ["infra node unknown, as it was not read while it ran"]
    );
}

#[tokio::test]
async fn the_addresses_of_its_node_may_be_others_in_its_next_run() {
    let service = cluster("Unknown").await;
    let accounts = Arc::<crate::cloud::account::Accounts>::default();
    let driver_at = |address: &str| {
        let settings =
            json!({"address": service.url, "namespace": "tenant", "tls": {"verification": "None"}});
        let settings: KubevirtDriver = serde_json::from_value(settings).expect("settings");
        let parts = parts(&service);
        let node = NodeFacts {
            addresses: vec![address.to_owned()],
            ..node()
        };
        let accounts = Arc::clone(&accounts);
        settings
            .make(Parts {
                node,
                accounts,
                ..parts
            })
            .expect("a driver")
    };
    let (first, next) = (driver_at("10.0.0.1"), driver_at("10.0.0.2"));
    seen(&service, &first, "uid-1", Some("infra-b")).await;
    seen(&service, &next, "uid-2", Some("infra-a")).await;
    let fault = ["infra node infra-b not Ready"];
    assert_eq!(against(&service, &next).await, fault);
}

/// S7: the node that has the name now does not answer for the one before it, where the machine may go on.
#[tokio::test]
async fn another_node_of_the_name_does_not_answer_for_the_one_that_ran_it() {
    let other = |uid: &str, uuid: &str| {
        let node = with(infra("infra-b", "True"), "/metadata/uid", Some(json!(uid)));
        with(node, "/status/nodeInfo/systemUUID", Some(json!(uuid)))
    };
    const ANOTHER: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e02";
    let fault = ["infra node infra-b not known to be the one that ran it"];
    let service = cluster("True").await;
    let driver = driver(&service);
    seen(&service, &driver, "uid-1", Some("infra-b")).await;
    service.now(B, "200 OK", "", other("node-2", ANOTHER));
    assert_eq!(against(&service, &driver).await, fault);
    // Nor where the next run is there, or elsewhere.
    seen(&service, &driver, "uid-2", Some("infra-b")).await;
    assert_eq!(against(&service, &driver).await, fault);
    seen(&service, &driver, "uid-2", Some("infra-a")).await;
    assert_eq!(against(&service, &driver).await, fault);
    // The same machine that has registered itself again does.
    service.now(B, "200 OK", "", other("node-3", UUID));
    assert!(against(&service, &driver).await.is_empty());
}

#[tokio::test]
async fn a_node_that_was_not_read_while_it_ran_is_not_known() {
    let service = cluster("True").await;
    let driver = driver(&service);
    service.now(B, NOT_FOUND, "", absent("", "nodes", "infra-b"));
    seen(&service, &driver, "uid-1", Some("infra-b")).await;
    service.now(B, "200 OK", "", infra("infra-b", "True"));
    let fault = ["infra node infra-b not known to be the one that ran it"];
    assert_eq!(against(&service, &driver).await, fault);
    seen(&service, &driver, "uid-1", Some("infra-b")).await;
    assert!(against(&service, &driver).await.is_empty());
}
