//! What is written down agrees: the API's types with their schema and examples, the chart and the admission policies with `deploy/`, the alerts
//! with the metrics, each message for a bad input with its text, generated files with their source, and the repository with its habits.
//!
//! None of it needs a cluster. `cargo test --test contract chart` runs one of them.

mod admission;
mod alerts;
mod api;
mod argocd;
mod bad_inputs;
mod chart;
mod dashboard;
mod dependencies;
mod faults;
mod generated;
mod kstatus;
mod language;
mod makefile;
mod olm;
#[path = "../stale/mod.rs"]
mod stale;
mod tidy;
