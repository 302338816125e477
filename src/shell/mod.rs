//! The only place that talks to Kubernetes: observe, ask the core, act, look again.

pub mod act;
pub mod cache;
pub mod client;
pub mod context;
pub mod control;
pub mod detect;
pub mod devices;
pub mod draft;
pub mod events;
#[cfg(test)]
mod fake;
pub mod health;
pub mod history;
pub mod incident;
pub mod jobs;
pub mod lockout;
pub mod marks;
pub mod merge;
pub mod metrics;
pub mod observe;
pub mod policy_status;
pub mod preflight;
pub mod probe;
pub mod resolve;
pub mod run;
pub mod server;
pub mod slim;
pub mod stop;
pub mod undecodable;
