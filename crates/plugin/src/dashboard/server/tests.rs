use super::super::board::Board;
use super::super::feed::Feed;
use super::super::fleet::World;
use super::super::keep_time;
use super::*;
use crate::cluster::{Cluster, Limits};
use fencing_cluster::client::Clients;
use fencing_cluster::fake::{Fake, failure};
use http_body_util::Empty;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Notify;
use tokio::task::JoinSet;

const ROOT: &str = "/0123456789abcdef/";

fn asked(method: Method, host: Option<&str>, path: &str) -> Option<Answer> {
    let request = Request::builder().method(method).uri(path);
    let request = match host {
        Some(host) => request.header(HOST, host),
        None => request,
    };
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let own = hosts("127.0.0.1:8090".parse().expect("an address"));
    refusal(&own, ROOT, &request)
}

fn status(method: Method, host: &str, path: &str) -> u16 {
    asked(method, Some(host), path).map_or(200, |it| it.status().as_u16())
}

#[test]
fn a_name_that_somebody_points_at_loopback_gets_nothing() {
    for host in ["127.0.0.1:8090", "localhost:8090"] {
        assert_eq!(status(Method::GET, host, ROOT), 200, "{host}");
    }
    for host in [
        "evil.example:8090",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8090.evil.example",
        "localhost",
        "",
    ] {
        assert_eq!(status(Method::GET, host, ROOT), 403, "{host}");
    }
    assert!(asked(Method::GET, None, ROOT).is_some());
}

#[test]
fn nothing_can_be_changed() {
    for method in [
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ] {
        assert_eq!(
            status(method.clone(), "127.0.0.1:8090", ROOT),
            405,
            "{method}"
        );
    }
    assert_eq!(status(Method::HEAD, "127.0.0.1:8090", ROOT), 200);
}

#[test]
fn nobody_gets_anything_who_does_not_know_the_address() {
    for path in [
        "/",
        "/events",
        "/favicon.ico",
        "/0123456789abcdef",
        "/0123456789abcdee/",
        "/x0123456789abcdef/",
        "/0123456789abcdeff/",
    ] {
        assert_eq!(status(Method::GET, "127.0.0.1:8090", path), 404, "{path}");
    }
}

#[test]
fn answers_are_kept_nowhere_and_framed_by_nobody() {
    let answer = page(String::new());
    let header = |name: &str| answer.headers().get(name).and_then(|it| it.to_str().ok());
    assert_eq!(header("cache-control"), Some("no-store"));
    assert_eq!(header("referrer-policy"), Some("no-referrer"));
    assert_eq!(header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        header("content-security-policy"),
        Some("frame-ancestors 'none'")
    );
}

#[test]
fn a_name_survives_its_way_through_a_path() {
    for name in ["worker-1.example", "a/b", "\u{e4} %\"<", "%"] {
        assert_eq!(decoded(&super::super::pieces::encoded(name)), name);
    }
    // What is no encoding is not made into one.
    assert_eq!(decoded("a%"), "a%");
    assert_eq!(decoded("%zz"), "");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_the_way_out() {
    let first = bind("127.0.0.1:0".parse().expect("an address"));
    let first = first.await.expect("a free port");
    let taken = first.local_addr().expect("an address");
    let error = bind(taken).await.expect_err("it is taken");
    assert!(
        error.contains(&taken.to_string()) && error.contains("another port"),
        "{error}"
    );
}

/// What that API server tells of, once this much of it is known.
async fn live(server: &Fake, is_known: impl Fn(&World) -> bool, tasks: &mut JoinSet<()>) -> Live {
    let cluster = cluster(server);
    let changed = Arc::new(Notify::new());
    let live = Live {
        board: Mutex::new(Board::default()),
        version: watch::Sender::new(0),
        feed: Feed::start(&cluster, &changed, tasks),
        server: cluster.clients.server,
        ahead: Mutex::default(),
    };
    let until_known = async {
        while !is_known(&live.world()) {
            changed.notified().await;
        }
    };
    let known = timeout(Duration::from_secs(20), until_known).await;
    assert!(known.is_ok(), "nothing is known");
    live.look(&mut None);
    live
}

fn cluster(server: &Fake) -> Cluster {
    Cluster {
        clients: server.clients.clone(),
        namespace: "node-fencing-system".to_owned(),
        limits: Limits::of(None),
    }
}

/// Serves it, and says where.
async fn site(live: Arc<Live>, tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().expect("an address")).await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tasks.spawn(serve(listener, Site::new(address, "token", live)));
    address
}

/// Serves a fleet of so many nodes.
async fn served(nodes: usize, tasks: &mut JoinSet<()>) -> SocketAddr {
    let server = Fake::start(move |request| {
        let node = |number: usize| json!({"metadata": {"name": format!("node-{number:05}"), "uid": format!("{number}"), "resourceVersion": "1"}});
        match request.line.contains("/api/v1/nodes?") {
            true => {
                let items: Vec<_> = (0..nodes).map(node).collect();
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
            false => failure(404, "not found"),
        }
    })
    .await;
    let is_known = |world: &World| world.nodes.as_ref().is_ok_and(|it| it.len() == nodes);
    let live = live(&server, is_known, tasks).await;
    site(Arc::new(live), tasks).await
}

async fn connected(address: SocketAddr, says: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    // So that who reads nothing holds up whoever answers.
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(address).await.expect("a connection");
    stream.write_all(says.as_bytes()).await.expect("words");
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")
}

/// All places are taken by whoever says this and no more, and then somebody asks: they have an answer soon.
async fn is_let_in_beside(nodes: usize, says: fn(SocketAddr) -> String) {
    let mut tasks = JoinSet::new();
    let address = served(nodes, &mut tasks).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(connected(address, &says(address)).await);
    }
    let mut asking = connected(address, &get(address, "/token/node/nobody")).await;
    let mut answer = String::new();
    let read = asking.read_to_string(&mut answer);
    let limit = ANSWER_TIME_MAX + Duration::from_secs(10);
    let read = timeout(limit, read).await;
    assert!(read.is_ok(), "nobody else got in for {limit:?}");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn who_connects_and_says_nothing_gives_way() {
    is_let_in_beside(1, |_| String::new()).await;
}

#[tokio::test]
async fn who_does_not_end_the_head_of_a_request_gives_way() {
    is_let_in_beside(1, |_| "GET / HTTP/1.1\r\nX: ".to_owned()).await;
}

#[tokio::test]
async fn who_has_an_answer_and_stays_gives_way() {
    is_let_in_beside(1, |address| get(address, "/")).await;
}

#[tokio::test]
async fn who_does_not_take_the_answer_gives_way() {
    is_let_in_beside(20_000, |address| get(address, "/token/")).await;
}

#[tokio::test]
async fn who_awaits_events_is_not_cut_off() {
    let mut tasks = JoinSet::new();
    let address = served(1, &mut tasks).await;
    let mut stream = connected(address, &get(address, "/token/events?since=1")).await;
    let begun = std::time::Instant::now();
    let (mut heard, mut piece) = (String::new(), [0_u8; 1024]);
    while heard.matches("event: ").count() < 3 {
        let read = timeout(BEAT * 3, stream.read(&mut piece)).await;
        let read = read.expect("a beat").expect("a stream");
        assert!(
            read > 0,
            "it has ended after {:?}: {heard}",
            begun.elapsed()
        );
        heard += &String::from_utf8_lossy(&piece[..read]);
    }
    assert!(begun.elapsed() > ANSWER_TIME_MAX);
}

/// What it answers to that path.
async fn got(address: SocketAddr, path: &str) -> String {
    let mut stream = connected(address, &get(address, path)).await;
    let mut answer = String::new();
    let read = timeout(ANSWER_TIME_MAX, stream.read_to_string(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    answer
}

/// Who has written it, and when, comes with the watch: a user dates their word as they like.
#[tokio::test]
async fn a_date_that_cannot_be_is_told_on_the_page_of_an_incident() {
    let server = Fake::start(|request| match request.line.contains("/nodefences?") {
        true => {
            let fence = json!({
                "metadata": {"name": "worker-1-5c0ffee5", "resourceVersion": "1", "managedFields": [{
                    "manager": "kubectl-fence", "time": "2027-01-02T18:30:00Z", "fieldsV1": {"f:spec": {"f:approval": {}}},
                }]},
                "spec": {
                    "nodeName": "worker-1", "trigger": {"type": "NodeCondition"},
                    "approval": {"decision": "Approved", "user": "ann", "reason": "go", "time": "2027-01-02T18:00:00Z"},
                },
            });
            (200, json!({"metadata": {"resourceVersion": "1"}, "items": [fence]}))
        }
        false => failure(404, "not found"),
    })
    .await;
    let mut tasks = JoinSet::new();
    let live = live(&server, |it| it.fences.is_ok(), &mut tasks).await;
    let address = site(Arc::new(live), &mut tasks).await;
    let page = got(address, "/token/incident/worker-1-5c0ffee5").await;
    let words = "ann approved it, dated 2027-01-02T18:00:00Z: go";
    assert!(page.contains(words), "{page}");
}

/// An API server whose clock is an hour ahead, and which answers once.
async fn an_hour_ahead() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut asked = [0_u8; 4096];
        let _ = stream.read(&mut asked).await.expect("a request");
        let date = fencing_drivers::clock::wall() + HOUR;
        let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT");
        let answer = format!(
            "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        );
        stream
            .write_all(answer.as_bytes())
            .await
            .expect("an answer");
    });
    address
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Ages are of times that were written in the cluster, and the page counts them itself.
#[tokio::test]
async fn the_page_goes_by_the_clock_of_the_api_server() {
    let server = Fake::start(|_| failure(404, "not found")).await;
    let mut tasks = JoinSet::new();
    let live = Arc::new(live(&server, |_| true, &mut tasks).await);
    let url = format!("http://{}", an_hour_ahead().await);
    let url = url.parse().expect("a URL");
    let asked = Cluster {
        clients: Clients::from_config(kube::Config::new(url)).expect("clients"),
        ..cluster(&server)
    };
    let told = Arc::new(Notify::new());
    tasks.spawn(keep_time(asked, Arc::clone(&live), Arc::clone(&told)));
    let told = timeout(Duration::from_secs(20), told.notified()).await;
    told.expect("the time");
    let address = site(live, &mut tasks).await;
    let page = got(address, "/token/").await;
    let shown = page.split("data-now=\"").nth(1);
    let shown = shown.and_then(|it| it.split('"').next());
    let mut events = connected(address, &get(address, "/token/events?since=0")).await;
    let (mut heard, mut piece) = (String::new(), [0_u8; 1024]);
    while !heard.contains("\n\n") {
        let read = timeout(BEAT * 2, events.read(&mut piece)).await;
        let read = read.expect("an event").expect("a stream");
        assert!(read > 0, "{heard}");
        heard += &String::from_utf8_lossy(&piece[..read]);
    }
    let beat = heard.split("event: beat\ndata: ").nth(1);
    let beat = beat.and_then(|it| it.lines().next());
    for told in [shown, beat] {
        let told: i64 = told.expect("the time").parse().expect("a number");
        let told = Timestamp::from_millisecond(told).expect("a time");
        let apart = told.duration_since(fencing_drivers::clock::wall()) - HOUR;
        assert!(apart.abs() < SignedDuration::from_mins(1), "{told}");
    }
}
