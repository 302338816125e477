use super::super::observed::ConditionView;
use super::*;
use fencing_api::policy::FailureDomainBudget;

mod cap;
mod quorum;

fn node(name: &str, ready: &str, labels: &[(&str, &str)]) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        annotation_keys: vec![],
        unschedulable: false,
        taints: vec![],
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: "boot".to_owned(),
        system_uuid: String::new(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn open(fence: &str, node: &str, admitted: bool) -> Open {
    Open {
        fence: fence.to_owned(),
        node: node.to_owned(),
        policy: "p".to_owned(),
        admitted,
        waits: Some(HeldBy::MaxConcurrent),
        created: fence.to_owned(),
        deletes: false,
    }
}

/// Judges incident `f-a` on node `a`, the first of `nodes`; the reason of the hold, or `admitted`.
fn judge(
    nodes: &[NodeView],
    others: Vec<Open>,
    change: impl Fn(&mut Budget, &mut Cluster<'_>),
    mode: FenceMode,
    approved: bool,
) -> &'static str {
    let mine = open("f-a", "a", false);
    let mut all = others;
    all.push(mine.clone());
    let selected: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let mut budget = Budget {
        min_healthy: MinHealthy::Count(0),
        ..Budget::default()
    };
    let mut cluster = Cluster {
        nodes,
        selected: &selected,
        open: &all,
        admissions: &[],
        own_node: None,
        cap: None,
    };
    change(&mut budget, &mut cluster);
    let now = Duration::from_secs(10_000);
    match admit(&mine, mode, approved, &budget, &cluster, now) {
        Ok(()) => "admitted",
        Err(hold) => {
            assert!(!hold.message.is_empty());
            hold.reason.as_str()
        }
    }
}

#[test]
fn a_first_incident_is_admitted() {
    let nodes = [node("a", "Unknown", &[])];
    assert_eq!(
        judge(&nodes, vec![], |_, _| {}, FenceMode::PowerOff, false),
        "admitted"
    );
}

#[test]
fn the_operators_own_node_is_never_fenced_not_even_approved() {
    let nodes = [node("a", "Unknown", &[])];
    let own = |_: &mut Budget, cluster: &mut Cluster<'_>| cluster.own_node = Some("a");
    assert_eq!(
        judge(&nodes, vec![], own, FenceMode::ConfirmOnly, true),
        "OwnNode"
    );
}

#[test]
fn only_so_many_at_once_the_older_ones_first() {
    let nodes = [node("a", "Unknown", &[]), node("b", "Unknown", &[])];
    let running = vec![open("f-b", "b", true)];
    assert_eq!(
        judge(
            &nodes,
            running.clone(),
            |_, _| {},
            FenceMode::ConfirmOnly,
            false
        ),
        "MaxConcurrent"
    );
    assert_eq!(
        judge(
            &nodes,
            running.clone(),
            |_, _| {},
            FenceMode::ConfirmOnly,
            true
        ),
        "admitted"
    );
    let two = |budget: &mut Budget, _: &mut Cluster<'_>| budget.max_concurrent = 2;
    assert_eq!(
        judge(&nodes, running, two, FenceMode::ConfirmOnly, false),
        "admitted"
    );
    let older = vec![Open {
        created: "e".to_owned(),
        ..open("f-b", "b", false)
    }];
    assert_eq!(
        judge(&nodes, older, |_, _| {}, FenceMode::ConfirmOnly, false),
        "MaxConcurrent"
    );
    let younger = vec![Open {
        created: "z".to_owned(),
        ..open("f-b", "b", false)
    }];
    assert_eq!(
        judge(&nodes, younger, |_, _| {}, FenceMode::ConfirmOnly, false),
        "admitted"
    );
}

/// L5: its device does not answer, so it could not begin if it had the place.
#[test]
fn an_older_incident_that_waits_for_something_else_keeps_no_place_free() {
    let nodes = [node("a", "Unknown", &[]), node("b", "Unknown", &[])];
    for (waits, outcome) in [
        (Some(HeldBy::MinHealthy), "MaxConcurrent"),
        (None, "admitted"),
    ] {
        let older = Open {
            created: "e".to_owned(),
            waits,
            ..open("f-b", "b", false)
        };
        let judged = judge(&nodes, vec![older], |_, _| {}, FenceMode::PowerOff, false);
        assert_eq!(judged, outcome);
    }
}

#[test]
fn too_many_down_at_once_hold_power_commands_until_somebody_approves() {
    let nodes = [
        node("a", "Unknown", &[]),
        node("b", "Unknown", &[]),
        node("c", "True", &[]),
    ];
    let half =
        |budget: &mut Budget, _: &mut Cluster<'_>| budget.min_healthy = MinHealthy::Percent(51);
    assert_eq!(
        judge(&nodes, vec![], half, FenceMode::PowerOff, false),
        "MinHealthy"
    );
    assert_eq!(
        judge(&nodes, vec![], half, FenceMode::PowerOff, true),
        "admitted"
    );
    // F47: what only acts on machines that are proven off may go on.
    assert_eq!(
        judge(&nodes, vec![], half, FenceMode::ConfirmOnly, false),
        "admitted"
    );
    let healthy = [
        node("a", "Unknown", &[]),
        node("b", "True", &[]),
        node("c", "True", &[]),
    ];
    assert_eq!(
        judge(&healthy, vec![], half, FenceMode::PowerOff, false),
        "admitted"
    );
}

/// Whoever is held for it has to know which NodeFence keeps a machine that is gone for good among those that are down.
#[test]
fn a_storm_names_the_nodes_that_were_deleted() {
    let nodes = [node("a", "Unknown", &[]), node("b", "True", &[])];
    let message = |selected: &[&str]| {
        let selected: Vec<String> = selected.iter().map(ToString::to_string).collect();
        let cluster = Cluster {
            nodes: &nodes,
            selected: &selected,
            open: &[],
            admissions: &[],
            own_node: None,
            cap: None,
        };
        let budget = Budget {
            min_healthy: MinHealthy::Percent(100),
            ..Budget::default()
        };
        healthy(&budget, &cluster).expect_err("one is down").message
    };
    let rest = "`budget.minHealthy` requires 2; approve this NodeFence (`spec.approval`) if these machines are really down";
    assert_eq!(
        message(&["a", "b"]),
        format!("1 of 2 nodes of the policy are Ready, {rest}")
    );
    let gone = message(&["a", "b", "c"]);
    assert!(
        gone.starts_with(
            "1 of 3 nodes of the policy are Ready (deleted by `recovery.strategy: DeleteNode` and counted as down: c; "
        ),
        "{gone}"
    );
}

#[test]
fn only_so_many_in_an_hour() {
    let nodes = [node("a", "Unknown", &[])];
    let recent = [Duration::from_secs(9_000); 3];
    let past = [Duration::from_secs(6_000); 3];
    let hour = |times: &'static [Duration; 3]| {
        move |_: &mut Budget, cluster: &mut Cluster<'_>| cluster.admissions = times
    };
    let (recent, past): (&'static _, &'static _) =
        (Box::leak(Box::new(recent)), Box::leak(Box::new(past)));
    assert_eq!(
        judge(&nodes, vec![], hour(recent), FenceMode::ConfirmOnly, false),
        "MaxPerHour"
    );
    assert_eq!(
        judge(&nodes, vec![], hour(past), FenceMode::ConfirmOnly, false),
        "admitted"
    );
}

#[test]
fn only_so_many_in_a_failure_domain() {
    let zone = |name, zone| node(name, "Unknown", &[("zone", zone)]);
    let domain = |budget: &mut Budget, _: &mut Cluster<'_>| {
        budget.max_concurrent = 10;
        budget.failure_domain = Some(FailureDomainBudget {
            topology_key: "zone".to_owned(),
            max_concurrent: 1,
        });
    };
    let same = [zone("a", "1"), zone("b", "1")];
    assert_eq!(
        judge(
            &same,
            vec![open("f-b", "b", true)],
            domain,
            FenceMode::ConfirmOnly,
            false
        ),
        "FailureDomain"
    );
    // One that waits has no place there.
    let waiting = vec![open("f-b", "b", false)];
    let judged = judge(&same, waiting, domain, FenceMode::ConfirmOnly, false);
    assert_eq!(judged, "admitted");
    let other = [zone("a", "1"), zone("b", "2")];
    assert_eq!(
        judge(
            &other,
            vec![open("f-b", "b", true)],
            domain,
            FenceMode::ConfirmOnly,
            false
        ),
        "admitted"
    );
}

/// F48: a hundred nodes, of which this many are Ready; who of the open incidents of all others may act.
fn let_through(ready: usize, approved: bool, admitted: &[&str]) -> Vec<String> {
    let name = |number: usize| format!("n{number:03}");
    let state = |number| {
        if number < 100 - ready {
            "Unknown"
        } else {
            "True"
        }
    };
    let nodes: Vec<NodeView> = (0..100)
        .map(|number| node(&name(number), state(number), &[]))
        .collect();
    let selected: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let is_admitted = |fence: &str| admitted.contains(&fence);
    let all: Vec<Open> = (0..100 - ready)
        .map(|number| open(&name(number), &name(number), is_admitted(&name(number))))
        .collect();
    let cluster = Cluster {
        nodes: &nodes,
        selected: &selected,
        open: &all,
        admissions: &[],
        own_node: None,
        cap: None,
    };
    let budget = Budget {
        max_concurrent: 2,
        ..Budget::default()
    };
    let now = Duration::from_secs(10_000);
    let may_act = |one: &&Open| {
        let judged = admit(one, FenceMode::PowerOff, approved, &budget, &cluster, now);
        !one.admitted && judged.is_ok()
    };
    let fences = all.iter().filter(may_act);
    fences.map(|one| one.fence.clone()).collect()
}

#[test]
fn of_a_hundred_dark_nodes_those_are_let_through_that_are_approved_and_else_none_until_enough_are_back()
 {
    assert_eq!(let_through(0, false, &[]), [""; 0]);
    assert_eq!(let_through(50, false, &[]), [""; 0]);
    // Each approval is about one NodeFence.
    assert_eq!(let_through(0, true, &[]).len(), 100);
    // The oldest first, and no more at a time than in any other outage.
    assert_eq!(let_through(90, false, &[]), ["n000", "n001"]);
    assert_eq!(let_through(90, false, &["n000"]), ["n001"]);
    assert_eq!(let_through(90, false, &["n000", "n001"]), [""; 0]);
}

/// A worker takes nothing from the control plane's quorum, and of five members three have to be left.
#[test]
fn quorum_is_a_majority_of_the_control_plane_and_no_matter_of_workers() {
    let members = |mine: &[(&str, &str)], ready: &[&str]| -> Vec<NodeView> {
        let others = ["b", "c", "d", "e"].iter().map(|name| {
            let status = if ready.contains(name) {
                "True"
            } else {
                "Unknown"
            };
            node(name, status, &[(CONTROL_PLANE_LABEL, "")])
        });
        let mine = node("a", "Unknown", mine);
        std::iter::once(mine).chain(others).collect()
    };
    let judged = |nodes: &[NodeView]| judge(nodes, vec![], |_, _| {}, FenceMode::PowerOff, true);
    let member: &[_] = &[(CONTROL_PLANE_LABEL, "")];
    assert_eq!(judged(&members(member, &["b", "c"])), "Quorum");
    assert_eq!(judged(&members(member, &["b", "c", "d"])), "admitted");
    assert_eq!(judged(&members(&[], &["b"])), "admitted");
}

#[test]
fn fences_of_another_policy_take_no_place_of_this_one() {
    let nodes = [node("a", "Unknown", &[]), node("b", "Unknown", &[])];
    let other = Open {
        policy: "other".to_owned(),
        ..open("f-b", "b", true)
    };
    let judged = judge(
        &nodes,
        vec![other],
        |_, _| {},
        FenceMode::ConfirmOnly,
        false,
    );
    assert_eq!(judged, "admitted");
}

#[test]
fn what_began_an_hour_ago_counts_no_more() {
    let nodes = [node("a", "Unknown", &[])];
    let hour_ago = Duration::from_secs(10_000) - HOUR;
    let began = |at: Duration| {
        let admissions = [at];
        let change = |budget: &mut Budget, cluster: &mut Cluster<'_>| {
            budget.max_per_hour = 1;
            cluster.admissions = Box::leak(Box::new(admissions));
        };
        judge(&nodes, vec![], change, FenceMode::ConfirmOnly, false)
    };
    assert_eq!(began(hour_ago), "admitted");
    assert_eq!(began(hour_ago + Duration::from_nanos(1)), "MaxPerHour");
}
