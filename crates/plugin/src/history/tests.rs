//! The tables to the last blank.

use super::*;

const SHORT: &str = "\
NODE       INCIDENT            STAGE             TOOK     AGE
worker-1   worker-1-5c0ffee5   Recovered         3m10s    2d
w          w-now-x7k2p         AwaitingRelease   <none>   2d1h
";
const WIDE: &str = "\
NODE       INCIDENT            POLICY    STAGE             TOOK     DETACHED   ATTEMPTS   AGE    MESSAGE
worker-1   worker-1-5c0ffee5   workers   Recovered         3m10s    2          1          2d     the node is back
w          w-now-x7k2p         <none>    AwaitingRelease   <none>   <none>     <none>     2d1h   the machine is read once more
";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn history() -> History {
    let ended = Incident {
        node: "worker-1".to_owned(),
        fence: "worker-1-5c0ffee5".to_owned(),
        policy: Some("workers".to_owned()),
        stage: "Recovered".to_owned(),
        message: "the node is back".to_owned(),
        began: Some(at("2027-01-02T18:00:00Z")),
        completion_time: Some(at("2027-01-02T18:03:10Z")),
        seconds: Some(190),
        volumes_detached: Some(2),
        attempts: Some(1),
    };
    let open = Incident {
        node: "w".to_owned(),
        fence: "w-now-x7k2p".to_owned(),
        policy: None,
        stage: "AwaitingRelease".to_owned(),
        message: "the machine is read once more".to_owned(),
        began: Some(at("2027-01-02T17:00:00Z")),
        completion_time: None,
        seconds: None,
        volumes_detached: None,
        attempts: None,
    };
    History {
        incidents: vec![ended, open],
    }
}

#[test]
fn the_tables_have_each_incident_on_a_line_and_each_fact_in_its_column() {
    let now = at("2027-01-04T18:00:00Z");
    let short = short(&history(), now);
    assert_eq!(short, SHORT);
    assert_eq!(wide(&history(), now), WIDE);
    assert!(
        short
            .lines()
            .all(|it| it.len() <= super::super::table::WIDTH)
    );
}

#[test]
fn a_name_that_nobody_knows_is_refused_and_one_without_incidents_is_not() {
    let fence = serde_json::json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "worker-1-5c0ffee5"},
        "spec": {"nodeName": "worker-1", "trigger": {"type": "Manual"}},
    });
    let fences: [NodeFence; 1] = [serde_json::from_value(fence).expect("a NodeFence")];
    let told = |node: &str, is_there| told_of(node, is_there, &fences);
    let none = "No incidents of node worker-2 found";
    assert_eq!(told("worker-2", Ok(true)), Ok(none.to_owned()));
    // Whoever may not read Nodes is not told that there is none.
    let unknown = told("worker-2", Err("nodes is forbidden".to_owned())).expect("not refused");
    assert!(unknown.starts_with(none), "{unknown}");
    assert!(
        unknown.ends_with("could not be read: nodes is forbidden"),
        "{unknown}"
    );
    let refused = told("wroker-1", Ok(false)).expect_err("a typo");
    assert!(refused.contains("no Node `wroker-1`"), "{refused}");
    assert!(refused.contains("`kubectl get nodes`"), "{refused}");
    let refused = told("worker-1-5c0ffee5", Ok(false)).expect_err("an incident");
    assert!(
        refused.contains("`kubectl fence history worker-1`"),
        "{refused}"
    );
}
