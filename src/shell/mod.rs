//! The only place that talks to Kubernetes: observe, ask the core, act, look again.

pub mod cache;
pub mod client;
pub mod devices;
pub mod events;
#[cfg(test)]
mod fake;
pub mod health;
pub mod lockout;
pub mod merge;
pub mod metrics;
pub mod preflight;
pub mod probe;
pub mod run;
pub mod server;
pub mod slim;
pub mod stop;
