//! Stories in the language of the golden ones, at random: most of the time what a fence waits for happens, and now and then anything else.

use proptest::prelude::*;

const SETTINGS: [&str; 23] = [
    "unsupported `windows`",
    "mode Observe",
    "mode ConfirmOnly",
    "mode PowerOff",
    "mode PowerOff",
    "mode PowerOff",
    "release AfterRecovery",
    "power-on 2s, 60s",
    "power-on 2s, 60s",
    "release Manual",
    "pods PodGC",
    "recovery None",
    "recovery DeleteNode",
    "recovery DeleteNode",
    "approval Manual",
    "approval Manual, onTimeout Abort",
    "human",
    "human names the uid",
    "level both: bmc + pdu",
    "level either: bmc | pdu",
    "level second: other, 1 attempts, 30s",
    "identity bmc not pinned",
    "due 3s",
];

/// What else happens than that devices answer, in the language of the stories.
const EVENTS: [&str; 54] = [
    "node is NotReady",
    "node reports Ready=False",
    "node is Ready",
    "node boots boot-2",
    "node is deleted",
    "node is created anew",
    "node cannot be read: HTTP 503",
    "node loses its conditions",
    "taint other=x:NoSchedule",
    "taint nodefencing.io/claim=fence-rival:NoExecute",
    "taint nodefencing.io/claim=another-n1:NoExecute",
    "taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
    "taint nodefencing.io/quarantine=boot-1:NoSchedule",
    "untaint nodefencing.io/claim",
    "untaint node.kubernetes.io/out-of-service",
    "lease is renewed",
    "lease cannot be read",
    "lease can be read",
    "pod db-0 runs (uses pv-1)",
    "pod db-0 is deleted",
    "pod db-0 is gone",
    "pod ds-0 runs (tolerates out-of-service)",
    "pod static-0 runs (static)",
    "pod ds-1 runs (tolerates out-of-service, uses pv-2)",
    "untaint nodefencing.io/detaching",
    "pod job-0 is deleted (finished, finalizers)",
    "pods unreadable",
    "pods take long to list",
    "pods readable",
    "volume pv-1 is attached",
    "volume pv-1 is detached",
    "volume pv-1 does not detach: rbd is in use",
    "cache forgets the volumes",
    "kubelet answers",
    "kubelet is silent",
    "write refused 409 conflict",
    "write refused 403 nodes is forbidden",
    "write refused 422 a test failed",
    "write loses its answer",
    "write stays on its way",
    "late write lands",
    "operator restarts",
    "cluster goes back",
    "rival begins",
    "rival ends",
    "held MaxConcurrent: 1 of 1",
    "admitted",
    "approved by alice",
    "confirmed by alice",
    "released",
    "policy was deleted",
    "power-on held: the node is cordoned",
    "power-on goes on",
    "power-on stopped: the policy asks for it no longer",
];

#[derive(Debug, Clone)]
pub enum Event {
    /// The devices that were asked or told answer, in these words.
    Answer {
        readings: &'static str,
        off: &'static str,
    },
    Other(&'static str),
}

/// Settings, and what happens so many milliseconds after what happened before.
#[derive(Debug, Clone)]
pub struct Story {
    pub settings: Vec<&'static str>,
    pub events: Vec<(u64, Event)>,
}

pub fn any_story() -> impl Strategy<Value = Story> {
    let readings = prop::sample::select(vec![
        "Off, Off, Off",
        "Off, Off, Off",
        "Off, Off, Off",
        "Off, Off",
        "On",
        "Off",
        "Off, On, Off",
        "Transitional",
        "Off!fault, Off!fault",
        "Off#other, Off#other",
        "Off#nobody, Off#nobody",
        "fails: no route",
    ]);
    let offs = vec![
        "accepts",
        "accepts",
        "is off already",
        "goes silent",
        "fails: refused",
    ];
    let answer = (readings, prop::sample::select(offs))
        .prop_map(|(readings, off)| Event::Answer { readings, off });
    let other = prop::sample::select(EVENTS.to_vec()).prop_map(Event::Other);
    // Most of the time nothing happens but what a fence waits for.
    let event = prop_oneof![6 => answer, 2 => other, 1 => Just(Event::Other("pod db-0 is deleted")), 1 => Just(Event::Other("volume pv-1 is detached")), 1 => Just(Event::Other("volume pv-1 is attached")), 2 => Just(Event::Other("time passes"))];
    let pause = prop_oneof![4 => 0_u64..300, 3 => 300_u64..4_000, 1 => 4_000_u64..100_000];
    let settings = prop::collection::vec(prop::sample::select(SETTINGS.to_vec()), 0..4);
    let events = prop::collection::vec((pause, event), 4..28);
    // One in eight is about what comes after the release, which few others come to.
    let is_released = prop_oneof![7 => Just(false), 1 => Just(true)];
    (settings, events, is_released).prop_map(|(settings, events, is_released)| match is_released {
        false => Story { settings, events },
        true => Story {
            settings: vec!["mode PowerOff", "power-on 2s, 60s"],
            events: to_the_release().chain(events).collect(),
        },
    })
}

/// Nothing happens but what a fence waits for.
fn to_the_release() -> impl Iterator<Item = (u64, Event)> {
    let answer = |readings: &'static str| {
        let off = "accepts";
        (200, Event::Answer { readings, off })
    };
    // It is turned on again only if it was on before.
    let begun = [(0, Event::Other("node is NotReady")), answer("On")];
    begun
        .into_iter()
        .chain(std::iter::repeat_n(answer("Off, Off, Off"), 7))
}
