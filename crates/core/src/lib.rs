//! The whole decision, pure: no clock, no network, no randomness, no Kubernetes client.
//!
//! Everything that can lose data is decided here, over facts that were observed elsewhere and a time that is given.
//! Read [`plan`] first: it derives the next step of an incident from what was seen. [`proof`] is the rule that a machine is
//! down, and the only maker of a proof; [`taint`] builds the writes that consume one.
//!
//! Words that mean one thing here:
//! - an *incident* is a NodeFence being worked on; a *record* is what its status says of it, for people and for the next process;
//! - a *claim* is our taint `nodefencing.io/claim`, and its value; what was learned under one is forgotten with it;
//! - a *mark* is the taint under which a node's volumes are taken from it, `out-of-service` or `nodefencing.io/detaching`;
//! - a *level* is a set of devices that are tried together; a *try* of it is an off command (*attempt*) and the readings after it; a
//!   *round* over the levels has tried all of them in vain, and a *round* of [`plan::step`] is one pass through it;
//! - an *order* is device work that is handed out; an *answer* is what one device gives to one question, a *reading* one of a series;
//! - a *proof* lives in memory and dies of age, *evidence* is what the record keeps of it;
//! - a *manual confirmation* is a human's that the machine has no power; a *message* is text for people;
//! - a *hold* keeps an incident from acting, a brake of the budget or what the policy says of the node ([`hold`]), a *denial* is a write that the
//!   API server refuses, an *escalation* calls a human, and an *alarm* is the reason for one that lasts until a try succeeds.
//!
//! In [`plan`], `r` is the round: the settings, the memory, what was observed, the moment.

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

pub mod answer;
pub mod assess;
pub mod attempt;
pub mod budget;
pub mod control;
pub mod decision;
pub mod delay;
pub mod device;
pub mod early;
pub mod election;
pub mod escalation;
pub mod exclusions;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
pub mod foreign_text;
pub mod history;
pub mod hold;
pub mod identity;
pub mod identity_rule;
pub mod manual_confirmation;
pub mod memory;
pub mod not_proven;
pub mod observed;
pub mod outage;
pub mod plan;
pub mod power_history;
pub mod power_on;
pub mod proof;
pub mod proof_source;
pub mod protection;
pub mod quiesce;
pub mod reading;
pub mod record;
pub mod release;
pub mod remediation;
pub mod reply;
pub mod select;
pub mod settings;
pub mod stage;
pub mod storage_fence;
pub mod stranded;
pub mod support;
pub mod taint;
pub mod verification;
pub mod window;
