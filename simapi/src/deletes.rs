//! Deletions: at once, or begun, with the grace that a pod is given and the finalizers that hold an object.

use crate::answer::{Answer, Refusal};
use crate::api::{Inner, key};
use crate::kinds::{ATTACHMENT, Kind, POD, Place};
use crate::request::Request;
use crate::store::{Key, Stored};
use crate::writes::{body, has_finalizers, seconds};
use serde_json::{Value, json};
use std::sync::Arc;

/// How long a pod is given to end, unless it says so itself.
const GRACE_SECONDS: i64 = 30;

impl Inner {
    pub(crate) fn remove(
        &mut self,
        request: &Request,
        place: &Place,
        name: &str,
    ) -> Result<Answer, Refusal> {
        let options = if request.body.is_empty() {
            Value::Null
        } else {
            body(request)?
        };
        let key = key(place.namespace.as_deref().unwrap_or_default(), name);
        let (stored, is_gone) = self.delete(&request.actor, place.kind, key, &options)?;
        if !is_gone || *place.kind == POD || *place.kind == ATTACHMENT {
            return Ok(Answer::Whole(200, stored.json));
        }
        let done = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": name, "group": place.kind.group, "kind": place.kind.plural, "uid": stored.value["metadata"]["uid"],
            },
        });
        Ok(Answer::object(200, &done))
    }

    /// Deletes, or begins to. Says whether the object is gone.
    pub(crate) fn delete(
        &mut self,
        actor: &Arc<str>,
        kind: &'static Kind,
        key: Key,
        options: &Value,
    ) -> Result<(Stored, bool), Refusal> {
        let old = self.store.get(kind, &key).cloned();
        let old = old.ok_or_else(|| Refusal::not_found(kind, &key.1))?;
        let wanted = &options["preconditions"];
        for (field, in_words, happened) in [
            ("uid", "UID", "deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "modified"),
        ] {
            let (wanted, found) = (&wanted[field], &old.value["metadata"][field]);
            if !wanted.is_null() && wanted != found {
                let why = format!(
                    "the {in_words} in the precondition ({}) does not match the {in_words} in record ({}). The object might have been {happened}",
                    wanted.as_str().unwrap_or_default(),
                    found.as_str().unwrap_or_default()
                );
                return Err(Refusal::conflict(kind, &key.1, &why));
            }
        }
        let grace = grace(kind, &old.value, options);
        if grace == 0 && !has_finalizers(&old.value) {
            return Ok((self.store.commit(actor, kind, key, None), true));
        }
        let mut new = Value::clone(&old.value);
        let end = (self.now)().saturating_add(jiff::SignedDuration::from_secs(grace));
        let meta = &mut new["metadata"];
        let begun = meta["deletionGracePeriodSeconds"].as_i64();
        if !meta["deletionTimestamp"].is_null() && begun.is_none_or(|begun| begun <= grace) {
            return Ok((old, false));
        }
        meta["deletionTimestamp"] = json!(seconds(end.unwrap_or_else(|_| (self.now)())));
        meta["deletionGracePeriodSeconds"] = json!(grace);
        Ok((self.store.commit(actor, kind, key, Some(new)), false))
    }
}

/// How long the object is given to end.
fn grace(kind: &Kind, object: &Value, options: &Value) -> i64 {
    let is_bound = object["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let has_ended = matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if *kind != POD || !is_bound || has_ended {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    options["gracePeriodSeconds"]
        .as_i64()
        .or(own)
        .unwrap_or(GRACE_SECONDS)
}
