//! The proxy before a real API server: what passes, and each way in which a write is held, lost or spoiled.
//!
//! The subject is a Node that is claimed by JSON Patch, as the operator does it. What the API server committed is read
//! past the proxy.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Options},
    proxy::{Action, Fate, Line, Proxy, Record, Spoil, writes},
};
use futures::TryStreamExt;
use http::{Method, Request};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(10);
/// Long enough to tell that nothing comes.
const SILENT: Duration = Duration::from_millis(500);
const SERVICE_ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

struct Bench {
    /// Past the proxy.
    direct: Api<Node>,
    /// Through it, with a service account's token.
    client: Client,
    proxy: Proxy,
    _plane: ControlPlane,
}

impl Bench {
    async fn start() -> Result<Self> {
        let plane = ControlPlane::start(Options::named("proxy")).await?;
        let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]}]);
        let account = json!({"kind": "ServiceAccount", "name": "operator", "namespace": "default"});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator"});
        let named = json!({"name": "operator"});
        for (path, object) in [
            (SERVICE_ACCOUNTS.to_owned(), json!({"metadata": named})),
            (
                format!("{RBAC}/clusterroles"),
                json!({"metadata": named, "rules": rules}),
            ),
            (
                format!("{RBAC}/clusterrolebindings"),
                json!({"metadata": named, "roleRef": role, "subjects": [account]}),
            ),
        ] {
            let request = Request::post(path).header("content-type", "application/json");
            plane
                .admin()
                .request::<Value>(request.body(object.to_string().into_bytes())?)
                .await?;
        }
        let proxy = Proxy::start(&plane.url(), &plane.ca_pem(), &plane.serving_identity()?)?;
        let url = proxy.url();
        let kubeconfig = plane
            .kubeconfig_for_service_account("default", "operator", Some(&url))
            .await?;
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // Like the operator's guarded writes: one request is one request.
        config.default_retry = false;
        Ok(Self {
            direct: Api::all(plane.admin()),
            client: Client::try_from(config)?,
            proxy,
            _plane: plane,
        })
    }

    /// Makes a Node of this name, past the proxy.
    async fn node(&self, name: &str) -> Result<()> {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let node = json!({"metadata": {"name": name}, "spec": {"taints": [taint]}});
        self.direct
            .create(&PostParams::default(), &serde_json::from_value(node)?)
            .await?;
        Ok(())
    }

    /// Claims it, through the proxy. Runs on its own, so that a test can do something else meanwhile.
    fn claim(&self, name: &str) -> JoinHandle<kube::Result<Node>> {
        let taint = json!({"key": writes::CLAIM, "value": "f-1", "effect": "NoExecute"});
        let patch = json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]);
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("/api/v1/nodes/{name}"))
            .header("content-type", "application/json-patch+json")
            .body(patch.to_string().into_bytes())
            .expect("a request");
        let client = self.client.clone();
        tokio::spawn(async move { client.request(request).await })
    }

    async fn is_claimed(&self, name: &str) -> Result<bool> {
        let taints = self
            .direct
            .get(name)
            .await?
            .spec
            .and_then(|spec| spec.taints)
            .unwrap_or_default();
        Ok(taints.iter().any(|taint| taint.key == writes::CLAIM))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_before_a_real_api_server() -> Result<()> {
    let bench = Bench::start().await?;
    passes_reads_and_watches(&bench)
        .await
        .context("reads and watches")?;
    holds_requests_and_answers(&bench).await.context("holds")?;
    loses_writes_before_and_after_commit(&bench)
        .await
        .context("losses")?;
    spoils_answers(&bench).await.context("spoilt answers")?;
    counts_and_removes_rules(&bench).await.context("rules")?;
    cuts_the_line(&bench).await.context("the line")?;
    Ok(())
}

async fn passes_reads_and_watches(bench: &Bench) -> Result<()> {
    bench.node("plain").await?;
    let nodes: Api<Node> = Api::all(bench.client.clone());
    assert_eq!(
        nodes.get("plain").await?.metadata.uid,
        bench.direct.get("plain").await?.metadata.uid
    );
    let listed = nodes.list(&ListParams::default()).await?;
    assert_eq!(listed.items.len(), 1);

    let version = listed
        .metadata
        .resource_version
        .context("a list has a version")?;
    let mut watch = Box::pin(nodes.watch(&WatchParams::default(), &version).await?);
    bench.claim("plain").await??;
    let event = tokio::time::timeout(SOON, watch.try_next()).await??;
    let Some(WatchEvent::Modified(node)) = event else {
        anyhow::bail!("{event:?}")
    };
    assert_eq!(node.metadata.name.as_deref(), Some("plain"));
    ensure!(bench.is_claimed("plain").await?);

    // The service account's rights, not the proxy's or the administrator's.
    let forbidden = nodes
        .delete("plain", &Default::default())
        .await
        .expect_err("no right to delete");
    ensure!(
        matches!(&forbidden, kube::Error::Api(status) if status.code == 403),
        "{forbidden}"
    );
    let record = bench
        .proxy
        .wait_for(SOON, |record| writes::claim().matches(&record.seen))
        .await?;
    assert_eq!(
        (record.upstream_status, record.status),
        (Some(200), Some(200))
    );
    Ok(())
}

async fn holds_requests_and_answers(bench: &Bench) -> Result<()> {
    bench.node("held").await?;
    let hold = bench.proxy.hold(writes::claim().of("held"));
    let claim = bench.claim("held");
    hold.wait_arrived(SOON).await?;
    ensure!(
        !bench.is_claimed("held").await?,
        "the API server has not seen it"
    );
    hold.release();
    claim.await??;
    ensure!(bench.is_claimed("held").await?);

    bench.node("unanswered").await?;
    let hold = bench.proxy.hold_answer(writes::claim());
    let claim = bench.claim("unanswered");
    hold.wait_arrived(SOON).await?;
    ensure!(bench.is_claimed("unanswered").await?, "committed");
    ensure!(!claim.is_finished(), "and its client does not know");
    hold.drop_it();
    claim.await?.expect_err("the answer is lost");

    bench.node("in-flight").await?;
    let hold = bench.proxy.hold(writes::claim());
    let claim = bench.claim("in-flight");
    hold.wait_arrived(SOON).await?;
    claim.abort();
    tokio::time::sleep(Duration::from_millis(50)).await;
    ensure!(!bench.is_claimed("in-flight").await?);
    hold.release();
    let end = Instant::now() + SOON;
    while !bench.is_claimed("in-flight").await? {
        ensure!(
            Instant::now() < end,
            "a released write must land, though its sender is gone"
        );
    }
    Ok(())
}

async fn loses_writes_before_and_after_commit(bench: &Bench) -> Result<()> {
    let fates = [
        Fate::Reset,
        Fate::Close,
        Fate::Silence,
        Fate::Status(409, None),
        Fate::Status(429, Some(7)),
        Fate::Status(500, None),
        Fate::Status(503, Some(1)),
        Fate::Status(504, None),
    ];
    for (number, fate) in fates.into_iter().enumerate() {
        for is_committed in [false, true] {
            let action = if is_committed {
                Action::After(fate)
            } else {
                Action::Before(fate)
            };
            let name = format!("lost-{number}-{is_committed}");
            bench.node(&name).await?;
            let rule = bench.proxy.rule(writes::claim().of(&name), action);
            let mut claim = bench.claim(&name);
            // Whatever becomes of the answer, the proxy has by then done with the request what it does.
            let is_done = |record: &Record| {
                writes::claim().of(&name).matches(&record.seen)
                    && record.upstream_status.is_some() == is_committed
            };
            bench.proxy.wait_for(SOON, is_done).await?;
            let patience = if fate == Fate::Silence { SILENT } else { SOON };
            match (fate, tokio::time::timeout(patience, &mut claim).await) {
                (Fate::Silence, Err(_)) => claim.abort(),
                (Fate::Status(code, _), Ok(Ok(Err(kube::Error::Api(status))))) => {
                    assert_eq!(status.code, code)
                }
                (Fate::Reset | Fate::Close, Ok(Ok(Err(_)))) => {}
                other => anyhow::bail!("{action:?}: {other:?}"),
            }
            assert_eq!(bench.is_claimed(&name).await?, is_committed, "{action:?}");
            assert_eq!(rule.hits(), 1, "{action:?}");
        }
    }
    Ok(())
}

async fn spoils_answers(bench: &Bench) -> Result<()> {
    for spoil in [
        Spoil::Truncated,
        Spoil::Garbage,
        Spoil::Empty,
        Spoil::OtherKind,
        Spoil::WrongContentType,
    ] {
        let name = format!("{spoil:?}").to_lowercase();
        bench.node(&name).await?;
        bench
            .proxy
            .rule(writes::claim().of(&name), Action::Spoil(spoil));
        let claim = tokio::time::timeout(SOON, bench.claim(&name)).await??;
        ensure!(bench.is_claimed(&name).await?, "{spoil:?}: committed");
        match spoil {
            // kube does not look at the content type.
            Spoil::WrongContentType => assert_eq!(claim?.metadata.name, Some(name)),
            _ => ensure!(claim.is_err(), "{spoil:?}"),
        }
    }
    Ok(())
}

async fn counts_and_removes_rules(bench: &Bench) -> Result<()> {
    let nodes: Api<Node> = Api::all(bench.client.clone());
    let second = bench.proxy.rule(
        writes::read_node().nth(2),
        Action::Before(Fate::Status(500, None)),
    );
    let delay = bench.proxy.rule(
        writes::read_node(),
        Action::Delay(Duration::from_millis(100)),
    );
    for (is_ok, delays) in [(true, 1), (false, 1), (true, 2)] {
        let begin = Instant::now();
        assert_eq!(nodes.get("plain").await.is_ok(), is_ok);
        assert_eq!(begin.elapsed() >= Duration::from_millis(100), is_ok);
        assert_eq!(
            (second.hits(), delay.hits()),
            (u32::from(delays > 1 || !is_ok), delays)
        );
    }
    delay.remove();
    nodes.get("plain").await?;
    assert_eq!(delay.hits(), 2);
    Ok(())
}

async fn cuts_the_line(bench: &Bench) -> Result<()> {
    let nodes: Api<Node> = Api::all(bench.client.clone());
    let version = nodes
        .list(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut watch = Box::pin(nodes.watch(&WatchParams::default(), &version).await?);
    bench.proxy.set_line(Line::Refused)?;
    let cut = tokio::time::timeout(SOON, watch.try_next()).await?;
    ensure!(
        !matches!(cut, Ok(Some(_))),
        "the open watch is cut: {cut:?}"
    );
    nodes
        .get("plain")
        .await
        .expect_err("new connections are refused");
    bench.proxy.set_line(Line::Up)?;
    nodes.get("plain").await?;

    bench.proxy.set_line(Line::BlackHole)?;
    let silent = tokio::time::timeout(SILENT, nodes.get("plain")).await;
    ensure!(silent.is_err(), "{silent:?}");
    bench.proxy.set_line(Line::Up)?;
    nodes.get("plain").await?;
    Ok(())
}
