//! Incidents that call for people.

use super::*;

/// A Ready node that never went down has no signature, and its incident calls for people all the same.
#[test]
fn an_incident_that_calls_for_people_is_told_where_no_finding_is_of_its_node() {
    let mut world = World::waiting("True", EXCLUSIVE);
    let mut accused = fence(
        "worker-1",
        "PowerOff",
        condition("Succeeded", "Unknown", "AwaitingRelease", "it is alive"),
    );
    let calls = condition("Escalated", "True", "FenceContradiction", "check its data");
    accused["status"]["conditions"]
        .as_array_mut()
        .expect("a list")
        .push(calls);
    world.fences = vec![accused];
    let told = of(&world, Kind::Node, "worker-1").calls;
    let says = "of node worker-1 requires action: FenceContradiction: check its data: see kubectl fence status worker-1";
    assert!(
        matches!(told.as_slice(), [it] if it.words.ends_with(says)),
        "{told:?}"
    );
    let all = diagnose(&world.facts(), &Scope::All).expect("a diagnosis");
    assert_eq!(all.calls, told);
    let text = super::super::told(&all, &Scope::All, world.facts().now);
    assert!(
        text.contains("requires action: FenceContradiction"),
        "{text}"
    );
    assert!(of(&world, Kind::Node, "worker-2").calls.is_empty());
    assert!(!all.is_empty() && all.findings.is_empty());
    assert_eq!(all.names(), ["nodefence.nodefencing.io/worker-1-fence"]);
    // D1 tells of the node alone, where an incident that only observes is beside it.
    let mut observed = World::waiting("Unknown", EXCLUSIVE);
    let mut observes = world.fences[0].clone();
    observes["spec"]["fence"]["mode"] = serde_json::json!("Observe");
    observed.fences = vec![observes];
    let found = of(&observed, Kind::Node, "worker-1");
    assert_eq!((ids(&found), found.calls.len()), (vec![finding::Id::D1], 1));
    // D2 tells it.
    let mut down = World::waiting("Unknown", EXCLUSIVE);
    down.fences = world.fences;
    let found = of(&down, Kind::Node, "worker-1");
    assert_eq!(
        (ids(&found), found.calls),
        (vec![finding::Id::D2], Vec::new())
    );
}
