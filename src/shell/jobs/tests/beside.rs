//! What is asked beside the readings of a level: the kubelet's port, and the devices of the other levels. None of it may be left
//! out, and none of it may hold the readings up until they are too old.

use super::*;
use fencing_core::device::DeviceReadings;
use fencing_core::verification::Require;
use std::collections::BTreeMap;

/// Longer than any of this can take.
const LONG: Duration = Duration::from_secs(3600);

const BY_HAND: &str = "manualConfirmation";
const OTHER_MACHINE: &str = "99999999-2222-4333-8444-555555555555";

/// The incident of a node that these devices serve, each in a level of its own; the first is the one to be read.
fn settings_of(devices: &[&str]) -> Settings {
    let level = |name: &&str| {
        let mut level = fixtures::level();
        level.name = format!("level of {name}");
        level.devices[0].name = (*name).to_owned();
        level.devices[0].manual = *name == BY_HAND;
        level
    };
    let now = crate::shell::detect::now();
    Settings {
        levels: devices.iter().map(level).collect(),
        confirmation: Some(ManualConfirmation {
            user: "alice".to_owned(),
            node_uid: "uid-1".to_owned(),
            given: fencing_core::delay::Since::at(now.wall, now),
            is_ahead: false,
        }),
        ..fixtures::settings()
    }
}

/// What the reads of the first level bring home.
struct Read {
    readings: Vec<DeviceReadings>,
    others: Vec<DeviceReadings>,
    kubelet_answers: Option<bool>,
}

impl Read {
    /// Names of the devices that had their say beside the level's.
    fn heard(&self) -> Vec<&str> {
        let others = self.others.iter();
        let others = others.filter(|it| !it.readings.is_empty());
        others.map(|other| other.device.as_str()).collect()
    }
}

/// Reads the first level; the others' devices are waited for so long once it reads off.
async fn read(lab: &Lab, settings: Settings, grace: Duration) -> Read {
    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::ReadPower,
        level: settings.levels[0].clone(),
        limit: Duration::from_secs(10),
        settings,
        claim: None,
    };
    let window = Duration::from_millis(20);
    match readings::of_level(&lab.context, &job, window, grace).await {
        DeviceReply::Confirmed {
            readings,
            others,
            kubelet_answers,
            ..
        } => Read {
            readings,
            others,
            kubelet_answers,
        },
        other => panic!("{other:?}"),
    }
}

/// S22: a knock takes its time, which would come on top of the readings'.
#[tokio::test]
async fn what_becomes_of_a_knock_is_known_when_the_last_reading_is_there() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let port = port.expect("a port");
    let number = port.local_addr().expect("an address").port();
    let lab = Lab::new().await;
    let mut node = fake::node();
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "127.0.0.1"}]);
    node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": number}});
    lab.cluster.put(NODE, 200, node);
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    let table = [
        ("bmc", FenceMode::ConfirmOnly, Some(true)),
        ("bmc", FenceMode::PowerOff, Some(true)),
        (BY_HAND, FenceMode::ConfirmOnly, Some(true)),
        (BY_HAND, FenceMode::PowerOff, Some(true)),
    ];
    for (device, mode, expected) in table {
        let settings =
            fencing_core::fixtures::asking(settings_of(&[device]), |it| it.fence.mode = mode);
        let read = read(&lab, settings, LONG).await;
        assert_eq!(read.kubelet_answers, expected, "{device} {mode:?}");
    }
}

/// S22: the outlet that was switched off may be another machine's.
#[tokio::test]
async fn the_devices_of_other_levels_are_asked_once_the_level_reads_off() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    let settings = settings_of(&["bmc", "bmc-2", "gone"]);
    let heard = read(&lab, settings, LONG).await;
    assert_eq!(
        heard.heard(),
        ["bmc-2"],
        "one that was deleted says nothing"
    );
}

/// A slower device is waited for: what it says may be the only word against a level that was read in no time.
#[tokio::test]
async fn a_device_that_answers_after_the_level_was_read_is_still_heard() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    lab.cluster
        .delay("GET /redfish/v1/Systems/2", Duration::from_millis(500));
    let settings = || settings_of(&["bmc", "bmc-2"]);
    assert_eq!(read(&lab, settings(), LONG).await.heard(), ["bmc-2"]);
    // Nobody is waited for where nothing could be proven anyway.
    lab.cluster.put(SYSTEM, 200, system("On", OTHER_MACHINE));
    let unheard = timeout(Duration::from_secs(60), read(&lab, settings(), LONG));
    let unheard = unheard.await.expect("no wait for the other device");
    assert_eq!(unheard.heard(), [""; 0]);
}

/// S22: what one device says is noted when it is said. Another one that hangs neither silences it nor holds the readings up until
/// they are too old for a proof.
#[tokio::test]
async fn a_device_that_hangs_silences_no_other_and_is_not_waited_for() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    let settings = settings_of(&["bmc", "hung", "bmc-2"]);
    let begun = clock::since_boot();
    let read = read(&lab, settings, Duration::from_secs(5)).await;
    let took = clock::since_boot().saturating_sub(begun);
    assert_eq!(read.heard(), ["bmc-2"]);
    // That the one which hangs was asked is known.
    let asked: Vec<_> = read.others.iter().map(|it| it.readings.first()).collect();
    let states: Vec<_> = asked.iter().map(|it| it.map(|it| it.state)).collect();
    assert_eq!(states, [None, Some(PowerState::On)]);
    assert!(
        took < LOOK_TIMEOUT,
        "it waited for the one that hangs: {took:?}"
    );
}

/// S4: what one of the looks says is not said over by the other.
#[tokio::test]
async fn each_look_of_a_device_that_two_levels_have_stands_by_itself() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    let settings = settings_of(&["bmc", "bmc-2", "bmc-2"]);
    let read = read(&lab, settings, Duration::from_secs(5)).await;
    assert_eq!(read.heard(), ["bmc-2", "bmc-2"]);
    assert!(read.others.iter().all(|it| it.readings.len() == 1));
}

/// Where one device is enough, a look does not wait to the end for one that hangs; where all are needed, it has to.
#[tokio::test]
async fn a_look_waits_for_a_device_that_hangs_only_where_all_are_needed() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    lab.cluster
        .delay("GET /redfish/v1/Systems/2", Duration::from_millis(500));
    let mut settings = settings_of(&["bmc", "bmc-2"]);
    let second = settings.levels.pop().expect("two levels").devices;
    settings.levels[0].devices.extend(second);
    for (require, heard) in [(Require::Any, [true, false]), (Require::All, [true, true])] {
        settings.levels[0].require = require;
        let job = Job {
            lease: None,
            heard: Heard::default(),
            early: None,
            order: DeviceOrder::ReadPower,
            level: settings.levels[0].clone(),
            limit: Duration::from_secs(10),
            settings: settings.clone(),
            claim: None,
        };
        let answers = readings::answers(&lab.context, &job, Duration::ZERO).await;
        let answered = answers.iter().map(|sight| sight.reading.is_ok());
        assert_eq!(
            answered.collect::<Vec<_>>(),
            heard,
            "{require:?}: {answers:?}"
        );
    }
}

/// S21: the word is what is asked for last, and every device is waited for, however long it takes: the word does not grow old.
#[tokio::test]
async fn beside_a_human_s_word_every_device_is_asked_first_and_to_the_end() {
    let lab = Lab::new().await;
    lab.cluster
        .delay("GET /redfish/v1/Systems/2", Duration::from_millis(500));
    let settings = settings_of(&[BY_HAND, "bmc-2"]);
    let refuted = read(&lab, settings.clone(), Duration::ZERO).await;
    assert_eq!(refuted.heard(), ["bmc-2"]);
    assert_eq!(refuted.others[0].readings[0].state, PowerState::On);
    // The word is not even read, and the try has failed like any other: with an entry for each of its devices.
    let [by_hand] = refuted.readings.as_slice() else {
        panic!("{:?}", refuted.readings);
    };
    assert_eq!(by_hand.readings, []);

    lab.cluster.put(
        "GET /redfish/v1/Systems/2",
        200,
        system("Off", OTHER_MACHINE),
    );
    let read = read(&lab, settings.clone(), Duration::ZERO).await;
    assert_eq!(read.heard(), ["bmc-2"]);
    let said = &read.others[0].readings[0];
    let first = &read.readings[0].readings[0];
    assert_eq!(
        (said.state, first.state),
        (PowerState::Off, PowerState::Off)
    );
    assert!(said.answered <= first.asked, "{said:?} {first:?}");
    lab.cluster
        .put("GET /redfish/v1/Systems/2", 200, system("On", MACHINE));

    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::ReadPower,
        level: settings.levels[0].clone(),
        limit: Duration::from_secs(10),
        settings,
        claim: None,
    };
    let DeviceReply::PowerRead { answers, .. } = run(&lab.context, &job).await else {
        panic!("another answer");
    };
    let [said, heard] = [0, 1].map(|index| answers[index].reading.clone().expect("a reading"));
    assert_eq!((said.state, heard.state), (PowerState::On, PowerState::Off));
    assert!(said.answered <= heard.asked, "{said:?} {heard:?}");
}

/// S4: whoever ends the work before its answer is told what was said until then: by the level's devices, and by the others.
#[tokio::test]
async fn what_is_said_is_known_before_the_work_ends() {
    let lab = Lab::new().await;
    lab.cluster.put(SYSTEM, 200, system("Off", MACHINE));
    lab.cluster
        .delay("GET /redfish/v1/Systems/2", Duration::from_millis(100));
    let settings = settings_of(&["bmc", "bmc-2"]);
    let job = Job {
        lease: None,
        heard: Heard::default(),
        early: None,
        order: DeviceOrder::Confirm { window: LONG },
        level: settings.levels[0].clone(),
        limit: LONG,
        settings,
        claim: None,
    };
    let heard = job.heard.clone();
    // The level's device goes on reading, and may be heard more than once before the other is.
    let both = async {
        let mut states = BTreeMap::new();
        while states.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            for sight in heard.take() {
                let state = sight.reading.expect("a reading").state;
                states.insert(sight.device.name, state);
            }
        }
        states
    };
    let expected = [("bmc", PowerState::Off), ("bmc-2", PowerState::On)];
    let expected = expected.map(|(name, state)| (name.to_owned(), state));
    tokio::select! {
        _ = run(&lab.context, &job) => panic!("it has ended"),
        states = both => assert_eq!(states, BTreeMap::from(expected)),
    }
}

/// The first Off and the last On of a run are kept, and a silence is no word. A fault, or another machine's name, makes other words.
#[test]
fn of_what_is_said_again_and_again_one_is_kept() {
    let heard = Heard::default();
    let says = |second: u64, state: PowerState, fault: Option<&str>, uuid: &str| {
        let mut reading = fixtures::off_readings().remove(0).readings.remove(0);
        (reading.state, reading.asked) = (state, Duration::from_secs(second));
        reading.faults = fault.iter().map(|it| (*it).to_owned()).collect();
        reading.identity.system_uuid = Some(uuid.to_owned());
        heard.note(&fixtures::bmc(), &reading);
    };
    says(1, PowerState::Off, Some("interlock"), MACHINE);
    for second in 2..4 {
        says(second, PowerState::Off, None, MACHINE);
    }
    for second in 4..7 {
        says(second, PowerState::On, None, MACHINE);
    }
    says(7, PowerState::On, None, OTHER_MACHINE);
    says(8, PowerState::Unknown, None, MACHINE);
    says(9, PowerState::Off, None, MACHINE);
    let kept = heard.take().into_iter();
    let kept = kept.map(|sight| sight.reading.expect("a reading").asked.as_secs());
    assert_eq!(kept.collect::<Vec<_>>(), [1, 2, 6, 7, 9]);
    assert_eq!(heard.take(), []);
}

/// L5: a machine that is on is looked at for as long as the outage lasts, and a list of pods is the dearest of it.
#[tokio::test]
async fn pods_are_listed_for_a_machine_that_reads_off_alone() {
    for (state, mode, expected) in [
        ("On", FenceMode::ConfirmOnly, false),
        ("Off", FenceMode::ConfirmOnly, true),
        ("On", FenceMode::PowerOff, true),
    ] {
        let lab = Lab::new().await;
        lab.cluster.put(SYSTEM, 200, system(state, MACHINE));
        let settings =
            fencing_core::fixtures::asking(settings_of(&["bmc"]), |it| it.fence.mode = mode);
        lab.run_in(settings, DeviceOrder::ReadPower, None).await;
        let requests = lab.cluster.requests();
        let listed = requests.iter().any(|it| it.starts_with("GET /api/v1/pods"));
        assert_eq!(listed, expected, "{state} {mode:?} {requests:?}");
    }
}
