//! The BMC against a plain client: right answers first, then every fault.

mod faults;
mod power;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::*;
use crate::{https::client, power::Power};

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";
const SYSTEM: &str = "/redfish/v1/Systems/1";
const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
const SOON: Duration = Duration::from_secs(5);

struct Bench {
    bmc: Bmc,
    plug: Arc<Plug>,
    client: crate::https::Client,
}

fn bench() -> Bench {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let address: IpAddr = [127, 78, 0, NEXT.fetch_add(1, Ordering::Relaxed)].into();
    let ca = BmcCa::new("test").unwrap();
    let plug = Arc::new(Plug::new("node-1", UUID));
    let bmc = Bmc::start(address, plug.clone(), Credentials::default(), &ca).unwrap();
    let client = client(bmc.ca_pem()).unwrap();
    Bench { bmc, plug, client }
}

impl Bench {
    fn request(&self, method: Method, path: &str, body: Option<Value>) -> Request<Full<Bytes>> {
        let Credentials { username, password } = self.bmc.credentials();
        let basic = format!(
            "Basic {}",
            STANDARD.encode(format!("{username}:{password}"))
        );
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.bmc.url()))
            .header("authorization", basic)
            .header("odata-version", "4.0")
            .header("accept", "application/json");
        match body {
            None => request.body(Full::default()).unwrap(),
            Some(body) => request
                .header("content-type", "application/json")
                .body(Full::from(body.to_string()))
                .unwrap(),
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        Ok(tokio::time::timeout(SOON, self.client.request(request)).await??)
    }

    async fn read(&self, path: &str) -> Result<(u16, Bytes)> {
        let response = self.send(self.request(Method::GET, path, None)).await?;
        let status = response.status().as_u16();
        Ok((
            status,
            tokio::time::timeout(SOON, response.into_body().collect())
                .await??
                .to_bytes(),
        ))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.read(path).await.unwrap();
        assert_eq!(status, 200, "{path}: {body:?}");
        serde_json::from_slice(&body).unwrap()
    }

    async fn power_state(&self) -> Value {
        self.get(SYSTEM).await["PowerState"].clone()
    }

    async fn reset(&self, reset_type: &str) -> Result<u16> {
        let request = self.request(Method::POST, RESET, Some(json!({"ResetType": reset_type})));
        Ok(self.send(request).await?.status().as_u16())
    }

    fn reply(&self, reply: Reply) {
        self.bmc.faults(|faults| faults.replies = vec![reply]);
    }
}

#[tokio::test]
async fn a_client_finds_the_system_and_switches_it() {
    let bench = bench();
    let root = bench.get("/redfish/v1/").await;
    let systems = bench
        .get(root["Systems"]["@odata.id"].as_str().unwrap())
        .await;
    assert_eq!(systems["Members@odata.count"], 1);
    let system = bench
        .get(systems["Members"][0]["@odata.id"].as_str().unwrap())
        .await;
    assert_eq!(system["UUID"], UUID);
    assert_eq!(system["PowerState"], "On");
    assert_eq!(system["SerialNumber"], bench.bmc.serial_number());
    let reset = &system["Actions"]["#ComputerSystem.Reset"];
    assert!(
        reset["ResetType@Redfish.AllowableValues"]
            .as_array()
            .unwrap()
            .contains(&json!("ForceOff"))
    );
    assert_eq!(reset["target"], RESET);

    assert_eq!(bench.reset("ForceOff").await.unwrap(), 204);
    assert!(!bench.plug.is_on());
    assert_eq!(bench.power_state().await, "Off");
    assert_eq!(bench.reset("On").await.unwrap(), 204);
    assert_eq!(bench.power_state().await, "On");

    let commands: Vec<_> = bench
        .bmc
        .power_commands()
        .into_iter()
        .map(|c| (c.reset_type, c.status, c.accepted))
        .collect();
    assert_eq!(
        commands,
        [
            ("ForceOff".to_owned(), Some(204), true),
            ("On".to_owned(), Some(204), true)
        ]
    );
    assert!(
        bench.bmc.log().iter().all(|entry| entry.connection == 1),
        "one connection serves all requests"
    );
}

#[tokio::test]
async fn only_the_service_root_is_public() {
    let bench = bench();
    for (authorization, path, status) in [
        (None, "/redfish/v1/", 200),
        (None, "/redfish/v1/Systems", 401),
        (None, SYSTEM, 401),
        (Some("Basic Zm9vOmJhcg=="), SYSTEM, 401),
        (Some("Bearer x"), SYSTEM, 401),
    ] {
        let mut request = bench.request(Method::GET, path, None);
        request.headers_mut().remove("authorization");
        if let Some(value) = authorization {
            request
                .headers_mut()
                .insert("authorization", value.parse().unwrap());
        }
        assert_eq!(
            bench.send(request).await.unwrap().status(),
            status,
            "{path} {authorization:?}"
        );
    }
    let mut request = bench.request(Method::POST, RESET, Some(json!({"ResetType": "ForceOff"})));
    request.headers_mut().remove("authorization");
    assert_eq!(bench.send(request).await.unwrap().status(), 401);
    assert!(bench.plug.is_on());
    let [command] = bench.bmc.power_commands().try_into().unwrap();
    assert!(
        !command.accepted,
        "a refused command is in the log all the same"
    );

    bench
        .bmc
        .faults(|faults| faults.lock_account_after = Some(2));
    assert_eq!(
        bench.read(SYSTEM).await.unwrap().0,
        401,
        "two wrong passwords have locked the account"
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_by_its_status() {
    let bench = bench();
    for (body, status) in [
        (json!({}), 400),
        (json!({"ResetType": "Foo"}), 400),
        (json!({"ResetType": 7}), 400),
        (json!([]), 400),
    ] {
        let response = bench
            .send(bench.request(Method::POST, RESET, Some(body.clone())))
            .await
            .unwrap();
        assert_eq!(response.status(), status, "{body}");
        let error = response.into_body().collect().await.unwrap().to_bytes();
        let error: Value = serde_json::from_slice(&error).unwrap();
        assert!(error["error"]["@Message.ExtendedInfo"][0]["MessageId"].is_string());
    }
    for (method, path, status) in [
        (Method::GET, RESET, 405),
        (Method::PATCH, SYSTEM, 405),
        (Method::GET, "/redfish/v1/Systems/9", 404),
        (
            Method::POST,
            "/redfish/v1/Systems/9/Actions/ComputerSystem.Reset",
            405,
        ),
        (Method::GET, "/", 404),
    ] {
        let response = bench
            .send(bench.request(method.clone(), path, None))
            .await
            .unwrap();
        assert_eq!(response.status(), status, "{method} {path}");
    }
    bench.bmc.faults(|faults| faults.strict_headers = true);
    let mut request = bench.request(Method::GET, SYSTEM, None);
    request.headers_mut().remove("odata-version");
    assert_eq!(bench.send(request).await.unwrap().status(), 406);
    bench.bmc.faults(|faults| faults.refuses_if_match = true);
    let mut request = bench.request(Method::POST, RESET, Some(json!({"ResetType": "ForceOff"})));
    request
        .headers_mut()
        .insert("if-match", "*".parse().unwrap());
    assert_eq!(bench.send(request).await.unwrap().status(), 412);
    bench.bmc.faults(|faults| faults.read_only_account = true);
    assert_eq!(bench.reset("ForceOff").await.unwrap(), 403);
    assert!(bench.plug.is_on());
}

#[tokio::test]
async fn decoys_have_power_of_their_own() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| (faults.decoys_before, faults.decoys_after) = (1, 2));
    let systems = bench.get("/redfish/v1/Systems").await;
    let paths: Vec<_> = systems["Members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["@odata.id"].clone())
        .collect();
    assert_eq!(
        paths,
        [
            "/redfish/v1/Systems/2",
            SYSTEM,
            "/redfish/v1/Systems/3",
            "/redfish/v1/Systems/4"
        ]
    );
    let path = "/redfish/v1/Systems/3/Actions/ComputerSystem.Reset";
    let request = bench.request(Method::POST, path, Some(json!({"ResetType": "ForceOff"})));
    assert_eq!(bench.send(request).await.unwrap().status(), 204);
    assert_eq!(
        bench.get("/redfish/v1/Systems/3").await["PowerState"],
        "Off"
    );
    assert_ne!(bench.get("/redfish/v1/Systems/3").await["UUID"], UUID);
    assert!(bench.plug.is_on());
    bench.bmc.faults(|faults| faults.no_systems = true);
    assert_eq!(bench.get("/redfish/v1/Systems").await["Members"], json!([]));
}

#[tokio::test]
async fn links_lead_astray() {
    let bench = bench();
    bench.bmc.faults(|faults| {
        faults.member_link = Some("https://127.0.0.9/redfish/v1/Systems/1".to_owned());
        faults.action_target = Some("https://127.0.0.9/reset".to_owned());
        faults.endless_next_link = true;
    });
    let mut page = "/redfish/v1/Systems".to_owned();
    let first = bench.get(&page).await;
    assert_eq!(
        first["Members"][0]["@odata.id"],
        "https://127.0.0.9/redfish/v1/Systems/1"
    );
    for number in 1..5 {
        page = bench.get(&page).await["Members@odata.nextLink"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(page, format!("/redfish/v1/Systems?$skip={number}"));
    }
    let action = bench.get(SYSTEM).await["Actions"]["#ComputerSystem.Reset"]["target"].clone();
    assert_eq!(action, "https://127.0.0.9/reset");
}

#[tokio::test]
async fn a_command_is_held_before_or_after_its_effect() {
    let bench = Arc::new(bench());
    let send = |reset_type: &'static str| {
        let bench = bench.clone();
        tokio::spawn(async move { bench.reset(reset_type).await })
    };
    let hold = bench.bmc.hold_next(Which::ForceOff);
    assert!(hold.wait_arrived(Duration::from_millis(50)).await.is_err());
    let sent = send("ForceOff");
    hold.wait_arrived(SOON).await.unwrap();
    assert!(bench.plug.is_on());
    assert_eq!(bench.power_state().await, "On", "other requests pass");
    hold.release();
    assert_eq!(sent.await.unwrap().unwrap(), 204);
    assert!(!bench.plug.is_on());

    let hold = bench.bmc.hold_answer(Which::PowerOn);
    let sent = send("On");
    hold.wait_arrived(SOON).await.unwrap();
    assert!(bench.plug.is_on(), "done, but not yet answered");
    hold.drop_it();
    sent.await.unwrap().unwrap_err();

    // The sender dies while its command is under way: it lands all the same when it is let go.
    let hold = bench.bmc.hold_next(Which::ForceOff);
    let sent = send("ForceOff");
    hold.wait_arrived(SOON).await.unwrap();
    sent.abort();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(bench.plug.is_on());
    hold.release();
    assert!(bench.plug.wait_until(false, SOON).await);
}

#[tokio::test]
async fn latency_delays_every_answer() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.latency = Duration::from_millis(120));
    let begin = Instant::now();
    bench.read(SYSTEM).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(120));
    let entry = bench
        .bmc
        .wait_for(SOON, |entry| entry.status == Some(200))
        .await
        .unwrap();
    assert_eq!(
        (entry.method.as_str(), entry.path.as_str(), entry.auth),
        ("GET", SYSTEM, Auth::Right)
    );
}
