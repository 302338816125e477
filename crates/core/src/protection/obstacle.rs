//! What keeps a node from being fenced, by name and in words.

use super::super::exclusions::Exclusion;
use super::super::hold::HeldBy;
use super::super::observed::NodeView;
use super::super::select::Conflict;
use super::super::taint::harmless_when;
use fencing_api::fence::{ApprovalDecision, NodeFence};
use fencing_api::policy::{NodeFencingPolicy, UnhealthyCondition};

/// What keeps a node from being fenced.
#[derive(Debug, Clone)]
pub enum Obstacle<'a> {
    /// Its kubelet never reported, or it is Ready.
    NeverReported(&'static str),
    /// This incident has done everything that there is to do.
    Cleared(&'a NodeFence),
    /// No policy selects it.
    NoPolicy,
    /// Several do.
    Conflict(Conflict),
    /// The operator begins nothing at all for the policy, for this reason.
    Idle(HeldBy, String),
    /// The policy waits for another condition.
    NoCondition,
    /// A human has denied or released this incident of the same outage.
    Refused(&'a NodeFence),
    /// This one is open.
    Open(&'a NodeFence),
    /// This one of the same outage has ended.
    Ended(&'a NodeFence),
    /// It has a taint of this key, under which volumes are taken from a node.
    OutOfService(&'static str),
    /// The policy leaves it alone.
    KeptOff(Exclusion),
    /// The policy does no more than to report it.
    Observes,
    /// No fence level of the policy has what it needs.
    NoReadyDevice,
}

impl<'a> Obstacle<'a> {
    /// A stable name. It never changes its meaning.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NeverReported(_) => HeldBy::NeverReported.as_str(),
            Self::Cleared(_) => "Cleared",
            Self::NoPolicy => "NoPolicy",
            Self::Conflict(_) => "Conflict",
            Self::Idle(reason, _) => reason.as_str(),
            Self::NoCondition => "NoCondition",
            Self::Refused(fence) if is_denied(fence) => "Denied",
            Self::Refused(_) => "Released",
            Self::Open(_) => HeldBy::OtherNodeFence.as_str(),
            Self::Ended(_) => "Ended",
            Self::OutOfService(_) => HeldBy::ForeignOutOfService.as_str(),
            Self::KeptOff(kept_off) => kept_off.reason.as_str(),
            Self::Observes => "Observe",
            Self::NoReadyDevice => "NoReadyDevice",
        }
    }

    /// The incident of this outage that it is about, and that has ended.
    pub fn fence(&self) -> Option<&'a NodeFence> {
        match self {
            Self::Cleared(it) | Self::Refused(it) | Self::Ended(it) => Some(it),
            _ => None,
        }
    }

    /// What it is, of this node under this policy.
    pub fn message(&self, node: &NodeView, policy: Option<&NodeFencingPolicy>) -> String {
        let node_name = &node.name;
        let named = policy.and_then(|it| it.metadata.name.as_deref());
        let policy_name = named.unwrap_or_default();
        match self {
            Self::NeverReported(why) => format!("no fence of Node {node_name} can begin: {why}"),
            Self::NoPolicy => {
                let count = node.labels.len();
                let labels = if count == 1 { "label" } else { "labels" };
                format!("no NodeFencingPolicy selects Node {node_name} ({count} {labels})")
            }
            Self::Conflict(conflict) => conflict.to_string(),
            Self::Idle(_, words) => format!("policy {policy_name}: {words}"),
            Self::NoCondition => {
                let watched = policy.map(|it| it.spec.unhealthy_conditions.as_slice());
                let watched = watched.unwrap_or_default().iter().map(named_condition);
                let watched = watched.collect::<Vec<_>>().join(" or ");
                let ready = ready(node);
                format!("policy {policy_name} watches for {watched}, not for {ready}")
            }
            Self::Open(fence) => format!(
                "NodeFence {} is open for it, and policy {policy_name} opens no second one",
                name(fence)
            ),
            Self::Refused(fence) | Self::Ended(fence) | Self::Cleared(fence) => {
                format!("NodeFence {} of this outage has ended", name(fence))
            }
            Self::OutOfService(taint) => {
                format!("Node {node_name} has taint {taint}, which prevents a new incident")
            }
            Self::KeptOff(kept_off) => kept_off.message.clone(),
            Self::Observes => format!("policy {policy_name} only observes now"),
            Self::NoReadyDevice => format!(
                "no fence level of policy {policy_name} has its devices ready for Node {node_name}"
            ),
        }
    }

    /// The way out; none: the message has it, or there is none that this node and its policy tell.
    pub fn hint(&self, node: &NodeView) -> Option<String> {
        match self {
            Self::NoPolicy => Some(
                "label the Node, or write a policy that selects it: kubectl fence generate policy"
                    .to_owned(),
            ),
            Self::NoCondition => Some(format!("add {} to `unhealthyConditions`", ready(node))),
            Self::OutOfService(taint) => Some(format!(
                "once {}, remove it (kubectl taint node {} {taint}-)",
                harmless_when(taint),
                node.name
            )),
            Self::Observes => Some(
                "set `fence.mode`, or that of the open window, to ConfirmOnly or PowerOff"
                    .to_owned(),
            ),
            Self::NoReadyDevice => Some("see kubectl get fencedevices".to_owned()),
            _ => None,
        }
    }

    /// The message, and the way out behind it.
    pub fn with_hint(&self, node: &NodeView, policy: Option<&NodeFencingPolicy>) -> String {
        let hint = self.hint(node).map(|it| format!("; {it}"));
        self.message(node, policy) + &hint.unwrap_or_default()
    }
}

fn ready(node: &NodeView) -> String {
    let status = node.condition("Ready").map_or("", |it| &it.status);
    format!("Ready={status}")
}

/// As in `Ready=Unknown`.
pub fn named_condition(condition: &UnhealthyCondition) -> String {
    format!("{}={}", condition.type_, condition.status.as_str())
}

fn is_denied(fence: &NodeFence) -> bool {
    let answer = fence.spec.approval.as_ref();
    answer.is_some_and(|it| it.decision == ApprovalDecision::Denied)
}

fn name(fence: &NodeFence) -> &str {
    fence.metadata.name.as_deref().unwrap_or_default()
}
