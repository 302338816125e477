//! sushy-tools' emulator over a plug: its answers are its own, the power is the machine's.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use e2e::{
    bmc::{BmcCa, Credentials, Plug},
    https::{Client, client},
    machine::Power,
    process::Guard,
    sushy::Sushy,
};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

const UUID: &str = "9b3c7c1e-5f0a-4f55-8a1d-2f6d5c0b7a11";
/// The emulator's longest delay, and something for a laden machine.
const LANDED: Duration = Duration::from_secs(60);

struct Bench {
    sushy: Sushy,
    client: Client,
}

impl Bench {
    async fn send(
        &self,
        method: Method,
        path: &str,
        password: &str,
        body: Value,
    ) -> Result<Response<Incoming>> {
        let pair = format!("{}:{password}", self.sushy.credentials().username);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.sushy.url()))
            .header(
                "authorization",
                format!("Basic {}", BASE64_STANDARD.encode(pair)),
            )
            .header("content-type", "application/json");
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        Ok(self.client.request(request.body(Full::new(body))?).await?)
    }

    async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let response = self
            .send(
                Method::GET,
                path,
                &self.sushy.credentials().password,
                Value::Null,
            )
            .await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn power_state(&self) -> Result<Value> {
        Ok(self.get(&self.sushy.system_path()).await?.1["PowerState"].take())
    }

    async fn reset(&self, reset_type: &str) -> Result<u16> {
        let path = format!("{}/Actions/ComputerSystem.Reset", self.sushy.system_path());
        let body = json!({"ResetType": reset_type});
        let response = self
            .send(
                Method::POST,
                &path,
                &self.sushy.credentials().password,
                body,
            )
            .await?;
        Ok(response.status().as_u16())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sushy_tools_switches_a_machine_of_the_lab() -> Result<()> {
    let plug = Arc::new(Plug::new("node-1", UUID));
    let ca = BmcCa::new("test")?;
    let guard = Guard::start()?;
    let logs = tempfile::tempdir()?;
    let address = "127.79.0.1".parse()?;
    let credentials = Credentials::default();
    let sushy = Sushy::start(address, plug.clone(), credentials, &ca, &guard, logs.path()).await?;
    let client = client(sushy.ca_pem())?;
    let bench = Bench { sushy, client };

    answers_in_its_own_way(&bench).await?;
    switches(&bench, &plug).await?;

    guard.end();
    let end = Instant::now() + Duration::from_secs(5);
    while bench.sushy.process().ended().is_none() {
        ensure!(Instant::now() < end, "it must end with the guard");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn answers_in_its_own_way(bench: &Bench) -> Result<()> {
    let own = bench.sushy.system_path();
    let (_, systems) = bench.get("/redfish/v1/Systems").await?;
    assert_eq!(systems["Members"], json!([{"@odata.id": own}]));
    let (_, system) = bench.get(&own).await?;
    assert_eq!(system["UUID"], UUID);
    assert_eq!(system["PowerState"], "On");
    let wrong = bench.send(Method::GET, &own, "wrong", Value::Null).await?;
    assert_eq!(wrong.status(), 401);
    let (by_name, _) = bench.get("/redfish/v1/Systems/node-1").await?;
    assert_eq!(by_name, 307, "its name is an alias");
    assert_eq!(bench.reset("Nonsense").await?, 501);
    Ok(())
}

async fn switches(bench: &Bench, plug: &Plug) -> Result<()> {
    // It is off for the emulator when it is off for the machine, and not before.
    let begin = Instant::now();
    assert_eq!(bench.reset("ForceOff").await?, 204);
    while bench.power_state().await? == "On" {
        ensure!(begin.elapsed() < LANDED, "ForceOff must land");
    }
    ensure!(!plug.is_on());
    assert_eq!(bench.sushy.switched().len(), 1);
    assert_eq!(bench.reset("ForceOff").await?, 204, "already off");

    plug.set_power(true);
    let state = bench.power_state().await?;
    assert_eq!(state, "On", "it sees what others do to the machine");
    assert_eq!(bench.reset("ForceOff").await?, 204);
    ensure!(
        plug.wait_until(false, LANDED).await,
        "it lands though nobody looks"
    );
    assert_eq!(bench.reset("On").await?, 204);
    ensure!(plug.wait_until(true, LANDED).await);
    let switched = bench.sushy.switched().into_iter().map(|(_, on)| on);
    assert_eq!(switched.collect::<Vec<_>>(), [false, false, true]);
    Ok(())
}
