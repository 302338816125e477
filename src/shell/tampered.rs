//! Statuses that somebody else has written: told once.
//!
//! A status is what the operator says. Nobody is fenced for what stands in one (S3), but pins and bound boots are read back, and whoever
//! reads a forged one is misled. The API server notes who wrote which fields, so that another hand can be told from another replica;
//! one that takes the operator's name as field manager is not noticed.

use super::events::{Events, Note, reference};
use super::marks::{Marks, mark};
use crate::shell::cache::Change;
use fencing_cluster::client::MANAGER;
use fencing_cluster::text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Resource;
use kube::core::DeserializeGuard;

/// Longest name of another writer that is shown, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Leaves of the managed fields only who else has written the status, and when: the rest is most of an object in a cache.
pub fn keeping_other_writers<K: Resource>(mut object: K) -> K {
    let entries = object.meta_mut().managed_fields.take().unwrap_or_default();
    let others = entries.into_iter().filter(is_of_another).map(|entry| {
        let fields_v1 = None;
        ManagedFieldsEntry { fields_v1, ..entry }
    });
    let others: Vec<_> = others.collect();
    object.meta_mut().managed_fields = (!others.is_empty()).then_some(others);
    object
}

fn is_of_another(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref() == Some("status") && entry.manager.as_deref() != Some(MANAGER)
}

/// Tells of statuses that somebody else has written.
pub struct Tampered {
    events: Events,
    told: Marks,
}

impl Tampered {
    /// Tells by `events`, and in the log.
    pub fn new(events: Events) -> Self {
        Self {
            events,
            told: Marks::default(),
        }
    }

    /// Looks at the object that a change is about, none when it is gone, and tells once for each time that it was written.
    pub fn look<K: Resource<DynamicType = ()>>(
        &mut self,
        change: &Change,
        object: Option<&DeserializeGuard<K>>,
    ) {
        let metadata = object.map(Resource::meta);
        let entries = metadata.and_then(|metadata| metadata.managed_fields.as_ref());
        let entry = entries.into_iter().flatten().find(|it| is_of_another(it));
        let written = entry.map(|entry| mark((&entry.manager, entry.time.as_ref().map(|it| it.0))));
        if !self.told.differs(change.clone(), written) {
            return;
        }
        let (Some(metadata), Some(entry)) = (metadata, entry) else {
            return;
        };
        let who = entry.manager.as_deref().unwrap_or("somebody");
        let message = format!(
            "its status was written by `{}`, and only the operator may write it; revert the change (kubectl get --show-managed-fields) and revoke the right to `{}/status`",
            text::shortened(who, NAME_BYTES_MAX),
            K::plural(&()),
        );
        let name = metadata.name.as_deref().unwrap_or_default();
        tracing::warn!(kind = %K::kind(&()), name, message, "a status was tampered with");
        self.events.publish(Note {
            regarding: reference::<K>(metadata),
            related: None,
            warning: true,
            reason: "StatusTampered".to_owned(),
            action: "Look".to_owned(),
            message,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::Fake;
    use crate::shell::metrics::Metrics;
    use fencing_api::fence::NodeFence;
    use fencing_cluster::stop::Stopper;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn entry(manager: &str, subresource: &str, time: &str) -> Value {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "nodefencing.io/v1alpha1", "time": time,
            "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:evidence": {}}},
        })
    }

    /// As the cache has it.
    fn fence(entries: &[Value]) -> DeserializeGuard<NodeFence> {
        let guard = serde_json::from_value(json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {"name": "w1-1", "uid": "u", "managedFields": entries},
            "spec": {"nodeName": "w1", "trigger": {"type": "NodeCondition"}},
        }))
        .expect("a NodeFence");
        keeping_other_writers(guard)
    }

    const THEN: &str = "2026-11-21T01:00:00Z";
    const LATER: &str = "2026-11-21T02:00:00Z";

    #[tokio::test]
    async fn a_status_that_another_hand_has_written_is_told_of_once() {
        let server = Fake::start(|request| (201, request.body.clone())).await;
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let (events, publisher) = Events::new(server.clients.reads.clone(), None, metrics);
        let (_stopper, stop) = Stopper::new();
        tokio::spawn(publisher.run(stop));
        let mut tampered = Tampered::new(events);
        let change = Change::Fence("w1-1".to_owned());
        let own = entry(MANAGER, "status", LATER);
        let of_spec = entry("kubectl-edit", "", LATER);
        tampered.look(&change, Some(&fence(&[own.clone(), of_spec])));
        let edited = fence(&[own.clone(), entry("kubectl-edit", "status", THEN)]);
        tampered.look(&change, Some(&edited));
        tampered.look(&change, Some(&edited));
        let again = fence(&[own, entry("kubectl-edit", "status", LATER)]);
        tampered.look(&change, Some(&again));
        tampered.look::<NodeFence>(&change, None);
        let seen = server.wait_for(2).await;
        assert_eq!(seen.len(), 2, "{seen:?}");
        let body = &seen.first().expect("a request").body;
        assert_eq!(body["reason"], "StatusTampered");
        assert_eq!(body["regarding"]["name"], "w1-1");
        let note = "its status was written by `kubectl-edit`, and only the operator may write it; revert the change (kubectl get \
                    --show-managed-fields) and revoke the right to `nodefences/status`";
        assert_eq!(body["note"], note);
    }

    #[test]
    fn a_cache_keeps_the_writers_and_not_the_fields() {
        let edited = fence(&[entry("kubectl-edit", "status", THEN)]);
        let kept = edited.meta().managed_fields.as_ref().expect("the writer");
        assert!(kept.iter().all(|entry| entry.fields_v1.is_none()));
        assert!(
            fence(&[entry(MANAGER, "status", THEN)])
                .meta()
                .managed_fields
                .is_none()
        );
    }
}
