//! Writes: create, patch, replace, each with its preconditions, on the object as it is at that moment.

use crate::answer::{Answer, Cause, Refusal};
use crate::api::{Inner, key};
use crate::kinds::{ATTACHMENT, Kind, LEASE, NODE, POD, Place};
use crate::request::Request;
use crate::rules;
use crate::store::{Key, Stored};
use serde_json::{Value, json};
use std::sync::Arc;

impl Inner {
    pub(crate) fn create(&mut self, request: &Request, place: &Place) -> Result<Answer, Refusal> {
        let mut object = body(request)?;
        if place.kind.custom
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        if object["kind"]
            .as_str()
            .is_some_and(|kind| kind != place.kind.kind)
        {
            return Err(Refusal::new(
                400,
                "BadRequest",
                "the object provided is unrecognized",
            ));
        }
        let namespace = place.namespace.clone().unwrap_or_default();
        let stored = self.insert(&request.actor, place.kind, &namespace, object)?;
        Ok(Answer::Whole(201, stored.json))
    }

    /// Puts a new object in.
    pub(crate) fn insert(
        &mut self,
        actor: &Arc<str>,
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
    ) -> Result<Stored, Refusal> {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if name.is_empty() {
            let message = "Required value: name or generateName is required";
            let cause = Cause::new("metadata.name", "FieldValueRequired", message);
            return Err(Refusal::invalid(kind, "", vec![cause]));
        }
        let key = key(namespace, &name);
        if self.store.get(kind, &key).is_some() {
            return Err(Refusal::exists(kind, &name));
        }
        self.judge(actor, kind, None, &mut object)?;
        object["kind"] = json!(kind.kind);
        object["apiVersion"] = json!(kind.api_version());
        let uid = self.store.uid();
        let created = self.time();
        let meta = &mut object["metadata"];
        meta["uid"] = json!(uid);
        meta["creationTimestamp"] = json!(created);
        if kind.namespaced {
            meta["namespace"] = json!(namespace);
        }
        if kind.custom {
            meta["generation"] = json!(1);
        }
        Ok(self.store.commit(actor, kind, key, Some(object)))
    }

    pub(crate) fn patch(
        &mut self,
        request: &Request,
        place: &Place,
        name: &str,
    ) -> Result<Answer, Refusal> {
        let key = key(place.namespace.as_deref().unwrap_or_default(), name);
        let old = self.store.get(place.kind, &key).cloned();
        let old = old.ok_or_else(|| Refusal::not_found(place.kind, name))?;
        let mut new = Value::clone(&old.value);
        match request.content_type.as_str() {
            "application/json-patch+json" => {
                let patch: json_patch::Patch = serde_json::from_slice(&request.body)
                    .map_err(|error| Refusal::new(400, "BadRequest", error.to_string()))?;
                apply(&mut new, &patch).map_err(|_| rejected())?;
            }
            "application/merge-patch+json" => json_patch::merge(&mut new, &body(request)?),
            other => {
                let message = format!("the body of the request was in an unknown format: {other}");
                return Err(Refusal::new(415, "UnsupportedMediaType", message));
            }
        }
        keep_to(place, &old.value, &mut new);
        if request.is_dry() {
            self.prepare(&request.actor, place.kind, &key, &old, &mut new)?;
            return Ok(Answer::object(200, &told(request, &new)));
        }
        let stored = self.replace(&request.actor, place.kind, key, &old, new)?;
        Ok(match request.wants_metadata() {
            true => Answer::object(200, &told(request, &stored.value)),
            false => Answer::Whole(200, stored.json),
        })
    }

    pub(crate) fn put(
        &mut self,
        request: &Request,
        place: &Place,
        name: &str,
    ) -> Result<Answer, Refusal> {
        let mut new = body(request)?;
        if new["metadata"]["name"] != name {
            let message = "the name of the object does not match the name on the URL";
            return Err(Refusal::new(400, "BadRequest", message));
        }
        let key = key(place.namespace.as_deref().unwrap_or_default(), name);
        let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
        let Some(old) = self.store.get(place.kind, &key).cloned() else {
            // Of the kinds that are known here only this one is created by an update.
            if *place.kind != LEASE {
                return Err(Refusal::not_found(place.kind, name));
            }
            if !uid.is_empty() {
                return Err(Refusal::conflict(
                    place.kind,
                    name,
                    "there is none of this UID",
                ));
            }
            let namespace = place.namespace.clone().unwrap_or_default();
            let stored = self.insert(&request.actor, place.kind, &namespace, new)?;
            return Ok(Answer::Whole(201, stored.json));
        };
        if !uid.is_empty() && old.value["metadata"]["uid"] != uid {
            return Err(Refusal::conflict(place.kind, name, "it has another UID"));
        }
        if new["metadata"]["resourceVersion"]
            .as_str()
            .is_none_or(str::is_empty)
        {
            let cause = Cause::wrong(
                "metadata.resourceVersion",
                "must be specified for an update",
            );
            return Err(Refusal::invalid(place.kind, name, vec![cause]));
        }
        new["kind"] = json!(place.kind.kind);
        new["apiVersion"] = json!(place.kind.api_version());
        keep_to(place, &old.value, &mut new);
        let stored = self.replace(&request.actor, place.kind, key, &old, new)?;
        Ok(Answer::Whole(200, stored.json))
    }

    /// Replaces an object by what has become of it.
    pub(crate) fn replace(
        &mut self,
        actor: &Arc<str>,
        kind: &'static Kind,
        key: Key,
        old: &Stored,
        mut new: Value,
    ) -> Result<Stored, Refusal> {
        self.prepare(actor, kind, &key, old, &mut new)?;
        if new == *old.value {
            return Ok(old.clone());
        }
        let before = &old.value["metadata"];
        if kind.custom && new["spec"] != old.value["spec"] {
            let generation = before["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        let is_leaving = !before["deletionTimestamp"].is_null();
        // A pod goes when its kubelet says so, which asks for no grace.
        let is_over = *kind != POD || before["deletionGracePeriodSeconds"] == 0;
        let may_go = is_leaving && is_over && !has_finalizers(&new);
        // Without its last finalizer it is gone, and is told as it was before.
        let left = (!may_go).then_some(new);
        Ok(self.store.commit(actor, kind, key, left))
    }

    /// Checks a change, and leaves alone what no change touches.
    fn prepare(
        &self,
        actor: &Arc<str>,
        kind: &'static Kind,
        key: &Key,
        old: &Stored,
        new: &mut Value,
    ) -> Result<(), Refusal> {
        let (before, name) = (&old.value["metadata"], &key.1);
        let meta = &mut new["metadata"];
        let differs = |field: &str| {
            let wanted = meta[field].as_str().unwrap_or_default();
            !wanted.is_empty() && before[field] != wanted
        };
        if differs("uid") {
            let cause = Cause::invalid("metadata.uid", &meta["uid"], "field is immutable");
            return Err(Refusal::invalid(kind, name, vec![cause]));
        }
        if differs("resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Refusal::conflict(kind, name, why));
        }
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            match before.get(field) {
                Some(value) => meta[field] = value.clone(),
                None => drop(meta.as_object_mut().and_then(|meta| meta.remove(field))),
            }
        }
        self.judge(actor, kind, Some(&old.value), new)
    }

    /// Prunes, fills in and checks what is about to be stored.
    fn judge(
        &self,
        actor: &str,
        kind: &Kind,
        old: Option<&Value>,
        new: &mut Value,
    ) -> Result<(), Refusal> {
        shape(kind, new);
        let mut causes = Vec::new();
        if let Some(schema) = self.schemas.get(kind.plural) {
            schema.complete(new);
            causes = schema.causes(old, new);
        } else if *kind == NODE {
            causes = rules::of_node(new);
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        if !causes.is_empty() {
            return Err(Refusal::invalid(kind, name, causes));
        }
        match &self.admission {
            Some(admission) => admission(actor, kind, old, new),
            None => Ok(()),
        }
    }

    fn time(&self) -> String {
        seconds((self.now)())
    }
}

/// As the API server writes times: without fractions.
pub(crate) fn seconds(time: jiff::Timestamp) -> String {
    let whole = time.round(jiff::Unit::Second).unwrap_or(time);
    whole.to_string()
}

/// Applies the operations one by one: for the API server a field that is absent equals null.
fn apply(object: &mut Value, patch: &json_patch::Patch) -> Result<(), json_patch::PatchError> {
    for operation in patch.iter() {
        if let json_patch::PatchOperation::Test(test) = operation
            && test.value.is_null()
            && object.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        json_patch::patch(object, std::slice::from_ref(operation))?;
    }
    Ok(())
}

/// As Go writes it: structures are there also when they are empty, lists and maps are not.
fn shape(kind: &Kind, object: &mut Value) {
    if *kind == NODE {
        for name in ["spec", "status"] {
            if object[name].is_null() {
                object[name] = json!({});
            }
        }
        for name in ["bootID", "systemUUID"] {
            let field = &mut object["status"]["nodeInfo"][name];
            if field.is_null() {
                *field = json!("");
            }
        }
    }
    let may_be_empty = [
        ("metadata", "finalizers"),
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("spec", "taints"),
    ];
    for (part, name) in may_be_empty {
        let Some(fields) = object.get_mut(part).and_then(Value::as_object_mut) else {
            continue;
        };
        let is_empty = fields.get(name).is_some_and(|value| {
            value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(|it| it.is_empty())
                || value.is_null()
        });
        if is_empty {
            fields.remove(name);
        }
    }
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

/// A write of the status changes the status alone, any other write all but the status.
fn keep_to(place: &Place, old: &Value, new: &mut Value) {
    if place.is_status {
        let status = new["status"].take();
        let version = new["metadata"]["resourceVersion"].take();
        let uid = new["metadata"]["uid"].take();
        *new = old.clone();
        new["status"] = status;
        new["metadata"]["resourceVersion"] = version;
        new["metadata"]["uid"] = uid;
    } else if place.kind.custom || [&NODE, &POD, &ATTACHMENT].contains(&place.kind) {
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => drop(new.as_object_mut().and_then(|new| new.remove("status"))),
        }
    }
}

/// The object, or as much of it as was asked for.
fn told(request: &Request, object: &Value) -> Value {
    if !request.wants_metadata() {
        return object.clone();
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

pub(crate) fn body(request: &Request) -> Result<Value, Refusal> {
    serde_json::from_slice(&request.body)
        .map_err(|error| Refusal::new(400, "BadRequest", error.to_string()))
}

/// What the API server says of a JSON Patch that cannot be applied, a `test` that fails included.
fn rejected() -> Refusal {
    Refusal::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    )
}
