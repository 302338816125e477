//! How long a clean fence waits, and how often it writes (docs/protocol.md, L1, L2, L7).
//!
//! The clock of the [`World`] moves only while a device answers and while the core waits. Nobody wakes it, which is the worst case: the
//! shell also looks when a watch shows a change.

use super::cluster::{Answer, World};
use fencing_api::settings::{FenceMode, ReleaseMode};
use fencing_core::decision::{Decision, DeviceOrder, Effect};
use std::time::Duration;

/// How long the device takes for a look, for an off command, and for readings over the policy's window.
const LOOK_TIME: Duration = Duration::from_millis(100);
const OFF_TIME: Duration = Duration::from_secs(5);
const CONFIRM_TIME: Duration = Duration::from_millis(1200);
/// Decisions of a whole fence: more than these is a loop.
const DECISIONS_MAX: usize = 2000;

/// Something that happens to the cluster.
type Event = fn(&mut World);

/// A fence that runs to its end, and what it cost.
struct Fence {
    world: World,
    mode: FenceMode,
    /// Time in which nothing was asked of a device.
    waited: Duration,
    /// Writes to the API server, in their order.
    writes: Vec<&'static str>,
    /// What happens to the cluster, and when.
    coming: Vec<(Duration, Event)>,
}

impl Fence {
    /// A node that is down, with one pod and its volume.
    fn of(mode: FenceMode) -> Self {
        let mut world = World::new();
        world.settings.procedure.fence.mode = mode;
        for happened in [
            world.pod_event("db-0 runs (uses pv-1)"),
            world.volume_event("pv-1 is attached"),
        ] {
            happened.expect("an event");
        }
        Self {
            world,
            mode,
            waited: Duration::ZERO,
            writes: Vec::new(),
            coming: Vec::new(),
        }
    }

    /// This happens so long after now.
    fn after(&mut self, pause: Duration, event: Event) {
        self.coming.push((self.world.now + pause, event));
    }

    /// Goes on until this has been written.
    fn until(&mut self, write: &str) {
        for _ in 0..DECISIONS_MAX {
            if self.writes.last() == Some(&write) {
                return;
            }
            let decision = self.world.decide();
            self.carry_out(decision);
            assert!(self.world.notes.is_empty(), "{:?}", self.world.notes);
        }
        panic!(
            "no `{write}` in {DECISIONS_MAX} decisions: {:?}",
            self.writes
        );
    }

    fn carry_out(&mut self, decision: Decision) {
        let (wake, message) = (decision.wake, decision.message.clone());
        let asks = match &decision.effect {
            Effect::Device { order, .. } => Some(self.answer_to(order)),
            Effect::Wait => None,
            written => {
                self.writes.push(name(written));
                return self.world.act(decision);
            }
        };
        self.world.act(decision);
        match asks {
            Some((time, answer)) => {
                self.pass(time);
                let answer = Answer::parse(answer).expect("an answer");
                self.world.answer("bmc", answer).expect("a question");
            }
            None => {
                let wake = wake.unwrap_or_else(|| panic!("waits for nothing: {message}"));
                let pause = wake.saturating_sub(self.world.now);
                self.waited += pause;
                self.pass(pause);
            }
        }
    }

    /// What the device answers, and how long it takes.
    fn answer_to(&self, order: &DeviceOrder) -> (Duration, &'static str) {
        let is_off = self.mode == FenceMode::ConfirmOnly || self.writes.contains(&"taint");
        match order {
            DeviceOrder::ReadPower if is_off => (LOOK_TIME, "Off"),
            DeviceOrder::ReadPower => (LOOK_TIME, "On"),
            DeviceOrder::Off(_) | DeviceOrder::On(_) => (OFF_TIME, "accepts"),
            DeviceOrder::Confirm { .. } => (CONFIRM_TIME, "Off, Off"),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.world.now += time;
        let now = self.world.now;
        for (_, event) in self.coming.extract_if(.., |(at, _)| *at <= now) {
            event(&mut self.world);
        }
    }
}

fn name(written: &Effect) -> &'static str {
    match written {
        Effect::Claim(_) => "claim",
        Effect::RecordIntent(_) => "intent",
        Effect::StoreEvidence(_) => "evidence",
        Effect::Evict(_) => "pod",
        Effect::Taint(_) => "taint",
        Effect::Release(_) => "release",
        Effect::Close => "close",
        _ => "something else",
    }
}

fn pod_is_deleted(world: &mut World) {
    world.pod_event("db-0 is deleted").expect("an event");
}

fn volume_detaches(world: &mut World) {
    world.volume_event("pv-1 is detached").expect("an event");
}

fn human_releases(world: &mut World) {
    world.settings.released = true;
}

/// L1: the claim is written when the policy's wait is over; neither before nor, for want of a look, after.
#[test]
fn the_claim_comes_when_the_wait_is_over() {
    for millis in [1, 15, 500, 900] {
        let mut fence = Fence::of(FenceMode::ConfirmOnly);
        let due = fence.world.now + LOOK_TIME + Duration::from_millis(millis);
        fence.world.settings.not_before = due;
        fence.until("claim");
        assert_eq!(fence.world.now, due);
    }
}

/// L1: the claim, the intent, the evidence and the taint follow at once; only the deletion of the pods has to be noticed.
#[test]
fn nothing_but_its_device_and_its_pods_keeps_a_fence_from_the_taint() {
    for mode in [FenceMode::ConfirmOnly, FenceMode::PowerOff] {
        for millis in [0, 10, 150, 700, 3000, 20_000] {
            let mut fence = Fence::of(mode);
            fence.until("claim");
            let deletion = Duration::from_millis(millis);
            fence.after(deletion, pod_is_deleted);
            fence.pass(Duration::ZERO);
            fence.until("taint");
            let late = fence.waited.saturating_sub(deletion);
            assert!(
                late <= Duration::from_secs(1),
                "{mode:?} {millis}: {late:?}"
            );
        }
    }
}

/// L2, whatever it was that the release waited for last.
#[test]
fn the_release_comes_within_ten_seconds() {
    let detached: [(ReleaseMode, Event); 2] = [
        (ReleaseMode::AfterDetach, volume_detaches),
        (ReleaseMode::Manual, human_releases),
    ];
    for (release, last) in detached {
        for millis in [0, 900, 4000, 9900, 10_100, 33_000, 601_000] {
            let mut fence = Fence::of(FenceMode::PowerOff);
            fence.world.settings.procedure.release.mode = release;
            pod_is_deleted(&mut fence.world);
            fence.until("taint");
            if release == ReleaseMode::Manual {
                volume_detaches(&mut fence.world);
            }
            let pause = Duration::from_millis(millis);
            let due = fence.world.now + pause;
            fence.after(pause, last);
            fence.pass(Duration::ZERO);
            fence.until("release");
            let late = fence.world.now.saturating_sub(due);
            let bound = Duration::from_secs(10) + LOOK_TIME;
            assert!(late <= bound, "{release:?} {millis}: {late:?}");
        }
    }
}

/// L7: with the creation of the NodeFence eight.
#[test]
fn a_clean_fence_writes_seven_times() {
    let mut fence = Fence::of(FenceMode::PowerOff);
    pod_is_deleted(&mut fence.world);
    fence.until("taint");
    fence.after(Duration::from_secs(3), volume_detaches);
    fence.until("close");
    let writes = [
        "claim", "intent", "evidence", "pod", "taint", "release", "close",
    ];
    assert_eq!(fence.writes, writes);
}
