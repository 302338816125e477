//! Clouds and hypervisors: lists and failures that are as large as they may be, and as expensive as they can be.
//!
//! A list of a hundred machines is longer than a mebibyte, so what one answer costs is held to some tens of them, however it is made.

mod attacks;
mod good;

use crate::bmc::{Act, Bmc, reply};
use crate::device::local_rules;
use crate::{ASKED, judge_within, measured};
use attacks::ATTACKS;
use fencing_api::device::{
    AwsDriver, AzureDriver, GcpDriver, HetznerCloudDriver, KubevirtDriver, NutanixDriver,
    OpenstackDriver, ProxmoxDriver, XapiDriver,
};
use fencing_drivers::address::Address;
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::cloud::surroundings::Surroundings;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::CertificateCheck;
use fencing_drivers::{DeviceError, DriverKind, Extent, FenceDriver, NodeFacts, OffOutcome, Parts};
use good::good;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The most that one answer may cost, in KiB: the longest one has four mebibytes.
const CLOUD_KIB_MAX: u64 = 32 << 10;
const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e01";
const AZURE: &str = "/subscriptions/b1e5d1a0-7c1f-4a51-9f3a-2d1f0c0ffee0/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/n";
const ADDRESS: &str = "10.0.0.17";
const KUBECONFIG: &str = "clusters: [{name: c, cluster: {server: '$URL'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
    users: [{name: u, user: {token: eyJhbGciOi-token}}]\n";

/// Settings of the driver, its Secret, and the provider ID of its Node.
type Made = (Box<dyn DriverKind>, Vec<(&'static str, String)>, String);

fn kind<K: DriverKind + serde::de::DeserializeOwned + 'static>(
    value: Value,
) -> Box<dyn DriverKind> {
    Box::new(serde_json::from_value::<K>(value).expect("settings"))
}

fn made(name: &str, url: &str) -> Made {
    let tls = json!({"verification": "None"});
    let at = json!({"address": url, "tls": tls});
    let login = |keys: &[&'static str]| {
        let values = keys.iter().map(|key| (*key, "n/a-secret".to_owned()));
        values.collect::<Vec<_>>()
    };
    match name {
        "azure" => {
            let settings = json!({"address": url, "loginAddress": url, "tls": tls});
            let mut secret = login(&["tenantID", "clientID", "clientSecret"]);
            secret[0].1 = "contoso.example.com".to_owned();
            (
                kind::<AzureDriver>(settings),
                secret,
                format!("azure://{AZURE}"),
            )
        }
        "gcp" => {
            let settings = json!({"project": "prod-4711", "endpoint": url, "tls": tls});
            let id = "gce://prod-4711/europe-west3-a/n".to_owned();
            (kind::<GcpDriver>(settings), Vec::new(), id)
        }
        "hetzner" => (
            kind::<HetznerCloudDriver>(at),
            login(&["token"]),
            "hcloud://4711".to_owned(),
        ),
        "nutanix" => (
            kind::<NutanixDriver>(at),
            login(&["username", "password"]),
            format!("nutanix://{UUID}"),
        ),
        "proxmox" => {
            let mut secret = login(&["tokenID", "tokenSecret"]);
            secret[0].1 = "root@pam!fence".to_owned();
            (
                kind::<ProxmoxDriver>(at),
                secret,
                "proxmox://lab/100".to_owned(),
            )
        }
        "openstack" => {
            let settings = json!({"authURL": url, "tls": tls});
            let keys = ["applicationCredentialID", "applicationCredentialSecret"];
            let id = format!("openstack:///{UUID}");
            (kind::<OpenstackDriver>(settings), login(&keys), id)
        }
        "kubevirt" => {
            let settings = json!({"address": url, "namespace": "tenant", "tls": tls});
            let secret = vec![("kubeconfig", KUBECONFIG.replace("$URL", url))];
            (
                kind::<KubevirtDriver>(settings),
                secret,
                "kubevirt://n".to_owned(),
            )
        }
        "aws" => {
            let settings = json!({"region": "eu-central-1", "endpoint": url, "tls": tls});
            let secret = login(&["accessKeyID", "secretAccessKey"]);
            let id = "aws:///eu-central-1a/i-0a1b2c3d4e5f60718".to_owned();
            (kind::<AwsDriver>(settings), secret, id)
        }
        _ => (
            kind::<XapiDriver>(at),
            login(&["username", "password"]),
            format!("xenorchestra://{UUID}/{UUID}"),
        ),
    }
}

fn driver(name: &str, at: SocketAddr) -> Arc<dyn FenceDriver> {
    let url = format!("http://{at}");
    let (kind, secret, provider_id) = made(name, &url);
    let keys: Vec<&'static str> = secret.iter().map(|(key, _)| *key).collect();
    let data = secret.into_iter();
    let data: BTreeMap<String, Vec<u8>> = data
        .map(|(key, value)| (key.to_owned(), value.into_bytes()))
        .collect();
    let credentials = match keys.is_empty() {
        true => Ok(Credentials::nobody()),
        false => Credentials::with_keys("cloud", &keys, &data, &BTreeMap::new()),
    };
    let surroundings = Surroundings {
        google: Some(at.to_string()),
        ..Surroundings::default()
    };
    let parts = Parts {
        node: NodeFacts {
            provider_id,
            addresses: vec![ADDRESS.to_owned()],
            ..NodeFacts::named("n")
        },
        address: Address::parse(&url).expect("an address"),
        secret: ("cloud".to_owned(), "1".to_owned()),
        credentials: Arc::new(credentials.expect("credentials")),
        verification: CertificateCheck::None,
        rules: local_rules(),
        call_timeout: Duration::from_secs(30),
        command_timeout: Duration::from_secs(10),
        past: Default::default(),
        keyring: Arc::default(),
        accounts: Arc::new(Accounts::in_these(surroundings)),
        clock: Clock::SYSTEM,
    };
    kind.make(parts).expect("a driver")
}

/// Looks at a machine by itself, then by a list; or turns it off.
pub async fn ask(what: &str, at: SocketAddr) -> String {
    let (name, way) = what.split_once('-').expect("a way");
    let driver = driver(name, at);
    let failed = |error: DeviceError| error.reason().to_owned();
    if way == "off" {
        let mut session = driver.open();
        let off = match session.prepare_off().await {
            Ok(_) => session.force_off().await,
            Err(error) => Err(error),
        };
        return match off {
            Ok(OffOutcome::Unknown(error)) => format!("unknown: {}", error.reason()),
            Ok(_) => "taken".to_owned(),
            Err(error) => failed(error),
        };
    }
    let mut said = String::new();
    for extent in [Extent::Needed, Extent::Listed] {
        let probe = driver.open().probe(extent).await;
        let one = probe.map_or_else(failed, |probe| format!("{:?}", probe.reading.state));
        said = format!("{said}{one} ");
    }
    said.trim().to_owned()
}

/// This text again and again, up to so many bytes.
fn filled([begin, again, end]: [&str; 3], bytes: usize) -> String {
    let times = bytes.saturating_sub(begin.len() + end.len() + 1) / again.len();
    format!("{begin}{}{end}", again.repeat(times))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_a_cloud_costs_more_than_some_tens_of_mebibytes() {
    let mut rows = Vec::new();
    for (way, what, status, bytes, parts) in ATTACKS {
        let attacked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&attacked);
        let server = Bmc::plain(move |request| {
            let name = way.split('-').next().unwrap_or_default();
            if let Some(act) = good(name, request) {
                return act;
            }
            let earlier = count.fetch_add(1, Ordering::SeqCst);
            let bytes = if earlier < ASKED - 1 { 500 } else { bytes };
            Act::SendThenClose(reply(status, &filled(parts, bytes)))
        })
        .await;
        let at = server.address;
        let measured = tokio::task::spawn_blocking(move || measured(way, at)).await;
        let (growth, verdict) = measured.expect("a measurement");
        let asked = attacked.load(Ordering::SeqCst);
        assert!(asked >= ASKED, "{way}, {what}: attacked {asked} times");
        rows.push((format!("{way}, {what}"), growth, verdict));
    }
    judge_within(CLOUD_KIB_MAX, &rows);
}
