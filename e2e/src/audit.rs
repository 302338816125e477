//! The API server's audit log, read as the oracle for "what did the operator really write".
//!
//! The API server writes an event for each request once it has answered (`ResponseComplete`); what a request did not change
//! or was refused is there too, with its code. The policy, `control_plane/audit-policy.yaml`, says whose reads are left out.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::Value;

use crate::control_plane::ControlPlane;

/// The user as which the operator acts.
pub const OPERATOR: &str = "system:serviceaccount:node-fencing-system:node-fencing-operator";

/// A reader of one audit log.
#[derive(Clone)]
pub struct AuditLog {
    path: PathBuf,
    /// What is before this byte is of earlier uses of the control plane.
    begin: u64,
    admin: Client,
}

/// One request that the API server has answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// Who.
    pub user: UserInfo,
    /// With what client.
    #[serde(default)]
    pub user_agent: String,
    /// On what; nothing for requests that are not about resources.
    #[serde(default)]
    pub object_ref: ObjectRef,
    /// How it ended.
    #[serde(default)]
    pub response_status: ResponseStatus,
    /// The request's body: an object, a patch, delete options. Nothing for reads.
    #[serde(default)]
    pub request_object: Value,
    /// The answer's body, where the policy keeps it.
    #[serde(default)]
    pub response_object: Value,
    /// When the API server got the request.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Timestamp,
    /// When it had answered.
    #[serde(rename = "stageTimestamp")]
    pub answered: Timestamp,
    stage: String,
}

/// Who made a request.
#[derive(Debug, Clone, Deserialize)]
pub struct UserInfo {
    /// The user's name; empty where the request was refused because nobody could tell whose it is.
    #[serde(default)]
    pub username: String,
}

/// What a request was about.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// The resource's plural name, such as `nodes`.
    pub resource: String,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty for the core group.
    pub api_group: String,
    /// Empty for what is cluster-scoped.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
}

/// How a request ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResponseStatus {
    /// The HTTP status.
    pub code: u16,
    /// The API server's reason, if it is a refusal.
    pub reason: String,
    /// And its words.
    pub message: String,
}

impl Request {
    /// True if it was to change something: not for reads, not for dry runs, and not for questions about rights, which are
    /// asked by creating a review that nobody stores.
    pub fn is_write(&self) -> bool {
        let is_review = matches!(
            self.object_ref.api_group.as_str(),
            "authorization.k8s.io" | "authentication.k8s.io"
        );
        let is_read = matches!(self.verb.as_str(), "get" | "list" | "watch");
        !is_read && !is_review && !self.uri.contains("dryRun=")
    }

    /// True of the event that ends a request: a watch has a `ResponseStarted` as well, a panic of the API server a `Panic`.
    pub(crate) fn is_complete(&self) -> bool {
        self.stage == "ResponseComplete"
    }

    /// True if the API server did it.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }

    /// Is it a write of a Node's status with `Ready=Unknown`? The policy keeps the bodies of the node controller's and of the operator's,
    /// which sends a JSON Patch.
    fn sets_ready_unknown(&self) -> bool {
        let body = &self.request_object;
        let has = |list: &Value, is_it: &dyn Fn(&Value) -> bool| {
            list.as_array().is_some_and(|all| all.iter().any(is_it))
        };
        let is_operation = |it: &Value, end: &str, value: &str| {
            it["value"] == value && it["path"].as_str().is_some_and(|path| path.ends_with(end))
        };
        let is_unknown = has(&body["status"]["conditions"], &|condition| {
            condition["type"] == "Ready" && condition["status"] == "Unknown"
        });
        let is_patched = has(body, &|it| is_operation(it, "/type", "Ready"))
            && has(body, &|it| is_operation(it, "/status", "Unknown"));
        self.object_ref.subresource == "status" && (is_unknown || is_patched)
    }

    /// `VERB RESOURCE[/SUBRESOURCE] [NAMESPACE/]NAME -> CODE`, for what tests print and compare.
    pub fn summary(&self) -> String {
        let of = &self.object_ref;
        let slash = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!("/{text}")
            }
        };
        let namespace = if of.namespace.is_empty() {
            String::new()
        } else {
            format!("{}/", of.namespace)
        };
        let (sub, code) = (slash(&of.subresource), self.response_status.code);
        format!(
            "{} {}{sub} {namespace}{} -> {code}",
            self.verb, of.resource, of.name
        )
    }
}

impl AuditLog {
    /// All requests so far that the filter takes, in the order of their answers.
    ///
    /// A request of a moment ago may be missing: the API server writes the event after it has answered. See
    /// [`AuditLog::settled`].
    pub fn requests(&self, filter: impl Fn(&Request) -> bool) -> Result<Vec<Request>> {
        self.read("", filter)
    }

    /// All requests of a user.
    pub fn requests_of(&self, user: &str) -> Result<Vec<Request>> {
        self.read(user, |request| request.user.username == user)
    }

    /// All writes of a user, refused ones too, but for those of a leader's Lease.
    pub fn writes_of(&self, user: &str) -> Result<Vec<Request>> {
        self.read(user, |request| {
            let is_of_leader = request.object_ref.resource == "leases";
            request.is_write() && !is_of_leader && request.user.username == user
        })
    }

    /// All writes of anybody to one resource, such as `nodes`.
    pub fn writes_to(&self, resource: &str) -> Result<Vec<Request>> {
        self.read(resource, |request| {
            request.is_write() && request.object_ref.resource == resource
        })
    }

    /// The first successful write of `Ready=Unknown` to this Node since then, by the node controller or the operator: the moment from which a
    /// policy's wait counts, exact where the condition's own `lastTransitionTime` has whole seconds.
    pub fn became_unknown(&self, node: &str, since: Timestamp) -> Result<Request> {
        let found = self.all_became_unknown(since)?.remove(node);
        found.with_context(|| format!("nobody has written Ready=Unknown to {node} since {since}"))
    }

    /// The same of all Nodes, by name.
    pub fn all_became_unknown(&self, since: Timestamp) -> Result<BTreeMap<String, Request>> {
        let mut first = BTreeMap::new();
        for write in self.writes_to("nodes")? {
            if write.received >= since && write.succeeded() && write.sets_ready_unknown() {
                first.entry(write.object_ref.name.clone()).or_insert(write);
            }
        }
        Ok(first)
    }

    /// Only lines that hold `word` are parsed: the log of a large lab is long, and most of it is others'.
    fn read(&self, word: &str, filter: impl Fn(&Request) -> bool) -> Result<Vec<Request>> {
        let mut found = Vec::new();
        for line in self.lines_with(word)? {
            let Ok(request) = serde_json::from_str::<Request>(&line) else {
                continue;
            };
            if request.is_complete() && filter(&request) {
                found.push(request);
            }
        }
        Ok(found)
    }

    /// The lines that hold `word`.
    pub(crate) fn lines_with(&self, word: &str) -> Result<impl Iterator<Item = String>> {
        // The last line may be half written, even in the middle of a character.
        let lines = BufReader::new(self.open()?).lines().map_while(Result::ok);
        Ok(lines.filter(move |line| line.contains(word)))
    }

    /// Waits until everything that has been answered by now is in the log. The API server writes the events of requests in
    /// the order in which it ends them, so a request of our own marks the place.
    pub async fn settled(&self) -> Result<()> {
        let name = format!("audit-marker-{}", uuid::Uuid::new_v4());
        let markers: Api<ConfigMap> = Api::namespaced(self.admin.clone(), "default");
        let mut file = self.open()?;
        file.seek(SeekFrom::End(0))?;
        markers.get_opt(&name).await?;
        let mut added = Vec::new();
        for _ in 0..200 {
            file.read_to_end(&mut added)?;
            if String::from_utf8_lossy(&added).contains(&name) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        bail!("the audit log {} stands still", self.path.display())
    }

    /// Where what is of this use begins, in bytes.
    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    /// Where its last whole line ends, in bytes from the beginning of the file.
    pub(crate) fn end_of_lines(&self) -> Result<u64> {
        let text = std::fs::read(&self.path)?;
        let end = text.iter().rposition(|byte| *byte == b'\n');
        Ok(u64::try_from(end.map_or(0, |end| end + 1))?)
    }

    fn open(&self) -> Result<File> {
        let file = File::open(&self.path);
        let mut file = file.with_context(|| format!("failed to open {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.begin))?;
        Ok(file)
    }
}

impl ControlPlane {
    /// The API server's audit log.
    pub fn audit(&self) -> AuditLog {
        AuditLog {
            path: self.files().audit_log(),
            begin: self.audit_begin,
            admin: self.admin(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sets_ready_unknown(body: &Value) -> bool {
        let request = json!({
            "verb": "patch", "requestURI": "/api/v1/nodes/node-1/status", "user": {}, "stage": "ResponseComplete",
            "objectRef": {"resource": "nodes", "subresource": "status", "name": "node-1"}, "requestObject": body,
            "requestReceivedTimestamp": "2026-11-30T04:00:00Z", "stageTimestamp": "2026-11-30T04:00:00Z",
        });
        let request: Request = serde_json::from_value(request).expect("a request");
        request.sets_ready_unknown()
    }

    #[test]
    fn ready_becomes_unknown_by_an_update_and_by_a_json_patch() {
        let update = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        assert!(sets_ready_unknown(&update("Ready", "Unknown")));
        assert!(!sets_ready_unknown(&update("Ready", "False")));
        assert!(!sets_ready_unknown(&update("DiskPressure", "Unknown")));
        let patch = |status: &str| {
            json!([
                {"op": "test", "path": "/status/conditions/3/type", "value": "Ready"},
                {"op": "add", "path": "/status/conditions/3/status", "value": status},
            ])
        };
        assert!(sets_ready_unknown(&patch("Unknown")));
        assert!(!sets_ready_unknown(&patch("True")));
    }
}
