//! The API server, or what stands in its place: answers, refusals and events without end, and Secrets and ConfigMaps as large as they can be.
//!
//! It is not held to a mebibyte, because lists are longer than that in every cluster; but to what is written down, and not a byte more.

use crate::bmc::{Act, Bmc, Request, reply};
use crate::{ASKED, judge_within, measured};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencing_cluster::client::{AskError, Clients, ask};
use fencing_cluster::slim::SlimNode;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::tls::{CertificateCheck, client_config};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, WatchParams};
use serde_json::json;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest answer that is read (64 MiB), as bytes and as text, and the buffers that grow with it, in KiB.
const ANSWER_KIB_MAX: u64 = 100 << 10;
/// The same of an event (8 MiB), whose buffer doubles: the old one stands beside the new one while it does.
const EVENT_KIB_MAX: u64 = 26 << 10;
/// The same of a refusal (1 MiB), and of a Secret or a ConfigMap, of which the API server stores no more.
const SMALL_KIB_MAX: u64 = 6 << 10;

fn clients(at: SocketAddr) -> Clients {
    // The client's TLS configuration is built even for plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let uri = format!("http://{at}").parse().expect("a URI");
    Clients::from_config(kube::Config::new(uri)).expect("clients")
}

/// In a few words: those of a failure, without what differs from run to run.
fn verdict<T>(outcome: Result<T, AskError>, taken: impl Fn(T) -> String) -> String {
    match outcome {
        Ok(answer) => taken(answer),
        Err(error) => error.to_string().chars().take(200).collect(),
    }
}

/// Asks once, as the process that is measured.
pub async fn request(kind: &str, at: SocketAddr) -> String {
    // A new one each time: it would go on with a connection that the last answer has spoiled.
    let client = clients(at).reads;
    match kind {
        "api-list" => {
            let nodes = Api::<SlimNode>::all(client);
            let listed = ask(nodes.list(&ListParams::default())).await;
            verdict(listed, |list| format!("{} nodes", list.items.len()))
        }
        "api-watch" => {
            let nodes = Api::<SlimNode>::all(client);
            let watch = WatchParams::default().timeout(5);
            let events = async {
                let mut events = pin!(nodes.watch(&watch, "0").await?);
                let mut count = 0;
                while events.try_next().await?.is_some() {
                    count += 1;
                }
                Ok(count)
            };
            verdict(ask(events).await, |count: usize| format!("{count} events"))
        }
        "api-secret" => {
            let secrets = Api::<Secret>::namespaced(client, "ns");
            verdict(ask(secrets.get("bmc")).await, |secret| {
                let data = secret.data.unwrap_or_default().into_iter();
                let data = data.map(|(key, value)| (key, value.0)).collect();
                let annotations = secret.metadata.annotations.unwrap_or_default();
                match Credentials::from_secret("bmc", &data, &annotations) {
                    Ok(_) => "taken".to_owned(),
                    Err(error) => error.to_string(),
                }
            })
        }
        _ => {
            let maps = Api::<ConfigMap>::namespaced(client, "ns");
            verdict(ask(maps.get("ca")).await, |map| {
                let pem = map.data.unwrap_or_default().remove("ca.crt");
                let check = CertificateCheck::Full {
                    ca_bundle_pem: pem.map(String::into_bytes),
                };
                match client_config(&check, jiff::Timestamp::UNIX_EPOCH) {
                    Ok(_) => "taken".to_owned(),
                    Err(error) => error.to_string(),
                }
            })
        }
    }
}

type Answer = fn(bool) -> Act;

fn endless(head: &str, again: Vec<u8>, is_large: bool) -> Act {
    let head = format!("HTTP/1.1 {head}\r\n").into_bytes();
    match is_large {
        true => Act::Endless(head, again),
        false => Act::SendThenClose([head, again[..again.len().min(64)].to_vec()].concat()),
    }
}

fn chunks(of: u8) -> Vec<u8> {
    [b"10000\r\n".as_slice(), &vec![of; 1 << 16], b"\r\n"].concat()
}

fn secret(bytes: usize) -> Act {
    let value = STANDARD.encode(vec![b'x'; bytes]);
    let secret = json!({"metadata": {"name": "bmc"}, "data": {"username": STANDARD.encode("a"), "password": value}});
    Act::SendThenClose(reply("200 OK", &secret.to_string()))
}

fn bundle(bytes: usize) -> Act {
    let entry = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        STANDARD.encode([7; 300])
    );
    let map =
        json!({"metadata": {"name": "ca"}, "data": {"ca.crt": entry.repeat(bytes / entry.len())}});
    Act::SendThenClose(reply("200 OK", &map.to_string()))
}

const CHUNKED: &str = "200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";

const ANSWERS: [(&str, &str, u64, Answer); 6] = [
    ("api-list", "endless chunks", ANSWER_KIB_MAX, |large| {
        endless(CHUNKED, chunks(b' '), large)
    }),
    (
        "api-list",
        "a body that ends with the connection, which does not",
        ANSWER_KIB_MAX,
        |large| endless("200 OK\r\n", vec![b'['; 1 << 16], large),
    ),
    (
        "api-list",
        "a refusal without end",
        SMALL_KIB_MAX,
        |large| {
            let head = CHUNKED.replace("200 OK", "403 Forbidden");
            endless(&head, chunks(b'x'), large)
        },
    ),
    (
        "api-watch",
        "an event without end",
        EVENT_KIB_MAX,
        |large| endless(CHUNKED, chunks(b'x'), large),
    ),
    (
        "api-secret",
        "a Secret of a mebibyte",
        SMALL_KIB_MAX,
        |large| secret(if large { 1 << 20 } else { 5_000 }),
    ),
    (
        "api-config-map",
        "a ConfigMap full of certificates that are none",
        SMALL_KIB_MAX,
        |large| bundle(if large { 1 << 20 } else { 5_000 }),
    ),
];

/// What each kind is answered when all is well.
fn good(request: &Request) -> Act {
    let object = match request.path.as_str() {
        path if path.contains("watch=true") => json!({"type": "BOOKMARK", "object": {
            "kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}}),
        path if path.contains("/secrets/") => {
            json!({"metadata": {}, "data": {"username": STANDARD.encode("a"), "password": STANDARD.encode("b")}})
        }
        path if path.contains("/configmaps/") => json!({"metadata": {}, "data": {"ca.crt": ""}}),
        _ => json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": []}),
    };
    Act::SendThenClose(reply("200 OK", &format!("{object}\n")))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_the_api_server_costs_more_than_what_is_read_of_it() {
    for (kind, what, most, answer) in ANSWERS {
        let asked = AtomicUsize::new(0);
        let server = Bmc::plain(move |request| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => good(request),
            earlier => answer(earlier + 1 == ASKED),
        })
        .await;
        let at = server.address;
        let measured = tokio::task::spawn_blocking(move || measured(kind, at)).await;
        let (growth, verdict) = measured.expect("a measurement");
        judge_within(most, &[(format!("{kind}, {what}"), growth, verdict)]);
    }
}
