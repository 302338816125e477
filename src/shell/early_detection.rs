//! Reports a machine that is off before Kubernetes notices (`earlyDetection`): watches the Leases of the kubelets, has the devices of a silent one asked,
//! and sets `Ready` to `Unknown` if [`fencing_core::early`] allows it (S24).
//!
//! It runs only while a policy wants it and the rights are granted. A suspicion writes nothing. What the probes find stands in [`super::found_off`].

pub mod pods;
mod report;

use super::context::Context;
use super::events::Note;
use super::optional_rights::{OptionalRights, wants_early_detection};
use fencing_api::policy::{FenceMode, NodeFencingPolicy};
use fencing_cluster::slim::{CachedNode, SlimLease};
use fencing_core::early::renewals::Renewals;
use fencing_core::early::{Brakes, Obstacle, may_ask, wants_reports};
use fencing_core::exclusions::exclusion;
use fencing_core::observed::{NodeView, Ready};
use fencing_core::select::governing;
use fencing_core::window::mode;
use fencing_drivers::clock;
use futures::{FutureExt, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Where kubelets renew their Leases.
const LEASES: &str = "kube-node-lease";
/// Whether a policy wants it is looked at this often, and who is silent at least as often.
const PERIOD: Duration = Duration::from_secs(1);
/// For so long a report counts as a suspicion. Kubelets renew their Leases every 10 s, each at its own moment: whatever cuts several nodes off makes them
/// silent one after the other, and one that was reported is not Ready any more.
const COUNTS: Duration = Duration::from_secs(60);

/// Reports nodes for as long as this replica leads.
pub async fn run(context: Arc<Context>, rights: OptionalRights) {
    let mut reporter = Reporter::of(context);
    loop {
        if reporter.is_wanted(&rights) {
            reporter.watch(&rights).await;
            reporter.context.found_off.suspect(BTreeSet::new());
            reporter.renewals = Renewals::default();
        }
        sleep(PERIOD).await;
    }
}

struct Reporter {
    context: Arc<Context>,
    renewals: Renewals,
    /// The Leases of a list that is not complete yet.
    listed: BTreeSet<String>,
    /// By node: one report for each boot.
    reported: BTreeMap<String, Reported>,
    /// By node: why it was not reported, as it was told last.
    told: BTreeMap<String, Obstacle>,
}

/// A report that was sent.
struct Reported {
    uid: String,
    boot_id: String,
    /// Time since boot.
    sent: Duration,
    /// The kubelet's last report before it.
    heartbeat: String,
    policy: String,
    /// It landed, and no living kubelet has taken it back.
    stands: bool,
}

/// Nodes by the name of the policy that governs them.
type ByPolicy = BTreeMap<String, Vec<Arc<CachedNode>>>;

impl Reporter {
    fn of(context: Arc<Context>) -> Self {
        Self {
            context,
            renewals: Renewals::default(),
            listed: BTreeSet::new(),
            reported: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    fn is_wanted(&self, rights: &OptionalRights) -> bool {
        wants_early_detection(&self.context.caches) && rights.lacks().is_none()
    }

    /// Watches the Leases until that is not wanted any more.
    async fn watch(&mut self, rights: &OptionalRights) {
        let context = Arc::clone(&self.context);
        let api = Api::<SlimLease>::namespaced(context.reads.clone(), LEASES);
        let leases = watcher(api, watcher::Config::default()).default_backoff();
        let mut leases = std::pin::pin!(leases);
        let mut next = Duration::ZERO;
        loop {
            // What has come meanwhile is heard before anybody is called silent.
            while let Some(Some(event)) = leases.next().now_or_never() {
                self.heard(event, clock::since_boot());
            }
            let now = clock::since_boot();
            if now >= next {
                if !self.is_wanted(rights) {
                    return;
                }
                self.look(now);
                let due = self.renewals.next_due(now);
                next = due.map_or(now + PERIOD, |due| due.min(now + PERIOD));
            }
            tokio::select! {
                biased;
                () = context.found_off.of_a_suspect() => self.report_all().await,
                event = leases.next() => match event {
                    Some(event) => self.heard(event, clock::since_boot()),
                    None => return,
                },
                () = sleep(next.saturating_sub(now)) => {}
            }
        }
    }

    fn heard(&mut self, event: Result<Event<SlimLease>, watcher::Error>, now: Duration) {
        match event {
            Ok(Event::Apply(lease)) => self.note(&lease, now),
            Ok(Event::InitApply(lease)) => {
                self.listed.insert(lease.name_any());
                self.note(&lease, now);
            }
            Ok(Event::Delete(lease)) => self.renewals.forget(&lease.name_any()),
            Ok(Event::InitDone) => self.renewals.retain(&self.listed),
            // What happened meanwhile was not seen.
            Ok(Event::Init) | Err(_) => {
                self.listed.clear();
                self.renewals.begin_anew(now);
            }
        }
    }

    fn note(&mut self, lease: &SlimLease, now: Duration) {
        let (name, lasts) = (lease.name_any(), lease.lasts());
        self.renewals.note(&name, &lease.view(), lasts, now);
    }

    /// Looks who is silent, and has their devices asked.
    fn look(&mut self, now: Duration) {
        let policies = self.context.caches.policies();
        self.settle(&policies);
        let silent = self.silent(&policies, now);
        let (mut suspects, mut obstacles) = (BTreeSet::new(), BTreeMap::new());
        for policy in policies.iter().filter(|it| wants_reports(it)) {
            let nodes = silent.get(&policy.name_any()).into_iter().flatten();
            let nodes = nodes.map(|node| &node.view);
            let count = nodes.clone().count();
            for node in nodes.filter(|node| !is_left_alone(policy, node)) {
                match may_ask(node, &self.brakes(policy, node, count)) {
                    Ok(()) => drop(suspects.insert(node.name.clone())),
                    Err(why) => drop(obstacles.insert(node.name.clone(), why)),
                }
            }
        }
        self.told
            .retain(|node, _| suspects.contains(node) || obstacles.contains_key(node));
        for (node, why) in obstacles {
            self.tell_why_not(&node, why);
        }
        self.context.found_off.suspect(suspects);
    }

    /// The nodes of each policy that are silent beside Ready=True.
    fn silent(&self, policies: &[NodeFencingPolicy], now: Duration) -> ByPolicy {
        let caches = &self.context.caches;
        let silent = self.renewals.silent(now).map(|(name, _)| name);
        let silent = silent.filter_map(|name| caches.node(name));
        let silent = silent.filter(|node| node.view.ready() == Ready::True);
        let mut by_policy = ByPolicy::new();
        for node in silent {
            if let Ok(Some(policy)) = governing(policies, &node.view) {
                by_policy.entry(policy.name_any()).or_default().push(node);
            }
        }
        by_policy
    }

    /// Once for each change of it: it may hold for as long as the kubelet is silent.
    fn tell_why_not(&mut self, node: &str, why: Obstacle) {
        let is_known = self.told.get(node) == Some(&why);
        if !is_known {
            tracing::info!(node, %why, "the kubelet is silent, and the Node is not reported early");
            self.told.insert(node.to_owned(), why);
        }
    }

    fn brakes(&self, policy: &NodeFencingPolicy, node: &NodeView, suspects: usize) -> Brakes<'_> {
        let renewal = self.renewals.of(&node.name);
        let of_policy = policy.spec.budget.max_concurrent;
        let limit = self.context.max_concurrent.unwrap_or(of_policy);
        let fences = self.context.caches.fences_of(&node.name);
        let (uid, boot_id) = (Some(node.uid.as_str()), Some(node.boot_id.as_str()));
        let was_fenced = fences
            .iter()
            .any(|it| it.may_be_about(&node.name, uid, boot_id));
        let is_of = |it: &Reported| it.uid == node.uid && it.boot_id == node.boot_id;
        let (name, now) = (policy.name_any(), clock::since_boot());
        let counts =
            |it: &&Reported| it.stands && it.policy == name && now.saturating_sub(it.sent) < COUNTS;
        Brakes {
            own_node: self.context.own_node.as_deref(),
            suspects: suspects + self.reported.values().filter(counts).count(),
            limit: limit.min(of_policy),
            others_renew: renewal.is_some_and(|it| self.renewals.others_since(&node.name, it)),
            had_its_turn: was_fenced || self.reported.get(&node.name).is_some_and(is_of),
        }
    }

    /// Whether what was reported still stands; the process before this one may have reported it.
    fn settle(&mut self, policies: &[NodeFencingPolicy]) {
        let context = &self.context;
        for node in context.caches.reported_early() {
            let node = &node.view;
            if !self.reported.contains_key(&node.name) {
                let policy = governing(policies, node).ok().flatten();
                let reported = Reported {
                    uid: node.uid.clone(),
                    boot_id: node.boot_id.clone(),
                    sent: clock::since_boot(),
                    heartbeat: node.last_report().to_owned(),
                    policy: policy.map(ResourceExt::name_any).unwrap_or_default(),
                    stands: true,
                };
                self.reported.insert(node.name.clone(), reported);
            }
        }
        self.reported.retain(|name, reported| {
            let Some(node) = context.caches.node(name) else {
                return false;
            };
            let node = &node.view;
            let is_same = node.uid == reported.uid && node.boot_id == reported.boot_id;
            let reports = node.last_report() > reported.heartbeat.as_str();
            let is_back = node.ready() == Ready::True && reports;
            reported.stands |= node.reported_early;
            if is_same && is_back && reported.stands {
                reported.stands = false;
                context.metrics.early_report_refuted(&reported.policy);
                let message = format!(
                    "Node {name} is Ready in the boot in which it was reported as PoweredOff; check its fence devices, and set earlyDetection: Disabled until then"
                );
                tracing::error!(node = name, policy = reported.policy, "{message}");
                tell(context, name, "EarlyReportRefuted", message);
            }
            is_same
        });
    }
}

/// Would no fence of this node begin?
fn is_left_alone(policy: &NodeFencingPolicy, node: &NodeView) -> bool {
    let now = clock::wall();
    mode(policy, now) == FenceMode::Observe || exclusion(policy, node, now).is_some()
}

fn tell(context: &Context, node: &str, reason: &str, message: String) {
    let note = Note::of_node(node, reason, message);
    context.events.publish(note);
}

#[cfg(test)]
mod tests;
