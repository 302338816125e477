//! Each signature in the smallest cluster that shows it, and beside it the nearest one that does not.

mod attachments;
mod early;
mod nodes;
mod scheduling;
mod workloads;

use super::super::finding::{Finding, Id};
use super::super::world::*;

/// Does one of its commands say so?
fn commands(finding: &Finding, says: &str) -> bool {
    finding.fix.iter().any(|it| it.command.contains(says))
}

/// Was it seen by words that say so?
fn seen(finding: &Finding, says: &str) -> bool {
    finding.seen.iter().any(|it| it.contains(says))
}

/// What is not known is taken for neither there nor absent.
#[test]
fn nothing_is_concluded_from_lists_that_could_not_be_read() {
    let mut facts = World::waiting("Unknown", EXCLUSIVE).facts();
    facts.nodes.items.clear();
    facts.nodes.unknown = Some("forbidden".to_owned());
    assert!(super::findings(&facts).is_empty());
    let mut facts = World::waiting("Unknown", EXCLUSIVE).facts();
    facts.attachments.items.clear();
    facts.attachments.unknown = Some("forbidden".to_owned());
    let found: Vec<Id> = super::findings(&facts).iter().map(|it| it.id).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_cluster_in_which_all_is_well_has_no_finding() {
    let mut world = World::waiting("True", EXCLUSIVE);
    world.pods[0]["status"]["phase"] = "Running".into();
    assert!(world.ids().is_empty());
}

/// `-A` looks at thousands of pods: nothing may ask of each pod about all the others.
#[test]
fn twenty_thousand_pods_take_no_time() {
    let mut world = World::waiting("Unknown", EXCLUSIVE);
    for number in 0..20_000 {
        let mut other = pod(&format!("web-{number}"), "Running", Some("worker-2"));
        other["spec"]["volumes"] = serde_json::json!([]);
        world.pods.push(other);
    }
    let facts = world.facts();
    let begun = std::time::Instant::now();
    assert_eq!(super::findings(&facts).len(), 1);
    let took = begun.elapsed();
    assert!(took.as_secs() < 5, "{took:?}");
}
