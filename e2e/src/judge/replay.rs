//! The states that Nodes and NodeFences went through, as their writes left them, and the questions that rules ask of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::devices::Entry;
use super::pods::{Attachment, Pod};
use super::run::{AUDIT, DEVICES, Line, Run};
use super::{Counts, pods};
use crate::audit::{OPERATOR, Request};
use crate::proxy::writes::{CLAIM, DETACHING, OUT_OF_SERVICE};
use crate::volume::journal::Happening;
use fencing_testbed::exchange::{Exchange, What};

/// What a write left of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct State<'a> {
    /// `metadata.resourceVersion`: the order of all writes.
    pub(super) version: u64,
    /// The write.
    pub(super) write: &'a Line<Request>,
}

/// Everything that was recorded, by what it was about.
pub(super) struct Replay<'a> {
    /// The states of each Node by name and uid, in order.
    pub(super) nodes: BTreeMap<(&'a str, &'a str), Vec<State<'a>>>,
    /// The states of each NodeFence by name, in order.
    pub(super) fences: BTreeMap<&'a str, Vec<State<'a>>>,
    /// All pods.
    pub(super) pods: Vec<Pod<'a>>,
    /// All VolumeAttachments.
    pub(super) attachments: Vec<Attachment<'a>>,
    /// What the kubelets wrote that shows that they live, by node.
    pub(super) life: BTreeMap<&'a str, Vec<&'a Line<Request>>>,
    /// The run itself.
    pub(super) run: &'a Run,
}

impl<'a> State<'a> {
    fn of(write: &'a Line<Request>, kind: &str) -> Option<Self> {
        let object = &write.what.response_object;
        let version = object["metadata"]["resourceVersion"]
            .as_str()?
            .parse()
            .ok()?;
        (object["kind"] == kind).then_some(Self { version, write })
    }

    /// The object.
    pub(super) fn object(&self) -> &'a Value {
        &self.write.what.response_object
    }

    /// Did the operator write it?
    pub(super) fn is_ours(&self) -> bool {
        self.write.what.user.username == OPERATOR
    }

    /// The earliest that it can have been stored.
    pub(super) fn since(&self) -> Timestamp {
        self.write.what.received
    }

    /// The taints of a Node.
    pub(super) fn taints(&self) -> &'a [Value] {
        let taints = self.object()["spec"]["taints"].as_array();
        taints.map_or(&[], Vec::as_slice)
    }

    /// The taint with this key.
    pub(super) fn taint(&self, key: &str) -> Option<&'a Value> {
        self.taints().iter().find(|taint| taint["key"] == key)
    }

    /// The value of the claim.
    pub(super) fn claim(&self) -> Option<&'a str> {
        self.taint(CLAIM)?["value"].as_str()
    }

    /// The mark under which volumes are detached: `out-of-service`, or the operator's own.
    pub(super) fn mark(&self) -> Option<&'a Value> {
        self.taint(OUT_OF_SERVICE).or(self.taint(DETACHING))
    }

    /// Does it stand?
    pub(super) fn is_marked(&self) -> bool {
        self.mark().is_some()
    }

    /// The boot ID that a Node shows.
    pub(super) fn boot(&self) -> &'a str {
        text(&self.object()["status"]["nodeInfo"]["bootID"])
    }

    /// Is a Node's stored Ready True?
    pub(super) fn is_ready(&self) -> bool {
        let conditions = self.object()["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
    }

    /// How it is called in a report.
    pub(super) fn name(&self) -> String {
        told(self.write)
    }
}

impl<'a> Replay<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        let mut nodes: BTreeMap<_, Vec<State>> = BTreeMap::new();
        let mut fences: BTreeMap<_, Vec<State>> = BTreeMap::new();
        let mut life: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for write in &run.writes {
            let of = &write.what.object_ref;
            let metadata = &write.what.response_object["metadata"];
            if let Some(state) = State::of(write, "Node") {
                let key = (text(&metadata["name"]), text(&metadata["uid"]));
                nodes.entry(key).or_default().push(state);
            } else if let Some(state) = State::of(write, "NodeFence") {
                // By the object: one that is made with a prefix for a name has none in the request.
                let name = text(&metadata["name"]);
                fences.entry(name).or_default().push(state);
            }
            let kubelet = write.what.user.username.strip_prefix("system:node:");
            let reports = of.resource == "leases" || of.resource == "nodes";
            if let Some(node) = kubelet.filter(|node| reports && of.name == **node) {
                life.entry(node).or_default().push(write);
            }
        }
        nodes.values_mut().chain(fences.values_mut()).for_each(sort);
        Self {
            nodes,
            fences,
            pods: pods::pods(run),
            attachments: pods::attachments(run),
            life,
            run,
        }
    }

    pub(super) fn count(&self, run: &Run, counts: &mut Counts) {
        counts.writes = run.writes.len();
        let ours = |write: &&Line<Request>| {
            let untold = ["events", "leases"].contains(&write.what.object_ref.resource.as_str());
            write.what.user.username == OPERATOR && !untold
        };
        counts.of_the_operator = run.writes.iter().filter(ours).count();
        counts.node_states = self.nodes.values().map(Vec::len).sum();
        let is_command = |what: &What| matches!(what, What::Command { .. });
        counts.commands = self.exchanges().filter(|it| is_command(&it.what)).count();
        counts.readings = self.exchanges().count() - counts.commands;
        let is_attach = |it: &Happening| matches!(it, Happening::Attached { .. });
        let happenings = || run.journal.iter().map(|line| &line.what.happening);
        counts.attaches = happenings().filter(|it| is_attach(it)).count();
        counts.power_changes = happenings().filter(|it| it.volume().is_none()).count();
        counts.volume_lines = run.volumes.values().map(Vec::len).sum();
    }

    fn exchanges(&self) -> impl Iterator<Item = &'a Exchange> {
        let exchange = |line: &'a Line<Entry>| match &line.what {
            Entry::Of { exchange, .. } => Some(exchange),
            Entry::Whole { .. } | Entry::Unreadable { .. } => None,
        };
        self.run.devices.iter().filter_map(exchange)
    }

    /// Each write that changed a Node, with the state before it.
    pub(super) fn node_changes(
        &self,
    ) -> impl Iterator<Item = (&'a str, &State<'a>, &State<'a>)> + '_ {
        self.nodes.iter().flat_map(|((name, _), history)| {
            let pairs = history.windows(2);
            pairs.filter_map(move |pair| match pair {
                [before, after] => Some((*name, before, after)),
                _ => None,
            })
        })
    }

    /// The state of a Node when this version was written, whatever wrote it.
    pub(super) fn node_before(&self, node: &str, version: u64) -> Option<&State<'a>> {
        let of_this_name = self.nodes.iter().filter(|((name, _), _)| *name == node);
        let before = |state: &&State| state.version < version;
        let last = of_this_name.filter_map(|(_, history)| history.iter().rfind(before));
        last.max_by_key(|state| state.version)
    }

    /// The NodeFence that a claim names, as it was when this version was written: the last state that fulfils the condition.
    pub(super) fn fence_before(
        &self,
        claim: &str,
        version: u64,
        is_it: impl Fn(&Value) -> bool,
    ) -> Option<&State<'a>> {
        let history = self.fences.get(fence_of(claim))?;
        let is_it = |state: &&State| state.version < version && is_it(state.object());
        history.iter().rfind(is_it)
    }

    /// Is everything recorded that this device was asked?
    pub(super) fn has_log(&self, device: &str) -> bool {
        let (mut is_there, mut is_readable) = (false, true);
        for line in &self.run.devices {
            match &line.what {
                Entry::Whole { whole } => is_there |= whole == device,
                Entry::Unreadable { unreadable } => is_readable &= unreadable != device,
                Entry::Of { .. } => {}
            }
        }
        is_there && is_readable
    }

    /// What a device was asked, in order.
    pub(super) fn log_of(
        &self,
        device: &str,
    ) -> impl Iterator<Item = (&'a Line<Entry>, &'a Exchange)> {
        let of = move |line: &'a Line<Entry>| match &line.what {
            Entry::Of {
                device: of,
                exchange,
                ..
            } if of == device => Some((line, exchange)),
            _ => None,
        };
        self.run.devices.iter().filter_map(of)
    }
}

/// By version; a write that changed nothing has left the version as it was, and came after the one that did.
fn sort(history: &mut Vec<State>) {
    history.sort_by_key(|state| (state.version, state.since()));
    history.dedup_by_key(|state| state.version);
}

/// The NodeFence that a claim names.
pub(super) fn fence_of(claim: &str) -> &str {
    claim.rsplit_once('-').map_or(claim, |(fence, _)| fence)
}

/// A text, or nothing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A request as it is told in a report.
pub(super) fn told(write: &Line<Request>) -> String {
    let Line { number, what } = write;
    let (by, at) = (&what.user.username, what.received);
    format!("{AUDIT}:{number} {} by {by} at {at:.6}", what.summary())
}

/// An exchange with a device as it is told in a report.
pub(super) fn told_by_device(line: &Line<Entry>) -> String {
    let number = line.number;
    let Entry::Of {
        device, exchange, ..
    } = &line.what
    else {
        return format!("{DEVICES}:{number}");
    };
    let what = match &exchange.what {
        What::Reading { told } => format!("told {told}"),
        What::Command { name, .. } => format!("was sent {name}"),
    };
    let at = exchange.asked.wall;
    format!("{DEVICES}:{number} {device} {what} at {at:.6}")
}
