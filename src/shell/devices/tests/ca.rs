//! The CA that a device's certificate is checked with, from where cert-manager and people put it.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_testbed::bmc::{Bmc, BmcCa, Credentials as Login, Plug};
use std::net::IpAddr;

/// What a device says whose CA is said to stand in an object of this kind, with this content.
async fn with_ca(bmc: &Bmc, kind: &str, content: Value) -> Result<String, DeviceError> {
    let local = "127.0.0.0/8".parse().expect("a range");
    let cluster = Cluster::with_rules(AddressRules::new(vec![local], Vec::new())).await;
    let Login { username, password } = bmc.credentials();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "data": {"username": STANDARD.encode(username), "password": STANDARD.encode(password)},
    });
    cluster.put("secrets", "bmc", secret);
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "ca"}});
    json_patch::merge(&mut object, &content);
    cluster.put(&format!("{}s", kind.to_lowercase()), "ca", object);
    let tls = json!({"verification": "Full", "caRef": {"kind": kind, "name": "ca"}});
    let redfish = json!({"address": bmc.url(), "systemID": "1", "tls": tls});
    let device = with_redfish(redfish);
    let access = cluster
        .devices
        .access(&device, "w1", Freshness::Now)
        .await?;
    Ok(access.driver.open().observe().await?.raw)
}

/// A BMC of this number, whose certificate `ca` has signed.
fn bmc(number: u8, ca: &BmcCa) -> Bmc {
    let address: IpAddr = [127, 87, 0, number].into();
    let plug = Arc::new(Plug::new("w1", SYSTEM));
    Bmc::start(address, plug, Login::default(), ca).expect("a BMC")
}

#[tokio::test]
async fn a_ca_of_a_secret_or_a_config_map_is_the_one_that_is_trusted() {
    let (ca, other) = (
        BmcCa::new("own").expect("a CA"),
        BmcCa::new("other").expect("a CA"),
    );
    let bmc = bmc(1, &ca);
    for (ca, trusted) in [(&ca, true), (&other, false)] {
        let (text, encoded) = (ca.pem(), STANDARD.encode(ca.pem()));
        // cert-manager writes it into a Secret; a ConfigMap has it as text, or as bytes.
        for (kind, content) in [
            ("Secret", json!({"data": {"ca.crt": encoded}})),
            ("ConfigMap", json!({"data": {"ca.crt": text}})),
            ("ConfigMap", json!({"binaryData": {"ca.crt": encoded}})),
        ] {
            let said = with_ca(&bmc, kind, content).await;
            let said = said.map_err(|error| error.reason());
            let expected = if trusted {
                Ok("On".to_owned())
            } else {
                Err("TlsIdentity")
            };
            assert_eq!(said, expected, "{kind}");
        }
    }
}

#[tokio::test]
async fn a_ca_that_cannot_be_used_is_named_with_its_secret() {
    let cluster = Cluster::new().await;
    cluster.put_secret("1", "p");
    let device = |key: &str| {
        let reference = json!({"kind": "Secret", "name": "ca", "key": key});
        let tls = json!({"verification": "Full", "caRef": reference});
        with_redfish(json!({"address": "https://10.0.0.1", "tls": tls}))
    };
    let error = cluster.error(&device("ca.crt")).await;
    assert!(
        error.to_string().contains("Secret `ca` does not exist"),
        "{error}"
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca"}, "data": {"ca.crt": "bm90IFBFTQ=="}});
    cluster.put("secrets", "ca", secret);
    let error = cluster.error(&device("other")).await;
    assert!(
        error.to_string().contains("Secret `ca` has no key `other`"),
        "{error}"
    );
    let error = cluster.error(&device("ca.crt")).await;
    assert!(
        error.to_string().contains("`tls.caRef`"),
        "read, and not PEM: {error}"
    );
}
