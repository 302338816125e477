//! Objects of ours that cannot be decoded: told once each, and left alone.
//!
//! The schema refuses such objects, so one that is there was stored under another schema: an operator rolled back, a CRD
//! edited by hand. Every other object keeps working; this one does nothing until it is written again.

use super::events::{Events, Note, reference};
use super::marks::{Marks, mark};
use crate::shell::cache::Change;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::DeserializeGuard;

/// Tells of objects that cannot be decoded.
pub struct Undecodable {
    events: Events,
    told: Marks,
}

impl Undecodable {
    /// Tells by `events`, and in the log.
    pub fn new(events: Events) -> Self {
        Self {
            events,
            told: Marks::default(),
        }
    }

    /// Looks at the object that a change is about, none when it is gone, and tells once for each version of it.
    pub fn look<K: Resource<DynamicType = ()>>(
        &mut self,
        change: &Change,
        object: Option<&DeserializeGuard<K>>,
    ) {
        let invalid = object.and_then(|guard| guard.0.as_ref().err());
        let version = invalid.map(|invalid| mark(&invalid.metadata.resource_version));
        if !self.told.differs(change.clone(), version) {
            return;
        }
        let Some(invalid) = invalid else {
            return;
        };
        let metadata = &invalid.metadata;
        let message = format!(
            "it cannot be decoded ({}) and has no effect; write it again, under the CustomResourceDefinitions of this version",
            invalid.error
        );
        let name = metadata.name.as_deref().unwrap_or_default();
        tracing::error!(kind = %K::kind(&()), name, message, "object is ignored");
        self.events.publish(Note {
            regarding: ObjectReference {
                resource_version: metadata.resource_version.clone(),
                ..reference::<K>(metadata)
            },
            related: None,
            warning: true,
            reason: "Undecodable".to_owned(),
            action: "Decode".to_owned(),
            message,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::Fake;
    use crate::shell::metrics::Metrics;
    use fencing_api::device::FenceDevice;
    use fencing_cluster::stop::Stopper;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn guard(version: &str, spec: Value) -> DeserializeGuard<FenceDevice> {
        let object = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "spec": spec,
            "metadata": {"name": "bmc", "uid": "u", "resourceVersion": version},
        });
        serde_json::from_value(object).expect("a guard takes anything")
    }

    #[tokio::test]
    async fn each_version_is_told_once() {
        let server = Fake::start(|request| (201, request.body.clone())).await;
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let (events, publisher) = Events::new(server.clients.reads.clone(), None, metrics);
        let (_stopper, stop) = Stopper::new();
        tokio::spawn(publisher.run(stop));
        let mut undecodable = Undecodable::new(events);
        let change = Change::Device("bmc".to_owned());
        let broken = |version: &str| guard(version, json!({"nodeName": 7}));
        undecodable.look(&change, Some(&guard("1", json!({"nodeName": "w1"}))));
        undecodable.look(&change, Some(&broken("2")));
        undecodable.look(&change, Some(&broken("2")));
        undecodable.look(&change, Some(&broken("3")));
        undecodable.look::<FenceDevice>(&change, None);
        let seen = server.wait_for(2).await;
        assert_eq!(seen.len(), 2, "{seen:?}");
        let body = seen
            .first()
            .map(|request| request.body.clone())
            .expect("a request");
        assert_eq!(body["regarding"]["name"], "bmc");
        assert_eq!(body["reason"], "Undecodable");
        assert_eq!(
            body["note"],
            "it cannot be decoded (Invalid type integer `7`. Expected a string) and has no effect; write it again, under \
             the CustomResourceDefinitions of this version"
        );
    }
}
