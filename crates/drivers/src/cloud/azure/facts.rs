//! What the answers of Azure mean. Pure, and total over any JSON.

use super::super::operation::Follow;
use super::super::words::{Said, Word};
use super::places::SCALE_SETS;
use crate::error::printable;
use crate::json::{Any, Few, Object, Text};
use fencing_core::reading::PowerState;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Codes of the instance view that begin with `PowerState/`. There is `unknown`, too, which is no state here.
const POWER: [Word; 6] = [
    ("starting", PowerState::Transitional),
    ("running", PowerState::On),
    ("stopping", PowerState::Transitional),
    ("stopped", PowerState::Off),
    ("deallocating", PowerState::Transitional),
    ("deallocated", PowerState::Off),
];
/// The one code that begins with `ProvisioningState/` beside which an Off counts: no operation is at work on the machine, and the last one has
/// not failed. A machine that is being started may read `stopped` for a moment (Microsoft says so).
const SETTLED: &str = "succeeded";
/// Longest text of a machine that is kept.
const TEXT_CHARACTERS_MAX: usize = 63;
/// Statuses of one machine, and machines of one page.
const STATUSES_MAX: usize = 64;
const PAGE_MAX: usize = 2000;
/// Longest token, and the longest life that is believed.
const TOKEN_BYTES_MAX: usize = 16 << 10;
const LIFE_MAX: Duration = Duration::from_hours(24);

/// A virtual machine, or an instance of a scale set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Vm {
    pub(super) id: String,
    #[serde(default)]
    tags: Object<Tags>,
    #[serde(default)]
    sku: Object<Named>,
    properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    vm_id: Option<String>,
    instance_view: Option<View>,
    #[serde(default)]
    additional_capabilities: Object<Capabilities>,
    #[serde(default)]
    hardware_profile: Object<Profile>,
    #[serde(default)]
    virtual_machine_scale_set: Object<Named>,
    #[serde(default)]
    priority: Text,
}

/// The tag of AKS.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Tags {
    #[serde(rename = "aks-managed-poolName")]
    pool: Text,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Named {
    id: Text,
    name: Text,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Capabilities {
    hibernation_enabled: Any,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Profile {
    vm_size: Text,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct View {
    #[serde(default)]
    statuses: Few<Status, STATUSES_MAX>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Status {
    code: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    pub(super) value: Few<Vm, PAGE_MAX>,
    pub(super) next_link: Option<String>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Operation {
    status: String,
    name: Option<String>,
    #[serde(default)]
    error: Value,
}

/// What an account may do with a machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Permissions {
    value: Vec<Permission>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Permission {
    #[serde(default)]
    actions: Vec<String>,
    #[serde(default)]
    not_actions: Vec<String>,
}

impl Vm {
    /// Is it the one that was asked for?
    ///
    /// # Errors
    /// It is another one, in words.
    pub(super) fn check(&self, id: &str) -> Result<(), String> {
        match self.key() == id {
            true => Ok(()),
            false => {
                let shown = printable(&self.id, 200);
                Err(format!("{id} was asked for, and it shows {shown}"))
            }
        }
    }

    /// Its ID in the form of [`Resource::id`].
    pub(super) fn key(&self) -> String {
        self.id.trim_start_matches('/').to_ascii_lowercase()
    }

    /// What the firmware shows to the guest as the system's UUID: for machines of generation 1 with the first three fields in the other byte
    /// order.
    pub(super) fn uuid(&self) -> Option<String> {
        self.properties.vm_id.as_deref().map(str::to_lowercase)
    }

    /// Its power. One that may be hibernated is never off: Azure shows it as deallocated, and one that hibernates by itself as stopped.
    pub(super) fn said(&self) -> Said {
        let power = self.codes("PowerState/");
        let provisioning = self.codes("ProvisioningState/");
        let hibernation = self.codes("HibernationState/");
        let word = (!power.is_empty()).then(|| power.join(", "));
        let is_settled = provisioning.first() == Some(&SETTLED) && provisioning.len() == 1;
        let Object(capabilities) = &self.properties.additional_capabilities;
        let Any(may_hibernate) = capabilities.hibernation_enabled;
        let shown = match provisioning.is_empty() {
            true => "not shown".to_owned(),
            false => provisioning.join(", "),
        };
        Said::of(&POWER, "PowerState", word.as_deref())
            .only_if(is_settled, format!("ProvisioningState {shown}"))
            .only_without_memory(
                hibernation.is_empty(),
                format!("HibernationState {}", hibernation.join(", ")),
            )
            .only_without_memory(
                !may_hibernate,
                "hibernation is enabled, which may keep its memory",
            )
    }

    /// What is behind this beginning of its statuses.
    fn codes(&self, kind: &str) -> Vec<&str> {
        let view = self.properties.instance_view.iter();
        let codes = view.flat_map(|it| &it.statuses.0);
        codes.filter_map(|it| it.code.strip_prefix(kind)).collect()
    }

    /// What starts it again, or puts another one in its place.
    pub(super) fn restarter(&self) -> Option<String> {
        if let Some(pool) = self.tags.0.pool.as_str() {
            return Some(shown(&format!("AKS, node pool {pool}")));
        }
        let key = self.key();
        let by_id = key.split_once(&format!("/{SCALE_SETS}/"));
        let by_id = by_id.and_then(|(_, rest)| rest.split('/').next());
        let named = self.properties.virtual_machine_scale_set.0.id.as_str();
        let named = named.and_then(|it| it.rsplit('/').next());
        let set = by_id.or(named)?;
        Some(shown(&format!("scale set {set}")))
    }

    /// Its size, and whether it is a spot one.
    pub(super) fn model(&self) -> Option<String> {
        let size = self.properties.hardware_profile.0.vm_size.as_str();
        let size = size.or(self.sku.0.name.as_str())?;
        let is_spot = self.properties.priority.as_str() == Some("Spot");
        let spot = if is_spot { ", spot" } else { "" };
        Some(shown(&format!("{size}{spot}")))
    }
}

fn shown(text: &str) -> String {
    printable(text, TEXT_CHARACTERS_MAX)
}

impl Operation {
    /// Where it stands, if it is the one with this path.
    pub(super) fn follow(&self, path: &str) -> Follow {
        let own = path.split('?').next().and_then(|it| it.rsplit('/').next());
        let is_it = match (&self.name, own) {
            (Some(name), Some(own)) => name.eq_ignore_ascii_case(own),
            _ => true,
        };
        match self.status.as_str() {
            "InProgress" if is_it => Follow::Running,
            "Succeeded" if is_it => Follow::Done,
            status => {
                let word = |name: &str| self.error.get(name).and_then(Value::as_str);
                let why = [word("code"), word("message")].into_iter().flatten();
                let why: Vec<&str> = why.collect();
                Follow::Failed(format!("its operation is {status} ({})", why.join(": ")))
            }
        }
    }
}

impl Permissions {
    /// Is this action among them?
    pub(super) fn allow(&self, action: &str) -> bool {
        let action = action.to_ascii_lowercase();
        let has = |all: &[String]| {
            let mut all = all.iter().map(|it| it.to_ascii_lowercase());
            all.any(|it| covers(&it, &action))
        };
        let mut each = self.value.iter();
        each.any(|it| has(&it.actions) && !has(&it.not_actions))
    }
}

/// Does a right in which `*` stands for anything cover this action?
fn covers(right: &str, action: &str) -> bool {
    let Some((first, rest)) = right.split_once('*') else {
        return right == action;
    };
    let Some(mut left) = action.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        // An empty part leaves all of it.
        let Some((_, behind)) = left.split_once(part) else {
            return false;
        };
        left = behind;
    }
    left.ends_with(last)
}

/// The token that Entra ID or the metadata service gives, and its life.
///
/// # Errors
/// It gives none; no part of it is shown.
pub(super) fn token(answer: &Value) -> Result<(String, Duration), String> {
    let text = |name: &str| answer.get(name).and_then(Value::as_str);
    let seconds = answer.get("expires_in");
    // The metadata service writes the number as a text.
    let seconds = seconds.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
    let is_bearer = text("token_type").is_some_and(|it| it.eq_ignore_ascii_case("bearer"));
    let is_token = |it: &&str| {
        (1..=TOKEN_BYTES_MAX).contains(&it.len()) && it.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match (text("access_token").filter(is_token), seconds) {
        (Some(token), Some(seconds)) if is_bearer => {
            let life = Duration::from_secs(seconds).min(LIFE_MAX);
            Ok((token.to_owned(), life))
        }
        _ => Err("it gives no token".to_owned()),
    }
}
