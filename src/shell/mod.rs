//! The only place that talks to Kubernetes: observe, ask the core, act, look again.

pub mod cache;
pub mod devices;
pub mod lockout;
pub mod slim;
