//! The only place that talks to Kubernetes: observe, ask the core, act, look again.
//!
//! | room | what happens there |
//! |---|---|
//! | [`run`] | the life of the process: connect, check, serve, work, end |
//! | [`lease`], [`term`] | which replica works, and what it does then |
//! | [`health`], [`server`] | `/livez`, `/readyz`, `/metrics` |
//! | [`check`] | the same, asked for once: `node-fencing-operator check` |
//! | [`guard`] | whether the admission policies hold the operator to its limits |
//! | [`optional_rights`], [`api_address`] | whether it may delete Nodes, or report them early; which addresses are the API server's |
//! | [`cache`], [`undecodable`], [`tampered`] | the watches, cut down to what is used, objects that cannot be read, and statuses that somebody else wrote |
//! | [`context`], [`brakes`], [`revision`] | what all loops share; who may act; whether etcd went back in time |
//! | [`control`] | which loop a change wakes |
//! | [`detect`], [`draft`] | from nodes and policies to NodeFences; stray taints of ours |
//! | [`incident`] | the loop of one NodeFence: read, ask [`fencing_core`], do one thing |
//! | [`resolve`] | from API objects to the settings that the core knows |
//! | [`observe`], [`act`] | the quorum reads of a round, and its guarded writes |
//! | [`jobs`] | device work, beside the loops |
//! | [`knock`] | whether a node's kubelet answers at its port |
//! | [`outside`] | the ways to devices and kubelets, which a simulation replaces |
//! | [`own_cluster`], [`unfence`] | NetworkFences of CSI-Addons: how its driver asks the API server; what takes them back |
//! | [`devices`], [`early`], [`lockout`] | from a FenceDevice to a driver, one talk at a time; drivers made and connected beside a claim; no account is locked by our guesses |
//! | [`probe`] | looks at devices in peace time, and the status of FenceDevices |
//! | [`standby`] | whether a replica that stands by could reach the devices |
//! | [`found_off`], [`early_detection`] | which silent nodes' machines are off, so that nothing is waited for, nor for Kubernetes |
//! | [`callers`] | NodeFenceRemediations, by which other controllers ask for a fence |
//! | [`policy_status`] | the status of NodeFencingPolicies |
//! | [`headroom`] | whether a node's pods would find room elsewhere |
//! | [`others`] | whose APIs the cluster serves besides ours: who else may fence |
//! | [`events`], [`metrics`] | what people get to know |
//! | [`merge`], [`marks`] | small helpers: status patches, "has it changed?" |

pub mod act;
pub mod alive;
pub mod api_address;
pub mod brakes;
pub mod cache;
pub mod callers;
pub mod check;
pub mod context;
pub mod control;
pub mod detect;
pub mod devices;
pub mod draft;
pub mod early;
pub mod early_detection;
pub mod events;
#[cfg(test)]
pub(crate) mod fake;
pub mod foreign_text;
pub mod found_off;
pub mod guard;
pub mod headroom;
pub mod health;
pub mod history;
pub mod incident;
pub mod jobs;
pub mod knock;
pub mod lease;
pub mod lockout;
pub mod marks;
pub mod merge;
pub mod metrics;
pub mod observe;
pub mod optional_rights;
pub mod others;
pub mod outside;
pub mod own_cluster;
pub mod policy_status;
pub mod probe;
pub mod resolve;
pub mod revision;
pub mod run;
pub mod serialized;
pub mod server;
pub mod standby;
pub mod tampered;
pub mod term;
pub mod undecodable;
pub mod unfence;
pub mod wakes;
