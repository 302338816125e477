//! What the answers of Azure mean. Pure, and total over any JSON.

use super::super::kind::split;
use super::super::operation::Follow;
use super::super::words::{Said, Word};
use crate::address::Address;
use crate::error::printable;
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
/// Longest link that is followed: that of an operation has a certificate in it.
const LINK_BYTES_MAX: usize = 16 << 10;
/// Longest token, and the longest life that is believed.
const TOKEN_BYTES_MAX: usize = 16 << 10;
const LIFE_MAX: Duration = Duration::from_hours(24);

const PROVIDER: &str = "microsoft.compute";
const MACHINES: &str = "virtualmachines";
const SCALE_SETS: &str = "virtualmachinescalesets";

/// A virtual machine, or an instance of a scale set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Vm {
    pub(super) id: String,
    #[serde(default)]
    tags: Value,
    #[serde(default)]
    sku: Value,
    properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    vm_id: Option<String>,
    instance_view: Option<View>,
    #[serde(default)]
    additional_capabilities: Value,
    #[serde(default)]
    hardware_profile: Value,
    #[serde(default)]
    virtual_machine_scale_set: Value,
    #[serde(default)]
    priority: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct View {
    #[serde(default)]
    statuses: Vec<Status>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Status {
    code: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    pub(super) value: Vec<Vm>,
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

/// Where a machine stands, by a provider ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its ID in lower case, without a slash before it.
    pub(super) id: String,
    pub(super) subscription: String,
    pub(super) group: String,
}

/// The machine of `azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/` and `virtualMachines/N`, or
/// `virtualMachineScaleSets/SET/virtualMachines/NUMBER`. Azure tells no upper case from lower case.
pub(super) fn resource(provider_id: &str) -> Option<Resource> {
    let id = provider_id.strip_prefix("azure:///")?.to_ascii_lowercase();
    let parts: Vec<&str> = id.split('/').collect();
    let (subscription, group, names) = match *parts.as_slice() {
        [
            "subscriptions",
            subscription,
            "resourcegroups",
            group,
            "providers",
            PROVIDER,
            MACHINES,
            name,
        ] => (subscription, group, [group, name]),
        [
            "subscriptions",
            subscription,
            "resourcegroups",
            group,
            "providers",
            PROVIDER,
            SCALE_SETS,
            set,
            MACHINES,
            number,
        ] if is_number(number) => (subscription, group, [group, set]),
        _ => return None,
    };
    let is_right = is_guid(subscription) && names.into_iter().all(is_name);
    let (subscription, group) = (subscription.to_owned(), group.to_owned());
    is_right.then_some(Resource {
        id,
        subscription,
        group,
    })
}

fn is_guid(text: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_right)
}

fn is_number(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// May it be put into a path as it is? None ends with a dot or has two of them, so that none leads upward.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.()".contains(&byte);
    let leads_upward = text.ends_with('.') || text.contains("..");
    (1..=90).contains(&text.len()) && text.bytes().all(is_plain) && !leads_upward
}

/// The list that has this machine with its power: its path, and what is asked for there. That of virtual machines has all of a subscription, and
/// none of a scale set whose instances have numbers.
pub(super) fn list_of(id: &str) -> Option<(String, &'static str)> {
    match id.split_once(&format!("/{SCALE_SETS}/")) {
        Some((group, rest)) => {
            let set = rest.split('/').next()?;
            let path = format!("/{group}/{SCALE_SETS}/{set}/{MACHINES}");
            Some((path, "$expand=instanceView"))
        }
        None => {
            let subscription = subscription_of(id)?;
            let path = format!("/subscriptions/{subscription}/providers/{PROVIDER}/{MACHINES}");
            Some((path, "statusOnly=true"))
        }
    }
}

/// Below it lie the operations of a machine.
pub(super) fn operations_of(id: &str) -> Option<String> {
    let subscription = subscription_of(id)?;
    Some(format!(
        "/subscriptions/{subscription}/providers/{PROVIDER}/locations/"
    ))
}

/// The right to power this machine off.
pub(super) fn power_off_of(id: &str) -> &'static str {
    match id.contains(&format!("/{SCALE_SETS}/")) {
        true => "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action",
        false => "Microsoft.Compute/virtualMachines/powerOff/action",
    }
}

fn subscription_of(id: &str) -> Option<&str> {
    let rest = id.trim_start_matches('/').strip_prefix("subscriptions/")?;
    rest.split('/').next()
}

/// The path of a link that the other side gives: it is followed at this address and below this path alone, so that a token goes nowhere else.
///
/// # Errors
/// It leads elsewhere, in words.
pub(super) fn path_of(link: &str, own: &Address, below: &str) -> Result<String, String> {
    let (origin, path) = split(link);
    let is_own = Address::parse(origin).is_ok_and(|it| it == *own);
    let start = path.get(..below.len());
    let is_below = start.is_some_and(|it| it.eq_ignore_ascii_case(below));
    let is_plain = path.len() <= LINK_BYTES_MAX
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains("..");
    match is_own && is_below && is_plain {
        true => Ok(path.to_owned()),
        false => Err(format!(
            "it leads to {}, which is not followed",
            printable(link, 100)
        )),
    }
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
        let enabled = self
            .properties
            .additional_capabilities
            .get("hibernationEnabled");
        let may_hibernate = !matches!(enabled, None | Some(Value::Null | Value::Bool(false)));
        let shown = match provisioning.is_empty() {
            true => "not shown".to_owned(),
            false => provisioning.join(", "),
        };
        Said::of(&POWER, "PowerState", word.as_deref())
            .only_if(is_settled, format!("ProvisioningState {shown}"))
            .only_if(
                hibernation.is_empty(),
                format!("HibernationState {}", hibernation.join(", ")),
            )
            .only_if(
                !may_hibernate,
                "hibernation is enabled, which may keep its memory",
            )
    }

    /// What is behind this beginning of its statuses.
    fn codes(&self, kind: &str) -> Vec<&str> {
        let view = self.properties.instance_view.iter();
        let codes = view.flat_map(|it| &it.statuses);
        codes.filter_map(|it| it.code.strip_prefix(kind)).collect()
    }

    /// What starts it again, or puts another one in its place.
    pub(super) fn restarter(&self) -> Option<String> {
        if let Some(pool) = self
            .tags
            .get("aks-managed-poolName")
            .and_then(Value::as_str)
        {
            return Some(shown(&format!("AKS, node pool {pool}")));
        }
        let key = self.key();
        let by_id = key.split_once(&format!("/{SCALE_SETS}/"));
        let by_id = by_id.and_then(|(_, rest)| rest.split('/').next());
        let named = self.properties.virtual_machine_scale_set.get("id");
        let named = named.and_then(Value::as_str);
        let named = named.and_then(|it| it.rsplit('/').next());
        let set = by_id.or(named)?;
        Some(shown(&format!("scale set {set}")))
    }

    /// Its size, and whether it is a spot one.
    pub(super) fn model(&self) -> Option<String> {
        let size = self.properties.hardware_profile.get("vmSize");
        let size = size.or(self.sku.get("name")).and_then(Value::as_str)?;
        let is_spot = self.properties.priority == "Spot";
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
