//! Fences failed Kubernetes nodes: proves out of band that a machine is down, and only then says so to the cluster.
//!
//! The story on one page. A node stops answering. [`shell`] sees it in its caches and asks [`fencing_core`] what to do; the
//! core is pure, knows no clock and no network, and answers with one step and the words that explain it. `shell` carries the
//! step out (a write to the API server) or hands it to [`fencing_drivers`] (a question or a command to the machine's BMC),
//! looks again, and asks again. [`fencing_api`] is the contract that users write and read: which nodes, which devices, and
//! the record of every incident.
//!
//! The order of the steps is what keeps data whole: claim the Node, wait until no pod can start there, turn the machine
//! off, prove that it is off, and only then set the taint `node.kubernetes.io/out-of-service`. `docs/protocol.md` has the
//! reasons; ids in comments such as S9, L5 or F12 are explained there and in `docs/faults.md`.

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
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long they wait"
    )
)]

pub mod args;
pub mod probe_file;
pub mod shell;
pub mod telemetry;
