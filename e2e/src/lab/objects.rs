//! The objects that a lab needs of its API server: policies, FenceDevices, and what these refer to.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use super::{Lab, Rig};
use crate::operator::NAMESPACE;
use fencing_testbed::bmc::Credentials;
use fencing_testbed::ipmi::Suite;
use fencing_testbed::paths::workspace;

/// Name of the Secret with the BMCs' credentials.
pub const SECRET: &str = "bmc";
/// Name of the ConfigMap with the authority of the BMCs' certificates.
const CA: &str = "bmc-ca";

impl Lab {
    /// Applies an object of `nodefencing.io/v1alpha1`.
    pub async fn apply(&self, kind: &str, name: &str, spec: Value) -> Result<DynamicObject> {
        let object = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let params = PatchParams::apply("lab").force();
        let api = self.api(kind);
        api.patch(name, &params, &Patch::Apply(&object))
            .await
            .with_context(|| format!("failed to apply {kind} {name}"))
    }

    /// Grants what a component of `deploy` does, as `delete-node`.
    pub async fn grant(&self, component: &str) -> Result<()> {
        let rights = workspace().join(format!("deploy/{component}/rbac.yaml"));
        let rights = rights
            .to_str()
            .context("the workspace's path is not UTF-8")?;
        let apply = ["apply", "--server-side", "-f", rights];
        self.control_plane.kubectl_text(&apply).await.map(drop)
    }

    /// Objects of a kind of ours.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("nodefencing.io", "v1alpha1", kind));
        let plural = match kind {
            "NodeFencingPolicy" => "nodefencingpolicies".to_owned(),
            other => format!("{}s", other.to_lowercase()),
        };
        Api::all_with(
            self.control_plane.admin(),
            &ApiResource { plural, ..resource },
        )
    }

    /// A policy for all nodes with the shortest times the API allows, but for its level's, which a laden machine needs, and without the short cut for
    /// machines that are off, so that there is time to act before the claim; `changes` are merged over its spec.
    pub async fn policy(&self, mode: &str, changes: Value) -> Result<()> {
        self.policy_named("lab", mode, changes).await
    }

    /// The same under this name, beside the other. Where both select a node the `priority` decides.
    pub async fn policy_named(&self, name: &str, mode: &str, changes: Value) -> Result<()> {
        let mut spec = json!({
            "nodeSelector": {},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
            "durationPolicy": "Wait",
            "fence": {
                "mode": mode,
                "levels": [{"name": "bmc", "retryPeriodSeconds": 1, "timeoutSeconds": 60}],
                "verification": {"readPeriodSeconds": 1, "lateEffectSeconds": 5},
            },
            "budget": {"minHealthy": 0, "maxPerHour": 1000, "cooldownSeconds": 0},
            "exclusions": {"minUptimeSeconds": 0},
        });
        merge(&mut spec, &changes);
        self.apply("NodeFencingPolicy", name, spec).await.map(drop)
    }

    pub(super) async fn credentials(&self) -> Result<()> {
        let bmc = Credentials::default();
        let login = json!({"username": bmc.username, "password": bmc.password});
        self.secret(SECRET, login).await?;
        let map = json!({"metadata": {"name": CA}, "data": {"ca.crt": self.ca.pem()}});
        let client = self.control_plane.admin();
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client, NAMESPACE);
        maps.create(&PostParams::default(), &serde_json::from_value(map)?)
            .await?;
        Ok(())
    }

    /// A Secret of the operator's namespace that may be sent to the devices of the lab.
    pub(super) async fn secret(&self, name: &str, data: Value) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "annotations": {"nodefencing.io/allowed-hosts": "127.0.0.0/8"}},
            "stringData": data,
        });
        let secrets: Api<Secret> = Api::namespaced(self.control_plane.admin(), NAMESPACE);
        let params = PatchParams::apply("lab").force();
        secrets
            .patch(name, &params, &Patch::Apply(&secret))
            .await
            .with_context(|| format!("failed to apply Secret {name}"))
            .map(drop)
    }

    /// Applies the FenceDevice of a machine, with this driver in place of any other.
    pub(super) async fn device(&self, rig: &Rig, driver: Value) -> Result<()> {
        let name = device_of(rig.machine.name());
        let mut spec = json!({
            "nodeName": rig.machine.name(),
            "credentialsRef": {"name": SECRET},
            "probe": {"periodSeconds": 30},
        });
        merge(&mut spec, &driver);
        self.apply("FenceDevice", &name, spec).await.map(drop)
    }
}

/// How the certificates of the lab's authority are checked.
pub(super) fn tls() -> Value {
    json!({"verification": "Full", "caRef": {"name": CA, "key": "ca.crt"}})
}

/// The FenceDevice of a node's BMC.
pub(super) fn device_of(node: &str) -> String {
    format!("{node}-bmc")
}

/// The part of a FenceDevice that names a Redfish BMC with a certificate of the lab's authority.
pub(super) fn redfish(url: &str) -> Value {
    json!({"redfish": {"address": url, "tls": tls()}})
}

/// The part of a FenceDevice that names an IPMI BMC.
pub(super) fn ipmi(address: SocketAddr, suite: Suite) -> Value {
    json!({"ipmi": {
        "address": address.ip(),
        "port": address.port(),
        "cipherSuite": suite.id(),
    }})
}

/// Merges `changes` over `base`, as a JSON merge patch does.
pub(super) fn merge(base: &mut Value, changes: &Value) {
    match (base, changes) {
        (Value::Object(base), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, changes) => *base = changes.clone(),
    }
}
