//! What the answers of EC2 and STS mean. Pure, and total over any XML.

use super::super::MachineId;
use super::super::words::{Said, Word};
use super::sign::Keys;
use crate::error::printable;
use crate::xml::{child, children, document, text};
use fencing_core::reading::PowerState;
use roxmltree::Node;
use serde::Deserialize;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// `instanceState/name`.
const STATES: [Word; 6] = [
    ("pending", PowerState::Transitional),
    ("running", PowerState::On),
    ("shutting-down", PowerState::Transitional),
    ("stopping", PowerState::Transitional),
    ("stopped", PowerState::Off),
    (TERMINATED, PowerState::Off),
];
/// One that is gone for good: its memory, its addresses, and its power.
const TERMINATED: &str = "terminated";
/// `instanceState/code` beside them, of which EC2 uses the higher bits for itself.
const CODES: [(&str, u16); 2] = [("stopped", 80), (TERMINATED, 48)];
/// `stateReason/code` of a stop that an account has ordered. It keeps no memory, unless it came while the instance hibernated.
const STOPPED: &str = "Client.UserInitiatedShutdown";
/// The same of a stop by the guest itself, and by EC2 before a host retires, of an instance that is no spot one. Any other reason may keep memory:
/// a spot instance may be hibernated when it is interrupted, by an agent within it, too, and its reason does not show it.
const STOPPED_OTHERWISE: [&str; 2] = ["Client.InstanceInitiatedShutdown", "Server.ScheduledStop"];
/// How an instance reads that goes off by an order. One that does for another reason may be writing its memory to its disk.
pub(super) const STOPPING_BY_ORDER: &str = "stopping, Client.UserInitiatedShutdown";
/// Longest text of an instance that is kept.
const TEXT_CHARACTERS_MAX: usize = 63;

/// An instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) said: Said,
    /// Its private addresses, which it keeps while it is stopped.
    addresses: Vec<IpAddr>,
    is_terminated: bool,
    pub(super) restarter: Option<String>,
    pub(super) model: Option<String>,
}

/// `i-` and 8 or 17 hexadecimal digits.
pub(super) fn is_id(text: &str) -> bool {
    let digits = text.strip_prefix("i-").unwrap_or_default();
    let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    matches!(digits.len(), 8 | 17) && digits.bytes().all(is_digit)
}

/// The instance that was asked for.
///
/// # Errors
/// It is not there, or not alone.
pub(super) fn instance(answer: &str, id: &str) -> Result<Instance, String> {
    let (found, _) = instances(answer)?;
    match <[Instance; 1]>::try_from(found) {
        Ok([one]) if one.id == id => Ok(one),
        Ok([one]) => Err(format!("{id} was asked for, and it shows {}", one.id)),
        Err(all) => Err(format!(
            "{id} was asked for, and it shows {} instances",
            all.len()
        )),
    }
}

/// The instances of an answer, and the token of the next page.
///
/// # Errors
/// It is no list of instances.
pub(super) fn instances(answer: &str) -> Result<(Vec<Instance>, Option<String>), String> {
    let document = document(answer)?;
    let root = named(&document, "DescribeInstancesResponse")?;
    let reservations = child(root, "reservationSet").ok_or("it shows no reservations")?;
    let mut all = Vec::new();
    for reservation in children(reservations, "item") {
        let instances = child(reservation, "instancesSet").ok_or("it shows no instances")?;
        for item in children(instances, "item") {
            all.push(one(item).ok_or("it shows an instance without an ID")?);
        }
    }
    let next = text(root, "nextToken").filter(|it| (1..=4096).contains(&it.len()));
    Ok((all, next.map(str::to_owned)))
}

fn named<'a>(document: &'a roxmltree::Document<'a>, name: &str) -> Result<Node<'a, 'a>, String> {
    let root = document.root_element();
    let found = root.tag_name().name();
    match found == name {
        true => Ok(root),
        false => Err(format!("it is no {name} but {}", printable(found, 40))),
    }
}

fn one(item: Node<'_, '_>) -> Option<Instance> {
    let id = text(item, "instanceId").filter(|id| is_id(id))?;
    let state = child(item, "instanceState");
    let name = state.and_then(|it| text(it, "name"));
    let shown = |it: &str| printable(it, TEXT_CHARACTERS_MAX);
    let kind = text(item, "instanceType").map(shown);
    let lifecycle = text(item, "instanceLifecycle").map(shown);
    let words: Vec<String> = kind.into_iter().chain(lifecycle).collect();
    Some(Instance {
        id: id.to_owned(),
        said: said(item, name, state),
        addresses: addresses(item),
        is_terminated: name == Some(TERMINATED),
        restarter: restarter(item),
        model: (!words.is_empty()).then(|| words.join(", ")),
    })
}

fn said(item: Node<'_, '_>, name: Option<&str>, state: Option<Node<'_, '_>>) -> Said {
    let code = state.and_then(|it| text(it, "code"));
    let expected = CODES.iter().find(|(it, _)| Some(*it) == name);
    let number = code
        .and_then(|it| it.parse::<u16>().ok())
        .map(|it| it & 0xff);
    let said = Said::of(&STATES, "instanceState", name).only_if(
        expected.is_some_and(|(_, it)| Some(*it) == number),
        format!("state code {}", code.unwrap_or("not shown")),
    );
    let reason = child(item, "stateReason").and_then(|it| text(it, "code"));
    let reason = reason.filter(|it| !it.is_empty());
    let raw = match (name, reason) {
        (Some("stopped" | "stopping"), Some(reason)) => format!("{}, {reason}", said.raw),
        _ => said.raw.clone(),
    };
    let said = Said {
        raw: printable(&raw, TEXT_CHARACTERS_MAX),
        ..said
    };
    if name == Some(TERMINATED) {
        return said;
    }
    let hibernation = child(item, "hibernationOptions").and_then(|it| text(it, "configured"));
    let is_spot = child(item, "instanceLifecycle").is_some();
    let is_otherwise = !is_spot && reason.is_some_and(|it| STOPPED_OTHERWISE.contains(&it));
    said.only_without_memory(
        reason == Some(STOPPED) || is_otherwise,
        format!("reason {}", reason.unwrap_or("not shown")),
    )
    .only_without_memory(
        hibernation == Some("false") || (reason == Some(STOPPED) && hibernation.is_none()),
        "hibernation is configured, which may keep its memory",
    )
}

fn addresses(item: Node<'_, '_>) -> Vec<IpAddr> {
    let interfaces = child(item, "networkInterfaceSet");
    let interfaces = interfaces.into_iter().flat_map(|it| children(it, "item"));
    let of = |node: Node<'_, '_>, name: &str| text(node, name)?.parse::<IpAddr>().ok();
    let of_interface = interfaces.flat_map(|interface| {
        let sets = [
            ("privateIpAddressesSet", "privateIpAddress"),
            ("ipv6AddressesSet", "ipv6Address"),
        ];
        sets.into_iter().flat_map(move |(set, name)| {
            let items = child(interface, set);
            let items = items.into_iter().flat_map(|it| children(it, "item"));
            items.filter_map(move |it| of(it, name))
        })
    });
    of(item, "privateIpAddress")
        .into_iter()
        .chain(of_interface)
        .collect()
}

/// What starts it again, or puts another instance in its place.
fn restarter(item: Node<'_, '_>) -> Option<String> {
    let tags = child(item, "tagSet")
        .into_iter()
        .flat_map(|it| children(it, "item"));
    let mut groups = tags.filter(|it| text(*it, "key") == Some("aws:autoscaling:groupName"));
    let group = groups.next().and_then(|it| text(it, "value"));
    if let Some(group) = group {
        let group = printable(group, TEXT_CHARACTERS_MAX);
        return Some(format!("Auto Scaling group {group}"));
    }
    let operator = child(item, "operator").filter(|it| text(*it, "managed") == Some("true"))?;
    let principal = text(operator, "principal").unwrap_or("a service of AWS");
    Some(printable(principal, TEXT_CHARACTERS_MAX))
}

impl Instance {
    /// Is it the machine of this Node? EC2 tells no UUID, so it needs one of the addresses, too. One that is gone for good has none any more.
    ///
    /// # Errors
    /// It is another machine, in words.
    pub(super) fn check(&self, id: &MachineId) -> Result<(), String> {
        let is_gone = self.is_terminated && self.addresses.is_empty();
        match is_gone || id.addresses.iter().any(|it| self.addresses.contains(it)) {
            true => Ok(()),
            false => Err(format!("instance {} has no address of the Node", self.id)),
        }
    }
}

/// The states of an instance before and after a command, as the answer to it has them.
///
/// # Errors
/// It does not name the instance.
pub(super) fn change(answer: &str, command: &str, id: &str) -> Result<[String; 2], String> {
    let document = document(answer)?;
    let root = named(&document, &format!("{command}Response"))?;
    let all = child(root, "instancesSet")
        .into_iter()
        .flat_map(|it| children(it, "item"));
    let mut own = all.filter(|it| text(*it, "instanceId") == Some(id));
    let item = own.next().filter(|_| own.next().is_none());
    let item = item.ok_or_else(|| format!("it does not name {id}"))?;
    let of = |name: &str| child(item, name).and_then(|it| text(it, "name"));
    let states = of("previousState").zip(of("currentState"));
    let (before, after) = states.ok_or("it does not name the states")?;
    Ok([before, after].map(|it| printable(it, 40)))
}

/// The keys that STS gives.
///
/// # Errors
/// It gives none; no part of it is shown.
pub(super) fn keys(answer: &str) -> Result<Keys, String> {
    let document = document(answer)?;
    let root = named(&document, "AssumeRoleWithWebIdentityResponse")?;
    let result = child(root, "AssumeRoleWithWebIdentityResult");
    let credentials = result.and_then(|it| child(it, "Credentials"));
    let of = |name: &str| {
        let found = credentials.and_then(|it| text(it, name));
        found.filter(|it| !it.is_empty()).map(str::to_owned)
    };
    let [id, secret, session] = ["AccessKeyId", "SecretAccessKey", "SessionToken"].map(of);
    match (id, secret, session) {
        (Some(id), Some(secret), Some(session)) => Ok(Keys {
            id,
            secret: Zeroizing::new(secret),
            session: Zeroizing::new(session),
        }),
        _ => Err("it gives no keys".to_owned()),
    }
}

/// The keys that an agent gives.
///
/// # Errors
/// It gives none; no part of it is shown.
pub(super) fn agents_keys(answer: &str) -> Result<Keys, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Given {
        access_key_id: String,
        secret_access_key: String,
        token: String,
    }
    let given: Given = serde_json::from_str(answer).map_err(|_| "it gives no keys".to_owned())?;
    Ok(Keys {
        id: given.access_key_id,
        secret: Zeroizing::new(given.secret_access_key),
        session: Zeroizing::new(given.token),
    })
}

/// Code and message of an error: of EC2 within `Response/Errors`, of STS within `ErrorResponse`. What AWS encodes for its own tools is left out.
pub(super) fn error(answer: &str) -> Option<(String, String)> {
    let document = document(answer).ok()?;
    let root = document.root_element();
    let within = child(root, "Errors").unwrap_or(root);
    let error = child(within, "Error")?;
    let message = text(error, "Message").unwrap_or_default();
    let message = message.split("Encoded authorization failure").next();
    let code = text(error, "Code").unwrap_or_default().to_owned();
    Some((code, message.unwrap_or_default().trim().to_owned()))
}
