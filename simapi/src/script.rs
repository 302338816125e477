//! Scripts of requests, played against any API server: what two of them answer must be the same.
//!
//! A script is data (`simapi/scripts/*.yaml`): steps with a request, and which parts of the answer count. What an API server makes up by
//! itself (uids, versions, times) is not compared but may be used in later steps: `${name:/metadata/uid}`.

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// What is looked for.
    pub step: String,
    /// Method.
    #[serde(rename = "do")]
    pub method: Verb,
    /// Path and query.
    pub at: String,
    /// Body.
    #[serde(default)]
    pub body: Value,
    /// The answer is kept under this name.
    #[serde(default)]
    pub keep: Option<String>,
    /// JSON pointers to what counts of it (`name=a` in one is the object of an array with that name); of a refusal its code and reason do.
    #[serde(default)]
    pub show: Vec<String>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// GET.
    Get,
    /// A watch of a second.
    Watch,
    /// POST.
    Create,
    /// PATCH, JSON Patch.
    JsonPatch,
    /// PATCH, merge patch.
    MergePatch,
    /// PATCH, merge patch, answered with the metadata alone.
    MergeMetadata,
    /// PUT.
    Replace,
    /// DELETE.
    Delete,
}

/// Reads a script.
///
/// # Errors
/// What cannot be read of it.
pub fn read(yaml: &str) -> Result<Vec<Step>, String> {
    serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
}

/// Plays a script: `send` gives status and body of the answer to a request. What comes back is one line a step.
///
/// # Errors
/// Those of `send`.
pub async fn play<E>(
    script: &[Step],
    send: impl AsyncFn(http::Request<Vec<u8>>) -> Result<(u16, Bytes), E>,
) -> Result<String, E> {
    let mut kept = BTreeMap::new();
    let mut transcript = String::new();
    for step in script {
        let (code, body) = send(request(step, &kept)).await?;
        let shown = match step.method {
            Verb::Watch => events(&body, &step.show),
            _ => {
                let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
                let shown = shown(&answer, &step.show);
                if let Some(name) = &step.keep {
                    kept.insert(name.clone(), answer);
                }
                shown
            }
        };
        let _ = writeln!(transcript, "{}: {code} {shown}", step.step);
    }
    Ok(transcript)
}

fn request(step: &Step, kept: &BTreeMap<String, Value>) -> http::Request<Vec<u8>> {
    let (method, content) = match step.method {
        Verb::Get | Verb::Watch => (Method::GET, ""),
        Verb::Create => (Method::POST, "application/json"),
        Verb::JsonPatch => (Method::PATCH, "application/json-patch+json"),
        Verb::MergePatch | Verb::MergeMetadata => (Method::PATCH, "application/merge-patch+json"),
        Verb::Replace => (Method::PUT, "application/json"),
        Verb::Delete => (Method::DELETE, "application/json"),
    };
    let body = match &step.body {
        Value::Null => Vec::new(),
        body => filled(&body.to_string(), kept).into_bytes(),
    };
    let mut at = filled(&step.at, kept);
    if step.method == Verb::Watch {
        let sign = if at.contains('?') { '&' } else { '?' };
        let _ = write!(
            at,
            "{sign}watch=true&timeoutSeconds=1&allowWatchBookmarks=true"
        );
    }
    let mut request = http::Request::builder().method(method).uri(at);
    if !content.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, content);
    }
    if step.method == Verb::MergeMetadata {
        let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        request = request.header(http::header::ACCEPT, accept);
    }
    request.body(body).unwrap_or_default()
}

/// `${name:/pointer}` in what was kept.
fn filled(text: &str, kept: &BTreeMap<String, Value>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let (name, pointer) = name.split_once(':').unwrap_or((name, ""));
        let value = kept.get(name).and_then(|value| value.pointer(pointer));
        filled.push_str(value.and_then(Value::as_str).unwrap_or_default());
        rest = after;
    }
    filled + rest
}

fn shown(answer: &Value, show: &[String]) -> Value {
    if answer["kind"] == "Status" {
        return json!({"status": answer["status"], "reason": answer["reason"]});
    }
    let parts = show.iter().map(|pointer| {
        let part = pointed(answer, pointer).cloned().unwrap_or_default();
        (pointer.clone(), part)
    });
    parts.collect()
}

fn pointed<'a>(answer: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut steps = pointer.split('/').skip(1);
    steps.try_fold(answer, |value, step| match step.split_once('=') {
        Some((key, wanted)) => value.as_array()?.iter().find(|one| one[key] == wanted),
        None => value.pointer(&format!("/{step}")),
    })
}

/// The lines of a watch, but for bookmarks, which come when the server likes.
fn events(body: &[u8], show: &[String]) -> Value {
    let lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let told = events.filter(|event| event["type"] != "BOOKMARK");
    told.map(|event| {
        let object = match event["type"] == "ERROR" {
            true => json!({"code": event["object"]["code"], "reason": event["object"]["reason"]}),
            false => shown(&event["object"], show),
        };
        json!({"type": event["type"], "object": object})
    })
    .collect()
}
