//! The parameters of the drivers whose machines are objects of another Kubernetes cluster, the one below: KubeVirt and Metal3.
//!
//! The address stands here and not in the kubeconfig alone, so that everybody who sees the FenceDevice sees where its Secret is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clouds::{address_rules, origin};
use super::crd::rule;
use super::tls::TlsSettings;

/// Driver `kubevirt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = address_rules("address")))]
pub struct KubevirtDriver {
    /// URL of the API server of the infrastructure cluster, `https://host[:port]`, as the kubeconfig in the Secret has it.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://infra.example.com:6443")]))]
    pub address: String,

    /// Namespace of the virtual machines there, which no provider ID names.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [namespace()]))]
    pub namespace: String,

    /// How the certificate of the API server is checked. Without `caRef` the authority in the kubeconfig counts, if it has one.
    #[serde(default)]
    pub tls: TlsSettings,
}

/// Driver `bareMetalHost`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = host_rules()))]
pub struct BareMetalHostDriver {
    /// URL of the API server of the cluster with the BareMetalHosts, `https://host[:port]`, as the kubeconfig in the Secret has it.
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = [origin("https://management.example.com:6443")]))]
    pub address: String,

    /// Name of the BareMetalHost, where the Node's provider ID does not name it. Needs `namespace`, and `nodeName` of the FenceDevice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        extend("x-kubernetes-validations" = [
            rule(
                "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
                "must be the name of an object: lower-case letters, digits, '-' and '.'",
            ),
        ])
    )]
    pub name: Option<String>,

    /// Namespace of the BareMetalHosts. Needed where the Nodes' provider IDs name none (`metal3://UID`); a Node whose provider ID names another one is
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [namespace()]))]
    pub namespace: Option<String>,

    /// How the certificate of the API server is checked. Without `caRef` the authority in the kubeconfig counts, if it has one.
    #[serde(default)]
    pub tls: TlsSettings,
}

fn namespace() -> Value {
    rule(
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "must be a namespace: lower-case letters, digits and '-'",
    )
}

fn host_rules() -> Vec<Value> {
    // A word that CEL reserves, which Kubernetes 1.30 takes in no other way (`k8s.io/apiserver/pkg/cel/escaping.go`).
    let named = rule(
        "!has(self.name) || has(self.__namespace__)",
        "`namespace` must be set where `name` is",
    );
    let address = address_rules("address");
    address.into_iter().chain([named]).collect()
}
