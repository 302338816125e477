//! What is read for the archive, with the user's own rights. There is no Secret among it.

use super::super::cluster::{Cluster, Error, VIEWER};
use super::super::{Error as CliError, check};
use super::slim;
use fencing_cluster::client::ask_within;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use serde_json::{Value, json};

/// The file with the Nodes.
pub const NODES: &str = "nodes.json";
/// The file with the operator's pods.
const PODS: &str = "operator/pods.json";
/// Objects on a page of a list.
const PAGE: u32 = 500;
/// Longest log in bytes.
const LOG_BYTES_MAX: i64 = 10 << 20;
/// What the operator's objects have.
const OPERATOR: &str = "labelSelector=app.kubernetes.io%2Fname%3Dnode-fencing-operator";
/// Definitions of ours.
const DEFINITIONS: [&str; 3] = ["fencedevices", "nodefences", "nodefencingpolicies"];
/// Kinds of ours, as events name them.
const KINDS: [&str; 3] = ["FenceDevice", "NodeFence", "NodeFencingPolicy"];

/// A file, before anything is taken out of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its path in the archive.
    pub path: String,
    /// What it holds.
    pub content: Content,
}

/// What a file holds.
#[derive(Debug, Clone)]
pub enum Content {
    /// JSON.
    Objects(Value),
    /// Lines.
    Log(String),
}

/// What could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The file.
    pub what: String,
    /// In the words of whoever has refused it.
    pub why: String,
    /// The right that it takes, or another way out.
    pub way_out: String,
}

/// A list that is asked for.
struct List {
    file: &'static str,
    path: String,
    right: String,
}

/// What was read, and what could not be.
#[derive(Default)]
struct Read {
    entries: Vec<Entry>,
    missing: Vec<Missing>,
}

impl Read {
    fn objects(&mut self, path: &str, value: Value) {
        self.entries.push(objects(path, value));
    }

    fn lacks(&mut self, what: impl Into<String>, why: impl ToString, right: &str) {
        self.missing.push(Missing {
            what: what.into(),
            why: why.to_string(),
            way_out: format!("it takes the right to {right}"),
        });
    }
}

/// Reads all of it.
///
/// # Errors
/// The cluster does not answer at all, or refuses all that an archive is for.
pub async fn all(
    cluster: &Cluster,
    log_lines: i64,
) -> Result<(Vec<Entry>, Vec<Missing>), CliError> {
    let mut read = Read::default();
    match cluster.raw("/version").await {
        Ok(version) => {
            let version = json!({"plugin": env!("CARGO_PKG_VERSION"), "kubernetes": version});
            read.objects("version.json", version);
        }
        Err(error @ Error::Refused(_)) => {
            let right = "get /version (ClusterRole system:discovery)";
            read.lacks("version.json", error, right);
        }
        // Who does not answer to this answers to nothing.
        Err(error) => return Err(error.into()),
    }
    let before = read.entries.len();
    for list in lists(&cluster.namespace) {
        match paged(cluster, &list).await {
            Ok(found) => read.objects(list.file, found.into()),
            Err(error) => read.lacks(list.file, error, &list.right),
        }
    }
    if read.entries.len() == before {
        return Err(nothing(&read.missing));
    }
    definitions(cluster, &mut read).await;
    events(cluster, &mut read).await;
    let no_pods = no_pods(&read.entries, &cluster.namespace);
    read.missing.extend(no_pods);
    logs(cluster, log_lines, &mut read).await;
    let checked = check::json(cluster).await.map_err(|it| it.to_string());
    match checked.and_then(|it| serde_json::from_str(&it).map_err(|it| it.to_string())) {
        Ok(findings) => read.objects("check.json", findings),
        Err(why) => read.lacks("check.json", why, "list what `kubectl fence check` reads"),
    }
    Ok((read.entries, read.missing))
}

/// An archive that has nothing of the operator in it helps nobody, and whoever sends it on believes that it does.
fn nothing(missing: &[Missing]) -> CliError {
    let why = missing.last().map_or("", |it| it.why.as_str());
    CliError::No(format!(
        "no archive is written, as nothing could be read: {why}; ask an administrator: kubectl create clusterrolebinding NAME --clusterrole={VIEWER} --user=YOU"
    ))
}

fn objects(path: &str, value: Value) -> Entry {
    Entry {
        path: path.to_owned(),
        content: Content::Objects(value),
    }
}

fn lists(namespace: &str) -> Vec<List> {
    let lease = "/apis/coordination.k8s.io/v1";
    let list = |file, path: &str, right: &str| List {
        file,
        path: path.to_owned(),
        right: format!("list {right}"),
    };
    let ours = |file, plural: &str| {
        let path = format!("/apis/nodefencing.io/v1alpha1/{plural}");
        list(file, &path, &format!("{plural}.nodefencing.io"))
    };
    let own = |file, prefix: &str, plural: &str, query: &str| {
        let path = format!("{prefix}/namespaces/{namespace}/{plural}?{query}");
        list(file, &path, &format!("{plural} in namespace {namespace}"))
    };
    vec![
        ours("policies.json", "nodefencingpolicies"),
        ours("devices.json", "fencedevices"),
        ours("fences.json", "nodefences"),
        list(NODES, "/api/v1/nodes", "nodes"),
        list(
            "node-leases.json",
            &format!("{lease}/namespaces/kube-node-lease/leases"),
            "leases in namespace kube-node-lease",
        ),
        list(
            "volumeattachments.json",
            "/apis/storage.k8s.io/v1/volumeattachments",
            "volumeattachments.storage.k8s.io",
        ),
        own("operator/leases.json", lease, "leases", ""),
        own("operator/events.json", "/api/v1", "events", ""),
        own(
            "operator/deployments.json",
            "/apis/apps/v1",
            "deployments",
            OPERATOR,
        ),
        own(PODS, "/api/v1", "pods", OPERATOR),
    ]
}

async fn paged(cluster: &Cluster, list: &List) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    let sign = if list.path.contains('?') { '&' } else { '?' };
    let first = format!("{}{sign}limit={PAGE}", list.path);
    let mut path = first.clone();
    loop {
        let mut page = cluster.raw(&path).await?;
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            let slim = match list.file {
                NODES => slim::node,
                _ => slim::object,
            };
            all.extend(items.into_iter().map(slim));
        }
        let token = page.pointer("/metadata/continue").and_then(Value::as_str);
        // It is in base64 of URLs (upstream's apiserver/pkg/storage/continue.go).
        match token.filter(|it| !it.is_empty()) {
            Some(token) => path = format!("{first}&continue={token}"),
            None => return Ok(all),
        }
    }
}

async fn definitions(cluster: &Cluster, read: &mut Read) {
    let mut found = Vec::new();
    let right = "get customresourcedefinitions.apiextensions.k8s.io";
    for plural in DEFINITIONS {
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.nodefencing.io"
        );
        match cluster.raw(&path).await {
            Ok(definition) => found.push(slim::definition(&definition)),
            Err(error) => read.lacks(format!("{plural} in crds.json"), error, right),
        }
    }
    read.objects("crds.json", found.into());
}

async fn events(cluster: &Cluster, read: &mut Read) {
    let mut found = Vec::new();
    for kind in KINDS {
        let list = List {
            file: "events.json",
            path: format!("/api/v1/events?fieldSelector=involvedObject.kind%3D{kind}"),
            right: "list events in all namespaces".to_owned(),
        };
        match paged(cluster, &list).await {
            Ok(events) => found.extend(events),
            Err(error) => {
                let what = format!("events of {kind}s in events.json");
                read.lacks(what, error, &list.right);
            }
        }
    }
    read.objects("events.json", found.into());
}

/// The list was read, and is empty: another namespace is meant perhaps, and no log is in the archive.
fn no_pods(entries: &[Entry], namespace: &str) -> Option<Missing> {
    let is_empty =
        |it: &Content| matches!(it, Content::Objects(Value::Array(pods)) if pods.is_empty());
    let pods = entries.iter().find(|it| it.path == PODS)?;
    is_empty(&pods.content).then(|| Missing {
        what: "operator/logs".to_owned(),
        why: format!("no pod of the operator was found in namespace {namespace}"),
        way_out: "name another namespace with --operator-namespace if it runs there".to_owned(),
    })
}

/// The logs of the operator's pods, and of a container that was started again those from before too.
async fn logs(cluster: &Cluster, log_lines: i64, read: &mut Read) {
    let asked: Vec<(String, String, bool)> = read.entries.iter().flat_map(containers).collect();
    let pods = cluster.own::<Pod>();
    let right = format!("get pods/log in namespace {}", cluster.namespace);
    for (pod, container, is_previous) in asked {
        let params = LogParams {
            container: Some(container.clone()),
            tail_lines: Some(log_lines),
            limit_bytes: Some(LOG_BYTES_MAX),
            previous: is_previous,
            timestamps: true,
            ..LogParams::default()
        };
        let end = if is_previous { "previous.log" } else { "log" };
        let path = format!("operator/logs/{pod}/{container}.{end}");
        match ask_within(cluster.limits.read, pods.logs(&pod, &params)).await {
            Ok(text) => read.entries.push(Entry {
                path,
                content: Content::Log(text),
            }),
            Err(error) => read.lacks(path, error, &right),
        }
    }
}

/// Pod, container, and whether the one before is meant.
fn containers(entry: &Entry) -> Vec<(String, String, bool)> {
    let pods = match &entry.content {
        Content::Objects(Value::Array(pods)) if entry.path == PODS => pods.as_slice(),
        _ => &[],
    };
    let mut asked = Vec::new();
    for pod in pods {
        let Some(name) = pod.pointer("/metadata/name").and_then(Value::as_str) else {
            continue;
        };
        let states = pod.pointer("/status/containerStatuses");
        for state in states.and_then(Value::as_array).into_iter().flatten() {
            let Some(container) = state.get("name").and_then(Value::as_str) else {
                continue;
            };
            let restarts = state.get("restartCount").and_then(Value::as_u64);
            asked.push((name.to_owned(), container.to_owned(), false));
            if restarts.is_some_and(|it| it > 0) {
                asked.push((name.to_owned(), container.to_owned(), true));
            }
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Limits;
    use fencing_cluster::fake;

    async fn collected(refuses: fn(&str) -> bool) -> Result<(Vec<Entry>, Vec<Missing>), CliError> {
        let answer = move |request: &fake::Seen| match refuses(&request.line) {
            true => fake::failure(403, "that is forbidden to you"),
            false => (200, json!({"metadata": {}, "items": []})),
        };
        let server = fake::Fake::start(answer).await;
        let cluster = Cluster {
            clients: server.clients.clone(),
            namespace: "node-fencing-system".to_owned(),
            limits: Limits::of(None),
        };
        all(&cluster, 10).await
    }

    #[tokio::test]
    async fn an_archive_with_holes_is_written_and_one_with_nothing_is_not() {
        let everything = collected(|_| true).await.expect_err("nothing was read");
        let everything = everything.to_string();
        assert!(
            everything.starts_with("no archive is written")
                && everything.contains("that is forbidden to you")
                && everything.contains(VIEWER),
            "{everything}"
        );
        let all_but_fences = |line: &str| !line.contains("/nodefences?");
        let (entries, missing) = collected(all_but_fences).await.expect("an archive");
        assert!(entries.iter().any(|it| it.path == "fences.json"));
        let version = missing.iter().find(|it| it.what == "version.json");
        assert!(version.is_some_and(|it| it.way_out.contains("/version")));
    }

    /// Whoever sends it on would believe that the operator's logs are in it.
    #[tokio::test]
    async fn an_archive_without_a_pod_of_the_operator_says_so() {
        let (entries, missing) = collected(|_| false).await.expect("an archive");
        assert!(entries.iter().any(|it| it.path == PODS));
        let logs = missing.iter().find(|it| it.what == "operator/logs");
        let logs = logs.expect("no log is in it");
        assert!(
            logs.why.contains("namespace node-fencing-system"),
            "{logs:?}"
        );
        assert!(logs.way_out.contains("--operator-namespace"), "{logs:?}");
    }

    #[test]
    fn no_secret_is_ever_read() {
        for list in lists("node-fencing-system") {
            assert!(!list.path.contains("secrets"), "{}", list.path);
        }
    }

    #[test]
    fn a_container_that_was_started_again_has_two_logs() {
        let pods = json!([{
            "metadata": {"name": "operator-1"},
            "status": {"containerStatuses": [{"name": "operator", "restartCount": 2}, {"name": "proxy", "restartCount": 0}]},
        }]);
        let asked = containers(&objects(PODS, pods.clone()));
        let expected = [("operator", false), ("operator", true), ("proxy", false)];
        let expected =
            expected.map(|(it, before)| ("operator-1".to_owned(), it.to_owned(), before));
        assert_eq!(asked, expected);
        assert!(containers(&objects(NODES, pods)).is_empty());
    }
}
