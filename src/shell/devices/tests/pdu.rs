//! PDUs: the keys of their Secrets, outlets that two nodes share, and one thing at a time at each PDU.

use super::*;
use fencing_api::pdu::{OutletTable, PduModel};
use std::time::Duration;

fn pdu(name: &str, node: &str, outlets: Value, snmp: Value) -> FenceDevice {
    device(
        name,
        json!({
            "nodeName": node, "identityCheck": "Skip", "credentialsRef": {"name": "pdu"},
            "pdu": {"address": "10.0.0.9", "model": "APCRackPDU2", "outlets": outlets, "snmp": snmp},
        }),
    )
}

/// A Secret with these keys, all of the same value.
fn put_secret(cluster: &Cluster, keys: &[&str]) {
    // "long enough"
    let data: Value = keys
        .iter()
        .map(|key| ((*key).to_owned(), json!("bG9uZyBlbm91Z2g=")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let metadata = json!({"name": "pdu", "resourceVersion": "1"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    cluster.put("secrets", "pdu", secret);
}

#[tokio::test]
async fn the_version_says_which_keys_the_secret_needs() {
    let cluster = Cluster::new().await;
    for (snmp, keys) in [
        (json!({"version": "V2c"}), &["community"][..]),
        (json!({"privacy": "None"}), &["username", "authPassword"]),
        (json!({}), &["username", "authPassword", "privPassword"]),
    ] {
        let device = pdu("a", "w1", json!([3, 7]), snmp);
        put_secret(&cluster, keys);
        let driver = cluster
            .devices
            .driver(&device, "w1")
            .await
            .expect("a driver");
        assert_eq!(driver.name(), "pdu");
        assert_eq!(driver.target(), "10.0.0.9:161/outlet 3, outlet 7");
        // One key less.
        let (last, others) = keys.split_last().expect("a key");
        put_secret(&cluster, others);
        let error = cluster.error(&device).await;
        assert_eq!(error.reason(), "CredentialsInvalid");
        assert!(error.to_string().contains(&format!("`{last}`")), "{error}");
    }
}

/// From the Secret to the driver and back: the keyring's own tests say when it keeps what.
#[tokio::test]
async fn keys_of_version_3_are_dropped_with_the_device_and_with_the_secret() {
    let cluster = Cluster::new().await;
    let keys = ["username", "authPassword", "privPassword"];
    let device = pdu("a", "w1", json!([3]), json!({}));
    let kept = || format!("{:?}", cluster.devices.maker.keyring).contains("Login");
    for by_device in [true, false] {
        put_secret(&cluster, &keys);
        cluster
            .devices
            .access(&device, "w1", Freshness::Now)
            .await
            .expect("access");
        cluster.devices.survey(&[&device], &[]);
        assert!(kept());
        if by_device {
            cluster.devices.survey(&[], &[]);
        } else {
            cluster.objects.lock().expect("lock").clear();
            assert_eq!(cluster.error(&device).await.reason(), "CredentialsInvalid");
        }
        assert!(!kept());
    }
}

#[tokio::test]
async fn an_address_that_nothing_may_be_sent_to_is_refused_before_the_secret_is_read() {
    let cluster = Cluster::new().await;
    let mut device = pdu("a", "w1", json!([3]), json!({}));
    device.spec.drivers.pdu.as_mut().expect("a PDU").address = "169.254.169.254".to_owned();
    assert_eq!(cluster.error(&device).await.reason(), "AddressNotAllowed");
    assert!(cluster.asked().is_empty());
}

#[tokio::test]
async fn two_nodes_may_share_a_pdu_and_no_outlet() {
    let cluster = Cluster::new().await;
    let nodes = [node("w1"), node("w2")];
    let one = pdu("a", "w1", json!([3, 7]), json!({}));
    let beside = pdu("b", "w2", json!([4, 8]), json!({}));
    assert!(
        cluster
            .devices
            .survey(&[&one, &beside], &nodes.each_ref())
            .is_empty()
    );
    let shares = pdu("b", "w2", json!([7, 8]), json!({}));
    assert_eq!(
        cluster
            .devices
            .survey(&[&one, &shares], &nodes.each_ref())
            .len(),
        2
    );
    let why = cluster.devices.duplicate("a", "w1").expect("refused");
    for part in ["10.0.0.9:161 outlet 7", "w2", "`outlets`"] {
        assert!(why.contains(part), "{why}");
    }
    // Two devices of one node on one outlet are no harm.
    let again = pdu("b", "w1", json!([3]), json!({}));
    cluster.devices.survey(&[&one, &again], &nodes.each_ref());
    assert_eq!(cluster.devices.duplicate("a", "w1"), None);
}

const UNIT_0: [&str; 2] = [
    "1.3.6.1.4.1.13742.6.4.1.2.1.2.0.${outlet}",
    "1.3.6.1.4.1.13742.6.4.1.2.1.3.0.${outlet}",
];
const UNIT_1: [&str; 2] = [
    "1.3.6.1.4.1.13742.6.4.1.2.1.2.1.${outlet}",
    "1.3.6.1.4.1.13742.6.4.1.2.1.3.1.${outlet}",
];
const UNIT_2: [&str; 2] = [
    "1.3.6.1.4.1.13742.6.4.1.2.1.2.2.${outlet}",
    "1.3.6.1.4.1.13742.6.4.1.2.1.3.2.${outlet}",
];
const UNIT_2_RESPELT: [&str; 2] = [
    ".1.3.6.1.4.1.13742.6.4.1.2.1.2.02.${outlet}",
    "1.3.6.1.4.1.13742.6.4.1.2.1.3.2.${outlet}",
];
const OTHER_TABLE: [&str; 2] = [
    "1.3.6.1.4.1.99.1.2.${outlet}",
    "1.3.6.1.4.1.99.1.3.${outlet}",
];
const OTHER_COLUMN: [&str; 2] = [
    "1.3.6.1.4.1.99.1.4.${outlet}",
    "1.3.6.1.4.1.99.1.3.${outlet}",
];

/// Outlet 7, switched and read by these objects.
fn generic(name: &str, node: &str, [control, status]: [&str; 2]) -> FenceDevice {
    let mut device = pdu(name, node, json!([7]), json!({}));
    let pdu = device.spec.drivers.pdu.as_mut().expect("a PDU");
    pdu.model = PduModel::Generic;
    pdu.generic = Some(OutletTable {
        control_oid: control.to_owned(),
        control_off_value: 0,
        control_on_value: None,
        control_on_oid: None,
        status_oid: status.to_owned(),
        status_off_value: 8,
        status_on_value: 7,
    });
    device
}

/// Linked PDUs of Raritan have one agent, whose table has a row for each outlet of each unit.
#[tokio::test]
async fn outlets_of_linked_units_are_told_apart_and_what_is_not_known_is_one_outlet() {
    let cluster = Cluster::new().await;
    let nodes = [node("w1"), node("w2")];
    for (one, other, is_shared) in [
        (UNIT_1, UNIT_2, false),
        (UNIT_2, UNIT_2_RESPELT, true),
        // The only unit is 1, or 0.
        (UNIT_0, UNIT_1, true),
        (UNIT_0, UNIT_2, false),
        // Two PDUs in one template: either may be the wrong one.
        (UNIT_1, [UNIT_2[0], UNIT_1[1]], true),
        (UNIT_2, [UNIT_2[0], UNIT_1[1]], true),
        (UNIT_2, [UNIT_1[0], UNIT_2[1]], true),
        (UNIT_1, OTHER_TABLE, true),
        (UNIT_2, OTHER_TABLE, true),
        (OTHER_TABLE, OTHER_COLUMN, true),
    ] {
        let devices = [generic("a", "w1", one), generic("b", "w2", other)];
        cluster
            .devices
            .survey(&devices.each_ref(), &nodes.each_ref());
        for (device, node) in [("a", "w1"), ("b", "w2")] {
            let why = cluster.devices.duplicate(device, node);
            assert_eq!(why.is_some(), is_shared, "{one:?} {other:?}: {why:?}");
        }
    }
    let devices = [generic("a", "w1", UNIT_2), generic("b", "w2", OTHER_TABLE)];
    cluster
        .devices
        .survey(&devices.each_ref(), &nodes.each_ref());
    let why = cluster.devices.duplicate("b", "w2").expect("refused");
    let words = "10.0.0.9:161 outlet 7 may be 10.0.0.9:161 outlet 7/unit 2, which serves Node w1";
    assert!(why.starts_with(words), "{why}");
}

/// A level that needs both reads them side by side.
#[tokio::test]
async fn outlets_of_linked_units_have_a_turn_each() {
    let cluster = Cluster::new().await;
    put_secret(&cluster, &["username", "authPassword", "privPassword"]);
    let [one, other, respelt] = [UNIT_2, UNIT_1, UNIT_2_RESPELT].map(|table| {
        let device = generic("a", "w1", table);
        let devices = &cluster.devices;
        async move { devices.driver(&device, "w1").await.expect("a driver") }
    });
    let (one, other, respelt) = (one.await, other.await, respelt.await);
    let _turn = cluster.devices.turn(one.as_ref()).await;
    assert!(cluster.devices.turn_now(other.as_ref()).is_some());
    assert!(cluster.devices.turn_now(respelt.as_ref()).is_none());
}

/// S5: nothing but its number tells whose an outlet is.
#[tokio::test]
async fn an_outlet_is_known_in_every_spelling_of_its_address_and_while_its_node_is_deleted() {
    let cluster = Cluster::new().await;
    let at = |name, node, address: &str| {
        let mut device = pdu(name, node, json!([7]), json!({}));
        let pdu = device.spec.drivers.pdu.as_mut().expect("a PDU");
        address.clone_into(&mut pdu.address);
        device
    };
    for (one, other) in [
        ("2001:db8::9", "2001:DB8:0:0::9"),
        ("10.0.0.9", "::ffff:10.0.0.9"),
    ] {
        let devices = [at("a", "w1", one), at("b", "w2", other)];
        for nodes in [vec![node("w1"), node("w2")], vec![node("w1")]] {
            cluster
                .devices
                .survey(&devices.each_ref(), &nodes.iter().collect::<Vec<_>>());
            let why = cluster.devices.duplicate("a", "w1");
            assert!(why.is_some_and(|why| why.contains("w2")), "{one} {other}");
        }
    }
}

/// Whichever of its machines is asked for; a session may be open beside another one.
#[tokio::test]
async fn one_pdu_does_one_thing_at_a_time() {
    let cluster = Cluster::new().await;
    put_secret(&cluster, &["community"]);
    let snmp = json!({"version": "V2c"});
    let device = pdu("a", "w1", json!([3]), snmp);
    let driver = cluster.devices.driver(&device, "w1").await;
    let mut session = driver.expect("a driver").open();
    let group = cluster
        .devices
        .turn_named("endpoint 10.0.0.9:161".to_owned());
    let busy = group.lock_owned().await;
    // Its socket is opened only when it is its turn.
    let moment = Duration::from_millis(50);
    assert!(
        tokio::time::timeout(moment, session.connect())
            .await
            .is_err()
    );
    drop(busy);
    let _ = session.connect().await;
}
