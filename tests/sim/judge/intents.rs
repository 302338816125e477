//! Commands as the record of an incident has them.

use super::State;
use super::known::sender;
use crate::objects::text;
use serde_json::Value;
use simapi::kinds::FENCE;
use std::collections::BTreeSet;
use std::time::Duration;

/// A hard off.
pub(super) const OFF: &str = "PowerOff";
/// An on.
pub(super) const ON: &str = "PowerOn";

/// A command that is written down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Intent {
    pub(super) action: &'static str,
    attempt: String,
    pub(super) machine: String,
}

/// What of this kind is written down for any machine, by what is said of how it ended.
fn written(
    fence: &Value,
    action: &'static str,
    is_meant: impl Fn(&Value) -> bool,
) -> BTreeSet<Intent> {
    let attempts = fence["status"]["attempts"].as_array();
    let attempts = attempts.into_iter().flatten();
    let meant = attempts.filter(|attempt| attempt["action"] == action && is_meant(attempt));
    let intent = |attempt: &Value| {
        let device = text(attempt, "/device").strip_prefix("bmc-")?;
        Some(Intent {
            action,
            attempt: text(attempt, "/id").to_owned(),
            machine: device.split('.').next()?.to_owned(),
        })
    };
    meant.filter_map(intent).collect()
}

/// Those that are written down as begun.
pub(super) fn intended(fence: &Value, action: &'static str) -> BTreeSet<Intent> {
    written(fence, action, |attempt| attempt["completionTime"].is_null())
}

/// Offs that have gone out, or may have; or those that the record says were refused.
pub(super) fn turned_off(fence: &Value, has_gone: bool) -> BTreeSet<Intent> {
    written(fence, OFF, |attempt| {
        (attempt["result"] != "Refused") == has_gone
    })
}

impl State {
    /// etcd was put back: which offs are still to take effect that no record names any more.
    pub(super) fn note_forgotten_offs(&mut self) {
        let records = self.of_kind(&FENCE);
        let recorded = records.flat_map(|record| turned_off(record, true));
        let recorded: BTreeSet<String> = recorded.map(|off| off.machine).collect();
        let forgotten = self.offs.iter();
        let forgotten = forgotten.filter(|(machine, ..)| !recorded.contains(machine));
        let forgotten = forgotten.map(|(machine, sent, _)| {
            let who = self.known.iter();
            let who = who.filter(|(_, known)| known.has_turned_off(machine));
            let who = who.map(|(process, _)| process.clone()).collect();
            (machine.clone(), *sent, who)
        });
        self.forgotten_offs = forgotten.collect();
    }

    /// Is this an off that etcd has forgotten, and that this process has not sent (R3)?
    pub(super) fn cannot_know(&self, actor: &str, machine: &str, sent: Duration) -> bool {
        let (process, _) = sender(actor);
        self.forgotten_offs.iter().any(|(name, at, who)| {
            (name.as_str(), *at) == (machine, sent) && !who.contains(process)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::slips::{OTHER, ids, pass};
    use super::super::tests::{OPERATOR, OWN, Scene, leads, simulated};
    use crate::libc::elapsed;
    use std::time::Duration;

    /// R3: etcd forgets an off with its record. Whoever has sent it waits for it, and so does whoever finds it in a record.
    #[test]
    fn an_off_that_etcd_has_forgotten_is_waited_for_by_whoever_has_sent_it() {
        simulated(async {
            for (releases, is_recorded, expected) in [
                (OTHER, false, &[][..]),
                (OTHER, true, &["S23"]),
                (OPERATOR, false, &["S23"]),
            ] {
                let scene = Scene::new();
                let (mut snapshot, past) = (scene.world.api.snapshot(), scene.judge.past());
                scene.intend(OPERATOR);
                if is_recorded {
                    snapshot = scene.world.api.snapshot();
                }
                let lands = elapsed() + Duration::from_secs(30);
                scene.judge.lands("a", lands);
                scene.world.api.restore(snapshot);
                scene.judge.restored(past);
                pass(1).await;
                leads(&scene.world, releases);
                scene.taints(OPERATOR, &[OWN]);
                scene.proves().await;
                scene.taints(OPERATOR, &[OWN, "oos"]);
                assert_eq!(scene.world.broken(), Vec::<String>::new());
                scene.looks_as(releases);
                scene.taints(releases, &[]);
                let found = scene.world.broken();
                assert_eq!(
                    ids(&found),
                    expected,
                    "{releases}, {is_recorded}: {found:?}"
                );
            }
        });
    }
}
