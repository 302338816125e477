//! Whose power does a device control? (S5)
//!
//! The answer is learned in peace time and pinned: while a Node is Ready, the system UUID that its kubelet reports and the one
//! that the device names must be the same. From then on only a machine with that UUID is believed to be this node.
//!
//! A pin belongs to one Node by uid, and stays as long as that Node does. It follows the Node to another machine in one case
//! only: the Node is Ready, its kubelet reports a new system UUID, *and* its BMC names that same one. This is a mainboard
//! that was replaced, and the evidence is as good as that of the first pin: a kubelet alone, or a mis-wired BMC alone,
//! cannot bring it about. Nor does it follow to the machine of another Node that exists ([`taken`]): the owner of one node and its BMC could
//! otherwise end the fencing of any other node by naming its UUID. In every other disagreement the pin stays and the device is refused until a
//! human has looked.
//!
//! A virtual machine has no mainboard to replace, and its provider may have been asked for the very UUID that the kubelet reports:
//! that it finds such a machine is no second witness, so a pin of an instance never follows.

mod reported;
mod wire;

pub use reported::{Reports, reports, unpinned};
pub use wire::{Wire, pinned};

use super::identity_rule::IdentityRule;
use super::observed::{NodeView, Ready};
use super::reading::{Identity, orderless, same_system, usable_uuid};
use fencing_api::device::{FenceDevice, IdentityCheck, PinnedSystem, Reads};
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound;
use wire::OTHERS_NAMED_MAX;

/// Who must answer at this device when the node is fenced. [`duplicates`] has to be asked too.
pub fn rule(device: &FenceDevice, node: &NodeView) -> IdentityRule {
    let check = device.spec.identity_check;
    let own = Some(&node.system_uuid).filter(|uuid| usable_uuid(uuid).is_some());
    match (check, pinned(device, node), own) {
        (IdentityCheck::Skip, ..) => IdentityRule::Skip,
        (_, Some(pin), Some(own)) if !same_system(&pin.uuid, own) => {
            IdentityRule::Refused(moved(node, pin))
        }
        (IdentityCheck::Required, Some(pin), _) => {
            of_instance(device, pin, IdentityRule::Is(pin.uuid.clone()))
        }
        (IdentityCheck::Required, None, _) => IdentityRule::NotPinned,
        (IdentityCheck::BestEffort, Some(pin), _) => {
            of_instance(device, pin, IdentityRule::IsOrSilent(pin.uuid.clone()))
        }
        (IdentityCheck::BestEffort, None, Some(own)) => IdentityRule::IsOrSilent(own.clone()),
        // BestEffort refuses a mismatch, and with nothing to compare there is none.
        (IdentityCheck::BestEffort, None, None) => IdentityRule::Skip,
    }
}

/// An instance is also compared by the id that its provider had for it when it was pinned, if it had one.
fn of_instance(device: &FenceDevice, pin: &PinnedSystem, rule: IdentityRule) -> IdentityRule {
    match &pin.serial_number {
        Some(id) if device.spec.reads() == Reads::Instance => {
            IdentityRule::Instance(Box::new(rule), id.clone())
        }
        _ => rule,
    }
}

/// Is no UUID left to be pinned? That of a machine whose provider tells none is compared by the driver, each time it is read.
pub fn is_recognised(device: &FenceDevice, node: &NodeView) -> bool {
    let is_unnamed = device.spec.reads() == Reads::Unnamed;
    let is_compared = device.spec.identity_check != IdentityCheck::Skip && !is_unnamed;
    !is_compared || pinned(device, node).is_some()
}

fn moved(node: &NodeView, pin: &PinnedSystem) -> String {
    format!(
        "Node {} runs on a machine with system UUID {}, the FenceDevice controls the one pinned before ({}); correct its address or `systemID`",
        node.name, node.system_uuid, pin.uuid
    )
}

/// What a peace-time probe means for the identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The device named the pinned system, or (`BestEffort`) the Node's own.
    Verified,
    /// The device named the Node's own system while the Node was Ready: pin it, in place of any other pin of this Node name.
    Pin(PinnedSystem),
    /// Nothing is compared, or there is nothing to compare and that is fine. Holds the reason and the words.
    Unchecked(&'static str, String),
    /// Cannot be decided before the Node is Ready. Holds the words.
    NotYet(String),
    /// The device is refused. Holds the reason (`IdentityMismatch`, `IdentityUnusable`) and the words.
    Refused(&'static str, String),
}

/// Reason: the device names another system than the node's.
pub const MISMATCH: &str = "IdentityMismatch";
/// Reason: a UUID that identifies no machine, or none at all.
pub const UNUSABLE: &str = "IdentityUnusable";
/// Reason: two nodes resolve to one system.
pub const DUPLICATE_TARGET: &str = "DuplicateTarget";

/// Judges what a device said of itself in a probe, against the pin and the Node as it was seen then.
pub fn judge(device: &FenceDevice, node: &NodeView, found: &Identity) -> Verdict {
    let check = device.spec.identity_check;
    if check == IdentityCheck::Skip {
        let message = "`identityCheck` is Skip: the wiring is not verified";
        return Verdict::Unchecked("Skipped", message.to_owned());
    }
    let named = found.system_uuid.as_deref();
    let Some(named) = named.filter(|uuid| usable_uuid(uuid).is_some()) else {
        return unusable(check, named);
    };
    match pinned(device, node) {
        Some(pin) => judge_pinned(device, node, pin, named, found),
        None => judge_unpinned(check, node, named, found),
    }
}

fn unusable(check: IdentityCheck, named: Option<&str>) -> Verdict {
    match (check, named) {
        (IdentityCheck::BestEffort, None) => {
            let message =
                "the device reports no system UUID and is accepted (`identityCheck` is BestEffort)";
            Verdict::Unchecked("NotNamed", message.to_owned())
        }
        (_, None) => Verdict::Refused(
            UNUSABLE,
            "the device reports no system UUID, and `identityCheck` is Required; set it to BestEffort or Skip if you vouch for the wiring"
                .to_owned(),
        ),
        (_, Some(named)) => Verdict::Refused(
            UNUSABLE,
            format!(
                "the device reports system UUID `{named}`, which identifies no machine; set the UUID in its firmware, or `identityCheck: Skip` if you vouch for the wiring"
            ),
        ),
    }
}

fn judge_pinned(
    device: &FenceDevice,
    node: &NodeView,
    pin: &PinnedSystem,
    named: &str,
    found: &Identity,
) -> Verdict {
    let own_is_usable = usable_uuid(&node.system_uuid).is_some();
    if same_system(named, &pin.uuid) {
        return if own_is_usable && !same_system(&node.system_uuid, &pin.uuid) {
            Verdict::Refused(MISMATCH, moved(node, pin))
        } else {
            let name = device.metadata.name.as_deref().unwrap_or_default();
            match rule(device, node).check(name, found) {
                Ok(()) => Verdict::Verified,
                Err(copy) => Verdict::Refused(MISMATCH, copy.to_string()),
            }
        };
    }
    let agrees = node.ready() == Ready::True && same_system(&node.system_uuid, named);
    if agrees && device.spec.reads() == Reads::Bmc {
        return Verdict::Pin(pin_of(node, found));
    }
    let way_out = match agrees {
        true => "create the FenceDevice again if the Node has moved there",
        false => "correct the device's address or `systemID`, of a VM the Node's `spec.providerID`",
    };
    Verdict::Refused(
        MISMATCH,
        format!(
            "the device reports system UUID {named}, the one pinned for Node {} is {}, and the Node reports `{}`; {way_out}",
            node.name, pin.uuid, node.system_uuid
        ),
    )
}

fn judge_unpinned(check: IdentityCheck, node: &NodeView, named: &str, found: &Identity) -> Verdict {
    if usable_uuid(&node.system_uuid).is_none() {
        let message = format!(
            "Node {} reports system UUID `{}`, which identifies no machine, so {named} cannot be pinned for it",
            node.name, node.system_uuid
        );
        return match check {
            IdentityCheck::Required => Verdict::Refused(
                UNUSABLE,
                format!(
                    "{message}; set `identityCheck` to BestEffort or Skip if you vouch for the wiring"
                ),
            ),
            IdentityCheck::BestEffort | IdentityCheck::Skip => {
                Verdict::Unchecked("NotComparable", message)
            }
        };
    }
    if !same_system(&node.system_uuid, named) {
        return Verdict::Refused(
            MISMATCH,
            format!(
                "the device reports system UUID {named}, Node {} reports {}; correct the device's address or `systemID`, of a VM the Node's `spec.providerID`",
                node.name, node.system_uuid
            ),
        );
    }
    match (node.ready(), check) {
        (Ready::True, _) => Verdict::Pin(pin_of(node, found)),
        (_, IdentityCheck::BestEffort) => Verdict::Verified,
        (_, _) => Verdict::NotYet(format!(
            "the device reports {named}, as does Node {}; the UUID is pinned once the Node is Ready",
            node.name
        )),
    }
}

/// The system that the device and the Node both name, as the Node spells it: IPMI has no text of its own, and a human compares texts.
fn pin_of(node: &NodeView, found: &Identity) -> PinnedSystem {
    PinnedSystem {
        node_name: node.name.clone(),
        node_uid: node.uid.clone(),
        uuid: node.system_uuid.clone(),
        serial_number: found.serial_number.clone(),
    }
}

/// Why the pin of a Node does not follow it to the system that the device names now: that is pinned for another Node that exists, whose pin stands.
/// A first pin is not judged here: the older one may be of a machine that was installed anew, so both nodes are blocked ([`duplicates`]).
pub fn taken(
    device: &FenceDevice,
    node: &NodeView,
    found: &Identity,
    wires: &[Wire],
) -> Option<String> {
    let pin = pinned(device, node)?;
    let Verdict::Pin(new) = judge(device, node, found) else {
        return None;
    };
    let is_others = |wire: &&Wire| {
        let uuid = wire.uuid.as_deref();
        wire.node != node.name && uuid.is_some_and(|uuid| same_system(uuid, &new.uuid))
    };
    let other = wires.iter().find(is_others)?;
    Some(format!(
        "system UUID {} is pinned for Node {} (FenceDevice {}), so Node {} stays pinned to {}; delete FenceDevice of Node {} ({}) and create it again if its machine has moved",
        new.uuid, other.node, other.device, node.name, pin.uuid, other.node, other.device
    ))
}

/// Every (device, node) that must not be used, because another node resolves to the same system, and why. Two devices of
/// *one* node on one system are no harm.
///
/// Nor does a UUID tell two machines apart whose Nodes both report it, so that it is pinned for neither, whichever of them has a device.
/// Once it is pinned, another Node that begins to report it changes nothing: the device named it when one Node did, and what a kubelet
/// says must not keep another machine from being fenced.
pub fn duplicates(wires: &[Wire], reports: &Reports<'_>) -> BTreeMap<(String, String), String> {
    let targets: BTreeSet<&str> = wires
        .iter()
        .flat_map(|wire| wire.targets.iter().map(String::as_str))
        .collect();
    let by_target = |wire: &Wire| {
        let own = wire.targets.iter();
        own.flat_map(|target| possible(&targets, target)).collect()
    };
    let by_uuid = |wire: &Wire| {
        let bytes = wire.uuid.as_deref().and_then(usable_uuid);
        bytes.map(orderless).into_iter().collect()
    };
    let mut blocked = BTreeMap::new();
    for wire in wires {
        if let Some(message) = reported::twice(wire, reports) {
            blocked.insert((wire.device.clone(), wire.node.clone()), message);
        }
    }
    note_shared(wires, by_uuid, &mut blocked, |wire, _| {
        let uuid = wire.uuid.as_deref().unwrap_or_default();
        format!("system UUID {uuid} is pinned for")
    });
    note_shared(wires, by_target, &mut blocked, |wire, target| {
        if wire.targets.contains(target) {
            return format!("{target} serves");
        }
        let own = wire
            .targets
            .iter()
            .find(|own| target.starts_with(&inside(own)));
        format!("{} may be {target}, which serves", own.unwrap_or(target))
    });
    blocked
}

/// What the target may be: itself, and each system at its address if it names none, or the outlet of each unit.
fn possible(targets: &BTreeSet<&str>, target: &str) -> Vec<String> {
    let inside = inside(target);
    let after = (Bound::Included(inside.as_str()), Bound::Unbounded);
    let systems = targets
        .range::<str, _>(after)
        .take_while(|other| other.starts_with(&inside));
    iter::once(&target)
        .chain(systems)
        .map(|one| (*one).to_owned())
        .collect()
}

/// How those begin that the target may be, beside itself.
fn inside(target: &str) -> String {
    format!("{target}/")
}

/// Two devices of one node, each with what it controls, that are one and the same, or may be: no harm in different levels, but of a level
/// that needs both, one supply would be taken for two, or one of them would for ever wait for the other's turn.
pub fn one_and_the_same<'a>(devices: &[(&'a str, Vec<String>)]) -> Option<(&'a str, &'a str)> {
    let known = devices.iter().filter(|(_, targets)| !targets.is_empty());
    let known: Vec<_> = known.collect();
    known
        .iter()
        .enumerate()
        .find_map(|(place, (name, targets))| {
            let may_be = |other: &&&(&str, Vec<String>)| may_be_the_same(&other.1, targets);
            let first = known.iter().take(place).find(may_be)?;
            Some((first.0, *name))
        })
}

/// What an outlet's table or a system's id leaves open counts as the same.
fn may_be_the_same(one: &[String], other: &[String]) -> bool {
    let is_same = |one: &str, other: &str| {
        one == other || one.starts_with(&inside(other)) || other.starts_with(&inside(one))
    };
    // Not by their number: one outlet of which two tables tell has two names.
    let covers = |all: &[String], by: &[String]| {
        let mut all = all.iter();
        all.all(|target| by.iter().any(|it| is_same(target, it)))
    };
    covers(one, other) && covers(other, one)
}

/// Why a level that needs both of these devices proves nothing, and the way out.
pub fn same_device_message(level: &str, (first, second): (&str, &str), node: &str) -> String {
    format!(
        "level `{level}` requires all devices, but FenceDevice {first} and {second} may be the same for Node {node}; correct address, `systemID` or `outlets` of one, or exclude it by `deviceSelector`"
    )
}

fn note_shared<K: Ord>(
    wires: &[Wire],
    keys: impl Fn(&Wire) -> Vec<K>,
    blocked: &mut BTreeMap<(String, String), String>,
    shared_with: impl Fn(&Wire, &K) -> String,
) {
    let mut users: BTreeMap<K, Vec<&Wire>> = BTreeMap::new();
    for wire in wires {
        for key in keys(wire) {
            users.entry(key).or_default().push(wire);
        }
    }
    for (key, group) in &users {
        let nodes: BTreeSet<&str> = group.iter().map(|wire| wire.node.as_str()).collect();
        if nodes.len() < 2 {
            continue;
        }
        for wire in group {
            let others = group.iter().filter(|other| other.node != wire.node);
            let others: Vec<&Wire> = others.take(OTHERS_NAMED_MAX).copied().collect();
            let message = format!("{} {}", shared_with(wire, key), too(&others));
            blocked.insert((wire.device.clone(), wire.node.clone()), message);
        }
    }
}

/// Those others, and the way out.
fn too(others: &[&Wire]) -> String {
    let named = |other: &&Wire| {
        let no_node = if other.node_exists {
            ""
        } else {
            ", whose Node does not exist"
        };
        format!(
            "Node {} (FenceDevice {}{no_node})",
            other.node, other.device
        )
    };
    let left_over = if others.iter().all(|other| other.node_exists) {
        ""
    } else {
        "delete the FenceDevice whose Node does not exist, or "
    };
    let named: Vec<String> = others.iter().map(named).collect();
    format!(
        "{} too; {left_over}correct address, `systemID` or `outlets` of the wrong one",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests;
