//! Lists of machines, and what else a probe asks.

use super::calls::{driver, error, get, service};
use super::*;
use crate::Extent;
use crate::cloud::fixtures::Service;

fn list_path() -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/providers/microsoft.compute/virtualmachines?statusOnly=true&api-version=2024-07-01"
    )
}

/// What `statusOnly` leaves of a machine.
fn listed(codes: &[&str]) -> Value {
    let whole = vm(codes);
    json!({"id": whole["id"], "name": "worker-1", "properties": {"instanceView": {"statuses": statuses(codes)}}})
}

#[tokio::test]
async fn a_list_serves_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    service.now(&get(&id()), "200 OK", "", vm(&RUNNING));
    let list = json!({"value": [listed(&RUNNING)], "nextLink": null});
    service.answer(&format!("GET {}", list_path()), "200 OK", "", list);
    let driver = driver(&service);
    let probe = async |extent| driver.open().probe(extent).await;
    let probed = probe(Extent::Listed).await.expect("a probe");
    assert_eq!(probed.model.as_deref(), Some("Standard_D4s_v5"));
    service.asked();
    for requests in [1, 0] {
        let probed = probe(Extent::Listed).await.expect("a probe");
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
        // Who it is was read with the machine itself.
        assert_eq!(probed.reading.identity.system_uuid.as_deref(), Some(UUID));
    }
    driver.open().observe().await.expect("a reading");
    assert_eq!(service.asked().len(), 1, "a fence reads the machine itself");
}

#[tokio::test]
async fn one_that_no_list_shows_running_is_read_by_itself() {
    for (status, body) in [
        ("200 OK", json!({"value": [listed(&STOPPED)]})),
        ("200 OK", json!({"value": []})),
        ("200 OK", json!({"value": [{"id": 7}]})),
        ("403 Forbidden", error("AuthorizationFailed")),
    ] {
        let service = service().await;
        service.answer(&format!("GET {}", list_path()), status, "", body);
        let driver = driver(&service);
        driver.open().probe(Extent::Needed).await.expect("a probe");
        service.asked();
        driver.open().probe(Extent::Listed).await.expect("a probe");
        let asked = service.asked();
        let itself = asked.iter().filter(|it| it.contains("instanceView"));
        assert_eq!(itself.count(), 1, "{asked:?}");
    }
}

#[tokio::test]
async fn a_probe_finds_an_account_that_may_not_power_off() {
    let service = service().await;
    let rights = format!(
        "GET /{}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01",
        id()
    );
    let denied = async |status: &str, actions: Value| {
        let body = json!({"value": [{"actions": actions, "notActions": []}]});
        service.now(&rights, status, "", body);
        let probed = driver(&service).open().probe(Extent::Needed).await;
        probed.expect("a probe").off_denied
    };
    let read = json!(["Microsoft.Compute/*/read"]);
    let refused = denied("200 OK", read.clone()).await.expect("a denial");
    assert_eq!(refused.reason(), "PermissionDenied", "{refused}");
    assert!(
        refused
            .to_string()
            .contains("virtualMachines/powerOff/action"),
        "{refused}"
    );
    assert_eq!(denied("200 OK", json!(["*"])).await, None);
    // Who may not ask is told nothing.
    assert_eq!(denied("403 Forbidden", read).await, None);
}

#[tokio::test]
async fn a_list_of_many_pages_ends() {
    let service = service().await;
    service.now(&get(&id()), "200 OK", "", vm(&RUNNING));
    let next = format!("{}{}&$skiptoken=1", service.url, list_path());
    let page = json!({"value": [], "nextLink": next});
    service.answer(&format!("GET {}", list_path()), "200 OK", "", page.clone());
    let again = format!("GET {}&$skiptoken=1", list_path());
    service.answer(&again, "200 OK", "", page);
    let driver = driver(&service);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    driver.open().probe(Extent::Listed).await.expect("a probe");
    let asked = service.asked();
    let pages = asked.iter().filter(|it| it.contains("statusOnly"));
    assert_eq!(pages.count(), PAGES_MAX);
    // The second is the last.
    let service = self::service().await;
    service.now(&get(&id()), "200 OK", "", vm(&RUNNING));
    let next = format!("{}{}&$skiptoken=1", service.url, list_path());
    let page = json!({"value": [], "nextLink": next});
    service.answer(&format!("GET {}", list_path()), "200 OK", "", page);
    service.answer(&again, "200 OK", "", json!({"value": [listed(&RUNNING)]}));
    let driver = self::driver(&service);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
    assert_eq!(probed.reading.state, PowerState::On);
    assert_eq!(service.asked().len(), 2);
}

#[tokio::test]
async fn a_next_page_elsewhere_is_not_asked_for() {
    let (service, elsewhere) = (service().await, Service::new().await);
    service.now(&get(&id()), "200 OK", "", vm(&RUNNING));
    let next = format!("{}{}", elsewhere.url, list_path());
    let list = json!({"value": [listed(&RUNNING)], "nextLink": next});
    service.answer(&format!("GET {}", list_path()), "200 OK", "", list);
    let driver = driver(&service);
    for extent in [Extent::Needed, Extent::Listed] {
        driver.open().probe(extent).await.expect("a probe");
    }
    assert!(elsewhere.asked().is_empty());
    let asked = service.asked();
    // What came before it is of the service itself, and serves.
    let itself = asked.iter().filter(|it| it.contains("instanceView"));
    assert_eq!(itself.count(), 1, "{asked:?}");
}
