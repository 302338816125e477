//! The endpoints over real sockets, and what a hostile peer can do.

use super::*;
use crate::shell::health::Gate;
use crate::shell::metrics::Snapshot;
use fencing_cluster::stop::Stopper;
use std::io::{Read, Write};
use std::net::TcpStream as Socket;

struct Running {
    address: SocketAddr,
    site: Site,
    _stopper: Stopper,
}

async fn running() -> Running {
    let site = Site {
        health: Health::default(),
        metrics: Arc::new(Metrics::new().expect("metrics")),
    };
    let server = Server::bind("127.0.0.1:0".parse().expect("address"))
        .await
        .expect("port");
    let (stopper, stop) = Stopper::new();
    let address = server.address();
    tokio::spawn(server.serve(site.clone(), None, stop));
    Running {
        address,
        site,
        _stopper: stopper,
    }
}

impl Running {
    /// Sends these bytes and reads until the server closes: head and body.
    async fn raw(&self, bytes: &str) -> (String, String) {
        let (address, bytes) = (self.address, bytes.to_owned());
        let talk = move || {
            let mut socket = Socket::connect(address).expect("connection");
            socket.write_all(bytes.as_bytes()).expect("sent");
            let mut answer = vec![];
            // A reset after the answer is as good as an end.
            let _ = socket.read_to_end(&mut answer);
            String::from_utf8(answer).expect("UTF-8")
        };
        let answer = tokio::task::spawn_blocking(talk).await.expect("task");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let (head, body) = self
            .raw(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
            .await;
        let status = head.get(9..12).and_then(|code| code.parse().ok());
        (status.expect("status"), body)
    }
}

#[tokio::test]
async fn alive_from_the_start_and_ready_when_every_gate_is_open() {
    let server = running().await;
    assert_eq!(server.get("/livez").await, (200, "ok\n".to_owned()));
    let (status, body) = server.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(
        body.starts_with("not ready:\n") && body.contains("caches"),
        "{body}"
    );
    server.site.health.open(Gate::Cluster);
    server.site.health.open(Gate::Caches);
    let missing = vec![
        "RBAC does not grant: patch nodes".to_owned(),
        "RBAC does not grant: get pods".to_owned(),
    ];
    server.site.health.close(Gate::Rights, missing);
    let expected = "not ready:\nRBAC does not grant: patch nodes\nRBAC does not grant: get pods\n";
    assert_eq!(server.get("/readyz").await, (503, expected.to_owned()));
    server.site.health.open(Gate::Rights);
    assert_eq!(server.get("/readyz").await, (200, "ok\n".to_owned()));
    assert_eq!(server.get("/livez?verbose").await.0, 200);
}

#[tokio::test]
async fn metrics_come_from_the_moment_of_the_scrape() {
    let server = running().await;
    let (status, before) = server.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(!before.contains("node_protected"), "{before}");
    server.site.metrics.gauges_from(|| Snapshot {
        protected: vec![("w1".to_owned(), true)],
        ..Snapshot::default()
    });
    let (head, body) = server.raw("GET /metrics HTTP/1.0\r\n\r\n").await;
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let series = "node_fencing_node_protected{node=\"w1\"} 1\n";
    assert!(body.contains(series), "{body}");
}

#[tokio::test]
async fn anything_else_is_refused_in_words() {
    let server = running().await;
    assert_eq!(
        server.get("/").await,
        (404, "there are /livez, /readyz and /metrics\n".to_owned())
    );
    assert_eq!(server.get("/../etc/passwd").await.0, 404);
    let (head, _) = server
        .raw("POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert!(
        head.starts_with("HTTP/1.1 405") && head.contains("allow: GET, HEAD"),
        "{head}"
    );
    let with_body = "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    assert!(server.raw(with_body).await.0.starts_with("HTTP/1.1 413"));
    let (head, body) = server.raw("HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 200") && body.is_empty(),
        "{head}"
    );
    let huge = format!(
        "GET /livez HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(HEAD_BYTES_MAX)
    );
    let (head, _) = server.raw(&huge).await;
    assert!(
        head.is_empty() || head.starts_with("HTTP/1.1 431"),
        "{head}"
    );
    let (head, _) = server.raw("\u{1}\u{2}garbage\r\n\r\n").await;
    assert!(
        head.is_empty() || head.starts_with("HTTP/1.1 400"),
        "{head}"
    );
    assert_eq!(server.get("/livez").await.0, 200);
}

#[tokio::test]
async fn one_request_a_connection() {
    let server = running().await;
    let twice = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
    let (_, rest) = server.raw(&twice).await;
    assert_eq!(rest, "ok\n", "a second answer on one connection");
}

#[tokio::test]
async fn silent_peers_are_put_out_and_others_get_their_turn() {
    let server = running().await;
    let connect = |_| Socket::connect(server.address).expect("connection");
    let silent: Vec<_> = (0..CONNECTIONS_MAX).map(connect).collect();
    let begun = std::time::Instant::now();
    assert_eq!(server.get("/livez").await.0, 200);
    assert!(begun.elapsed() < HEAD_TIME_MAX * 2, "{:?}", begun.elapsed());
    drop(silent);
}

#[tokio::test]
async fn a_port_in_use_is_said_in_one_line_with_the_way_out() {
    let server = running().await;
    let error = Server::bind(server.address).await.err().expect("in use");
    let words = fencing_cluster::text::chain(&error);
    assert_eq!(
        words,
        format!(
            "--http-bind: {} is in use by another process; choose another port, or 0 for a free one",
            server.address
        )
    );
    // An address of documentation only: no host has it.
    let foreign = "192.0.2.1:80".parse().expect("address");
    let words = fencing_cluster::text::chain(&Server::bind(foreign).await.err().expect("foreign"));
    assert!(
        words.starts_with("--http-bind: failed to listen on 192.0.2.1:80: "),
        "{words}"
    );
}

/// Kubelets and Prometheus come by the family of the pod's address, whichever the cluster has.
#[tokio::test]
async fn everywhere_is_by_ipv4_as_well() {
    let everywhere = "[::]:0".parse().expect("address");
    let server = Server::bind(everywhere).await.expect("port");
    let port = server.address().port();
    Socket::connect((Ipv4Addr::LOCALHOST, port)).expect("by IPv4");
}

#[test]
fn a_kernel_without_ipv6_serves_ipv4_alone() {
    let instead = |address: &str, error: Errno| {
        let address = address.parse().expect("address");
        without_ipv6(address, &error.into()).map(|it| it.to_string())
    };
    for error in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
        assert_eq!(instead("[::]:81", error).as_deref(), Some("0.0.0.0:81"));
        assert_eq!(instead("[::1]:81", error), None);
        assert_eq!(instead("0.0.0.0:81", error), None);
    }
    for error in [Errno::ADDRINUSE, Errno::ACCESS] {
        assert_eq!(instead("[::]:81", error), None);
    }
}

#[tokio::test]
async fn nothing_is_accepted_after_the_end() {
    let server = running().await;
    let address = server.address;
    drop(server);
    let refused = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), refused)
        .await
        .expect("the port is free again");
}
