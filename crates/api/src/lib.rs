//! The contract that users write and read: the custom resources of group `nodefencing.io`.
//!
//! [`policy::NodeFencingPolicy`] says which nodes, when and how far; [`device::FenceDevice`] how to reach the power of a
//! machine; [`fence::NodeFence`] is one incident, from its first sign to its end. By a [`remediation::NodeFenceRemediation`] another controller asks
//! for one. The types are the source of truth: `crds/`
//! is generated from them ([`crd`]), so that what the API server enforces and what the operator reads cannot drift apart.
//!
//! Every default stands once, in an `impl Default`: serde fills it in for an object that the API server did not default, and
//! the schema shows the same value. Every integer, string and list has a bound, because the API server charges a rule's cost
//! by the largest object the schema admits. Objects are cluster-scoped (a Node has no namespace), but for
//! remediations: the objects that their callers derive them from are namespaced.

#![forbid(unsafe_code)]
// A panic in the middle of a fence leaves it to a successor, and what came from a device or the API server must never cause
// one. Tests may panic: it is how they fail.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod bmcs;
pub mod clouds;
pub mod conditions;
pub mod crd;
pub mod device;
pub mod device_status;
pub mod drivers;
pub mod fence;
pub mod fence_agent;
pub mod fence_status;
pub mod http_outlet;
pub mod infra_clusters;
pub mod min_healthy;
pub mod names;
pub mod network_fence;
pub mod pdu;
pub mod policy;
pub mod policy_status;
pub mod readings;
pub mod remediation;
pub mod selector;
pub mod settings;
pub mod tls;
pub mod webhook;
pub mod window;

/// API group of every custom resource of this operator.
pub const GROUP: &str = "nodefencing.io";

/// The served and stored version.
pub const VERSION: &str = "v1alpha1";
