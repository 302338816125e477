//! Which nodes does a policy watch, which policy governs a node, and has one of them been unhealthy long enough?
//!
//! How long a node has been unhealthy is counted from when this process first saw it so, on this process's own clock:
//! no decision compares the clocks of two machines (F14).

use super::observed::{NodeView, Ready};
use fencing_api::device::FenceDevice;
use fencing_api::policy::{NodeFencingPolicy, UnhealthyCondition};
use fencing_api::selector::{LabelSelector, SelectorOperator};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Does the selector match these labels? Same rules as `metav1.LabelSelectorAsSelector`; an empty one matches all.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector
        .match_labels
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    exact
        && selector.match_expressions.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let listed = value.is_some_and(|value| requirement.values.contains(value));
            match requirement.operator {
                SelectorOperator::In => listed,
                SelectorOperator::NotIn => !listed,
                SelectorOperator::Exists => value.is_some(),
                SelectorOperator::DoesNotExist => value.is_none(),
            }
        })
}

/// Labels below `kubernetes.io` and `k8s.io` that NodeRestriction lets a kubelet set on its own Node (`k8s.io/kubelet/pkg/apis`, `IsKubeletLabel`,
/// v1.36), but for those below `kubelet.kubernetes.io` and `node.kubernetes.io`.
const OF_KUBELETS: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The first label of the selector that a kubelet may set on its own Node: whoever owns a node may join what is selected, or leave it.
pub fn kubelet_label(selector: &LabelSelector) -> Option<&str> {
    let expressions = selector.match_expressions.iter().map(|it| &it.key);
    let mut keys = selector.match_labels.keys().chain(expressions);
    keys.find(|key| is_of_kubelets(key)).map(String::as_str)
}

fn is_of_kubelets(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_below = |of: &str| {
        let rest = domain.strip_suffix(of);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_restricted = is_below("kubernetes.io") || is_below("k8s.io");
    !is_restricted
        || is_below("kubelet.kubernetes.io")
        || is_below("node.kubernetes.io")
        || OF_KUBELETS.contains(&key)
}

/// Policies of the same, highest priority select one node: none of them acts there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub struct Conflict {
    /// The node.
    pub node: String,
    /// The priority they share.
    pub priority: i32,
    /// Names of the policies, sorted; at least two.
    pub policies: Vec<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "policies {} all select Node {} with `priority` {}, so none of them acts on it; raise one's `priority`, or make their `nodeSelector`s disjoint",
            self.policies.join(", "),
            self.node,
            self.priority
        )
    }
}

/// The policy that governs this node: of those that select it, the one with the highest priority. A policy that is being
/// deleted governs nothing.
///
/// # Errors
/// [`Conflict`] when several share the highest priority; one of a lower priority does not step in, because nobody asked it to.
pub fn governing<'a>(
    policies: &'a [NodeFencingPolicy],
    node: &NodeView,
) -> Result<Option<&'a NodeFencingPolicy>, Conflict> {
    let selecting = || {
        policies.iter().filter(|policy| {
            policy.metadata.deletion_timestamp.is_none()
                && matches(&policy.spec.node_selector, &node.labels)
        })
    };
    let Some(priority) = selecting().map(|policy| policy.spec.priority).max() else {
        return Ok(None);
    };
    let highest: Vec<_> = selecting()
        .filter(|policy| policy.spec.priority == priority)
        .collect();
    if let [only] = highest.as_slice() {
        return Ok(Some(only));
    }
    let names = highest
        .iter()
        .filter_map(|policy| policy.metadata.name.clone());
    let mut policies: Vec<String> = names.collect();
    policies.sort();
    Err(Conflict {
        node: node.name.clone(),
        priority,
        policies,
    })
}

/// When this process first saw each unhealthy condition of a node, as `(type, status, transition)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Onsets(BTreeMap<(String, String), (String, Duration)>);

impl Onsets {
    /// Takes note of the node's conditions at `now` (time since boot): new ones begin now, vanished ones are forgotten,
    /// and one that has changed and come back begins again.
    pub fn note(&mut self, node: &NodeView, now: Duration) {
        let seen: BTreeMap<_, _> = node
            .conditions
            .iter()
            .map(|condition| {
                (
                    (condition.kind.clone(), condition.status.clone()),
                    condition.transition.clone(),
                )
            })
            .collect();
        self.0
            .retain(|key, (transition, _)| seen.get(key) == Some(transition));
        for (key, transition) in seen {
            self.0.entry(key).or_insert((transition, now));
        }
    }

    /// The moment (time since boot) at which `condition` has held for its duration; none: the node does not show it.
    pub fn due(&self, condition: &UnhealthyCondition) -> Option<Duration> {
        let key = (
            condition.type_.clone(),
            condition.status.as_str().to_owned(),
        );
        let (_, since) = self.0.get(&key)?;
        Some(*since + Duration::from_secs(condition.duration_seconds.into()))
    }
}

/// The condition of the policy that falls due first on this node, and when (time since boot).
pub fn first_due<'a>(
    conditions: impl IntoIterator<Item = &'a UnhealthyCondition>,
    onsets: &Onsets,
) -> Option<(&'a UnhealthyCondition, Duration)> {
    conditions
        .into_iter()
        .filter_map(|condition| onsets.due(condition).map(|due| (condition, due)))
        .min_by_key(|(_, due)| *due)
}

/// May a fence of this node begin at all, whatever the policy says? The error names what forbids it.
pub fn fenceable(node: &NodeView) -> Result<(), &'static str> {
    if node.ready() == Ready::Missing {
        return Err("it has no Ready condition: its kubelet never reported");
    }
    if node.boot_id.is_empty() {
        return Err("it has no boot ID: its kubelet never reported one");
    }
    if node.ready() == Ready::True {
        return Err("it is Ready");
    }
    Ok(())
}

/// FenceDevices that serve this node: `nodeName` names it, or `nodeSelector` matches its labels.
pub fn serving<'a>(devices: &'a [FenceDevice], node: &NodeView) -> Vec<&'a FenceDevice> {
    devices
        .iter()
        .filter(|device| serves(device, node))
        .collect()
}

/// Does the device serve this node?
pub fn serves(device: &FenceDevice, node: &NodeView) -> bool {
    match (&device.spec.node_name, &device.spec.node_selector) {
        (Some(name), None) => *name == node.name,
        (None, Some(selector)) => matches(selector, &node.labels),
        // Refused by the schema; an object that passed by it serves nobody.
        _ => false,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
