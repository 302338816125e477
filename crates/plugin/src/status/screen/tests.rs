//! The screen to the last blank.

use super::*;
use crate::fences::{Warning, WarningKind};
use crate::status::{Operator, StrandedNode};
use crate::table::WIDTH;
use crate::timeline::{Kind, Moment};
use fencing_api::device_status::PowerState;
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use serde_json::json;

const SCREEN: &str = "\
Operator: node-fencing-operator-7d9c5b9f8b-x7k2p leads, its Lease was renewed 5s
ago

POLICY    MODE       NODES   PROTECTED   OPEN   HELD   BUDGET
workers   PowerOff   12      11          2      1      1
db        PowerOff   12      11          2      1      <unknown>
  db: Unprotected: 1 of 12 nodes cannot be fenced, for no FenceDevice serves it:
  worker-12

Node worker-2 (nodefence/worker-2-5c0ffee5): Held for 20s, late for 10s
  [Held] > Checking > Claiming > Quiescing > Fencing > Verifying > Tainting >
  Detaching > AwaitingRelease > Recovered
  Held: 51% of the nodes that policy workers selects have to be Ready, and 6 of
  12 are: it goes on by itself once there are more
  CONTRADICTION FenceDevice worker-2-bmc reads Off, and the kubelet has renewed
  its Lease since
Node worker-1 (nodefence/worker-1-5c0ffee5): Fencing for 20s, escalates in 25s
  Checking > Claiming > Quiescing > [Fencing] > Verifying > Tainting > Detaching
  > AwaitingRelease > Recovered
  off was sent to worker-1-bmc
";

fn at(second: u32) -> Option<Timestamp> {
    let text = format!("2027-01-02T18:00:{second:02}Z");
    Some(text.parse().expect("a time"))
}

fn incident(node: &str, stage: &str, deadline: u32, message: &str) -> Incident {
    Incident {
        denied: None,
        node: node.to_owned(),
        fence: format!("{node}-5c0ffee5"),
        policy: Some("workers".to_owned()),
        mode: FenceMode::PowerOff,
        stage: stage.to_owned(),
        stage_start_time: at(10),
        stage_deadline_time: at(deadline),
        message: message.to_owned(),
        escalated: None,
        warnings: Vec::new(),
        said: Vec::new(),
        power_readings: Vec::new(),
        approval: None,
        brake: None,
        commands: Vec::new(),
    }
}

fn policy(name: &str, ready: bool, budget_remaining: Option<u32>) -> Policy {
    Policy {
        name: name.to_owned(),
        mode: FenceMode::PowerOff,
        ready,
        reason: (!ready).then(|| "Unprotected".to_owned()),
        paused: None,
        paused_by: Vec::new(),
        message: Some(
            "Unprotected: 1 of 12 nodes cannot be fenced, for no FenceDevice serves it: worker-12"
                .to_owned(),
        ),
        selected: Some(12),
        protected: Some(11),
        open: Some(2),
        held: Some(1),
        unprotected_nodes: Vec::new(),
        budget_remaining,
    }
}

/// What people have to act on stands above everything else.
#[test]
fn a_stranded_node_leads() {
    let mut status = status();
    status.stranded = vec![StrandedNode {
        node: "worker-9".to_owned(),
        reason: "SameBoot".to_owned(),
        message: "Ready in the boot that was confirmed off".to_owned(),
    }];
    let text = screen(&status, None, false, at(30).expect("a time"));
    let lead =
        "ACTION REQUIRED: Node worker-9 (SameBoot) Ready in the boot that was confirmed\noff\n";
    assert_eq!(text.strip_prefix(lead), Some(SCREEN), "{text}");
}

fn status() -> Status {
    let waits = "Held: 51% of the nodes that policy workers selects have to be Ready, and 6 of 12 are: it goes on by itself once there are more";
    let mut late = incident("worker-2", "Held", 20, waits);
    late.warnings = vec![Warning {
        kind: WarningKind::Contradiction,
        words: "FenceDevice worker-2-bmc reads Off, and the kubelet has renewed its Lease since"
            .to_owned(),
        fact: String::new(),
    }];
    Status {
        stranded: Vec::new(),
        operator: Operator {
            leader: Some("node-fencing-operator-7d9c5b9f8b-x7k2p".to_owned()),
            renew_time: at(25),
            silent_from: None,
            unknown: None,
        },
        policies: vec![policy("workers", true, Some(1)), policy("db", false, None)],
        incidents: vec![
            late,
            incident("worker-1", "Fencing", 55, "off was sent to worker-1-bmc"),
        ],
        unfenced: Vec::new(),
        unfenced_unknown: None,
        ready: None,
        without_positive_control: None,
    }
}

#[test]
fn the_screen_fits_the_terminal_and_has_every_number_in_its_column() {
    let screen = screen(&status(), None, false, at(30).expect("a time"));
    assert_eq!(screen, SCREEN);
    assert!(screen.lines().all(|it| it.len() <= WIDTH));
}

/// Whoever has given a word sees that it was heard, and who is called is not told when they will be.
#[test]
fn what_people_and_devices_have_said_stands_with_the_incident() {
    let mut confirmed = incident(
        "worker-2",
        "Checking",
        20,
        "probing the devices of level bmc",
    );
    confirmed.escalated = Some("DeviceFailed: words".to_owned());
    confirmed.said = vec![Moment {
        kind: Kind::People,
        time: at(12).expect("a time"),
        words: "ann confirmed that the machine has no power: both cords are out".to_owned(),
    }];
    confirmed.power_readings = vec![PowerReading {
        device: "worker-2-bmc".to_owned(),
        power_state: PowerState::Unknown,
        reads: PowerOf::Machine,
        since_time: at(11).expect("a time"),
        last_on_time: at(5),
    }];
    let mut status = status();
    status.incidents = vec![confirmed];
    let told = |is_wide| screen(&status, None, is_wide, at(30).expect("a time"));
    let short = told(false);
    assert!(
        short.contains("\nNode worker-2 (nodefence/worker-2-5c0ffee5): Checking for 20s\n"),
        "{short}"
    );
    let said = "  18s ago ann confirmed that the machine has no power: both cords are out\n";
    assert!(short.ends_with(said), "{short}");
    assert!(!short.contains("READY"), "{short}");
    let wide = told(true);
    let read =
        format!("{said}  FenceDevice worker-2-bmc reads Unknown for 19s, and read On 25s ago\n");
    assert!(wide.ends_with(&read), "{wide}");
    let row = "workers   PowerOff   12      11          2      1      1           True    <none>\n";
    assert!(wide.contains(row), "{wide}");
}

/// Nobody has said that it is not ready, whatever else is said of it.
#[test]
fn whether_a_policy_is_ready_that_nobody_has_looked_at_is_not_known() {
    let mut status = status();
    status.policies.truncate(1);
    let mut ready = |reason: Option<&str>| {
        for policy in &mut status.policies {
            policy.ready = false;
            policy.reason = reason.map(str::to_owned);
        }
        let wide = screen(&status, None, true, at(30).expect("a time"));
        let row = wide.lines().find(|it| it.starts_with("workers"));
        let row = row.expect("its row").split_whitespace();
        row.skip(7).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ready(None), ["<unknown>", "<none>"]);
    assert_eq!(ready(Some("Unprotected")), ["False", "Unprotected"]);
}

#[test]
fn where_nobody_works_and_nothing_is_protected_that_is_said() {
    let nothing = Status {
        stranded: Vec::new(),
        operator: Operator {
            leader: None,
            renew_time: None,
            silent_from: None,
            unknown: Some("no replica has the Lease".to_owned()),
        },
        policies: Vec::new(),
        incidents: Vec::new(),
        unfenced: Vec::new(),
        unfenced_unknown: None,
        ready: None,
        without_positive_control: None,
    };
    let now = at(30).expect("a time");
    assert_eq!(
        screen(&nothing, None, false, now),
        "\
Operator: no replica has the Lease

No policy: no node is protected (see `kubectl explain nodefencingpolicy`)

No incident is open
"
    );
    let of_node = screen(&nothing, Some(&"worker-1".into()), false, now);
    assert!(of_node.contains("No policy governs worker-1"), "{of_node}");
    assert!(
        of_node.ends_with("No incident of worker-1 is open\n"),
        "{of_node}"
    );
}

#[test]
fn who_is_not_protected_is_named_and_of_many_the_first() {
    let told = |names: &[&str]| {
        let of = json!({
            "metadata": {"name": "workers"},
            "spec": {"nodeSelector": {}},
            "status": {"unprotectedNodes": names, "nodes": {
                "selected": 9, "healthy": 9, "unhealthy": 0, "protected": 9 - names.len(), "unprotected": names.len(),
            }},
        });
        let of: NodeFencingPolicy = serde_json::from_value(of).expect("a policy");
        bare(&crate::status::policy(&of, &[], at(30).expect("a time")))
    };
    assert_eq!(told(&[]), "");
    let one = told(&["worker-3"]);
    assert!(one.contains("workers: not protected: worker-3;"), "{one}");
    let many = told(&["a", "b", "c", "d", "e", "f", "g"]);
    assert!(many.contains("a, b, c, d, e and 2 more;"), "{many}");
    // No node is named twice, and none is taken for another whose name it begins with.
    let mut said = policy("db", false, None);
    said.unprotected_nodes = vec!["worker-12".to_owned()];
    assert_eq!(bare(&said), "");
    said.unprotected_nodes = vec!["worker-1".to_owned()];
    assert!(bare(&said).contains("not protected: worker-1;"));
}
