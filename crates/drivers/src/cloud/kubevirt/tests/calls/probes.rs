//! Probes, by the machine and by lists, and the kubeconfig.

use super::*;

#[tokio::test]
async fn a_probe_says_what_the_account_may_not_do() {
    let service = service().await;
    let probed = driver(&service)
        .open()
        .probe(Extent::Needed)
        .await
        .expect("a probe");
    assert_eq!(probed.off_denied, None);
    assert_eq!(probed.restarter.as_deref(), Some("runStrategy Always"));
    assert_eq!(
        probed.model.as_deref(),
        Some("virtual machine worker-1 on infra-1")
    );
    service.now(
        REVIEW,
        "201 Created",
        "",
        json!({"status": {"allowed": false}}),
    );
    let probed = driver(&service)
        .open()
        .probe(Extent::Needed)
        .await
        .expect("a probe");
    let denied = probed.off_denied.expect("a right is missing");
    assert_eq!(denied.reason(), "PermissionDenied");
    assert!(
        denied.to_string().contains("virtualmachines/stop"),
        "{denied}"
    );
}

#[tokio::test]
async fn two_lists_serve_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    let vms = format!("{}?limit=100", VM.trim_end_matches("/worker-1"));
    let vmis = format!("{}?limit=100", VMI.trim_end_matches("/worker-1"));
    service.answer(
        &vms,
        "200 OK",
        "",
        list("VirtualMachineList", vec![running()]),
    );
    let moved = with(vmi(), "/status/nodeName", Some(json!("infra-2")));
    service.answer(
        &vmis,
        "200 OK",
        "",
        list("VirtualMachineInstanceList", vec![moved]),
    );
    let driver = driver(&service);
    driver.open().probe(Extent::Listed).await.expect("a probe");
    service.asked();
    for requests in [2, 0] {
        let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
        assert_eq!(probed.restarter.as_deref(), Some("runStrategy Always"));
    }
    // Where the list has shown it, it ran last.
    stop(&service);
    service.answer(
        &NODE.replace("infra-1", "infra-2"),
        "200 OK",
        "",
        with(
            infra_node("Unknown"),
            "/metadata/name",
            Some(json!("infra-2")),
        ),
    );
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.faults, ["infra node infra-2 not Ready"]);
}

#[tokio::test]
async fn a_kubeconfig_of_another_cluster_is_not_used() {
    let service = service().await;
    let settings =
        json!({"address": service.url, "namespace": "tenant", "tls": {"verification": "None"}});
    let settings: KubevirtDriver = serde_json::from_value(settings).expect("settings");
    let kubeconfig = "clusters: [{name: c, cluster: {server: 'https://other:6443'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
         users: [{name: u, user: {token: eyJhbGciOi-token}}]\n";
    let parts = service.parts(node(), &[("kubeconfig", kubeconfig)]);
    let error = settings.make(parts).expect_err("another cluster");
    assert!(error.to_string().contains("https://other:6443"), "{error}");
    assert!(!error.to_string().contains("eyJhbGciOi"), "{error}");
}
