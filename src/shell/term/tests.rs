//! A replica that stands by: what it does before it may lead.

use super::*;
use crate::shell::alive::{Alive, Apart};
use crate::shell::fake::{Fake, failure, list, node};
use crate::shell::health::Health;
use crate::shell::metrics::Metrics;
use crate::shell::outside::Outside;
use crate::telemetry::LogFormat;
use fencing_api::names::LEASE;
use fencing_cluster::stop::Stopper;
use fencing_core::election::Times;
use fencing_drivers::address::AddressRules;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::timeout;

/// What a replica watches: as it stands in a path, and its kind.
const WATCHED: [(&str, &str); 5] = [
    ("nodes", "Node"),
    ("volumeattachments", "VolumeAttachment"),
    ("nodefences", "NodeFence"),
    ("fencedevices", "FenceDevice"),
    ("nodefencingpolicies", "NodeFencingPolicy"),
];

fn is_lease(line: &str) -> bool {
    line.contains(&format!("/leases/{LEASE}"))
}

/// The request with which a watch of this begins, or goes on.
fn is_of(line: &str, plural: &str, is_watch: bool) -> bool {
    line.contains(&format!("/{plural}?")) && line.contains("watch=true") == is_watch
}

/// An API server in which another replica has the Lease, and which does not list this until it may.
async fn server(withheld: &'static str, may_list: Arc<AtomicBool>) -> Fake {
    Fake::start(move |seen| {
        if is_lease(&seen.line) {
            let spec = json!({"holderIdentity": "another", "leaseDurationSeconds": 15});
            return (200, json!({"metadata": {"name": LEASE, "uid": "u", "resourceVersion": "9"}, "spec": spec}));
        }
        let listed = WATCHED.into_iter().find(|(plural, _)| is_of(&seen.line, plural, false));
        match listed {
            Some((plural, _)) if plural == withheld && !may_list.load(Ordering::SeqCst) => failure(500, "etcd is away"),
            Some((_, kind)) => (200, list(kind, "7", &[])),
            // A watch that fails is begun anew.
            None => failure(500, "not here"),
        }
    })
    .await
}

fn settings() -> Settings {
    Settings {
        namespace: "ns".to_owned(),
        http_bind: ([127, 0, 0, 1], 0).into(),
        http_tls_dir: None,
        log_format: LogFormat::Text,
        log_filter: String::new(),
        node_name: None,
        max_concurrent: None,
        callers: false,
        headroom: false,
        pod_name: Some("standby".to_owned()),
        election: Times::default(),
        addresses: AddressRules::default(),
        kubeconfig: None,
    }
}

/// One that runs on this node.
fn replica(fake: &Fake, own_node: Option<&str>) -> (Replica, mpsc::UnboundedReceiver<Change>) {
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let equipment = Equipment {
        clients: fake.clients.clone(),
        outside: Outside::network(&AddressRules::default()),
        metrics: Arc::clone(&metrics),
        health: Health::default(),
        alive: Alive {
            apart: Apart::here(),
            client: fake.clients.writes.clone(),
        },
    };
    let (events, _publisher) = Events::new(fake.clients.reads.clone(), None, metrics);
    let settings = Settings {
        node_name: own_node.map(str::to_owned),
        ..settings()
    };
    Replica::start(&settings, equipment, events)
}

/// A leader with empty caches would find every node without a device and every incident without a record. So whoever wants to lead has
/// listed everything before it asks for the Lease, and goes on watching while it stands by.
#[tokio::test]
async fn a_standby_has_listed_and_watches_everything_before_it_leads() {
    for (withheld, _) in WATCHED {
        let may_list = Arc::new(AtomicBool::new(false));
        let fake = server(withheld, Arc::clone(&may_list)).await;
        let (replica, changed) = replica(&fake, None);
        let client = fake.clients.writes.clone();
        let elector = Elector::new(
            client,
            "ns",
            "standby".to_owned(),
            Times::default(),
            Clock::SYSTEM,
        );
        let (stopper, stop) = Stopper::new();
        let running = tokio::spawn(replica.run(changed, elector, stop));

        let seen = |is_it: &dyn Fn(&str) -> bool| fake.seen().iter().any(|seen| is_it(&seen.line));
        let asked = async |is_it: &dyn Fn(&str) -> bool| {
            let until = async {
                while !seen(is_it) {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            let lines = || {
                fake.seen()
                    .into_iter()
                    .map(|seen| seen.line)
                    .collect::<Vec<_>>()
            };
            assert!(
                timeout(Duration::from_secs(30), until).await.is_ok(),
                "{:#?}",
                lines()
            );
        };
        for (plural, _) in WATCHED {
            asked(&|line| is_of(line, plural, false)).await;
            if plural != withheld {
                asked(&|line| is_of(line, plural, true)).await;
            }
        }
        sleep(Duration::from_millis(200)).await;
        assert!(!seen(&is_lease), "it wants to lead without {withheld}");

        may_list.store(true, Ordering::SeqCst);
        asked(&is_lease).await;
        asked(&|line| is_of(line, withheld, true)).await;
        stopper.stop();
        running.await.expect("no panic");
    }
}

/// Its kubelet hangs, and its pod goes on renewing the Lease.
#[tokio::test]
async fn a_leader_whose_own_node_is_unreachable_makes_room_once() {
    for (own, status, leaves) in [
        ("worker-1", "Unknown", true),
        ("worker-1", "True", false),
        ("worker-1", "False", false),
        ("worker-2", "Unknown", false),
    ] {
        let mut node = node();
        node["status"]["conditions"][0]["status"] = status.into();
        let fake = Fake::start(move |seen| {
            let mut watched = WATCHED.into_iter();
            match watched.find(|(plural, _)| is_of(&seen.line, plural, false)) {
                Some(("nodes", kind)) => (200, list(kind, "7", &[node.clone()])),
                Some((_, kind)) => (200, list(kind, "7", &[])),
                None => failure(500, "not here"),
            }
        })
        .await;
        let (replica, _changed) = replica(&fake, Some(own));
        replica.caches.ready().await.expect("the caches");
        let limit = Duration::from_millis(100);
        let mut left_for = BTreeMap::new();
        let cause = timeout(limit, replica.own_node_fails(&left_for)).await;
        assert_eq!(cause.is_ok(), leaves, "{own} {status}");
        let now = clock::since_boot() + SILENCE_AGAIN;
        let long_ago = cause.iter().map(|it| (it.clone(), now - SILENCE_AGAIN * 2));
        let long_ago = long_ago.collect();
        left_for.extend(cause.map(|it| (it, now)));
        let again = timeout(limit, replica.own_node_fails(&left_for)).await;
        assert!(again.is_err(), "{own} {status}");
        let again = timeout(limit, replica.own_node_fails(&long_ago)).await;
        assert_eq!(again.is_ok(), leaves, "{own} {status}");
    }
}
