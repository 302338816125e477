//! Any story at all: whatever is set and whatever happens, in whatever order, the core never panics, never goes round in circles, and does
//! nothing that lacks what the protocol demands of it. The demands stand here once more, over the world and not over what the core
//! remembers; that the stories that are tried get far enough to break them is shown, too.

mod any_story;

use super::cluster::World;
use super::story::{happen, set};
use any_story::{Event, Story, any_story};
use fencing_api::fence_status::{Attempt, AttemptAction};
use fencing_api::settings::{FenceMode, RecoveryStrategy};
use fencing_core::decision::{Decision, DeviceOrder, Effect, Eviction};
use fencing_core::observed::{CLAIM, DETACHING, NodeView, OUT_OF_SERVICE, Ready};
use fencing_core::power_on::TRIES_MAX;
use fencing_core::settings::Approval;
use fencing_core::stage::Stage;
use fencing_core::taint::{NodeDeletion, NodePatch, claim_fence, detaching_of_claim};
use fencing_core::verification::PROOF_LIFE;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Decisions after one event: more than these is a loop that never waits.
const DECISIONS_MAX: usize = 60;

/// A story while it is told.
struct Told {
    world: World,
    /// Claims under which the devices of a level have read Off as they have to.
    proven: BTreeSet<String>,
    effects: BTreeMap<&'static str, u32>,
}

fn tell(story: &Story) -> BTreeMap<&'static str, u32> {
    let mut world = World::new();
    for line in &story.settings {
        set(&mut world.settings, line).expect("a setting");
    }
    let mut told = Told {
        world,
        proven: BTreeSet::new(),
        effects: BTreeMap::new(),
    };
    for (pause, event) in &story.events {
        told.world.now += Duration::from_millis(*pause);
        match event {
            Event::Answer { readings, off } => told.answer(readings, off),
            // What cannot happen now does not: the pods of a Node that is gone, for one.
            Event::Other(text) => _ = happen(&mut told.world, text),
        }
        told.play();
        if told.world.ended {
            break;
        }
    }
    told.effects
}

impl Told {
    fn answer(&mut self, readings: &str, off: &str) {
        let Some((order, level)) = self.world.asked() else {
            return;
        };
        let is_proof =
            matches!(order, DeviceOrder::Confirm { .. }) && readings.starts_with("Off, Off");
        let commands = matches!(order, DeviceOrder::Off(_) | DeviceOrder::On(_));
        let message = if commands { off } else { readings };
        let names = level.devices.iter().map(|device| device.name.clone());
        let names: Vec<_> = names.collect();
        // Three readings lie 2.2 s apart, and nobody can have answered before he was asked.
        if !commands {
            self.world.now += Duration::from_millis(2_500);
        }
        if is_proof {
            let claim = self
                .world
                .node()
                .and_then(NodeView::claim)
                .map(str::to_owned);
            self.proven.extend(claim);
        }
        for name in names {
            let _ = happen(&mut self.world, &format!("{name} {message}"));
        }
    }

    /// Decides until there is something to wait for.
    fn play(&mut self) {
        for _ in 0..DECISIONS_MAX {
            let decision = self.world.decide();
            self.judge(&decision);
            let waits = matches!(decision.effect, Effect::Wait | Effect::Device { .. });
            self.world.act(decision);
            self.world.notes.clear();
            if waits || self.world.ended {
                return;
            }
        }
        panic!("{DECISIONS_MAX} decisions without a wait");
    }

    fn judge(&mut self, decision: &Decision) {
        assert!(!decision.message.is_empty(), "{decision:?}");
        let is_end = matches!(decision.effect, Effect::Close);
        assert_eq!(is_end, decision.stage.is_ended(), "{decision:?}");
        self.is_explained(decision);
        let name = match &decision.effect {
            Effect::Wait => "wait",
            Effect::Bind { .. } => "bind",
            Effect::Claim(patch) => {
                self.may_begin();
                only_ours(patch, &[CLAIM]);
                "claim"
            }
            Effect::DropClaim(patch) => {
                only_ours(patch, &[]);
                "drop claim"
            }
            Effect::RecordIntent(_) => {
                self.may_command();
                "intent"
            }
            Effect::RecordOn(_) => {
                self.may_turn_on();
                "on intent"
            }
            Effect::Device { order, .. } => self.asks(order),
            Effect::StoreEvidence(_) => {
                self.is_proven();
                "evidence"
            }
            Effect::Evict(eviction) => {
                self.evicts(eviction);
                "evict"
            }
            Effect::Taint(patch) => {
                self.may_destroy(patch.valid_until.expect("it dies with its proof"));
                assert!(!self.node().out_of_service(), "S8");
                let is_deleted = self.world.settings.deletes_node();
                only_ours(
                    patch,
                    &[if is_deleted {
                        DETACHING
                    } else {
                        OUT_OF_SERVICE
                    }],
                );
                "taint"
            }
            Effect::Detach(detachment) => {
                self.may_take(detachment.valid_until);
                assert!(!detachment.attachments.is_empty());
                "detach"
            }
            Effect::DeleteNode(deletion) => {
                self.deletes(deletion);
                "delete node"
            }
            Effect::Release(patch) => {
                let node = self.node();
                let is_marked = node.out_of_service() || node.taint(DETACHING).is_some();
                assert!(self.is_claimed() && is_marked, "S8");
                only_ours(patch, &["nodefencing.io/quarantine"]);
                "release"
            }
            Effect::Close => "close",
        };
        *self.effects.entry(name).or_default() += 1;
    }

    fn asks(&self, order: &DeviceOrder) -> &'static str {
        let is_recorded = |id: &str| {
            let mut recorded = self.world.status().attempts.iter();
            assert!(
                recorded.any(|it| it.id.as_deref() == Some(id)),
                "S11: no intent"
            );
        };
        match order {
            DeviceOrder::ReadPower => "look",
            DeviceOrder::Confirm { .. } => "confirm",
            DeviceOrder::Off(attempt) => {
                self.may_command();
                is_recorded(&attempt.id);
                "off"
            }
            DeviceOrder::On(attempt) => {
                self.may_turn_on();
                is_recorded(&attempt.id);
                "on"
            }
        }
    }

    /// Under the mark only what is being deleted goes, once the machine is dark.
    fn evicts(&self, eviction: &Eviction) {
        if detaching_of_claim(self.node()).is_none() {
            return self.may_destroy(eviction.valid_until);
        }
        self.is_dark_under_the_mark(eviction.valid_until);
        assert!(eviction.pods.iter().all(|pod| pod.deleting), "S2");
    }

    fn deletes(&self, deletion: &NodeDeletion) {
        self.may_take(deletion.valid_until);
        let (node, settings) = (self.node(), &self.world.settings);
        assert_eq!(Some(&deletion.uid), settings.node_uid.as_ref(), "S10");
        assert_eq!(deletion.resource_version, node.resource_version, "S9");
        assert_eq!(Some(&node.boot_id), settings.boot_id.as_ref(), "S2");
        assert!(!settings.released && !node.out_of_service(), "S8");
        assert!(!self.world.has_volumes(), "S14: something is attached");
    }

    /// L3: what is held back is so for a reason that the metrics have a row for. One that goes on while its Node cannot be read, or its last
    /// write has failed, was explained before.
    fn is_explained(&self, decision: &Decision) {
        let waits = matches!(decision.stage, Stage::Held | Stage::AwaitingApproval);
        let goes_on = decision.message.contains("cannot be read")
            || decision.message.contains("trying again");
        assert!(
            waits == decision.held.is_some() || waits && goes_on,
            "L3: {decision:?}"
        );
    }

    fn node(&self) -> &NodeView {
        self.world
            .node()
            .expect("nothing is done to a Node that is gone")
    }

    fn is_claimed(&self) -> bool {
        self.node().claim().and_then(claim_fence) == Some("fence")
    }

    /// S11, S15: only a machine that was released is turned on, and only as long as nobody has said no.
    fn may_turn_on(&self) {
        let (node, settings) = (self.node(), &self.world.settings);
        let wanted = settings.power_on.as_ref().expect("it is turned on");
        assert!(node.claim().is_none() && !node.out_of_service(), "S11");
        assert_ne!(node.ready(), Ready::True, "S11");
        assert_eq!(settings.mode(), FenceMode::PowerOff, "S11");
        assert!(!settings.released && wanted.stop.is_none(), "S15");
        assert!(wanted.hold.is_none() && self.world.frozen.is_none());
        let (uid, boot) = (settings.node_uid.as_ref(), settings.boot_id.as_ref());
        assert_eq!((uid, boot), (Some(&node.uid), Some(&node.boot_id)), "S10");
        let status = self.world.status();
        let is_on = |it: &&Attempt| it.action == AttemptAction::PowerOn;
        let ons = status.attempts.iter().filter(is_on).count();
        let devices = settings.levels.iter().flat_map(|level| &level.devices);
        assert!(ons <= TRIES_MAX as usize * devices.count(), "S11: too many");
    }

    fn may_begin(&self) {
        let (node, settings) = (self.node(), &self.world.settings);
        assert_ne!(node.ready(), Ready::True, "S6");
        assert!(!node.out_of_service(), "S8");
        assert_ne!(settings.mode(), FenceMode::Observe, "S11");
        assert!(settings.stop.is_none(), "S15");
        assert_ne!(settings.approval, Approval::Awaited);
        assert!(settings.unsupported.is_none());
        assert!(self.world.frozen.is_none(), "S18");
        let (uid, boot) = (settings.node_uid.as_ref(), settings.boot_id.as_ref());
        assert_eq!((uid, boot), (Some(&node.uid), Some(&node.boot_id)), "S10");
    }

    fn may_command(&self) {
        assert_eq!(self.world.settings.mode(), FenceMode::PowerOff, "S11");
        assert!(self.is_claimed(), "S9");
        assert!(self.world.frozen.is_none(), "S18");
    }

    fn is_proven(&self) {
        self.may_begin();
        assert!(self.is_claimed(), "S9");
        let claim = self.node().claim().unwrap_or_default();
        let is_given = self.world.settings.confirmation.is_some();
        assert!(
            self.proven.contains(claim) || is_given,
            "S2, S3: no device has read off under {claim}"
        );
    }

    /// A volume is taken from the machine, or its Node: under the claim and the mark that a proof has set, no pod with a volume is left, the Node
    /// says that it is down, and its devices have read Off just now.
    fn may_take(&self, valid_until: Duration) {
        assert!(!self.world.has_pod_with_volume(), "S1: a pod may write");
        self.is_dark_under_the_mark(valid_until);
    }

    /// Of whatever boot: what came to the node under the claim cannot have started in it.
    fn is_dark_under_the_mark(&self, valid_until: Duration) {
        let (node, now) = (self.node(), self.world.now);
        assert!(self.world.settings.deletes_node());
        assert!(self.world.frozen.is_none(), "S18");
        assert!(
            self.is_claimed() && detaching_of_claim(node).is_some(),
            "S9"
        );
        assert!(matches!(node.ready(), Ready::False | Ready::Unknown), "S6");
        assert!((now..=now + PROOF_LIFE).contains(&valid_until), "S4");
    }

    /// A pod is deleted, or the taint set: with the evidence in the record, under the same claim, while the proof lives.
    fn may_destroy(&self, valid_until: Duration) {
        self.is_proven();
        assert_ne!(
            self.world.settings.procedure.recovery.strategy,
            RecoveryStrategy::None
        );
        let evidence = self
            .world
            .status()
            .evidence
            .as_ref()
            .expect("S17: no evidence");
        assert_eq!(
            Some(evidence.claim.as_str()),
            self.node().claim(),
            "S9, S17"
        );
        let now = self.world.now;
        assert!(
            (now..=now + PROOF_LIFE).contains(&valid_until),
            "S4: {valid_until:?} at {now:?}"
        );
    }
}

/// It tests the Node's uid and adds no other taint than these.
fn only_ours(patch: &NodePatch, added: &[&str]) {
    let operations = patch.operations.as_array().expect("operations");
    assert_eq!(
        operations[0]["path"], "/metadata/uid",
        "S10: {operations:?}"
    );
    for operation in operations {
        let value = &operation["value"];
        let key = if value.is_array() {
            &value[0]["key"]
        } else {
            &value["key"]
        };
        match operation["op"].as_str() {
            Some("test" | "remove") => {}
            _ => assert!(added.iter().any(|own| key == own), "S7: {operation}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(10_000), ..ProptestConfig::default() })]

    #[test]
    fn no_story_panics_and_nothing_is_done_without_what_it_demands(story in any_story()) {
        tell(&story);
    }
}

/// What is tried above gets everywhere.
#[test]
fn the_stories_that_are_tried_do_all_that_can_be_done() {
    let mut runner = TestRunner::deterministic();
    let mut done: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..9_000 {
        let story = any_story()
            .new_tree(&mut runner)
            .expect("a story")
            .current();
        for (effect, times) in tell(&story) {
            *done.entry(effect).or_default() += times;
        }
    }
    println!("{done:?}");
    let all = [
        "bind",
        "claim",
        "close",
        "confirm",
        "delete node",
        "detach",
        "drop claim",
        "evict",
        "evidence",
        "intent",
        "look",
        "off",
        "on",
        "on intent",
        "release",
        "taint",
        "wait",
    ];
    assert!(done.keys().eq(all.iter()), "{done:?}");
    assert!(done.values().all(|times| *times >= 20), "{done:?}");
}
