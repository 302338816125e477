//! What a policy may still change about a fence that runs, and what the record says of the time before.

use super::*;
use crate::shell::fake::Cluster;
use serde_json::{Value, json};

mod others;
mod windows;

fn fence(mode: &str, reads: u32) -> NodeFence {
    let spec = json!({
        "nodeName": "worker-1",
        "policyName": "prod",
        "policyGeneration": 1,
        "trigger": {"type": "NodeCondition"},
        "fence": {"mode": mode, "verification": {"consecutiveOffReads": reads}},
        "recovery": {}, "release": {}, "powerOn": {},
    });
    NodeFence::new(
        "worker-1-abcd",
        serde_json::from_value(spec).expect("a spec"),
    )
}

fn policy(mode: &str) -> NodeFencingPolicy {
    let selector = json!({"matchLabels": {"rack": "7"}});
    let spec = json!({"nodeSelector": selector, "fence": {"mode": mode}});
    let spec = serde_json::from_value(spec).expect("a spec");
    let mut policy = NodeFencingPolicy::new("prod", spec);
    policy.metadata.generation = Some(1);
    policy
}

fn node(rack: &str) -> NodeView {
    NodeView {
        labels: [("rack".to_owned(), rack.to_owned())].into(),
        ..fencing_core::fixtures::node()
    }
}

/// As the settings ask it.
fn stops(
    fence: &NodeFence,
    status: &NodeFenceStatus,
    node: Option<&NodeView>,
    live: Option<&Live<'_>>,
) -> Option<String> {
    let begun = node.map(|node| begun(fence, status, node));
    stop(fence, node, live, begun)
}

#[test]
fn a_policy_only_ever_stops_a_fence_that_runs() {
    // The frozen mode, the policy as it is now, the node's rack, and whether the fence goes on.
    let table = [
        ("PowerOff", Some("PowerOff"), "7", true),
        ("PowerOff", Some("ConfirmOnly"), "7", false),
        ("PowerOff", Some("Observe"), "7", false),
        ("ConfirmOnly", Some("PowerOff"), "7", true),
        ("ConfirmOnly", Some("Observe"), "7", false),
        ("PowerOff", Some("PowerOff"), "8", false),
        ("PowerOff", None, "7", false),
    ];
    for (frozen, live, rack, goes_on) in table {
        let live = live.map(policy);
        let status = NodeFenceStatus::default();
        let now = Timestamp::UNIX_EPOCH;
        let live = live.as_ref().map(|policy| Live::at(policy, now));
        let stopped = stops(&fence(frozen, 3), &status, Some(&node(rack)), live.as_ref());
        assert_eq!(stopped.is_none(), goes_on, "{frozen} {rack}: {stopped:?}");
    }
}

/// L3: a record that only observes would keep its policy from fencing the node for as long as the outage lasts.
#[test]
fn what_only_observes_ends_when_its_policy_is_edited() {
    // The frozen mode, the policy's mode and generation as they are now, and whether it goes on.
    let table = [
        ("Observe", "PowerOff", 2, false),
        ("Observe", "Observe", 2, false),
        ("Observe", "Observe", 1, true),
        ("ConfirmOnly", "PowerOff", 2, true),
    ];
    for (frozen, mode, generation, goes_on) in table {
        let mut policy = policy(mode);
        policy.metadata.generation = Some(generation);
        let live = Live::at(&policy, Timestamp::UNIX_EPOCH);
        let status = NodeFenceStatus::default();
        let stopped = stops(&fence(frozen, 3), &status, Some(&node("7")), Some(&live));
        assert_eq!(
            stopped.is_none(),
            goes_on,
            "{frozen} {mode} {generation}: {stopped:?}"
        );
    }
}

#[tokio::test]
async fn a_fence_that_runs_keeps_its_own_mode_and_two_readings_at_least() {
    let context = Cluster::new().await.context();
    let resolved = |fence: &NodeFence| {
        let status = NodeFenceStatus::default();
        let devices = (context.devices.as_ref(), &[][..]);
        let policy = policy("PowerOff");
        let record = Record::default();
        settings(
            fence,
            &status,
            Some(&node("7")),
            Some(&Live::at(&policy, Timestamp::UNIX_EPOCH)),
            devices,
            &record,
            Moments {
                not_before: Duration::ZERO,
                word_given: None,
                word_is_ahead: false,
            },
        )
    };
    for (asked, read) in [(0, 2), (1, 2), (2, 2), (5, 5)] {
        let settings = resolved(&fence("ConfirmOnly", asked));
        assert_eq!(settings.mode(), FenceMode::ConfirmOnly);
        assert_eq!(settings.verification.off_reads_min, read);
        let gaps = u32::try_from(read - 1).expect("a small number");
        assert_eq!(settings.verification.window, settings.read_period * gaps);
    }
}

/// Numbers that are nobody's default.
#[tokio::test]
async fn the_times_of_a_level_and_of_its_readings_are_those_of_the_policy() {
    let context = Cluster::new().await.context();
    let mut fence = fence("PowerOff", 4);
    let verification =
        json!({"consecutiveOffReads": 4, "readPeriodSeconds": 7, "lateEffectSeconds": 91});
    fence.spec.procedure.fence.verification =
        serde_json::from_value(verification).expect("a verification");
    let level =
        json!({"name": "odd", "attempts": 9, "retryPeriodSeconds": 17, "timeoutSeconds": 333});
    fence.spec.procedure.fence.levels = vec![serde_json::from_value(level).expect("a level")];
    let moments = Moments {
        not_before: Duration::ZERO,
        word_given: None,
        word_is_ahead: false,
    };
    let devices = (context.devices.as_ref(), &[][..]);
    let (status, record) = (NodeFenceStatus::default(), Record::default());
    let settings = settings(&fence, &status, None, None, devices, &record, moments);
    let seconds = Duration::from_secs;
    assert_eq!(settings.read_period, seconds(7));
    assert_eq!(settings.verification.window, seconds(21));
    assert_eq!(settings.late_effect(), seconds(91));
    let level = &settings.levels[0];
    assert_eq!(level.attempts_max, 9);
    assert_eq!(level.retry_period, seconds(17));
    assert_eq!(level.timeout, seconds(333));
}

/// A FenceDevice of `worker-1`: `by-hand` is nobody's but a human's.
fn device(name: &str) -> FenceDevice {
    let driver = match name {
        "by-hand" => json!({"manual": {}}),
        _ => json!({"redfish": {"address": "https://192.0.2.7", "systemID": "1"}}),
    };
    let mut spec = json!({"nodeName": "worker-1"});
    json_patch::merge(&mut spec, &driver);
    FenceDevice::new(name, serde_json::from_value(spec).expect("a spec"))
}

/// S21: a word beside a device that is off would be spared the question whether another one reads on.
#[tokio::test]
async fn a_word_stands_in_a_level_of_its_own_or_not_at_all() {
    let context = Cluster::new().await.context();
    let level = |require: &str, names: &[&str]| {
        let level = json!({"name": "level", "require": require});
        let devices: Vec<FenceDevice> = names.iter().map(|name| device(name)).collect();
        let level = resolve_level(
            &serde_json::from_value(level).expect("a level"),
            Some(&node("7")),
            None,
            (context.devices.as_ref(), &devices),
        );
        let names = level.devices.iter().map(|device| device.name.clone());
        (names.collect::<Vec<_>>(), level.is_manual())
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    for require in ["All", "Any"] {
        assert_eq!(level(require, &["bmc"]), (names(&["bmc"]), false));
        assert_eq!(level(require, &["by-hand"]), (names(&["by-hand"]), true));
    }
    assert_eq!(level("All", &["bmc", "by-hand"]), (names(&[]), false));
    assert_eq!(level("Any", &["bmc", "by-hand"]), (names(&["bmc"]), false));
}

/// A clock that is a little apart is forgiven; a word of tomorrow would be a word of now after each restart until then.
#[test]
fn a_word_of_the_future_is_known_for_one() {
    let now = Now {
        boot: Duration::from_secs(100),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    for (seconds, is_ahead) in [(-900, false), (0, false), (60, false), (61, true)] {
        let time = jiff::Timestamp::from_second(seconds).expect("a second");
        let mut fence = fence("ConfirmOnly", 2);
        let word = json!({
            "statement": "IVerifiedTheNodeIsPoweredOff", "user": "alice", "reason": "dark", "nodeUID": "uid-1", "time": time,
        });
        fence.spec.manual_confirmation = Some(serde_json::from_value(word).expect("a word"));
        let mut moments = Moments {
            not_before: Duration::ZERO,
            word_given: None,
            word_is_ahead: false,
        };
        moments.listen(&fence, now);
        assert!(moments.word_given.is_some());
        assert_eq!(moments.word_is_ahead, is_ahead, "{seconds} s");
        let word = super::word(&fence, moments).expect("a word");
        assert_eq!(word.is_ahead, is_ahead, "{seconds} s");
    }
}

/// Under the claim they would wait for each other's turn until time is up, and nobody would know why.
#[tokio::test]
async fn two_devices_that_are_one_are_not_both_believed_by_a_level_that_needs_both() {
    let context = Cluster::new().await.context();
    let refused = |require: &str, systems: [&str; 2]| {
        let devices: Vec<FenceDevice> = ["bmc-1", "bmc-2"]
            .into_iter()
            .zip(systems)
            .map(|(name, system)| {
                let mut device = device(name);
                if let Some(redfish) = &mut device.spec.drivers.redfish {
                    redfish.system_id = Some(system.to_owned());
                }
                device
            })
            .collect();
        let level = json!({"name": "both", "require": require});
        let level = resolve_level(
            &serde_json::from_value(level).expect("a level"),
            Some(&node("7")),
            None,
            (context.devices.as_ref(), &devices),
        );
        let said = level
            .devices
            .iter()
            .filter_map(|device| match &device.identity {
                IdentityRule::Refused(words) => Some(words.clone()),
                _ => None,
            });
        said.filter(|words| words.contains("may be the same"))
            .collect::<Vec<_>>()
    };
    let said = refused("All", ["1", "1"]);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("FenceDevice bmc-1 and bmc-2"), "{said:?}");
    assert!(refused("All", ["1", "2"]).is_empty());
    assert!(refused("Any", ["1", "1"]).is_empty());
}

/// A NodeFence, changed like this, that asks for a power-on.
fn turning_on(changes: serde_json::Value) -> NodeFence {
    let mut fence = serde_json::to_value(fence("PowerOff", 3)).expect("an object");
    fence["spec"]["powerOn"] = json!({"policy": "AfterRecovery", "delaySeconds": 7});
    json_patch::merge(&mut fence["spec"], &changes);
    serde_json::from_value(fence).expect("a NodeFence")
}

fn asking_policy(power_on: &str) -> NodeFencingPolicy {
    let mut policy = policy("PowerOff");
    let settings = json!({"policy": power_on});
    policy.spec.procedure.power_on = serde_json::from_value(settings).expect("settings");
    policy
}

/// S15: an edit, a deletion or a human's no stops it, and nothing that comes later asks for it.
#[test]
fn whatever_speaks_against_a_power_on_stops_it() {
    let asks = asking_policy("AfterRecovery");
    let wanted = |fence: &NodeFence, rack: &str, policy: Option<&NodeFencingPolicy>| {
        power_on(fence, Some(&node(rack)), policy, clock::wall())
    };
    let plain = wanted(&turning_on(json!({})), "7", Some(&asks)).expect("wanted");
    assert_eq!((plain.delay, &plain.stop), (Duration::from_secs(7), &None));
    assert_eq!(
        wanted(&fence("PowerOff", 3), "7", Some(&asks)),
        None,
        "Never"
    );
    let denied = json!({"approval": {
        "decision": "Denied", "user": "alice", "reason": "mine", "time": "2026-01-01T00:00:00Z",
    }});
    let narrowed = policy("ConfirmOnly");
    let never = asking_policy("Never");
    for (changes, rack, live, word) in [
        (
            json!({"desiredState": "Released"}),
            "7",
            Some(&asks),
            "Released",
        ),
        (denied, "7", Some(&asks), "alice"),
        (json!({}), "7", None, "deleted"),
        (json!({}), "8", Some(&asks), "no longer selects"),
        (json!({}), "7", Some(&narrowed), "narrowed"),
        (json!({}), "7", Some(&never), "is Never now"),
    ] {
        let fence = turning_on(changes);
        let stop = wanted(&fence, rack, live).expect("wanted").stop;
        let words = stop.unwrap_or_else(|| panic!("it goes on: {word}"));
        assert!(words.contains(word), "{words}");
    }
    // A human's NodeFence asks no policy, and is heard all the same.
    let human = json!({"trigger": {"type": "Manual", "requestedBy": "alice", "reason": "dark"}});
    let human = turning_on(human);
    assert_eq!(wanted(&human, "7", None).expect("wanted").stop, None);
    let cordoned = NodeView {
        unschedulable: true,
        ..node("7")
    };
    let held = power_on(&human, Some(&cordoned), None, clock::wall());
    assert!(held.expect("wanted").hold.is_some());
}

/// S15: what the policy says by now may make it wait, and may not let it skip anything.
#[tokio::test]
async fn an_early_incident_of_a_policy_that_waits_by_now_waits() {
    let context = Cluster::new().await.context();
    let is_early = |early: Option<u32>, says: DurationPolicy| {
        let mut fence = fence("PowerOff", 2);
        fence.spec.trigger.early_seconds = early;
        let mut policy = policy("PowerOff");
        policy.spec.duration_policy = says;
        let (status, record) = (NodeFenceStatus::default(), Record::default());
        let moments = Moments {
            not_before: Duration::ZERO,
            word_given: None,
            word_is_ahead: false,
        };
        let live = Live::at(&policy, Timestamp::UNIX_EPOCH);
        let devices = (context.devices.as_ref(), &[][..]);
        let settings = settings(
            &fence,
            &status,
            None,
            Some(&live),
            devices,
            &record,
            moments,
        );
        settings.claims_off_early
    };
    assert!(is_early(Some(43), DurationPolicy::SkipIfOff));
    assert!(!is_early(Some(43), DurationPolicy::Wait));
    assert!(!is_early(None, DurationPolicy::SkipIfOff));
}
