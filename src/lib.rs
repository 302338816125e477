//! Fences failed Kubernetes nodes: proves out of band that a machine is down, and only then says so to the cluster.
//!
//! The story of the crate on one page. A node stops answering. [`shell`] sees it in its caches and asks [`core`] what to
//! do; `core` is pure, knows no clock and no network, and answers with one step and the words that explain it. `shell`
//! carries the step out (a write to the API server) or hands it to [`fence`] (a question or a command to the machine's
//! BMC), looks again, and asks again. [`api`] is the contract that users write and read: which nodes, which devices, and
//! the record of every incident.
//!
//! The order of the steps is what keeps data whole: claim the Node, wait until no pod can start there, turn the machine
//! off, prove that it is off, and only then set the taint `node.kubernetes.io/out-of-service`.

pub mod api;
pub mod args;
pub mod clock;
pub mod core;
pub mod fence;
pub mod shell;
pub mod telemetry;
pub mod words;
