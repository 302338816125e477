//! NodeFenceRemediation: another controller asks for the fence of a node. Medik8s' NodeHealthCheck and Cluster API's MachineHealthCheck make one from a
//! NodeFenceRemediationTemplate, and delete it to stop.
//!
//! It is a trigger and no more: a policy has to govern the node, and the NodeFence that is opened follows it. Names, annotations and conditions are
//! those of the callers (medik8s/node-healthcheck-operator v0.12.0, docs/configuration.md "Remediation Resources"; medik8s/common pkg/annotations and
//! pkg/conditions; kubernetes-sigs/cluster-api v1.14 core/reconcilers/machinehealthcheck). Both look for `spec.template.spec`, and for the template's
//! kind without its suffix.

#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column has a type and a path"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions;

/// Condition: the remediation is in progress.
pub const PROCESSING: &str = "Processing";
/// Annotation by which NodeHealthCheck names the Node. Without it, and without a Machine, the object's own name is the Node's.
pub const NODE_NAME: &str = "remediation.medik8s.io/node-name";
/// Annotation by which NodeHealthCheck stops a remediation that took longer than it waits.
pub const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";

/// API group of Cluster API's Machines.
pub const MACHINE_GROUP: &str = "cluster.x-k8s.io";
/// Their kind.
pub const MACHINE_KIND: &str = "Machine";

/// Has no fields: what is done about the node is up to its NodeFencingPolicy.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "nodefencing.io",
    version = "v1alpha1",
    kind = "NodeFenceRemediation",
    plural = "nodefenceremediations",
    shortname = "nfrem", // `nfr` is that of NodeFeatureRule (kubernetes-sigs/node-feature-discovery)
    category = "fencing",
    namespaced,
    status = "NodeFenceRemediationStatus",
    derive = "PartialEq",
    doc = "Another controller asks for the fence of a node, until this is deleted.",
    printcolumn(name = "NODE", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "FENCE", type_ = "string", json_path = ".status.fenceName"),
    printcolumn(
        name = "SUCCEEDED",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Succeeded")].status"#
    ),
    printcolumn(
        name = "REASON",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Succeeded")].reason"#
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct NodeFenceRemediationSpec {}

/// How far the remediation has come: what the NodeFence says, for its caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFenceRemediationStatus {
    /// `Processing`: it is in progress. `Succeeded`: `True` once the machine is confirmed off and the node's pods and volumes are free, `False` when
    /// nothing (more) is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    pub conditions: Vec<Condition>,

    /// The Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_name: Option<String>,

    /// The NodeFence that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub fence_name: Option<String>,
}

/// What remediations are made from.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "nodefencing.io",
    version = "v1alpha1",
    kind = "NodeFenceRemediationTemplate",
    plural = "nodefenceremediationtemplates",
    shortname = "nfrt",
    category = "fencing",
    namespaced,
    derive = "PartialEq",
    doc = "What NodeHealthCheck and MachineHealthCheck make NodeFenceRemediations from.",
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct NodeFenceRemediationTemplateSpec {
    /// The NodeFenceRemediation to make.
    pub template: RemediationToMake,
}

/// A NodeFenceRemediation that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemediationToMake {
    /// Its spec, which has no fields.
    #[serde(default)]
    pub spec: NodeFenceRemediationSpec,
}

/// The NodeFenceRemediation for which a NodeFence was opened before its policy's wait was over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemediationReference {
    /// Namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Uid: one that is deleted and made again is another one.
    #[schemars(length(max = 64))]
    pub uid: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd;
    use serde_json::{Value, json};

    fn definition(file: &str) -> Value {
        let all = crd::all();
        let found = all.into_iter().find(|(name, _)| *name == file);
        found.expect("a definition").1
    }

    /// NodeHealthCheck strips `Template` from the kind and copies `spec.template.spec`; Cluster API copies `spec.template`.
    #[test]
    fn the_callers_make_one_kind_from_the_other() {
        let made = definition("nodefenceremediations.yaml");
        let template = definition("nodefenceremediationtemplates.yaml");
        let kind = template["spec"]["names"]["kind"].as_str().expect("a kind");
        let stripped = kind.strip_suffix("Template").expect("the suffix");
        assert_eq!(made["spec"]["names"]["kind"], stripped);
        for definition in [&made, &template] {
            assert_eq!(definition["spec"]["scope"], "Namespaced");
        }
        let of_template = crd::schema(&template).expect("a schema");
        let copied = of_template.pointer("/properties/spec/properties/template/properties/spec");
        let copied = copied.expect("spec.template.spec");
        assert_eq!(copied["default"], json!({}), "it may be left out");
        let spec = crd::schema(&made).and_then(|it| it.pointer("/properties/spec"));
        assert_eq!(spec.expect("a spec")["type"], copied["type"]);
    }

    #[test]
    fn a_template_without_a_spec_and_a_remediation_round_trip() {
        let template: NodeFenceRemediationTemplateSpec =
            serde_json::from_value(json!({"template": {}})).expect("a template");
        assert_eq!(json!(template), json!({"template": {"spec": {}}}));
        let object = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFenceRemediation",
            "metadata": {"name": "worker-1", "namespace": "fencing"}, "spec": {},
            "status": {"nodeName": "worker-1", "fenceName": "worker-1-abcd"},
        });
        let read: NodeFenceRemediation = serde_json::from_value(object.clone()).expect("readable");
        assert_eq!(json!(read), object);
    }
}
