//! Probes, by the machine and by lists, and the kubeconfig.

use super::*;
use crate::cloud::fleet::{Fleet, Place};
use crate::http::Target;

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

/// Two lists of this namespace, with the machine and its run.
fn lists(service: &Service, namespace: &str, vmi: Value) {
    let path = |of_one: &str| {
        let of_all = of_one.trim_end_matches("/worker-1");
        format!("{of_all}?limit=100").replace("tenant", namespace)
    };
    let vms = list("VirtualMachineList", vec![running()]);
    service.now(&path(VM), "200 OK", "", vms);
    let vmis = list("VirtualMachineInstanceList", vec![vmi]);
    service.now(&path(VMI), "200 OK", "", vmis);
}

#[tokio::test]
async fn two_lists_serve_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    lists(&service, "tenant", vmi());
    let driver = driver(&service);
    driver.open().probe(Extent::Listed).await.expect("a probe");
    service.asked();
    for requests in [2, 0] {
        let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
        assert_eq!(probed.restarter.as_deref(), Some("runStrategy Always"));
    }
}

#[tokio::test]
async fn one_that_a_list_shows_elsewhere_is_read_by_itself() {
    let service = service().await;
    let moved = with(vmi(), "/status/nodeName", Some(json!("infra-2")));
    lists(&service, "tenant", moved);
    let driver = driver(&service);
    driver.open().probe(Extent::Listed).await.expect("a probe");
    service.asked();
    driver.open().probe(Extent::Listed).await.expect("a probe");
    let asked = service.asked();
    let reads_it = |it: &String| it.starts_with(&format!("{VM} "));
    assert!(asked.iter().any(reads_it), "{asked:?}");
    // Where the list has shown it, it may run.
    stop(&service);
    let infra = with(
        infra_node("Unknown"),
        "/metadata/name",
        Some(json!("infra-2")),
    );
    let path = NODE.replace("infra-1", "infra-2");
    service.now(&path, "200 OK", "", infra);
    let reading = driver.open().observe().await.expect("a reading");
    assert_eq!(reading.faults, ["infra node infra-2 not Ready"]);
}

/// A list does not say which node that is: without the other look it could not be proven off for an hour.
#[tokio::test]
async fn one_whose_node_could_not_be_read_is_read_by_itself_again() {
    let service = service().await;
    lists(&service, "tenant", vmi());
    let driver = driver(&service);
    service.now(NODE, "503 Service Unavailable", "", json!({}));
    driver.open().probe(Extent::Listed).await.expect("a probe");
    service.now(NODE, "200 OK", "", infra_node("True"));
    driver.open().probe(Extent::Listed).await.expect("a probe");
    stop(&service);
    let reading = driver.open().observe().await.expect("a reading");
    assert!(reading.is_off(), "{:?}", reading.faults);
}

#[tokio::test]
async fn a_list_of_a_namespace_shows_no_machine_of_another() {
    let service = service().await;
    let vmi = with(vmi(), "/status/nodeName", Some(json!("infra-2")));
    lists(&service, "other", vmi);
    let other = Kubevirt {
        namespace: "other".to_owned(),
    };
    let parts = parts(&service);
    let account = (Kubevirt::NAME, Kubevirt::PACE);
    let accounts = &parts.accounts;
    let account = accounts.of(account, &parts.address, &parts.secret, parts.clock);
    let target = Target {
        address: parts.address,
        tls: None,
        credentials: parts.credentials,
        rules: parts.rules,
    };
    let mut io = Io::new(Arc::new(target), account, parts.clock);
    let of = |provider: &Kubevirt| provider.machine(&node()).expect("a machine");
    let ids = [of(&kubevirt()), of(&other)];
    // One that was read whole has told which node that is.
    let there = Place {
        uid: "uid-of-infra-2".to_owned(),
        ..Place::named("infra-2")
    };
    let own = [there].into();
    io.account
        .fleet
        .note_places(&ids[1], "an earlier run", &own);
    let fleet = Fleet::default();
    let mut pages = fleet.pages();
    let listed = other.fleet(&mut io, &ids, &mut pages);
    listed.await.expect("a list");
    assert_eq!(fleet.listed(), [ids[1].clone()]);
    let places = |id: &MachineId| io.account.fleet.places_of(id).nodes().cloned();
    assert_eq!(places(&ids[0]), None);
    assert_eq!(places(&ids[1]), Some(own));
    // Nor does it where it is asked for that machine alone.
    let fleet = Fleet::default();
    let mut pages = fleet.pages();
    let listed = other.fleet(&mut io, &ids[..1], &mut pages);
    listed.await.expect("a list");
    assert_eq!(fleet.listed(), []);
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
