//! When the operator took `out-of-service` away again: the release gate (S14).

use jiff::Timestamp;

use super::replay::{Replay, State, fence_of, text, told, told_by_device};
use super::rules::{DETACHED, OFF_OR_NEW_BOOT, PODS_GONE, QUARANTINED, RELEASE_MODE};
use super::{Judgement, Rule, power};
use crate::proxy::writes::QUARANTINE;
use fencing_testbed::exchange::What;

pub(super) fn check(replay: &Replay, judgement: &mut Judgement) {
    for (node, before, after) in replay.node_changes() {
        if after.is_ours() && before.is_marked() && !after.is_marked() {
            judgement.counts.releases += 1;
            let release = Release {
                replay,
                node,
                before,
                after,
            };
            release.check(judgement);
        }
    }
}

/// A write that took `out-of-service` away.
struct Release<'a, 'b> {
    replay: &'b Replay<'a>,
    node: &'b str,
    before: &'b State<'a>,
    after: &'b State<'a>,
}

impl Release<'_, '_> {
    fn check(&self, judgement: &mut Judgement) {
        let emptied = self.detached(judgement).max(self.pods_gone(judgement));
        let Some(claim) = self.before.claim() else {
            return;
        };
        let has_evidence = |fence: &serde_json::Value| fence["status"]["evidence"].is_object();
        let fence = self
            .replay
            .fence_before(claim, self.after.version, has_evidence);
        let Some(fence) = fence else {
            let none = format!("NodeFence {} has no evidence", fence_of(claim));
            return self.broken(judgement, &OFF_OR_NEW_BOOT, none);
        };
        let evidence = &fence.object()["status"]["evidence"];
        let same_boot = evidence["nodeBootID"] == self.after.boot();
        if same_boot {
            self.off(fence, emptied, judgement);
        }
        let quarantine = self.after.taint(QUARANTINE);
        if same_boot && !quarantine.is_some_and(|taint| taint["value"] == self.after.boot()) {
            let words = format!("no quarantine of boot {}", self.after.boot());
            self.broken(judgement, &QUARANTINED, words);
        }
        let spec = &fence.object()["spec"];
        let waits = ["AfterRecovery", "Manual"].contains(&text(&spec["release"]["mode"]));
        if waits && same_boot && spec["desiredState"] != "Released" {
            self.broken(judgement, &RELEASE_MODE, fence.name());
        }
    }

    /// Everything had detached when the release was sent. Returns when the last went, as far as the records tell.
    fn detached(&self, judgement: &mut Judgement) -> Timestamp {
        let sent = self.after.since();
        let of_node = |pod: &&super::pods::Pod| pod.was_on(self.node, sent);
        let may_stay = |pod: &super::pods::Pod| pod.tolerates() && pod.has_claims();
        let mut latest = Timestamp::MIN;
        // The volumes of a pod that tolerates the taint stay attached; the records do not say which they are.
        if self.replay.pods.iter().filter(of_node).any(may_stay) {
            return latest;
        }
        for attachment in &self.replay.attachments {
            let created = &attachment.created.what;
            if attachment.node != self.node || created.answered >= sent {
                continue;
            }
            match attachment.gone {
                Some(gone) if gone.what.received < sent => latest = latest.max(gone.what.received),
                gone => {
                    let stands = gone.unwrap_or(attachment.created);
                    self.broken(judgement, &DETACHED, told(stands));
                }
            }
        }
        let attached = self.after.object()["status"]["volumesAttached"].as_array();
        if let Some(attached) = attached.filter(|attached| !attached.is_empty()) {
            let words = format!("volumesAttached: {}", attached.len());
            self.broken(judgement, &DETACHED, words);
        }
        latest
    }

    /// No pod was left when the release was sent. Returns when the last went.
    fn pods_gone(&self, judgement: &mut Judgement) -> Timestamp {
        let sent = self.after.since();
        let mut latest = Timestamp::MIN;
        let pods = self.replay.pods.iter();
        for pod in pods.filter(|pod| pod.was_on(self.node, sent)) {
            match pod.gone() {
                Some(gone) if gone.what.received < sent => latest = latest.max(gone.what.received),
                _ if pod.is_mirror() || pod.is_kept() => {}
                None if pod.tolerates() && pod.deletions.is_empty() => {}
                gone => {
                    let stands = gone.unwrap_or(pod.created);
                    let words = format!("{}: {}", pod.told(), told(stands));
                    self.broken(judgement, &PODS_GONE, words);
                }
            }
        }
        latest
    }

    /// A device of those that the proof was made with told Off since everything had gone, and none told anything else after that.
    fn off(&self, fence: &State, emptied: Timestamp, judgement: &mut Judgement) {
        let readings = &fence.object()["status"]["evidence"]["readings"];
        let readings = readings.as_array().into_iter().flatten();
        let mut devices: Vec<&str> = readings.map(|it| text(&it["device"])).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.retain(|device| self.replay.has_log(device));
        let sent = self.after.since();
        if devices.is_empty() {
            // Nobody knows what they told; what they had to tell, the machine knows.
            if let Some(on) = power::all_the_while(self.replay.run, self.node, emptied, sent) {
                self.broken(judgement, &OFF_OR_NEW_BOOT, power::told(on));
            }
            return;
        }
        let mut is_off = false;
        let mut last_word = None;
        for device in devices {
            let before = |at: Timestamp| at > emptied && at < sent;
            let log = self.replay.log_of(device);
            let told = log.filter(|(_, it)| matches!(it.what, What::Reading { .. }));
            let last = told.filter(|(_, it)| before(it.asked.wall)).last();
            let Some((line, exchange)) = last else {
                continue;
            };
            last_word = Some(told_by_device(line));
            let is_other = |what: &What| matches!(what, What::Reading { told } if told != "Off");
            if is_other(&exchange.what) {
                return self.broken(judgement, &OFF_OR_NEW_BOOT, told_by_device(line));
            }
            is_off = true;
        }
        if !is_off {
            let nothing = format!("no device was asked since {emptied:.6}");
            self.broken(judgement, &OFF_OR_NEW_BOOT, last_word.unwrap_or(nothing));
        }
    }

    fn broken(&self, judgement: &mut Judgement, rule: &'static Rule, other: String) {
        let (node, at) = (format!("Node {}", self.node), self.after.since());
        judgement.broken(rule, node, at, self.after.name(), other);
    }
}
