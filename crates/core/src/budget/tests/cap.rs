//! How many may be fenced in the whole cluster, and who goes first.

use super::*;

/// Incident `f-a` of policy `p` beside these, of policy `q`, where two may be under way in the cluster.
fn capped(others: Vec<Open>, change: impl Fn(&mut Budget), approved: bool) -> &'static str {
    let nodes = [node("a", "Unknown", &[]), node("b", "True", &[])];
    let others = others.into_iter().map(|other| Open {
        policy: "q".to_owned(),
        ..other
    });
    let change = |budget: &mut Budget, cluster: &mut Cluster<'_>| {
        cluster.cap = Some(2);
        change(budget);
    };
    judge(
        &nodes,
        others.collect(),
        change,
        FenceMode::PowerOff,
        approved,
    )
}

/// Of another policy, older than `f-a`, and not admitted yet.
fn older(fence: &str, waits: Option<HeldBy>) -> Open {
    Open {
        created: "e".to_owned(),
        waits,
        ..open(fence, fence, false)
    }
}

#[test]
fn the_cluster_wide_cap_counts_the_fences_of_all_policies_and_an_approval_lifts_it() {
    let running = |count: usize| {
        let names = ["f-x", "f-y", "f-z"];
        let open = names[..count].iter().map(|name| open(name, name, true));
        open.collect::<Vec<_>>()
    };
    for (count, judged) in [
        (0, "admitted"),
        (1, "admitted"),
        (2, "ClusterCap"),
        (3, "ClusterCap"),
    ] {
        assert_eq!(capped(running(count), |_| {}, false), judged, "{count}");
        assert_eq!(capped(running(count), |_| {}, true), "admitted", "{count}");
    }
    let nodes = [node("a", "Unknown", &[])];
    let many: Vec<Open> = running(3)
        .into_iter()
        .map(|other| Open {
            policy: "q".to_owned(),
            ..other
        })
        .collect();
    let judged = judge(&nodes, many, |_, _| {}, FenceMode::PowerOff, false);
    assert_eq!(judged, "admitted", "without a cap");
}

/// L5: its own policy would not let it through, so it could not begin if it had the place.
#[test]
fn only_who_waits_for_the_cluster_wide_cap_itself_goes_first_there() {
    let one_runs = || open("f-x", "x", true);
    for (waits, judged) in [
        (Some(HeldBy::ClusterCap), "ClusterCap"),
        (Some(HeldBy::MaxConcurrent), "admitted"),
        (Some(HeldBy::MinHealthy), "admitted"),
        (None, "admitted"),
    ] {
        let others = vec![one_runs(), older("f-b", waits)];
        assert_eq!(capped(others, |_| {}, false), judged, "{waits:?}");
    }
    let younger = Open {
        created: "g".to_owned(),
        ..older("f-b", Some(HeldBy::ClusterCap))
    };
    assert_eq!(capped(vec![one_runs(), younger], |_| {}, false), "admitted");
    // What the own policy says counts first: whoever is held by it does not queue for the cluster.
    let storm = |budget: &mut Budget| budget.min_healthy = MinHealthy::Count(2);
    let others = vec![one_runs(), open("f-y", "y", true)];
    assert_eq!(capped(others, storm, false), "MinHealthy");
}
