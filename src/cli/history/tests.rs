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
