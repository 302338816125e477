//! The whole decision, pure: no clock, no network, no randomness, no Kubernetes client.
//!
//! Everything that can lose data is decided here, over facts that were observed elsewhere and a time that is given.
//! Read [`plan`] first: it derives the next step of an incident from what was seen. [`proof`] is the rule that a machine is
//! down, and the only maker of a proof; [`taint`] builds the writes that consume one.

pub mod assess;
pub mod attempt;
pub mod budget;
pub mod delay;
pub mod election;
#[cfg(test)]
pub mod fixtures;
pub mod history;
pub mod identity;
pub mod incident;
pub mod memory;
pub mod observed;
pub mod plan;
pub mod proof;
pub mod quiesce;
pub mod reading;
pub mod record;
pub mod release;
pub mod reply;
pub mod select;
pub mod stage;
pub mod support;
pub mod taint;
pub mod word;
