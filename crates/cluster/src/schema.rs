//! Do the CustomResourceDefinitions that are served know every field of this version?
//!
//! What an older schema does not know the API server drops without a word. Of a status words get lost, and what can only make a decision stricter
//! (S3): without `status.attempts[].deviceVersion` a successor turns nothing on where no identity tells whose power a device switches
//! (`identityCheck: Skip`). So nothing is stopped for that; but somebody has to hear what to apply. Nobody needs a right for it: the schemas are published to
//! every account that is logged in (`system:discovery`). Where they cannot be read, nothing is said.

use super::client::{AskError, Clients, REQUEST_TIMEOUT, ask_within};
use super::stop::Stop;
use crate::text::listed;
use fencing_api::{GROUP, VERSION, crd};
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks while something is missing, or nothing could be read.
const PERIOD: Duration = Duration::from_mins(5);
/// Fields that are named.
const NAMED_MAX: usize = 5;

/// What this version writes or reads and the API server does not know, as `nodefences status.evidence`; none: it knows everything, or does not
/// say what it knows. It is asked once, within this limit.
///
/// # Errors
/// [`AskError`].
pub async fn unknown_fields(clients: &Clients, limit: Duration) -> Result<Vec<String>, AskError> {
    let path = format!("/openapi/v3/apis/{GROUP}/{VERSION}");
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| AskError::Unknown(error.to_string()))?;
    let published: Value = ask_within(limit, clients.reads.request(request)).await?;
    let mut unknown = Vec::new();
    for (_, definition) in crd::all() {
        let name = |of: &str| definition.pointer("/spec/names")?.get(of)?.as_str();
        let ours = crd::schema(&definition);
        let (Some(kind), Some(plural), Some(ours)) = (name("kind"), name("plural"), ours) else {
            continue;
        };
        let Some(served) = of_kind(&published, kind) else {
            continue;
        };
        for part in ["spec", "status"] {
            let field = |schema: &Value| Some(schema.get("properties")?.get(part)?.clone());
            if let (Some(ours), Some(served)) = (field(ours), field(served)) {
                compare(&format!("{plural} {part}"), &ours, &served, &mut unknown);
            }
        }
    }
    Ok(unknown)
}

/// The schema of this kind among those that are published.
fn of_kind<'a>(published: &'a Value, kind: &str) -> Option<&'a Value> {
    let schemas = published.pointer("/components/schemas")?.as_object()?;
    schemas.values().find(|schema| {
        let kinds = schema.get("x-kubernetes-group-version-kind");
        let kinds = kinds.and_then(Value::as_array);
        let says = |it: &Value, key: &str, word: &str| it.get(key).is_some_and(|it| it == word);
        let is_it = |it: &Value| says(it, "kind", kind) && says(it, "group", GROUP);
        kinds.is_some_and(|kinds| kinds.iter().any(is_it))
    })
}

/// Notes each field of ours that the other schema lacks, and nothing below it.
fn compare(path: &str, ours: &Value, served: &Value, unknown: &mut Vec<String>) {
    let fields = ours.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        let path = format!("{path}.{name}");
        match served.get("properties").and_then(|it| it.get(name)) {
            Some(served) => compare(&path, field, served, unknown),
            None => unknown.push(path),
        }
    }
    for (below, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let (Some(ours), Some(served)) = (ours.get(below), served.get(below)) {
            compare(&format!("{path}{sign}"), ours, served, unknown);
        }
    }
}

/// What to do about it, in words.
#[must_use]
pub fn words(unknown: &[String]) -> String {
    format!(
        "the CustomResourceDefinitions of {GROUP}/{VERSION} are older, so the API server drops fields: {}; apply those of this version (kubectl apply -k crds, or helm upgrade)",
        listed(unknown, "", NAMED_MAX)
    )
}

/// Looks until nothing is missing, and says what is, once.
pub async fn watch(clients: Clients, stop: Stop) {
    let mut told = Vec::new();
    loop {
        match stop.or(unknown_fields(&clients, REQUEST_TIMEOUT)).await {
            None => return,
            Some(Ok(unknown)) if unknown.is_empty() => return,
            Some(Ok(unknown)) if unknown != told => {
                tracing::error!("{}", words(&unknown));
                told = unknown;
            }
            Some(Ok(_)) => {}
            // Whoever does not get an answer has other worries, and other words for them.
            Some(Err(error)) => tracing::debug!(%error, "the schemas cannot be read"),
        }
        if stop.or(sleep(PERIOD)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use serde_json::json;

    /// What an API server publishes of our definitions, changed like this.
    fn published(change: impl Fn(&str, &mut Value)) -> Value {
        let mut schemas = json!({});
        for (_, definition) in crd::all() {
            let kind = definition["spec"]["names"]["kind"]
                .as_str()
                .expect("a kind");
            let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            change(kind, &mut schema);
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
            schemas[format!("io.nodefencing.v1alpha1.{kind}")] = schema;
        }
        json!({"openapi": "3.0.0", "components": {"schemas": schemas}})
    }

    async fn found(answer: Value) -> Vec<String> {
        let fake = Fake::start(move |_| (200, answer.clone())).await;
        let unknown = unknown_fields(&fake.clients, REQUEST_TIMEOUT)
            .await
            .expect("an answer");
        let line = &fake.seen()[0].line;
        assert_eq!(line, "GET /openapi/v3/apis/nodefencing.io/v1alpha1");
        unknown
    }

    #[tokio::test]
    async fn definitions_of_an_older_version_are_told_from_those_of_this_one_and_of_a_later_one() {
        assert_eq!(found(published(|_, _| ())).await, Vec::<String>::new());
        let later = published(|_, schema| {
            schema["properties"]["status"]["properties"]["ofTomorrow"] = json!({"type": "string"});
        });
        assert_eq!(found(later).await, Vec::<String>::new());
        let older = published(|kind, schema| {
            let properties = |at: &str, schema: &mut Value, name: &str| {
                let fields = schema
                    .pointer_mut(at)
                    .and_then(Value::as_object_mut)
                    .expect("fields");
                fields.remove(name).expect("the field");
            };
            if kind == "NodeFence" {
                properties("/properties/status/properties", schema, "evidence");
                let attempts = "/properties/status/properties/attempts/items/properties";
                properties(attempts, schema, "device");
            }
        });
        let unknown = found(older).await;
        assert_eq!(
            unknown,
            [
                "nodefences status.attempts[].device",
                "nodefences status.evidence"
            ]
        );
        assert_eq!(
            words(&unknown),
            "the CustomResourceDefinitions of nodefencing.io/v1alpha1 are older, so the API server drops fields: \
             nodefences status.attempts[].device, nodefences status.evidence; apply those of this version (kubectl apply -k crds, or helm upgrade)"
        );
    }

    #[tokio::test]
    async fn what_is_not_published_is_not_missed() {
        assert_eq!(found(json!({})).await, Vec::<String>::new());
        let fake = Fake::start(|_| crate::fake::failure(404, "no such path")).await;
        assert!(
            unknown_fields(&fake.clients, REQUEST_TIMEOUT)
                .await
                .is_err()
        );
    }
}
