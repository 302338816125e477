//! Metadata without `managedFields`: they are most of an object, and decoded as a tree of values that the next step would drop.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// What is decoded of it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Lean {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// For `deserialize_with`.
pub(super) fn lean<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let lean = Option::<Lean>::deserialize(from)?.unwrap_or_default();
    Ok(ObjectMeta {
        annotations: lean.annotations,
        creation_timestamp: lean.creation_timestamp,
        deletion_grace_period_seconds: lean.deletion_grace_period_seconds,
        deletion_timestamp: lean.deletion_timestamp,
        finalizers: lean.finalizers,
        generate_name: lean.generate_name,
        generation: lean.generation,
        labels: lean.labels,
        managed_fields: None,
        name: lean.name,
        namespace: lean.namespace,
        owner_references: lean.owner_references,
        resource_version: lean.resource_version,
        self_link: None,
        uid: lean.uid,
    })
}
