//! The control plane keeps its quorum.

use super::*;

#[test]
fn the_control_planes_quorum_is_kept_also_when_approved() {
    let member = |name, ready| node(name, ready, &[(CONTROL_PLANE_LABEL, "")]);
    let two_left = [
        member("a", "Unknown"),
        member("b", "True"),
        member("c", "True"),
    ];
    assert_eq!(
        judge(&two_left, vec![], |_, _| {}, FenceMode::PowerOff, false),
        "admitted"
    );
    let one_left = [
        member("a", "Unknown"),
        member("b", "True"),
        member("c", "Unknown"),
    ];
    assert_eq!(
        judge(&one_left, vec![], |_, _| {}, FenceMode::PowerOff, true),
        "Quorum"
    );
    let ignore = |budget: &mut Budget, _: &mut Cluster<'_>| {
        budget.control_plane = ControlPlaneBudget::Ignore
    };
    assert_eq!(
        judge(&one_left, vec![], ignore, FenceMode::PowerOff, false),
        "admitted"
    );
}

/// S13: of a member whose Node is gone nobody knows that it is one, so the next one would be counted without it.
#[test]
fn no_control_plane_node_is_deleted_while_its_quorum_is_to_be_kept() {
    let member = |name, ready| node(name, ready, &[(CONTROL_PLANE_LABEL, "")]);
    let members = ["a", "b", "c", "d", "e"].map(|name| member(name, "True"));
    let selected = members.each_ref().map(|node| node.name.clone());
    for (deletes, control_plane, held) in [
        (false, ControlPlaneBudget::PreserveQuorum, false),
        (true, ControlPlaneBudget::PreserveQuorum, true),
        (true, ControlPlaneBudget::Ignore, false),
    ] {
        let mine = Open {
            deletes,
            ..open("f-a", "a", false)
        };
        let budget = Budget {
            control_plane,
            ..Budget::default()
        };
        let cluster = Cluster {
            nodes: &members,
            selected: &selected,
            open: std::slice::from_ref(&mine),
            admissions: &[],
            own_node: None,
            cap: None,
        };
        let now = Duration::from_secs(10_000);
        let judged = admit(&mine, FenceMode::ConfirmOnly, true, &budget, &cluster, now);
        let reason = judged.err().map(|hold| hold.reason);
        assert_eq!(
            reason,
            held.then_some(HeldBy::Quorum),
            "{deletes} {control_plane:?}"
        );
    }
}
