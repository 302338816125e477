//! What a BareMetalHost, and the events of the one who switches it, mean. Pure, and total over any JSON.
//!
//! `status.poweredOn` is what baremetal-operator read of Ironic last, which is what Ironic read of the BMC last: it is false too before it was ever
//! read, and while a shutdown goes on that the guest was asked for. What makes it a proof is the order of three writes, see [`Host::said`].

use super::super::MachineId;
use super::super::kube::{Meta, Object};
use super::super::words::{Said, Word};
use fencing_core::reading::PowerState;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The annotation by which the host is held off. Each controller has one of its own, and the host is off while any of them is there.
pub(super) const HELD: &str = "reboot.metal3.io/node-fencing-operator";
/// Of all of them, with `/` and a name behind it or without.
const REBOOT: &str = "reboot.metal3.io";
const DETACHED: &str = "baremetalhost.metal3.io/detached";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
/// Where the power of a host follows its annotations.
const MANAGED: [&str; 2] = ["provisioned", "externally provisioned"];
/// The event of a hard power-off that Ironic has taken. That of a soft one has another message.
pub(super) const POWER_OFF: &str = "PowerOff";
const HARD: &str = "Host powered off";
/// `status.poweredOn`, as words. A host that runs under an order to be off is on its way: what is held by an order that was left standing is not
/// settled, and a probe has to say so.
const POWER: [Word; 3] = [
    ("poweredOn true", PowerState::On),
    (HELD_OFF, PowerState::Transitional),
    ("poweredOn false", PowerState::Off),
];
const HELD_OFF: &str = "poweredOn true, held off";

/// A host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Host {
    kind: Option<String>,
    pub(super) metadata: Meta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    online: bool,
    #[serde(default)]
    disable_power_off: bool,
    consumer_ref: Option<Consumer>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Consumer {
    kind: Option<String>,
    name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    powered_on: Option<bool>,
    operational_status: Option<String>,
    error_type: Option<String>,
    provisioning: Option<Provisioning>,
    hardware: Option<Hardware>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Provisioning {
    state: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hardware {
    system_vendor: Option<Vendor>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vendor {
    manufacturer: Option<String>,
    product_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// An event of baremetal-operator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    kind: Option<String>,
    metadata: Meta,
    involved_object: Involved,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Involved {
    uid: Option<String>,
}

impl Object for Host {
    const KIND: &'static str = "BareMetalHost";

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for Event {
    const KIND: &'static str = "Event";

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The value of our annotation. baremetal-operator reads the mode, and nothing else of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    mode: String,
    /// The version of the events when it was written: of later ones the host was turned off while it was there.
    after: String,
}

/// What a command needs of the reading before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The host by its uid: another one of its name is not touched.
    uid: String,
    /// The value of the annotation that a power-off writes.
    value: String,
    /// Is it there already?
    is_held: bool,
    /// Does the host run once it is gone?
    is_online: bool,
    /// Why no power-off can be asked for.
    pub(super) refused: Option<String>,
}

impl Host {
    /// Is it the machine of this Node? Where the provider ID names the machine of Cluster API, that one has the host now; where it has a uid alone,
    /// the host of this name has that one.
    ///
    /// # Errors
    /// It is another machine, in words.
    pub(super) fn check(&self, id: &MachineId) -> Result<(), String> {
        // NAMESPACE/HOST/MACHINE, or the uid alone.
        let said = id.region.as_deref();
        let parts = said.and_then(|it| it.rsplit_once('/'));
        let machine = parts.map(|(_, machine)| machine);
        let uid = &self.metadata.uid;
        let consumer = self.spec.consumer_ref.as_ref();
        let has = |machine: &str| {
            consumer.is_some_and(|it| {
                it.kind.as_deref() == Some("Metal3Machine") && it.name.as_deref() == Some(machine)
            })
        };
        let problem = match (said, machine) {
            _ if uid.is_empty() => "has no uid".to_owned(),
            (Some(other), None) if other != uid => format!("has the uid {uid}"),
            (_, Some(machine)) if !has(machine) => {
                let name = consumer.and_then(|it| it.name.as_deref());
                let name = name.unwrap_or("none");
                format!("has the consumer {name} and not {machine}")
            }
            _ => return Ok(()),
        };
        Err(format!("BareMetalHost {} {problem}", self.metadata.name))
    }

    /// Its power, beside the events, which were listed **before** it was read.
    ///
    /// baremetal-operator asks Ironic for a hard power-off only of a host that it shows on and Ironic does not know off, and writes the event after
    /// Ironic took it. So where an event came after our annotation, and the host read later says off, that off was written after the power-off was
    /// taken. And before Ironic shows off after that, it has read the BMC again.
    ///
    /// How long ago does not appear: nothing is written while nothing changes. An off that has become old is none of the next boot (S25).
    pub(super) fn said(&self, events: &[Event]) -> Said {
        let status = self.status.as_ref();
        let word = match status.and_then(|it| it.powered_on) {
            Some(true) if self.is_annotated(HELD) => Some(HELD_OFF),
            Some(true) => Some("poweredOn true"),
            Some(false) => Some("poweredOn false"),
            None => None,
        };
        let state = self.state();
        let operational = status.and_then(|it| it.operational_status.as_deref());
        let operational = operational.unwrap_or("missing");
        let error = status.and_then(|it| it.error_type.as_deref());
        let error = error.unwrap_or_default();
        let held = self.held();
        let is_after = held.is_some_and(|after| {
            let mut ours = events.iter();
            ours.any(|it| it.is_hard_off_of(&self.metadata.uid, after))
        });
        let unmanageable = self.has_condition("Manageable", "False");
        Said::of(&POWER, "poweredOn", word)
            .only_if(held.is_some(), "no annotation of this operator")
            .only_if(is_after, "no hard power-off since the annotation")
            .only_if(operational == "OK", format!("status {operational}"))
            .only_if(error.is_empty(), error)
            .only_if(!unmanageable, "BMC not manageable")
            .only_if(MANAGED.contains(&state), format!("state {state}"))
            .only_if(!self.spec.disable_power_off, "disablePowerOff")
            .only_if(!self.is_annotated(DETACHED), "detached")
            .only_if(!self.is_annotated(PAUSED), "paused")
            .only_if(self.metadata.deletion_timestamp.is_none(), "being deleted")
    }

    /// The version of the events after which our annotation was written, while it is held.
    fn held(&self) -> Option<u64> {
        let held: Held = serde_json::from_str(self.annotation(HELD)?).ok()?;
        let is_hard = held.mode == "hard";
        version(&held.after).filter(|_| is_hard)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(name).map(String::as_str)
    }

    fn is_annotated(&self, name: &str) -> bool {
        self.annotation(name).is_some()
    }

    fn state(&self) -> &str {
        let provisioning = self.status.as_ref().and_then(|it| it.provisioning.as_ref());
        let state = provisioning.and_then(|it| it.state.as_deref());
        state.unwrap_or("missing")
    }

    fn has_condition(&self, kind: &str, status: &str) -> bool {
        let conditions = self.status.iter().flat_map(|it| &it.conditions).flatten();
        let mut found = conditions.filter(|it| it.kind == kind);
        found.any(|it| it.status == status)
    }

    /// Why baremetal-operator would not turn it off, or not now.
    fn refused(&self) -> Option<String> {
        let state = self.state();
        if self.spec.disable_power_off {
            Some("`spec.disablePowerOff` is true: it would be rebooted instead".to_owned())
        } else if self.is_annotated(DETACHED) || self.is_annotated(PAUSED) {
            Some(
                "the host is detached or paused, so baremetal-operator does not switch it"
                    .to_owned(),
            )
        } else if !MANAGED.contains(&state) {
            Some(format!(
                "its state is {state}, and only a provisioned host follows the annotation"
            ))
        } else {
            None
        }
    }

    /// What a command needs, where the events had this version before the host was read. An annotation that is held is written again as it is: the
    /// power-off that it asked for may be under way, and is none after a later one.
    pub(super) fn plan(&self, events: &str) -> Plan {
        let held = self.held().and(self.annotation(HELD));
        let new = json!({"mode": "hard", "after": events});
        Plan {
            uid: self.metadata.uid.clone(),
            value: held.map_or_else(|| new.to_string(), str::to_owned),
            is_held: self.is_annotated(HELD),
            is_online: self.spec.online,
            refused: self.refused(),
        }
    }

    /// Is our annotation there, with this value?
    pub(super) fn holds(&self, plan: &Plan) -> bool {
        self.annotation(HELD) == Some(plan.value.as_str())
    }

    /// Maker and model, for people.
    pub(super) fn model(&self) -> Option<String> {
        let hardware = self.status.as_ref()?.hardware.as_ref()?;
        let vendor = hardware.system_vendor.as_ref()?;
        let parts = [&vendor.manufacturer, &vendor.product_name];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        Some(parts.join(" ")).filter(|it| !it.trim().is_empty())
    }

    /// What turns it on again by itself, unless an annotation like ours holds it off.
    pub(super) fn restarter(&self) -> Option<String> {
        let annotations = self.metadata.annotations.iter().flatten();
        let mut names = annotations.map(|(name, _)| name.as_str());
        let is_held = names.any(|it| it == REBOOT || it.starts_with("reboot.metal3.io/"));
        let restarts = self.spec.online && !is_held;
        restarts.then(|| "spec.online of the BareMetalHost".to_owned())
    }
}

impl Event {
    /// Has Ironic taken a hard power-off of this host since then?
    fn is_hard_off_of(&self, uid: &str, after: u64) -> bool {
        self.involved_object.uid.as_deref() == Some(uid)
            && self.reason.as_deref() == Some(POWER_OFF)
            && self.message.as_deref() == Some(HARD)
            && version(&self.metadata.resource_version).is_some_and(|it| it > after)
    }
}

/// A version, which grows with each write. Versions of objects of one kind can be compared.
pub(super) fn version(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

impl Plan {
    /// The patch that writes the annotation, or takes it away.
    pub(super) fn patch(&self, on: bool) -> Value {
        let value = match on {
            true => Value::Null,
            false => Value::from(self.value.as_str()),
        };
        json!({"metadata": {"uid": self.uid, "annotations": {HELD: value}}})
    }

    /// Why the host cannot be turned on by taking the annotation away.
    pub(super) fn no_on(&self) -> Option<&'static str> {
        match (self.is_held, self.is_online) {
            (_, false) => Some("`spec.online` is false; set it to true"),
            (false, true) => Some(
                "no annotation of this operator holds it off; remove other reboot annotations, or wait for baremetal-operator",
            ),
            (true, true) => None,
        }
    }
}
