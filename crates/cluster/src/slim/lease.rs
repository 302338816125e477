//! The Lease that a kubelet renews, its time as text.

use super::meta;
use fencing_core::observed::LeaseView;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;
use std::time::Duration;

/// The Lease of a kubelet, its time as text.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = Lease)]
#[serde(default)]
pub struct SlimLease {
    /// Standard metadata, without `managedFields`.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SlimLeaseSpec,
}

/// Spec of a Lease.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlimLeaseSpec {
    /// When it was last renewed, as the API server prints it.
    pub renew_time: Option<String>,
    /// How long it lasts, in seconds.
    pub lease_duration_seconds: Option<i32>,
}

impl SlimLease {
    /// The Lease as the core sees it.
    pub fn view(&self) -> LeaseView {
        LeaseView {
            renew_time: self.spec.renew_time.clone().unwrap_or_default(),
        }
    }

    /// How long it lasts; nothing if that is not said.
    pub fn lasts(&self) -> Duration {
        let seconds = self.spec.lease_duration_seconds.unwrap_or_default();
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }
}
