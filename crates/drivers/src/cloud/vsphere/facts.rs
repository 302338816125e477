//! What the answers of a vCenter mean. Pure, and total over any XML.

use super::super::operation::Follow;
use super::super::words::{Said, Word};
use super::soap::Content;
use crate::error::printable;
use crate::xml::{child, children, document, text};
use fencing_core::reading::{Identity, PowerState};
use roxmltree::Node;
use std::collections::BTreeMap;

/// `runtime.powerState`. A suspended VM keeps its memory: it has no power state here.
const STATES: [Word; 2] = [
    ("poweredOn", PowerState::On),
    ("poweredOff", PowerState::Off),
];
/// A VM and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Vm {
    pub(super) reference: String,
    pub(super) name: String,
    pub(super) said: Said,
    pub(super) identity: Identity,
    pub(super) host: Option<String>,
    pub(super) model: Option<String>,
    pub(super) restarter: Option<String>,
}

/// What a method returned: the `returnval`s of its response.
fn returned<'a, 'input>(root: Node<'a, 'input>) -> Result<Vec<Node<'a, 'input>>, String> {
    let body = child(root, "Body").ok_or("its answer has no body")?;
    let mut answers = body.children().filter(Node::is_element);
    let answer = answers
        .next()
        .filter(|it| it.tag_name().name().ends_with("Response"));
    let answer = answer.ok_or("its answer is no response")?;
    Ok(children(answer, "returnval").collect())
}

fn only<'a, 'input>(root: Node<'a, 'input>) -> Result<Node<'a, 'input>, String> {
    let mut all = returned(root)?.into_iter();
    let one = all.next().filter(|_| all.next().is_none());
    one.ok_or_else(|| "its answer does not hold one value".to_owned())
}

/// A reference to a managed object can stand in a request again.
fn reference(node: Node<'_, '_>) -> Option<String> {
    let text = node.text()?.trim();
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-_.:[]".contains(&it);
    let is_it = (1..=128).contains(&text.len()) && text.bytes().all(is_plain);
    is_it.then(|| text.to_owned())
}

/// # Errors
/// It names no such objects.
pub(super) fn content_of(answer: &str) -> Result<Content, String> {
    let document = document(answer)?;
    let value = only(document.root_element())?;
    let of = |name: &str| {
        let found = child(value, name).and_then(reference);
        found.ok_or_else(|| format!("its content names no {name}"))
    };
    let version = child(value, "about").and_then(|about| text(about, "apiVersion"));
    let is_version =
        |it: &&str| it.len() <= 16 && it.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    Ok(Content {
        version: version.filter(is_version).unwrap_or("6.7").to_owned(),
        session_manager: of("sessionManager")?,
        search_index: of("searchIndex")?,
        property_collector: of("propertyCollector")?,
        view_manager: of("viewManager")?,
        root_folder: of("rootFolder")?,
        authorization_manager: of("authorizationManager").unwrap_or_default(),
        session: String::new(),
    })
}

/// The key of the session that a login has opened; empty where it tells none.
pub(super) fn session_key(answer: &str) -> String {
    let key = || {
        let document = document(answer).ok()?;
        let session = only(document.root_element()).ok()?;
        child(session, "key").and_then(reference)
    };
    key().unwrap_or_default()
}

/// The privileges that were asked for, and whether the session has each.
///
/// # Errors
/// It does not say so of one object.
pub(super) fn privileges(answer: &str) -> Result<BTreeMap<String, bool>, String> {
    let document = document(answer)?;
    let of_vm = only(document.root_element())?;
    let one = |it: Node<'_, '_>| {
        let granted = match text(it, "isGranted")? {
            "true" => true,
            "false" => false,
            _ => return None,
        };
        Some((text(it, "privId")?.to_owned(), granted))
    };
    Ok(children(of_vm, "privAvailability")
        .filter_map(one)
        .collect())
}

/// # Errors
/// It is no list of references.
pub(super) fn references(answer: &str) -> Result<Vec<String>, String> {
    let document = document(answer)?;
    let all = returned(document.root_element())?;
    let all: Option<Vec<String>> = all.into_iter().map(reference).collect();
    all.ok_or_else(|| "it names what is no managed object".to_owned())
}

/// Objects of one kind and their properties.
struct Objects<'a, 'input>(Vec<Node<'a, 'input>>);

impl<'a, 'input> Objects<'a, 'input> {
    fn of(root: Node<'a, 'input>) -> Result<Self, String> {
        let values = returned(root)?;
        Ok(Self(
            values
                .into_iter()
                .flat_map(|it| children(it, "objects"))
                .collect(),
        ))
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = (Node<'a, 'input>, String)> {
        let is_it = |object: &Node<'_, '_>| object.attribute("type") == Some(kind);
        let found: Vec<_> = self
            .0
            .iter()
            .filter_map(|object| {
                let named = child(*object, "obj").filter(is_it)?;
                Some((*object, reference(named)?))
            })
            .collect();
        found.into_iter()
    }
}

/// The value of a property; of one that is there twice none.
fn property<'a, 'input>(object: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    let mut all = children(object, "propSet").filter(|it| text(*it, "name") == Some(name));
    let one = all.next().filter(|_| all.next().is_none())?;
    child(one, "val")
}

fn word<'a>(object: Node<'a, '_>, name: &str) -> Option<&'a str> {
    property(object, name)?.text().map(str::trim)
}

/// The VM that was asked for, and the host that runs it, as one answer has them.
///
/// # Errors
/// It is not there.
pub(super) fn vm(answer: &str, reference: &str) -> Result<Vm, String> {
    let document = document(answer)?;
    let objects = Objects::of(document.root_element())?;
    let mut vms = objects.of_kind("VirtualMachine");
    let (object, found) = vms.next().ok_or("it shows no VM")?;
    if found != reference || vms.next().is_some() {
        return Err(format!("{reference} was asked for, and it shows {found}"));
    }
    let mut vm = one(object, found);
    let hosts: Vec<_> = objects.of_kind("HostSystem").collect();
    let host = hosts.iter().find(|(_, id)| Some(id) == vm.host.as_ref());
    let state = host.and_then(|(host, _)| word(*host, "runtime.connectionState"));
    vm.said = vm.said.only_if(
        state == Some("connected"),
        format!("host {}", state.unwrap_or("not shown")),
    );
    vm.model = host
        .and_then(|(host, _)| word(*host, "name"))
        .map(|name| format!("VM on host {}", printable(name, 63)));
    Ok(vm)
}

/// A page of VMs, and the token of the next one.
///
/// # Errors
/// It is none.
pub(super) fn vms(answer: &str) -> Result<(Vec<Vm>, Option<String>), String> {
    let document = document(answer)?;
    let root = document.root_element();
    let token = returned(root)?.into_iter().find_map(|it| text(it, "token"));
    let objects = Objects::of(root)?;
    let all = objects.of_kind("VirtualMachine");
    let token = token.filter(|it| it.len() <= 128).map(str::to_owned);
    Ok((all.map(|(object, id)| one(object, id)).collect(), token))
}

/// A VM by itself: of its host nothing is known.
fn one(object: Node<'_, '_>, reference_of_it: String) -> Vm {
    let runtime = property(object, "runtime");
    let of = |name: &str| runtime.and_then(|it| text(it, name));
    let host = runtime.and_then(|it| child(it, "host")).and_then(reference);
    // Servers before 7.0.2 do not have it; one that has it has to say that there is none.
    let knows_failovers =
        runtime.is_some_and(|it| children(it, "vmFailoverInProgress").next().is_some());
    let no_failover = !knows_failovers || of("vmFailoverInProgress") == Some("false");
    let state = of("connectionState");
    let said = Said::of(&STATES, "powerState", of("powerState"))
        .only_if(
            state == Some("connected"),
            format!("VM {}", state.unwrap_or("not shown")),
        )
        .only_if(no_failover, "a failover of vSphere HA")
        .only_if(
            word(object, "config.template") == Some("false"),
            "a template",
        );
    let protection = runtime.and_then(|it| child(it, "dasVmProtection"));
    let is_protected = protection.and_then(|it| text(it, "dasProtected")) == Some("true");
    Vm {
        reference: reference_of_it,
        name: word(object, "name").unwrap_or_default().to_owned(),
        said,
        identity: Identity {
            system_uuid: word(object, "config.uuid").map(|it| printable(it, 63)),
            serial_number: word(object, "config.instanceUuid").map(|it| printable(it, 63)),
        },
        host,
        model: None,
        restarter: is_protected.then(|| "vSphere HA".to_owned()),
    }
}

/// Where a task stands.
///
/// # Errors
/// It is not shown.
pub(super) fn follow(answer: &str, task: &str) -> Result<Follow, String> {
    let document = document(answer)?;
    let objects = Objects::of(document.root_element())?;
    let mut tasks = objects.of_kind("Task").filter(|(_, id)| id == task);
    let (object, _) = tasks.next().ok_or("it shows no task")?;
    Ok(match word(object, "info.state") {
        Some("queued" | "running") => Follow::Running,
        Some("success") => Follow::Done,
        state => {
            let error = property(object, "info.error");
            let words = error.and_then(|it| text(it, "localizedMessage"));
            let fault = error.and_then(|it| child(it, "fault")).and_then(kind);
            let words = words.filter(|it| !it.is_empty()).or(fault.as_deref());
            if fault.as_deref() == Some("InvalidPowerState") {
                return Ok(Follow::Already(printable(words.unwrap_or_default(), 160)));
            }
            Follow::Failed(format!(
                "its task is {} ({})",
                printable(state.unwrap_or("in no state"), 40),
                printable(words.unwrap_or("no reason"), 160)
            ))
        }
    })
}

/// The `xsi:type` of an element without its prefix.
fn kind(node: Node<'_, '_>) -> Option<String> {
    const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
    let kind = node.attribute((XSI, "type"))?;
    Some(printable(kind.rsplit(':').next()?, 63))
}

/// Name and message of a fault.
pub(super) fn fault(answer: &str) -> Option<(String, String)> {
    let document = document(answer).ok()?;
    let fault = child(child(document.root_element(), "Body")?, "Fault")?;
    let message = text(fault, "faultstring").unwrap_or_default().to_owned();
    let detail = child(fault, "detail").and_then(|it| it.children().find(Node::is_element));
    let name = detail.map(|it| {
        let tag = it.tag_name().name();
        kind(it).unwrap_or_else(|| tag.strip_suffix("Fault").unwrap_or(tag).to_owned())
    });
    Some((name.unwrap_or_default(), message))
}
