//! Condition `NodeConfirmedDown`: whoever sees to the volumes by themselves (`recovery.strategy: None`) goes by it.

use fencing_api::conditions::{ConditionStatus, NODE_CONFIRMED_DOWN, find, set_condition};
use fencing_api::fence_status::NodeFenceStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The machine is proven down, by a human's word or by its devices.
pub(super) fn proven(status: &mut NodeFenceStatus, by_confirmation: bool, wall_now: Timestamp) {
    let off = match by_confirmation {
        true => "off by manual confirmation (`spec.manualConfirmation`)",
        false => "off by repeated readings of its FenceDevices",
    };
    let message = format!("{off}, and no sign of life since the claim");
    set(status, ConditionStatus::True, "Proven", &message, wall_now);
}

/// What speaks against the proof, the stronger the greater.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Against {
    Nothing,
    /// There was a sign of life beside it.
    Doubt,
    /// It was false.
    Refutation,
}

fn against(status: &NodeFenceStatus) -> Against {
    let told = find(&status.conditions, NODE_CONFIRMED_DOWN);
    match told.map(|it| it.status.as_str()) {
        Some("False") => Against::Refutation,
        Some("Unknown") => Against::Doubt,
        _ => Against::Nothing,
    }
}

/// Does this record say more against its proof than that one? A refutation is about the boot, whichever proof it was; a doubt is about one proof.
pub fn speaks_more_against(status: &NodeFenceStatus, than: &NodeFenceStatus) -> bool {
    let is = against(status);
    is > against(than) && (is == Against::Refutation || is_same_proof(status, than))
}

/// Is it the same proof? (What the API server has kept of it may be less than was sent.)
pub(super) fn is_same_proof(status: &NodeFenceStatus, other: &NodeFenceStatus) -> bool {
    let proof = |of: &NodeFenceStatus| {
        let evidence = of.evidence.as_ref();
        evidence.map(|it| (it.claim.clone(), it.proven_time))
    };
    proof(status) == proof(other)
}

/// Another process has found that something speaks against the proof, or that it was false. What is told of a proof goes with it.
pub(super) fn adopt(status: &mut NodeFenceStatus, live: &NodeFenceStatus) {
    let told = find(&status.conditions, NODE_CONFIRMED_DOWN);
    let is_untold = told.is_none() && status.evidence.is_some();
    if speaks_more_against(live, status) || (is_untold && is_same_proof(live, status)) {
        let told = |it: &Condition| it.type_ == NODE_CONFIRMED_DOWN;
        status.conditions.retain(|it| !told(it));
        let theirs = live.conditions.iter().filter(|it| told(it));
        status.conditions.extend(theirs.cloned());
    }
}

/// The proof was false, if there was one.
pub fn refuted(status: &mut NodeFenceStatus, wall_now: Timestamp) {
    if find(&status.conditions, NODE_CONFIRMED_DOWN).is_some() {
        let evidence = status.evidence.as_ref();
        let boot = evidence.map_or("", |it| it.node_boot_id.as_str());
        let message = format!(
            "the Node is Ready in boot {boot}, which was confirmed off; free no volume by this condition, and check the data of those already freed"
        );
        set(
            status,
            ConditionStatus::False,
            "Refuted",
            &message,
            wall_now,
        );
    }
}

/// There is a sign of life beside the proof, if there was one. That it was false stays said.
pub(super) fn doubted(status: &mut NodeFenceStatus, sign: &str, wall_now: Timestamp) {
    let is_told = find(&status.conditions, NODE_CONFIRMED_DOWN).is_some();
    if is_told && against(status) != Against::Refutation {
        let message = format!("{sign}; free no volume by this condition until it is True again");
        let unknown = ConditionStatus::Unknown;
        set(status, unknown, "Contradicted", &message, wall_now);
    }
}

fn set(
    status: &mut NodeFenceStatus,
    is: ConditionStatus,
    reason: &str,
    message: &str,
    wall_now: Timestamp,
) {
    let generation = status.observed_generation;
    let conditions = &mut status.conditions;
    set_condition(
        conditions,
        NODE_CONFIRMED_DOWN,
        is,
        reason,
        message,
        generation,
        wall_now,
    );
}
