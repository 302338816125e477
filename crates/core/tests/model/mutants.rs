//! Each guard of the protocol is missing once: the model must notice, and tell the shortest way to the damage.
//!
//! If a guard could go and nothing were noticed, either nobody needs it or the model is blind.

use crate::configurations::{confirm_only, deletes, liar, never_on, power_off, turned_on, writes};
use crate::explore::{Explorer, Found};
use crate::judge::Broken;
use crate::mutation::Mutation;
use crate::world::{Second, World};

/// States that are looked at before a mutation counts as unnoticed.
const STATES_MAX: usize = 1_000_000;

/// The guard is missing: this invariant has to break.
fn breaks(mutation: Mutation, broken: Broken, world: &World) {
    let found = Explorer::new(world, Some(mutation))
        .only(broken)
        .explore(STATES_MAX);
    let Found { states, .. } = found;
    let (what, story) = found
        .broken
        .unwrap_or_else(|| panic!("{mutation:?} is not noticed in {states} states"));
    let mut told = format!(
        "{mutation:?} breaks {what:?} after {} steps ({states} states):\n",
        story.len()
    );
    for (number, line) in (1..).zip(&story) {
        told += &format!("{number:>4}. {line}\n");
    }
    println!("{told}      {what:?}: {}\n", what.message());
    assert_eq!(what, broken);
}

/// One operator, and the machine is powered on once.
fn one() -> World {
    let mut world = confirm_only();
    world.two = false;
    world.budget.power_ons = 1;
    world
}

/// The same, and a request may be late.
fn late() -> World {
    let mut world = one();
    world.budget.messages = 1;
    world
}

#[test]
fn a_claim_that_tests_no_uid_lands_on_another_node() {
    let mut world = late();
    world.budget.deletions = 1;
    breaks(Mutation::ClaimWithoutUid, Broken::S10, &world);
}

#[test]
fn a_claim_that_does_not_test_for_an_empty_list_takes_the_taints_of_others_away() {
    let mut world = one();
    world.budget.foreign_taints = 1;
    breaks(Mutation::ClaimOverTaints, Broken::S7, &world);
}

#[test]
fn a_take_over_that_tests_no_claim_replaces_one_that_it_has_not_seen() {
    breaks(Mutation::TakeOverUntested, Broken::S9, &confirm_only());
}

#[test]
fn under_a_claim_that_evicts_nobody_the_incident_never_ends() {
    let mut world = one();
    world.budget.power_ons = 0;
    breaks(Mutation::ClaimEvictsNobody, Broken::L3, &world);
}

#[test]
fn without_quiesce_a_pod_starts_after_the_proof() {
    let mut world = one();
    world.budget.bindings = 1;
    breaks(Mutation::ProveBeforeQuiesce, Broken::S1, &world);
}

#[test]
fn a_reading_from_before_the_claim_proves_nothing() {
    let mut world = one();
    world.budget.bindings = 1;
    breaks(Mutation::TaintWithoutProof, Broken::S1, &world);
}

#[test]
fn a_taint_that_tests_no_claim_is_set_by_whoever_is_superseded() {
    breaks(Mutation::TaintWithoutClaim, Broken::S9, &late());
}

#[test]
fn a_taint_that_tests_no_boot_is_set_on_a_node_that_has_booted_anew() {
    breaks(Mutation::TaintWithoutBoot, Broken::S2, &late());
}

#[test]
fn a_pod_that_came_before_the_claim_and_after_the_list_is_overlooked() {
    let mut world = one();
    world.second = Second::ComesLate;
    breaks(Mutation::NewcomersIgnored, Broken::S2, &world);
}

#[test]
fn a_taint_before_its_evidence_is_unexplained() {
    breaks(Mutation::TaintBeforeEvidence, Broken::S17, &one());
}

#[test]
fn an_off_before_its_intent_is_known_to_nobody() {
    breaks(Mutation::OffBeforeIntent, Broken::S11, &power_off());
}

#[test]
fn an_off_without_a_last_look_hits_a_node_that_is_not_claimed() {
    breaks(Mutation::OffWithoutClaim, Broken::S11, &power_off());
}

#[test]
fn a_proof_that_does_not_look_at_the_node_holds_on_to_one_that_is_back() {
    breaks(Mutation::ProveWithoutNode, Broken::L3, &one());
}

#[test]
fn a_release_before_the_detach_is_too_early() {
    breaks(Mutation::ReleaseBeforeDetach, Broken::S14, &one());
}

#[test]
fn a_release_without_reading_the_power_may_release_a_machine_that_runs() {
    breaks(Mutation::LookBelieved, Broken::S14, &one());
}

#[test]
fn a_release_before_the_late_off_has_landed_is_hit_by_it() {
    let mut world = power_off();
    world.two = false;
    breaks(Mutation::ReleaseBeforeLateOff, Broken::S23, &world);
}

#[test]
fn a_power_on_before_the_release_meets_the_taint() {
    breaks(Mutation::OnBeforeRelease, Broken::S11, &turned_on());
}

#[test]
fn a_power_on_before_the_late_off_has_landed_is_cut_by_it() {
    breaks(Mutation::ReleaseBeforeLateOff, Broken::S11, &turned_on());
}

#[test]
fn a_release_that_tests_nothing_takes_away_what_it_does_not_know() {
    let mut world = late();
    world.budget.foreign_taints = 1;
    breaks(Mutation::ReleaseUntested, Broken::S9, &world);
}

#[test]
fn a_claim_given_back_untested_leaves_a_late_taint_alone() {
    breaks(Mutation::AbortWithoutList, Broken::S14, &late());
}

/// One operator whose request is late, and the Node is restored from a copy, claim included.
fn copied() -> World {
    let mut world = late();
    world.budget.copies = 1;
    world
}

#[test]
fn a_taint_that_tests_no_uid_lands_on_a_copy_of_the_node() {
    breaks(Mutation::TaintWithoutUid, Broken::S10, &copied());
}

#[test]
fn a_claim_given_back_without_the_uid_is_taken_from_a_copy_of_the_node() {
    breaks(Mutation::AbortWithoutUid, Broken::S10, &copied());
}

#[test]
fn a_release_that_tests_no_uid_lands_on_a_copy_of_the_node() {
    breaks(Mutation::ReleaseWithoutUid, Broken::S10, &copied());
}

#[test]
fn a_forced_deletion_before_the_proof_hits_what_runs() {
    breaks(Mutation::EvictBeforeProve, Broken::S2, &one());
}

#[test]
fn a_late_forced_deletion_that_names_no_uid_hits_the_next_pod_of_that_name() {
    let mut world = late();
    world.budget.bindings = 1;
    breaks(Mutation::EvictWithoutUid, Broken::S2, &world);
}

#[test]
fn evidence_that_is_not_read_is_written_over() {
    let mut world = confirm_only();
    world.stages = true;
    breaks(Mutation::EvidenceUnread, Broken::S17, &world);
}

#[test]
fn without_the_admission_policy_a_late_claim_lands_on_a_ready_node() {
    breaks(Mutation::NoAdmissionPolicy, Broken::S6, &late());
}

/// One operator that deletes the Node; its request may be late, and the pod is bound again.
fn deleting() -> World {
    let mut world = late();
    deletes(&mut world);
    world.budget.bindings = 1;
    world
}

#[test]
fn a_deletion_that_names_no_version_hits_a_node_that_was_released() {
    breaks(Mutation::DeleteWithoutVersion, Broken::S9, &deleting());
}

#[test]
fn a_node_is_not_deleted_by_a_look_that_nobody_took() {
    breaks(Mutation::LookBelieved, Broken::S14, &deleting());
}

#[test]
fn a_node_is_not_deleted_before_its_volume_has_left_it() {
    breaks(Mutation::ReleaseBeforeDetach, Broken::S14, &deleting());
}

#[test]
fn a_late_deletion_that_names_no_uid_takes_the_volume_of_the_next_pod() {
    breaks(Mutation::DetachWithoutUid, Broken::S1, &deleting());
}

#[test]
fn a_machine_that_is_let_go_too_early_loses_the_volume_of_its_next_pod() {
    breaks(Mutation::LetGoWhileDetaching, Broken::S1, &deleting());
}

/// One operator that deletes the Node, and a second pod that tolerates everything and uses the volume.
fn staying() -> World {
    let mut world = one();
    deletes(&mut world);
    world.second = Second::Stays;
    (world.incident.tolerates, world.incident.shares) = (true, true);
    world
}

#[test]
fn a_pod_that_tolerates_everything_loses_its_volume_while_it_writes() {
    breaks(Mutation::TolerantWithVolume, Broken::S1, &staying());
}

#[test]
fn a_pod_that_tolerates_everything_comes_back_and_meets_a_late_deletion() {
    let mut world = staying();
    world.budget.bindings = 1;
    breaks(Mutation::TolerantEvicted, Broken::S1, &world);
}

#[test]
fn a_proof_that_does_not_look_at_the_lease_believes_a_device_that_lies() {
    let mut world = one();
    world.budget.lies = 1;
    breaks(Mutation::ProveWithoutLease, Broken::S22, &world);
}

/// S24: whoever reports a living machine as off, and a device that lies at the same time, are refuted by what its kubelet writes, though its Lease and
/// its port are silent.
#[test]
fn a_proof_that_does_not_look_at_the_pods_believes_a_device_that_lies() {
    let mut world = one();
    world.budget.lies = 1;
    writes(&mut world);
    breaks(Mutation::ProveWithoutPods, Broken::S22, &world);
}

/// The same in mode PowerOff, where the device had read Off before the command and takes it: what the kubelet writes since the claim speaks against it,
/// and does not count from after the command on. (The device lies: of S1 and S23 nothing can be asked, R2.)
#[test]
fn an_off_command_to_what_reads_off_excuses_no_kubelet() {
    let mut world = power_off();
    world.two = false;
    liar(&mut world);
    writes(&mut world);
    breaks(Mutation::EveryOffCounts, Broken::S22, &world);
    let explorer = Explorer::new(&world, None).only(Broken::S22);
    let found = explorer.explore(STATES_MAX);
    println!("with it: {} states", found.states);
    assert!(
        found.broken.is_none() && found.is_complete,
        "{:?}",
        found.broken
    );
}

#[test]
fn an_off_of_a_device_that_never_read_on_loses_data() {
    let mut world = confirm_only();
    never_on(&mut world);
    (world.two, world.budget.bindings) = (false, 1);
    breaks(Mutation::AnyOffCounts, Broken::S1, &world);
    world.two = true;
    breaks(Mutation::AnyOffCounts, Broken::S1, &world);
}

#[test]
fn an_off_command_that_changes_nothing_loses_data() {
    let mut world = power_off();
    never_on(&mut world);
    (world.two, world.budget.bindings) = (false, 1);
    breaks(Mutation::AnyOffCounts, Broken::S1, &world);
    world.two = true;
    breaks(Mutation::AnyOffCounts, Broken::S1, &world);
}

/// R8, the known risk: no guard is missing, and a machine that was suspended resumes beside the second writer, in either mode. Without the event
/// nothing breaks (`nothing_that_can_happen_breaks_the_protocol`).
#[test]
fn a_machine_that_resumes_in_its_boot_loses_data() {
    for mut world in [confirm_only(), power_off()] {
        (world.two, world.budget.bindings, world.budget.suspends) = (false, 1, 1);
        let explorer = Explorer::new(&world, None).only(Broken::S1);
        let (what, story) = explorer.explore(STATES_MAX).broken.expect("R8 is found");
        println!("R8 breaks {what:?} after {} steps: {story:#?}", story.len());
        let is_told = |message: &str| story.iter().any(|line| line.contains(message));
        assert!(is_told("is suspended") && is_told("resumes"), "{story:#?}");
    }
    let mut world = confirm_only();
    (world.two, world.budget.bindings) = (false, 1);
    let found = Explorer::new(&world, None).explore(STATES_MAX);
    assert!(found.broken.is_none() && found.is_complete && found.stuck == 0);
}

#[test]
fn a_release_that_tests_no_boot_leaves_a_quarantine_that_keeps_nobody_away() {
    breaks(Mutation::ReleaseWithoutBoot, Broken::S14, &one());
}
