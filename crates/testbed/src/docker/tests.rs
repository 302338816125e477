//! A container behind a Docker Engine that is none: a socket with one container, which answers as the Engine API says.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    bmc::{Bmc, BmcCa, Credentials},
    https::client,
};

const NODE: &str = "kind-worker";
const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
const SOON: Duration = Duration::from_secs(5);

/// `State.Status` of the container, and the requests so far.
#[derive(Default)]
struct Seen {
    status: Option<&'static str>,
    asked: Vec<String>,
}

/// An engine that runs in a thread for as long as the test does.
struct Engine {
    seen: Arc<Mutex<Seen>>,
    folder: TempDir,
}

impl Engine {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        let seen = Arc::new(Mutex::new(Seen {
            status: Some("running"),
            asked: Vec::new(),
        }));
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &shared);
            }
        });
        Self { seen, folder }
    }

    fn container(&self, name: &str) -> Container {
        Container::new(name, UUID, &self.folder.path().join("docker.sock")).unwrap()
    }

    fn set(&self, status: Option<&'static str>) {
        self.seen.lock().unwrap().status = status;
    }

    fn status(&self) -> Option<&'static str> {
        self.seen.lock().unwrap().status
    }
}

fn answer(stream: UnixStream, seen: &Mutex<Seen>) {
    let mut lines = BufReader::new(&stream).lines();
    let asked = lines.next().unwrap().unwrap();
    while !lines.next().unwrap().unwrap().is_empty() {}
    let mut seen = seen.lock().unwrap();
    let path = format!("/containers/{NODE}/");
    let (status, body) = match asked.replace(&path, "").as_str() {
        "GET json HTTP/1.0" => (200, json!({"State": {"Status": seen.status}})),
        "POST kill HTTP/1.0" if matches!(seen.status, Some("running" | "paused")) => {
            seen.status = Some("exited");
            (204, Value::Null)
        }
        "POST kill HTTP/1.0" => (409, json!({"message": "it is not running"})),
        "POST start HTTP/1.0" if seen.status == Some("running") => (304, Value::Null),
        "POST start HTTP/1.0" => {
            seen.status = Some("running");
            (204, Value::Null)
        }
        _ => (404, json!({"message": "No such container"})),
    };
    seen.asked.push(asked);
    write!(&stream, "HTTP/1.0 {status} Status\r\n\r\n{body}").unwrap();
}

#[test]
fn its_switch_kills_and_starts_the_container() {
    let engine = Engine::start();
    let container = engine.container(NODE);
    assert!(container.is_on());
    for on in [false, false, true, true] {
        container.set_power(on);
        assert_eq!(container.is_on(), on);
    }
    let asked = engine.seen.lock().unwrap().asked.clone();
    assert_eq!(asked[1], "POST /containers/kind-worker/kill HTTP/1.0");
    assert_eq!(asked[5], "POST /containers/kind-worker/start HTTP/1.0");
}

#[test]
fn only_a_container_that_has_ended_reads_off() {
    let engine = Engine::start();
    let container = engine.container(NODE);
    for status in ["running", "paused", "restarting", "removing"] {
        engine.set(Some(status));
        assert!(container.is_on(), "{status}");
    }
    for status in ["created", "exited", "dead"] {
        engine.set(Some(status));
        assert!(!container.is_on(), "{status}");
    }
    // What is not known is no Off.
    engine.set(None);
    assert!(container.runs().is_err() && container.is_on());
    engine.set(Some("exited"));
    let other = engine.container("kind-worker2");
    assert!(other.runs().is_err() && other.is_on());
    let nowhere = Container::new(NODE, UUID, &engine.folder.path().join("none")).unwrap();
    assert!(nowhere.runs().is_err() && nowhere.is_on());
    assert!(Container::new("kind-worker/../other", UUID, engine.folder.path()).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_over_it_turns_a_hung_node_off_and_on() {
    let engine = Engine::start();
    let ca = BmcCa::new("test").unwrap();
    let machine = Arc::new(engine.container(NODE));
    let credentials = Credentials::default();
    let bmc = Bmc::start([127, 78, 1, 1].into(), machine, credentials, &ca).unwrap();
    engine.set(Some("paused"));
    assert_eq!(system(&bmc).await["PowerState"], "On");
    assert_eq!(system(&bmc).await["UUID"], UUID);
    for (reset, status, state) in [("ForceOff", "exited", "Off"), ("On", "running", "On")] {
        let path = format!("{}/Actions/ComputerSystem.Reset", bmc.system_path());
        let body = json!({"ResetType": reset}).to_string();
        send(&bmc, Method::POST, &path, body).await;
        assert_eq!(engine.status(), Some(status));
        assert_eq!(system(&bmc).await["PowerState"], state);
    }
}

async fn system(bmc: &Bmc) -> Value {
    let body = send(bmc, Method::GET, &bmc.system_path(), String::new()).await;
    serde_json::from_slice(&body).unwrap()
}

async fn send(bmc: &Bmc, method: Method, path: &str, body: String) -> Bytes {
    let Credentials { username, password } = bmc.credentials();
    let basic = STANDARD.encode(format!("{username}:{password}"));
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", bmc.url()))
        .header("authorization", format!("Basic {basic}"))
        .header("odata-version", "4.0")
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .body(Full::from(body))
        .unwrap();
    let client = client(bmc.ca_pem()).unwrap();
    let answer = async {
        let response = client.request(request).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        response.into_body().collect().await.unwrap().to_bytes()
    };
    tokio::time::timeout(SOON, answer).await.unwrap()
}
