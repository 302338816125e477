//! Condition `NodeConfirmedDown`: whoever sees to the volumes by themselves (`recovery.strategy: None`) goes by it.

use crate::api::conditions::{ConditionStatus, NODE_CONFIRMED_DOWN, find, set_condition};
use crate::api::fence_status::NodeFenceStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The machine is proven down, by a human's word or by its devices.
pub(super) fn proven(status: &mut NodeFenceStatus, by_word: bool, wall_now: Timestamp) {
    let off = match by_word {
        true => "off by a human's word (`spec.manualConfirmation`)",
        false => "off, read by its device again and again",
    };
    let words = format!("{off}, and no sign of life since the claim");
    set(status, ConditionStatus::True, "Proven", &words, wall_now);
}

/// Does it say that the proof was false?
fn is_refuted(status: &NodeFenceStatus) -> bool {
    let told = find(&status.conditions, NODE_CONFIRMED_DOWN);
    told.is_some_and(|it| it.status == "False")
}

/// Another process has found that the proof was false.
pub(super) fn adopt(status: &mut NodeFenceStatus, live: &NodeFenceStatus) {
    if is_refuted(live) && !is_refuted(status) {
        let told = |it: &Condition| it.type_ == NODE_CONFIRMED_DOWN;
        status.conditions.retain(|it| !told(it));
        let theirs = live.conditions.iter().filter(|it| told(it));
        status.conditions.extend(theirs.cloned());
    }
}

/// The proof was false, if there was one.
pub(super) fn refuted(status: &mut NodeFenceStatus, wall_now: Timestamp) {
    if find(&status.conditions, NODE_CONFIRMED_DOWN).is_some() {
        let evidence = status.evidence.as_ref();
        let boot = evidence.map_or("", |it| it.node_boot_id.as_str());
        let words = format!(
            "the Node is Ready in boot {boot}, which was proven down, or was made anew in it: its machine never went down; free no volume by this, and check the data of those that were freed"
        );
        set(status, ConditionStatus::False, "Refuted", &words, wall_now);
    }
}

/// There is a sign of life beside the proof, if there was one.
pub(super) fn doubted(status: &mut NodeFenceStatus, sign: &str, wall_now: Timestamp) {
    if find(&status.conditions, NODE_CONFIRMED_DOWN).is_some() {
        let words = format!("{sign}; free no volume by this before it is True again");
        let unknown = ConditionStatus::Unknown;
        set(status, unknown, "Contradicted", &words, wall_now);
    }
}

fn set(
    status: &mut NodeFenceStatus,
    is: ConditionStatus,
    reason: &str,
    words: &str,
    wall_now: Timestamp,
) {
    let generation = status.observed_generation;
    let conditions = &mut status.conditions;
    set_condition(
        conditions,
        NODE_CONFIRMED_DOWN,
        is,
        reason,
        words,
        generation,
        wall_now,
    );
}
