//! On which Node a device is.

use super::*;
use fencing_drivers::address::{Address, Lookup};
use futures::FutureExt;
use futures::future::ready;
use std::net::SocketAddr;

#[tokio::test]
async fn a_device_is_on_the_node_that_has_all_addresses_of_its_name() {
    let lookup = Lookup::new(|host, port| {
        let addresses = match host {
            "own" => [[10, 0, 0, 1], [10, 0, 1, 1]],
            "two" => [[10, 0, 0, 1], [10, 0, 0, 2]],
            _ => [[10, 0, 0, 1], [10, 9, 9, 9]],
        };
        let found = addresses.map(|it| SocketAddr::from((it, port)));
        ready(Ok(found.to_vec())).boxed()
    });
    let rules = AddressRules::default().with_lookup(lookup);
    let cluster = Cluster::with_rules(rules).await;
    let (mut w1, mut w2) = (node("w1"), node("w2"));
    w1.addresses = vec!["10.0.0.1".to_owned(), "10.0.1.1".to_owned()];
    w2.addresses = vec!["10.0.0.2".to_owned()];
    cluster.devices.survey(&[], &[&w1, &w2]);
    let on_node = |host: &str| {
        let address = Address::parse(&format!("https://{host}")).expect("an address");
        cluster.devices.upkeep(Some(&address), Vec::new()).on_node
    };
    assert_eq!(on_node("own"), None, "it was not looked up yet");
    let lookup = cluster.devices.maker.rules.lookup();
    for (host, expected) in [
        ("10.0.0.2", Some("w2")),
        ("10.9.9.9", None),
        ("own", Some("w1")),
        ("two", None),
        ("elsewhere", None),
    ] {
        lookup.of(host, 443).await.expect("addresses");
        assert_eq!(on_node(host).as_deref(), expected, "{host}");
    }
}
