//! What looks in peace time share.

use super::*;

/// A fleet's looks share one read of what they have in common; a fence, and whoever asks, reads for itself.
#[tokio::test]
async fn a_look_takes_what_another_has_just_read_and_a_fence_does_not() {
    let cluster = Cluster::new().await;
    let tls = json!({"verification": "Full", "caRef": {"name": "ca"}});
    let fleet = ["https://10.0.0.1", "https://10.0.0.2"]
        .map(|address| with_redfish(json!({"address": address, "tls": tls})));
    let [one, other] = &fleet;
    let ca = rcgen::generate_simple_self_signed(Vec::new()).expect("a certificate");
    let bundle = json!({"ca.crt": ca.cert.pem()});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": bundle});
    cluster.put("configmaps", "ca", map);
    let read = async |device: &FenceDevice, freshness| {
        let before = cluster.asked().len();
        let access = cluster.devices.access(device, "w1", freshness).await;
        let trimmed = !access.expect("a driver").trimmed_keys.is_empty();
        (trimmed, cluster.asked().len() - before)
    };
    // What is not there is not kept.
    assert_eq!(cluster.error(one).await.reason(), "CredentialsInvalid");
    cluster.put_secret("1", "old");
    assert_eq!(read(one, Freshness::Recent).await, (false, 1));
    cluster.put_secret("2", "new\n");
    assert_eq!(read(other, Freshness::Recent).await, (false, 0));
    assert_eq!(read(one, Freshness::Now).await, (true, 2));
    assert_eq!(read(other, Freshness::Recent).await, (true, 0));
    let before = cluster.asked().len();
    let driver = cluster.devices.driver(one, "w1").await;
    assert_eq!(driver.expect("a driver").name(), "redfish");
    assert_eq!(cluster.asked().len() - before, 2);
}
