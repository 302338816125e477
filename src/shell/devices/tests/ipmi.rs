//! IPMI devices: their addresses, what their Secrets may hold, and that no two nodes share one.

use super::*;

fn with_ipmi(ipmi: Value) -> FenceDevice {
    device(
        "bmc",
        json!({"nodeName": "w1", "ipmi": ipmi, "credentialsRef": {"name": "bmc"}}),
    )
}

#[tokio::test]
async fn an_ipmi_device_is_host_and_port_and_judged_like_any_other() {
    let cluster = Cluster::new().await;
    for address in [
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "[::1]",
        "0x7f000001",
        "169.254.169.254",
    ] {
        let error = cluster.error(&with_ipmi(json!({"address": address}))).await;
        assert_eq!(error.reason(), "AddressNotAllowed", "{address}");
    }
    for address in [
        "10.0.0.1:623",
        "udp://10.0.0.1",
        "a/b",
        "a b",
        "${node.uid}",
    ] {
        let error = cluster.error(&with_ipmi(json!({"address": address}))).await;
        assert_eq!(error.reason(), "AddressInvalid", "{address}");
    }
    assert!(cluster.asked().is_empty());
    cluster.put_secret("1", "p");
    for (ipmi, expected) in [
        (json!({"address": "10.0.0.1"}), "10.0.0.1:623"),
        (
            json!({"address": "${node.name}-BMC.example.com", "port": 6230}),
            "w1-bmc.example.com:6230",
        ),
        (json!({"address": "2001:db8::1"}), "[2001:db8::1]:623"),
        (json!({"address": "[2001:db8::1]"}), "[2001:db8::1]:623"),
    ] {
        let device = with_ipmi(ipmi);
        let driver = cluster
            .devices
            .driver(&device, "w1")
            .await
            .expect("a driver");
        assert_eq!(driver.name(), "ipmi");
        assert_eq!(driver.target(), expected);
        assert_eq!(targets_of(&device, &NodeFacts::named("w1")), [expected]);
    }
}

#[tokio::test]
async fn what_ipmi_cannot_carry_is_named_before_anything_is_sent() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "123456789012345678901234");
    let error = cluster
        .error(&with_ipmi(json!({"address": "10.0.0.1"})))
        .await;
    assert_eq!(error.reason(), "CredentialsInvalid");
    assert!(
        error
            .to_string()
            .contains("IPMI 2.0 allows 20 bytes, was 24"),
        "{error}"
    );
    cluster.put_secret("2", "short enough");
    let error = cluster
        .error(&with_ipmi(json!({"address": "10.0.0.1", "cipherSuite": 0})))
        .await;
    assert_eq!(error.reason(), "SettingsInvalid");
    assert!(error.to_string().contains("`ipmi.cipherSuite`"), "{error}");
}

#[tokio::test]
async fn two_nodes_on_one_ipmi_device_are_refused() {
    let cluster = Cluster::new().await;
    let of = |name: &str, node: &str, port: u16| {
        let ipmi = json!({"address": "10.0.0.1", "port": port});
        device(
            name,
            json!({"nodeName": node, "identityCheck": "Skip", "ipmi": ipmi}),
        )
    };
    let nodes = [node("w1"), node("w2")];
    let (one, two) = (of("a", "w1", 623), of("b", "w2", 623));
    cluster.devices.survey(&[&one, &two], &nodes.each_ref());
    let why = cluster.devices.duplicate("a", "w1").expect("a reason");
    assert!(why.contains("10.0.0.1:623"), "{why}");
    // Simulated BMCs share an address.
    cluster
        .devices
        .survey(&[&one, &of("b", "w2", 624)], &nodes.each_ref());
    assert_eq!(cluster.devices.duplicate("a", "w1"), None);
}
