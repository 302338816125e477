//! S24: what an operator may write to the status of a Node, and whether the machine was off that it has reported.

use super::{Found, State};
use crate::objects::{POWERED_OFF, ready, reason, text};
use crate::world::World;
use serde_json::{Value, json};
use simapi::kinds::NODE;
use simapi::store::{Change, Write};

/// A boot of a Node: its uid and its boot ID.
pub(super) type Boot = (String, String);

fn boot(node: &Value) -> Boot {
    let of = |place| text(node, place).to_owned();
    (of("/metadata/uid"), of("/status/nodeInfo/bootID"))
}

/// Is it a report, and no write of a taint?
pub(super) fn turns_ready(old: &Value, new: &Value) -> bool {
    old["status"] != new["status"]
}

/// The Node without what a report may change.
fn without_report(node: &Value) -> Value {
    let mut node = node.clone();
    for field in ["resourceVersion", "managedFields"] {
        node["metadata"][field].take();
    }
    let conditions = node["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        if condition["type"] == "Ready" {
            for field in ["status", "reason", "message", "lastTransitionTime"] {
                condition[field] = json!(null);
            }
        }
    }
    node
}

impl State {
    /// Ready from True to Unknown and nothing else, once for each boot, and of a machine that is off.
    pub(super) fn report(&mut self, world: &World, write: &Write, old: &Value) -> Found {
        let (node, new) = (write.key.1.as_str(), &*write.new);
        world.judged("S24 report");
        let of_boot = boot(old);
        let label = |key: &str| !old["metadata"]["labels"][key].is_null();
        let is_of_boot = |(name, machine): (String, crate::world::Machine)| {
            machine.on && machine.boot_id(&name) == of_boot.1
        };
        let words = [
            (!self.is_early, "no policy wants it to be reported"),
            (
                (ready(old), ready(new)) != ("True", "Unknown"),
                "its Ready is turned otherwise than from True to Unknown",
            ),
            (
                reason(new) != POWERED_OFF,
                "it is reported for another reason",
            ),
            (
                without_report(old) != without_report(new),
                "something else of it is changed, or its heartbeat",
            ),
            (
                label("node-role.kubernetes.io/control-plane"),
                "it runs the control plane",
            ),
            (
                world.own_node.as_deref() == Some(node),
                "the operator runs on it",
            ),
            (
                !self.reported.insert(of_boot.clone()),
                "its boot was reported before",
            ),
            (
                world.of_node(node).is_some_and(is_of_boot),
                "it is reported as off, and runs",
            ),
        ];
        let broken = words.into_iter().filter(|(is_broken, _)| *is_broken);
        broken
            .map(|(_, words)| ("S24", format!("{node}: {words}")))
            .collect()
    }

    /// A kubelet takes a report back in the boot that it was about.
    pub(super) fn refuted(&self, write: &Write) -> Found {
        let is_back = *write.kind == NODE
            && write.change == Change::Modified
            && ready(&write.new) == "True"
            && write.old.as_deref().is_some_and(|old| ready(old) != "True");
        let is_refuted = is_back && self.reported.contains(&boot(&write.new));
        let words = format!(
            "{} is Ready again in the boot that was reported as off",
            write.key.1
        );
        is_refuted.then_some(("S24", words)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
