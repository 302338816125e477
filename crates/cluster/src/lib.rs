//! What the operator and `kubectl fence` share of Kubernetes.
//!
//! [`client`] is the one way to ask the API server something, [`slim`] the objects cut down to what is read of them, [`preflight`] and
//! [`schema`] say whether the cluster has what an installation needs.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long they wait"
    )
)]

pub mod client;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod preflight;
pub mod schema;
pub mod slim;
pub mod stop;
pub mod text;
