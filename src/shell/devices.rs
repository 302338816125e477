//! From a FenceDevice to the driver for one node: its address, its Secret, its turn.
//!
//! A rotated password counts at once: Secret and CA are read by name for each use, and the Secret again where a device refuses what it said
//! ([`renewal`]). Four things are kept, each for its reason: for a second beside a claim ([`super::early`]), for seconds between looks in
//! peace time ([`recent`]), the keys that SNMPv3 makes of a Secret ([`fencing_drivers::pdu::keyring`]), and when a Redfish service took our off and our login
//! ([`pasts`]).
//!
//! An address that credentials may not go to is refused before the Secret is even read (S16). BMCs do
//! one thing at a time, so whoever talks to one takes a [`Devices::turn`] first and keeps it to the end of the session.

mod access;
mod accused;
mod pasts;
mod recent;
mod renewal;
mod sources;
mod upkeep;

pub use access::Access;
pub use recent::Freshness;
pub use upkeep::Upkeep;

use access::Maker;
use accused::Accused;
use pasts::Pasts;
use recent::Recent;
use sources::Kept;

use crate::shell::outside::Outside;
use fencing_api::device::{FenceDevice, PositiveControl, Reads};
use fencing_core::control::Control;
use fencing_core::identity::{self, Wire};
use fencing_core::identity_rule::IdentityRule;
use fencing_core::observed::NodeView;
use fencing_core::reading::Identity;
use fencing_core::select::serves;
use fencing_drivers::address::AddressRules;
use fencing_drivers::clock::Clock;
use fencing_drivers::cloud::account::Accounts;
use fencing_drivers::{FenceDriver, NodeFacts, targets_of};
use jiff::Timestamp;
use kube::Client;
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, Semaphore, SemaphorePermit};

pub use fencing_core::identity::rule as identity_rule;

/// Looks at the same time before a claim, at most: what they need of memory is bounded, too.
const LOOKS_MAX: u64 = 2048;
/// Secrets that are read at the same time for these looks: each takes a connection to the API server.
const SECRETS_MAX: usize = 64;

/// Looks at the same time before a claim, where the process may open so many files: the silent devices of a rack shall keep nobody waiting for whom
/// there are files. A look holds two at most, its device's and that of the request for its Secret, which stays open for a while: half of them all.
pub fn looks_at_once(files: Option<u64>) -> usize {
    let looks = files.map_or(LOOKS_MAX, |files| (files / 4).clamp(1, LOOKS_MAX));
    usize::try_from(looks).unwrap_or(1)
}

/// Makes drivers, and knows whose turn it is.
pub struct Devices {
    maker: Arc<Maker>,
    looks: Semaphore,
    accused: Accused,
    secrets: Semaphore,
    turns: Mutex<HashMap<String, Arc<Turn<()>>>>,
    survey: RwLock<Option<Survey>>,
}

/// Why a (device, node) must not be used: another node resolves to the same system.
pub type Duplicates = BTreeMap<(String, String), String>;

/// All devices, compared with each other.
struct Survey {
    duplicates: Duplicates,
    wires: Vec<Wire>,
}

impl Devices {
    /// `client` reads Secrets and ConfigMaps in `namespace`, the operator's own.
    pub fn new(client: Client, namespace: String, rules: AddressRules, clock: Clock) -> Self {
        Self::through(Outside::network(&rules), client, namespace, rules, clock)
    }

    /// The same for `probe FILE`: `client` answers from files, and an object that is missing belongs there.
    pub fn of_files(client: Client, namespace: String, rules: AddressRules, clock: Clock) -> Self {
        let outside = Outside::network(&rules);
        Self::made(Kept::InFiles, outside, client, namespace, rules, clock)
    }

    /// What is said of a Node for `probe FILE`, which compares no devices.
    pub fn note_node(&self, facts: NodeFacts) {
        self.maker.note_node(facts);
    }

    /// The same, with another way to the devices.
    pub fn through(
        outside: Outside,
        client: Client,
        namespace: String,
        rules: AddressRules,
        clock: Clock,
    ) -> Self {
        Self::made(Kept::InCluster, outside, client, namespace, rules, clock)
    }

    fn made(
        kept: Kept,
        outside: Outside,
        client: Client,
        namespace: String,
        rules: AddressRules,
        clock: Clock,
    ) -> Self {
        let accounts = Accounts::in_these(outside.surroundings.clone());
        Self {
            maker: Arc::new(Maker {
                outside,
                client,
                namespace,
                kept,
                rules: Arc::new(rules),
                clock,
                key: RandomState::new(),
                refusals: Arc::default(),
                keyring: Arc::default(),
                accounts: Arc::new(accounts),
                nodes: RwLock::default(),
                hosts: RwLock::default(),
                pasts: Pasts::default(),
                versions: RwLock::default(),
                opened: Recent::default(),
                bundles: Recent::default(),
            }),
            accused: Accused::default(),
            looks: Semaphore::new(looks_at_once(getrlimit(Resource::Nofile).current)),
            secrets: Semaphore::new(SECRETS_MAX),
            turns: Mutex::default(),
            survey: RwLock::default(),
        }
    }

    /// Waits until there is room for one more look before a claim. What is done under a claim is bounded by the policy's budget, and waits for none.
    pub async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.looks.acquire().await.ok()
    }

    /// A probe of this process has learned this of the device's positive control.
    pub fn note_control(&self, device: &FenceDevice, row: &PositiveControl) {
        self.accused.note(device, row);
    }

    /// The positive control of a device for the boot that is to be fenced, as far as this process knows it ([`control::of`]).
    pub fn control(
        &self,
        device: &FenceDevice,
        node: &NodeView,
        boot_id: &str,
        now: Timestamp,
    ) -> Control {
        self.accused.control(device, node, boot_id, now)
    }

    /// The same for the Secret of such a look.
    pub async fn room_for_secret(&self) -> Option<SemaphorePermit<'_>> {
        self.secrets.acquire().await.ok()
    }

    /// Waits until nobody else talks to the device, and keeps everybody else away until the guard is dropped.
    pub async fn turn(&self, driver: &dyn FenceDriver) -> OwnedMutexGuard<()> {
        self.turn_of(driver).lock_owned().await
    }

    /// The turn, if it is free now.
    pub fn turn_now(&self, driver: &dyn FenceDriver) -> Option<OwnedMutexGuard<()>> {
        self.turn_of(driver).try_lock_owned().ok()
    }

    /// Does nobody talk to a device of this one's `serializationGroup` now? Asked before its Secret is read for nothing.
    pub fn is_group_free(&self, device: &FenceDevice) -> bool {
        let group = device.spec.serialization_group.as_ref();
        let turn = group.map(|group| self.turn_named(group_name(group)));
        turn.is_none_or(|turn| turn.try_lock().is_ok())
    }

    fn turn_of(&self, driver: &dyn FenceDriver) -> Arc<Turn<()>> {
        self.turn_named(format!("target {}", driver.target()))
    }

    fn turn_named(&self, name: String) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= TURNS_KEPT {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(name).or_default())
    }

    /// Compares all devices with each other, and returns the devices for which the outcome has changed. Until this has been
    /// done once, no device is believed. Keys that none of them needs are dropped, and what was learned of others.
    pub fn survey(&self, devices: &[&FenceDevice], nodes: &[&NodeView]) -> BTreeSet<String> {
        self.maker.keyring.keep_those_of(devices);
        self.maker.note_versions(devices);
        self.maker.note_nodes(nodes);
        let wires = wires(devices, nodes);
        let targets = wires.iter().flat_map(|wire| &wire.targets);
        self.maker.pasts.keep_those_of(targets);
        let found = identity::duplicates(&wires, &identity::reports(nodes.iter().copied()));
        let survey = Survey {
            duplicates: found.clone(),
            wires,
        };
        let mut surveyed = self.survey.write().unwrap_or_else(PoisonError::into_inner);
        let before = surveyed.replace(survey).map(|before| before.duplicates);
        let before = before.unwrap_or_default();
        let differs =
            |(pair, _): &(&(String, String), &String)| before.get(*pair) != found.get(*pair);
        let changed = found.iter().chain(&before).filter(differs);
        changed.map(|((device, _), _)| device.clone()).collect()
    }

    /// The comparison is old: no device is believed until the next one.
    pub fn forget_survey(&self) {
        *self.survey.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Why the device must not be used for this node: another node resolves to the same system (`DuplicateTarget`).
    pub fn duplicate(&self, device: &str, node: &str) -> Option<String> {
        let survey = self.survey.read().unwrap_or_else(PoisonError::into_inner);
        match &*survey {
            Some(survey) => survey
                .duplicates
                .get(&(device.to_owned(), node.to_owned()))
                .cloned(),
            None => Some("the devices have not been compared with each other yet".to_owned()),
        }
    }

    /// Why the pin of the Node does not follow it to the system that answers at the device now ([`identity::taken`]).
    pub fn taken(&self, device: &FenceDevice, node: &NodeView, found: &Identity) -> Option<String> {
        let survey = self.survey.read().unwrap_or_else(PoisonError::into_inner);
        let survey = survey.as_ref()?;
        identity::taken(device, node, found, &survey.wires)
    }

    /// Who must answer at this device when the node is fenced: [`identity_rule`], and nobody if two nodes share a system.
    pub fn identity_rule(&self, device: &FenceDevice, node: &NodeView) -> IdentityRule {
        let name = device.metadata.name.as_deref().unwrap_or_default();
        self.duplicate(name, &node.name)
            .map_or_else(|| identity_rule(device, node), IdentityRule::Refused)
    }
}

/// The turn of a `serializationGroup`.
fn group_name(group: &str) -> String {
    format!("group {group}")
}

/// Turns that nobody waits for are thrown away once there are so many.
const TURNS_KEPT: usize = 1024;

/// Every (device, node) pair of the cluster, as far as it can be told from the objects alone.
fn wires(devices: &[&FenceDevice], nodes: &[&NodeView]) -> Vec<Wire> {
    let by_name: HashMap<&str, &NodeView> = nodes
        .iter()
        .map(|node| (node.name.as_str(), *node))
        .collect();
    let mut wires = Vec::new();
    for device in devices {
        let wire = |name: &str, node: Option<&NodeView>| Wire {
            device: device.metadata.name.clone().unwrap_or_default(),
            node: name.to_owned(),
            node_exists: node.is_some(),
            targets: targets_of(
                device,
                &node.map_or_else(|| NodeFacts::named(name), NodeFacts::from),
            ),
            uuid: node
                .and_then(|node| identity::pinned(device, node))
                .map(|pin| pin.uuid.clone()),
            unpinned: node.and_then(|node| identity::unpinned(device, node)),
        };
        let first = wires.len();
        match &device.spec.node_name {
            // Its machine may run while its Node is deleted (S5).
            Some(name) => wires.push(wire(name, by_name.get(name.as_str()).copied())),
            None => {
                let served = nodes.iter().filter(|node| serves(device, node));
                wires.extend(served.map(|node| wire(&node.name, Some(node))));
            }
        }
        if device.spec.reads() == Reads::Unnamed {
            // What such a machine is compared with a kubelet may write, so no Node may name that of another one, which no device may serve.
            let id = |node: &NodeView| node.provider_id.rsplit('/').next().map(str::to_owned);
            let own: HashSet<String> = wires.iter().skip(first).map(|it| it.node.clone()).collect();
            let ids = own
                .iter()
                .filter_map(|name| id(by_name.get(name.as_str())?));
            let ids: HashSet<String> = ids.filter(|id| !id.is_empty()).collect();
            let is_named = |node: &&NodeView| id(node).is_some_and(|id| ids.contains(&id));
            let others = nodes.iter().copied();
            let others = others.filter(|node| !own.contains(&node.name));
            wires.extend(
                others
                    .filter(is_named)
                    .map(|node| wire(&node.name, Some(node))),
            );
        }
    }
    wires
}

#[cfg(test)]
mod tests;
