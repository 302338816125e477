//! One system of a Redfish service goes by many names.

use super::*;

fn at(name: &str, node: &str, system: Option<&str>) -> FenceDevice {
    let mut redfish = json!({"address": "https://10.0.0.9"});
    if let Some(system) = system {
        redfish["systemID"] = system.into();
    }
    device(
        name,
        json!({
            "nodeName": node, "identityCheck": "Skip", "redfish": redfish, "credentialsRef": {"name": "bmc"},
        }),
    )
}

const SPELLINGS: [&str; 6] = [
    "1",
    "%31",
    "/redfish/v1/Systems/1",
    "/redfish/v1/Systems/1/",
    "/redfish/v1/systems/1",
    "/redfish/v1/%53ystems/%31/",
];

/// S5: by nothing but its address and its id can two nodes on one system be told, where the device is not asked who it is.
#[tokio::test]
async fn a_system_is_known_in_every_spelling_of_its_id() {
    let cluster = Cluster::new().await;
    let refused = |one: &str, other: &str| {
        let devices = [at("a", "w1", Some(one)), at("b", "w2", Some(other))];
        let nodes = [node("w1"), node("w2")];
        cluster
            .devices
            .survey(&devices.each_ref(), &nodes.each_ref());
        [("a", "w1"), ("b", "w2")]
            .map(|(device, node)| cluster.devices.duplicate(device, node).is_some())
    };
    for spelling in SPELLINGS {
        assert_eq!(refused("1", spelling), [true; 2], "{spelling}");
    }
    assert_eq!(refused("%C3%A9", "%c3%a9"), [true; 2]);
    for other in ["2", "11", "%32", "%311", "%3", "/redfish/v1/Chassis/1"] {
        assert_eq!(refused("1", other), [false; 2], "{other}");
    }
}

#[tokio::test]
async fn a_system_is_talked_to_by_one_at_a_time_in_every_spelling_of_its_id() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "p");
    for spelling in SPELLINGS {
        let drivers = ["1", spelling].map(|system| at("a", "w1", Some(system)));
        let [one, other] = drivers
            .each_ref()
            .map(|device| cluster.devices.driver(device, "w1"));
        let (one, other) = (one.await.expect("a driver"), other.await.expect("a driver"));
        let _turn = cluster.devices.turn(one.as_ref()).await;
        assert!(
            cluster.devices.turn_now(other.as_ref()).is_none(),
            "{spelling}"
        );
    }
}

/// Where there is one system none has to be named.
#[tokio::test]
async fn a_device_that_names_no_system_may_be_each_one_at_its_address() {
    let cluster = Cluster::new().await;
    let nodes = [node("w1"), node("w2"), node("w3")];
    let mut devices = [
        at("a", "w1", None),
        at("b", "w2", Some("1")),
        at("c", "w3", Some("2")),
    ];
    let words = |devices: &[FenceDevice; 3]| {
        cluster
            .devices
            .survey(&devices.each_ref(), &nodes.each_ref());
        [("a", "w1"), ("b", "w2"), ("c", "w3")]
            .map(|(device, node)| cluster.devices.duplicate(device, node).unwrap_or_default())
    };
    let [of_none, of_one, of_two] = words(&devices);
    assert!(
        of_none.starts_with("10.0.0.9:443 may be 10.0.0.9:443/redfish/v1/Systems/"),
        "{of_none}"
    );
    for words in [&of_one, &of_two] {
        assert!(
            words.contains("serves Node w1 (FenceDevice a) too"),
            "{words}"
        );
    }
    assert!(
        of_one.starts_with("10.0.0.9:443/redfish/v1/Systems/1 serves"),
        "{of_one}"
    );
    // Another port is another BMC, and another device of the same node is no harm.
    for (node_name, address) in [("w1", "https://10.0.0.9:4430"), ("w2", "https://10.0.0.9")] {
        let redfish = json!({"address": address});
        let spec = json!({"nodeName": node_name, "identityCheck": "Skip", "redfish": redfish});
        devices[0] = device("a", spec);
        devices[2] = at("c", "w2", Some("2"));
        assert_eq!(words(&devices), ["", "", ""], "{node_name} {address}");
    }
}

/// Metadata of a Secret that may be sent to these.
fn for_hosts(hosts: &str) -> Value {
    json!({"name": "bmc", "annotations": {"nodefencing.io/allowed-hosts": hosts}})
}

/// S16: whoever registers a Node chooses its name, and with it the host of a fleet's address that ends with it.
#[tokio::test]
async fn a_password_goes_to_no_host_that_a_node_has_named_unless_the_secret_names_it() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "p");
    let fleet = |redfish: Value| {
        let reference = json!({"name": "bmc"});
        device(
            "bmc",
            json!({"nodeSelector": {}, "redfish": redfish, "credentialsRef": reference}),
        )
    };
    let led = fleet(json!({"address": "https://bmc-${node.name}:8443"}));
    let error = cluster.error(&led).await;
    assert_eq!(error.reason(), "AddressNotAllowed", "{error}");
    let ipmi = json!({"address": "ipmi.${node.name}"});
    let ipmi = device(
        "bmc",
        json!({"nodeSelector": {}, "ipmi": ipmi, "credentialsRef": {"name": "bmc"}}),
    );
    assert_eq!(cluster.error(&ipmi).await.reason(), "AddressNotAllowed");
    // A CA that no certificate is checked by says nothing of the host.
    let blind = json!({"verification": "None", "caRef": {"kind": "Secret", "name": "ca"}});
    let blind = fleet(json!({"address": "https://${node.name}", "tls": blind}));
    assert_eq!(cluster.error(&blind).await.reason(), "AddressNotAllowed");
    let print = "5e".repeat(32);
    let pinned = json!({"verification": "Pinned", "sha256Fingerprint": print});
    for redfish in [
        json!({"address": "https://${node.name}.bmc.test", "systemID": "1"}),
        json!({"address": "https://${node.name}", "systemID": "1", "tls": pinned}),
    ] {
        let driver = cluster.devices.driver(&fleet(redfish), "w1").await;
        driver.expect("a driver");
    }
    cluster.put_login(for_hosts("*.example.com"), "p");
    cluster
        .devices
        .driver(&led, "w1")
        .await
        .expect("a driver, which judges the host");
}

#[tokio::test]
async fn where_it_is_required_a_secret_without_hosts_is_not_used() {
    let cluster = Cluster::with_rules(AddressRules::default().requiring_hosts(true)).await;
    cluster.put_secret("1", "p");
    let error = cluster.error(&plain()).await;
    assert_eq!(error.reason(), "AddressNotAllowed", "{error}");
    cluster.put_login(for_hosts("10.0.0.0/8"), "p");
    let driver = cluster.devices.driver(&plain(), "w1").await;
    driver.expect("a driver");
}

/// S5, field case A34: only one of the two Nodes has a device.
#[tokio::test]
async fn a_uuid_of_two_nodes_tells_neither_until_each_has_its_own() {
    let cluster = Cluster::new().await;
    let of = |check: &str| {
        let redfish = json!({"address": "https://10.0.0.1"});
        let spec = json!({"nodeName": "w1", "identityCheck": check, "redfish": redfish});
        device("a", spec)
    };
    let mut nodes = [node("w1"), node("w2")];
    for check in ["Required", "BestEffort"] {
        cluster.devices.survey(&[&of(check)], &nodes.each_ref());
        let rule = cluster.devices.identity_rule(&of(check), &nodes[0]);
        assert!(
            matches!(&rule, IdentityRule::Refused(why) if why.contains("reported by Node w2 too")),
            "{check}: {rule:?}"
        );
    }
    // Nothing is compared.
    cluster.devices.survey(&[&of("Skip")], &nodes.each_ref());
    assert_eq!(cluster.devices.duplicate("a", "w1"), None);
    // Pinned while one Node reported it: what another kubelet says later keeps nobody from being fenced.
    let mut pinned = of("Required");
    let pin = json!({"nodeName": "w1", "nodeUID": "w1-uid", "uuid": SYSTEM});
    let status = json!({"systems": [pin]});
    pinned.status = serde_json::from_value(status).expect("a status");
    cluster.devices.survey(&[&pinned], &nodes.each_ref());
    assert_eq!(cluster.devices.duplicate("a", "w1"), None);
    nodes[1].system_uuid = "11111111-2222-4333-8444-555555555555".to_owned();
    cluster
        .devices
        .survey(&[&of("Required")], &nodes.each_ref());
    assert_eq!(cluster.devices.duplicate("a", "w1"), None);
}
