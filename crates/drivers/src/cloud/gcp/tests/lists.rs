//! What lists of a zone tell probes, and where they end.

use super::calls::{ZONE, driver, permitted, read_path, running, service};
use super::*;
use crate::cloud::fixtures::Service;
use crate::{Extent, FenceDriver};
use std::sync::Arc;

fn list_path(token: &str) -> String {
    format!("GET {ZONE}/instances?maxResults=500&fields=items({FIELDS}),nextPageToken{token}")
}

/// A driver whose instance was read whole, and may be listed from now on.
async fn listed(service: &Service) -> Arc<dyn FenceDriver> {
    service.now(&read_path(), "200 OK", "", running());
    permitted(service, json!({"permissions": ["compute.instances.stop"]}));
    let driver = driver(service);
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    driver
}

#[tokio::test]
async fn a_list_of_its_zone_serves_probes_of_an_instance_that_runs() {
    let service = service().await;
    let driver = listed(&service).await;
    let other = with(running(), "/name", Some(json!("worker-2")));
    let page = json!({"items": [other, running()], "nextPageToken": ""});
    service.answer(&list_path(""), "200 OK", "", page);
    for requests in [1, 0] {
        let probe = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(probe.reading.state, PowerState::On);
        assert_eq!(probe.restarter.as_deref(), Some("a managed instance group"));
        assert_eq!(service.asked().len(), requests);
    }
    driver.open().observe().await.expect("a reading");
    assert_eq!(
        service.asked().len(),
        1,
        "a fence reads the instance itself"
    );
}

#[tokio::test]
async fn one_that_a_list_does_not_show_as_the_nodes_is_read_by_itself() {
    for (at, value) in [
        ("/status", json!("TERMINATED")),
        ("/networkInterfaces", json!([])),
    ] {
        let service = service().await;
        let driver = listed(&service).await;
        let other = with(running(), at, Some(value));
        service.answer(&list_path(""), "200 OK", "", json!({"items": [other]}));
        driver.open().probe(Extent::Listed).await.expect("a probe");
        let asked = service.asked().concat();
        assert!(asked.contains("instances/worker-1?fields="), "{asked}");
    }
}

#[tokio::test]
async fn a_list_of_many_pages_ends() {
    let service = service().await;
    let driver = listed(&service).await;
    let endless = json!({"items": [], "nextPageToken": "a+b/c="});
    service.answer(&list_path(""), "200 OK", "", endless.clone());
    service.answer(&list_path("&pageToken=a%2Bb%2Fc%3D"), "200 OK", "", endless);
    driver.open().probe(Extent::Listed).await.expect("a probe");
    let asked = service.asked();
    let pages = asked.iter().filter(|it| it.contains("maxResults=500"));
    assert_eq!(pages.count(), PAGES_MAX);
    // A token that would make another request of the next one is not used.
    for token in ["a&zone=b", "a b", "a\r\nx: y", "a#b"] {
        let service = self::service().await;
        let driver = listed(&service).await;
        let page = json!({"items": [], "nextPageToken": token});
        service.answer(&list_path(""), "200 OK", "", page);
        driver.open().probe(Extent::Listed).await.expect("a probe");
        let asked = service.asked().concat();
        assert!(!asked.contains("pageToken"), "{asked}");
    }
}
