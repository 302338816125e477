//! Each rule of the report, by what happens without it.

use super::*;
use crate::fixtures;
use serde_json::{Value, json};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const NOW: Duration = Duration::from_millis(113_000);

fn node() -> NodeView {
    let mut node = fixtures::node();
    for condition in &mut node.conditions {
        if condition.kind == "Ready" {
            condition.status = "True".to_owned();
            condition.heartbeat = "2026-11-30T03:59:55Z".to_owned();
        }
    }
    node
}

fn brakes() -> Brakes<'static> {
    Brakes {
        own_node: Some("worker-9"),
        suspects: 1,
        limit: 1,
        others_renew: true,
        had_its_turn: false,
    }
}

fn off(device: &str) -> DeviceSaid {
    DeviceSaid {
        device: device.to_owned(),
        was_asked: true,
        reads_on: false,
        off: Some(Off {
            first: Duration::from_millis(112_100),
            last: Duration::from_millis(112_700),
            on_before: Some(seconds(90)),
        }),
    }
}

/// The case in which it is reported, changed.
fn judged(change: impl FnOnce(&mut Case)) -> Result<Verdict, Obstacle> {
    let mut case = Case {
        node: node(),
        lease: lease("1"),
        renewal: Renewal {
            time: "1".to_owned(),
            seen: seconds(100),
            lasts: seconds(40),
        },
        levels: vec![LevelSaid {
            require: Require::All,
            devices: vec![off("bmc")],
        }],
        port_is_silent: true,
        brakes: brakes(),
        now: NOW,
    };
    change(&mut case);
    let suspect = Suspect {
        node: &case.node,
        lease: &case.lease,
        renewal: &case.renewal,
        levels: &case.levels,
        port_is_silent: case.port_is_silent,
    };
    judge(&suspect, &case.brakes, case.now)
}

struct Case {
    node: NodeView,
    lease: LeaseView,
    renewal: Renewal,
    levels: Vec<LevelSaid>,
    port_is_silent: bool,
    brakes: Brakes<'static>,
    now: Duration,
}

fn lease(time: &str) -> LeaseView {
    LeaseView {
        renew_time: time.to_owned(),
    }
}

fn device(case: &mut Case) -> &mut DeviceSaid {
    &mut case.levels[0].devices[0]
}

fn seen_off(case: &mut Case) -> &mut Off {
    device(case).off.as_mut().expect("it reads Off")
}

#[test]
fn a_machine_that_reads_off_twice_beside_a_silent_kubelet_is_reported() {
    let verdict = judged(|_| {}).expect("nothing speaks against it");
    assert_eq!(verdict.valid_until(), Duration::from_millis(117_700));
}

fn name() -> String {
    "worker-1".to_owned()
}

fn refused(change: fn(&mut Case)) -> Obstacle {
    judged(change).expect_err("something speaks against it")
}

/// S24: whatever says that the kubelet lives, or keeps the operator from asking.
#[test]
fn what_speaks_against_a_report_refuses_it() {
    let ready = |case: &mut Case, status: &str| {
        for condition in &mut case.node.conditions {
            status.clone_into(&mut condition.status);
        }
    };
    assert_eq!(
        judged(|it| ready(it, "Unknown")).expect_err("not Ready"),
        Obstacle::NotReady(name())
    );
    assert_eq!(
        refused(|it| it.node.boot_id.clear()),
        Obstacle::NeverReported(name())
    );
    assert_eq!(
        refused(|it| it.node.conditions.clear()),
        Obstacle::NeverReported(name())
    );
    assert_eq!(
        refused(|it| it.brakes.own_node = Some("worker-1")),
        Obstacle::OwnNode(name())
    );
    assert_eq!(
        refused(|it| it.brakes.had_its_turn = true),
        Obstacle::HadItsTurn(name())
    );
    assert_eq!(
        refused(|it| it.brakes.others_renew = false),
        Obstacle::NoneRenews(name())
    );
    let many = Obstacle::TooMany {
        suspects: 2,
        limit: 1,
    };
    assert_eq!(refused(|it| it.brakes.suspects = 2), many);
    for label in CONTROL_PLANE {
        let labelled = judged(|it| {
            it.node.labels.insert(label.to_owned(), String::new());
        });
        assert_eq!(
            labelled.expect_err("it is refused"),
            Obstacle::ControlPlane(name())
        );
    }
    assert_eq!(
        refused(|it| it.lease = lease("2")),
        Obstacle::Renewed(name())
    );
    assert_eq!(
        refused(|it| it.renewal.seen = seconds(102)),
        Obstacle::Renewed(name())
    );
    assert_eq!(
        refused(|it| it.port_is_silent = false),
        Obstacle::PortNotSilent(name())
    );
}

/// S24: whatever does not say that the machine is off.
#[test]
fn devices_that_do_not_read_off_refuse_a_report() {
    assert_eq!(refused(|it| it.levels.clear()), Obstacle::NotOff(name()));
    assert_eq!(
        refused(|it| it.levels[0].devices.clear()),
        Obstacle::NotOff(name())
    );
    assert_eq!(
        refused(|it| device(it).off = None),
        Obstacle::NotOff(name())
    );
    assert_eq!(
        refused(|it| device(it).reads_on = true),
        Obstacle::ReadsOn(name(), "bmc".to_owned())
    );
    // Once, or twice at the same moment.
    assert_eq!(
        refused(|it| seen_off(it).first = Duration::from_millis(112_300)),
        Obstacle::NotOff(name())
    );
    // It may have been off and on again since.
    assert_eq!(
        refused(|it| seen_off(it).first = seconds(99)),
        Obstacle::NotOff(name())
    );
    assert_eq!(
        refused(|it| it.now = seconds(118)),
        Obstacle::NotOff(name())
    );
    // A BMC that is stuck, or another machine's.
    assert_eq!(
        refused(|it| seen_off(it).on_before = None),
        Obstacle::NotOff(name())
    );
    assert_eq!(
        refused(|it| seen_off(it).on_before = Some(seconds(37))),
        Obstacle::NotOff(name())
    );
    assert_eq!(
        refused(|it| seen_off(it).on_before = Some(seconds(113))),
        Obstacle::NotOff(name())
    );
}

#[test]
fn a_level_reads_off_as_its_devices_are_required_to() {
    let silent = || DeviceSaid {
        off: None,
        ..off("pdu")
    };
    let on = || DeviceSaid {
        reads_on: true,
        ..silent()
    };
    for (require, second, expected) in [
        (Require::All, off("pdu"), true),
        (Require::All, silent(), false),
        (Require::All, on(), false),
        (Require::Any, off("pdu"), true),
        (Require::Any, silent(), true),
        // S4: one of two that reads On says that the machine runs.
        (Require::Any, on(), false),
    ] {
        let said = judged(|case| {
            case.levels[0].require = require;
            case.levels[0].devices.push(second.clone());
        });
        assert_eq!(said.is_ok(), expected, "{require:?} {second:?}");
    }
    // The next level has its turn.
    let next = judged(|case| {
        case.levels.insert(
            0,
            LevelSaid {
                require: Require::All,
                devices: vec![silent()],
            },
        );
    });
    assert!(next.is_ok());
    // S4: nor does one of another level read On.
    let other = judged(|case| {
        case.levels.push(LevelSaid {
            require: Require::All,
            devices: vec![on()],
        });
    });
    let on = Obstacle::ReadsOn("worker-1".to_owned(), "pdu".to_owned());
    assert_eq!(other.expect_err("one reads On"), on);
    // Nor may one that is slower do so yet.
    let slower = judged(|case| {
        let unasked = DeviceSaid {
            was_asked: false,
            ..silent()
        };
        case.levels.push(LevelSaid {
            require: Require::All,
            devices: vec![unasked],
        });
    });
    let unasked = Obstacle::NotAsked("worker-1".to_owned(), "pdu".to_owned());
    assert_eq!(slower.expect_err("one has said nothing"), unasked);
}

#[test]
fn the_write_tests_all_that_it_rests_on_and_leaves_the_heartbeat_alone() {
    let verdict = judged(|_| {}).expect("nothing speaks against it");
    let mut node = node();
    node.conditions.insert(
        0,
        crate::observed::ConditionView {
            kind: "MemoryPressure".to_owned(),
            status: "False".to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        },
    );
    let says = "FenceDevice bmc reads Off";
    let patch = mark::unknown(&node, says, "2026-11-30T04:00:08Z", &verdict).expect("a patch");
    assert_eq!(patch.valid_until, Some(verdict.valid_until()));
    let message =
        "FenceDevice bmc reads Off, and the kubelet is silent: reported by node-fencing-operator";
    let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
    let set = |path: &str, value: &str| json!({"op": "add", "path": path, "value": value});
    let expected: Vec<Value> = vec![
        test("/metadata/uid", "uid-1"),
        test("/status/nodeInfo/bootID", "boot-1"),
        test("/status/conditions/1/type", "Ready"),
        test("/status/conditions/1/status", "True"),
        test(
            "/status/conditions/1/lastHeartbeatTime",
            "2026-11-30T03:59:55Z",
        ),
        set("/status/conditions/1/status", "Unknown"),
        set("/status/conditions/1/reason", "PoweredOff"),
        set("/status/conditions/1/message", message),
        set(
            "/status/conditions/1/lastTransitionTime",
            "2026-11-30T04:00:08Z",
        ),
    ];
    assert_eq!(patch.operations, Value::Array(expected));
    node.conditions.truncate(1);
    assert!(mark::unknown(&node, says, "2026-11-30T04:00:08Z", &verdict).is_none());
}
