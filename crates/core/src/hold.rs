//! What holds an incident back, by name, and what follows from that.
//!
//! Whoever adds a reason says here which of them it is like: whether others wait behind it, whether an approval lifts it, and whether it
//! comes before the devices are asked.

use std::fmt;

/// What holds an incident back: metric label, and reason of the condition `Held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldBy {
    /// The operator itself runs on the node.
    OwnNode,
    /// Too few control-plane nodes would be left (`budget.controlPlane`).
    Quorum,
    /// As many fences of the policy are under way as may be (`budget.maxConcurrent`).
    MaxConcurrent,
    /// Too few of the policy's nodes are Ready (`budget.minHealthy`).
    MinHealthy,
    /// As many fences of the policy began in the last hour as may (`budget.maxPerHour`).
    MaxPerHour,
    /// As many fences are under way in the node's domain as may be (`budget.failureDomain`).
    FailureDomain,
    /// As many fences are under way in the cluster as may be (`--max-concurrent-fences`); the policy would let it through.
    ClusterCap,
    /// The policy is paused.
    Paused,
    /// One of the policy's windows cannot be used ([`super::window`]).
    InvalidWindow,
    /// The Node says that it is under maintenance.
    Maintenance,
    /// The Node is cordoned, or has a taint or an annotation that the policy names.
    Excluded,
    /// Another NodeFence sees to the Node, or has.
    OtherNodeFence,
    /// Another process goes on with the incident.
    OtherProcess,
    /// A mark stands on the Node that another has set.
    ForeignOutOfService,
    /// A mark stands on the Node, and no evidence is known of what it was set on.
    OutOfServiceUnproven,
    /// The kubelet never reported.
    NeverReported,
    /// Somebody has deleted the Node, which a finalizer keeps (`recovery.strategy: DeleteNode`).
    NodeDeleted,
    /// A pod comes back to the node whatever its taints (`recovery.strategy: DeleteNode`).
    PodComesBack,
    /// The operator lacks the rights for what the policy wants.
    Unsupported,
    /// The cluster's state went back in time (S18).
    ClusterWentBack,
    /// A human has to approve it first.
    AwaitingApproval,
}

/// What such a reason is like.
enum Kind {
    /// A brake of the budget, and it goes on as soon as its turn comes.
    Turn,
    /// A brake of the budget that may hold for long while others could go on.
    Limit,
    /// A brake that protects the operator itself and the control plane.
    Protection,
    /// The policy keeps its hands off the node, or another NodeFence has it.
    HandsOff,
    /// What the budget and the policy know nothing of.
    Beside,
}

impl HeldBy {
    /// All of them, in their order.
    pub const ALL: [Self; 21] = [
        Self::OwnNode,
        Self::Quorum,
        Self::MaxConcurrent,
        Self::MinHealthy,
        Self::MaxPerHour,
        Self::FailureDomain,
        Self::ClusterCap,
        Self::Paused,
        Self::InvalidWindow,
        Self::Maintenance,
        Self::Excluded,
        Self::OtherNodeFence,
        Self::OtherProcess,
        Self::ForeignOutOfService,
        Self::OutOfServiceUnproven,
        Self::NeverReported,
        Self::NodeDeleted,
        Self::PodComesBack,
        Self::Unsupported,
        Self::ClusterWentBack,
        Self::AwaitingApproval,
    ];

    /// The one of this name; a newer operator may have others.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    fn kind(self) -> Kind {
        match self {
            Self::MaxConcurrent | Self::MinHealthy | Self::ClusterCap => Kind::Turn,
            Self::MaxPerHour | Self::FailureDomain => Kind::Limit,
            Self::OwnNode | Self::Quorum => Kind::Protection,
            Self::Paused | Self::InvalidWindow | Self::Maintenance | Self::Excluded => {
                Kind::HandsOff
            }
            Self::OtherNodeFence => Kind::HandsOff,
            Self::OtherProcess | Self::ForeignOutOfService | Self::OutOfServiceUnproven => {
                Kind::Beside
            }
            Self::NeverReported | Self::Unsupported | Self::ClusterWentBack => Kind::Beside,
            Self::NodeDeleted | Self::PodComesBack => Kind::Beside,
            Self::AwaitingApproval => Kind::Beside,
        }
    }

    /// Does it go on as soon as its turn comes? What waits for its own node, its own domain, the control plane or the hour may wait for
    /// long while others could go on, and keeps no place free (L5).
    #[must_use]
    pub fn is_a_queue(self) -> bool {
        match self.kind() {
            Kind::Turn => true,
            Kind::Limit | Kind::Protection | Kind::HandsOff | Kind::Beside => false,
        }
    }

    /// Is it over by itself, when others have done what they are at, or with the hour? A storm is not: it is over when machines come back.
    #[must_use]
    pub fn lifts_by_itself(self) -> bool {
        match self {
            Self::MaxConcurrent | Self::ClusterCap | Self::FailureDomain => true,
            Self::MaxPerHour | Self::OtherProcess => true,
            Self::MinHealthy | Self::OwnNode | Self::Quorum => false,
            Self::Paused | Self::InvalidWindow | Self::Maintenance | Self::Excluded => false,
            Self::OtherNodeFence | Self::ForeignOutOfService | Self::OutOfServiceUnproven => false,
            Self::NeverReported | Self::Unsupported | Self::ClusterWentBack => false,
            Self::NodeDeleted | Self::PodComesBack | Self::AwaitingApproval => false,
        }
    }

    /// Does the approval of an incident lift it?
    #[must_use]
    pub fn is_lifted_by_approval(self) -> bool {
        match self.kind() {
            Kind::Turn | Kind::Limit => true,
            Kind::Protection | Kind::HandsOff | Kind::Beside => false,
        }
    }

    /// Is it a brake of the budget, and not something that has become of the node?
    #[must_use]
    pub fn is_of_the_budget(self) -> bool {
        match self.kind() {
            Kind::Turn | Kind::Limit | Kind::Protection => true,
            Kind::HandsOff | Kind::Beside => false,
        }
    }

    /// Does it hold before the devices are asked? Whoever works on a machine may have taken its BMC away, and nobody is called for that.
    #[must_use]
    pub fn comes_first(self) -> bool {
        match self.kind() {
            Kind::HandsOff => true,
            Kind::Turn | Kind::Limit | Kind::Protection | Kind::Beside => false,
        }
    }

    /// The word that people and Prometheus read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OwnNode => "OwnNode",
            Self::Quorum => "Quorum",
            Self::MaxConcurrent => "MaxConcurrent",
            Self::MinHealthy => "MinHealthy",
            Self::MaxPerHour => "MaxPerHour",
            Self::FailureDomain => "FailureDomain",
            Self::ClusterCap => "ClusterCap",
            Self::Paused => "Paused",
            Self::InvalidWindow => "InvalidWindow",
            Self::Maintenance => "Maintenance",
            Self::Excluded => "Excluded",
            Self::OtherNodeFence => "OtherNodeFence",
            Self::OtherProcess => "OtherProcess",
            Self::ForeignOutOfService => "ForeignOutOfService",
            Self::OutOfServiceUnproven => "OutOfServiceUnproven",
            Self::NeverReported => "NeverReported",
            Self::NodeDeleted => "NodeDeleted",
            Self::PodComesBack => "PodComesBack",
            Self::Unsupported => "Unsupported",
            Self::ClusterWentBack => "ClusterWentBack",
            Self::AwaitingApproval => "AwaitingApproval",
        }
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why an incident may not act now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hold {
    /// A brake of the budget ([`super::budget`]), why the policy keeps its hands off the node ([`super::exclusion`]), or
    /// [`HeldBy::OtherNodeFence`], where another NodeFence sees to the Node or has cleared it.
    pub reason: HeldBy,
    /// What holds it, with the numbers, and the way out.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L5: what waits for its own node, its own domain, the control plane or the hour keeps no place free.
    #[test]
    fn only_what_goes_on_in_its_turn_is_waited_for() {
        for reason in [
            HeldBy::MaxConcurrent,
            HeldBy::MinHealthy,
            HeldBy::ClusterCap,
        ] {
            assert!(reason.is_a_queue(), "{reason}");
        }
        for reason in [
            HeldBy::OwnNode,
            HeldBy::Quorum,
            HeldBy::FailureDomain,
            HeldBy::MaxPerHour,
            HeldBy::Paused,
            HeldBy::InvalidWindow,
            HeldBy::Maintenance,
            HeldBy::Excluded,
        ] {
            assert!(!reason.is_a_queue(), "{reason}");
        }
    }

    #[test]
    fn each_is_found_by_its_name_and_none_is_left_out() {
        for (index, reason) in HeldBy::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index, "{reason}");
            assert_eq!(HeldBy::named(reason.as_str()), Some(reason));
        }
        assert_eq!(HeldBy::ALL.last(), Some(&HeldBy::AwaitingApproval));
        assert_eq!(HeldBy::named("OfTomorrow"), None);
    }

    /// S13: the own node, the quorum and whatever keeps its hands off a node are there for the operator too, whoever approves.
    #[test]
    fn an_approval_lifts_the_turn_and_the_limits() {
        for (reason, is_lifted) in [
            (HeldBy::MaxConcurrent, true),
            (HeldBy::MinHealthy, true),
            (HeldBy::MaxPerHour, true),
            (HeldBy::FailureDomain, true),
            (HeldBy::OwnNode, false),
            (HeldBy::Quorum, false),
            (HeldBy::Maintenance, false),
            (HeldBy::OtherNodeFence, false),
            (HeldBy::OtherProcess, false),
        ] {
            assert_eq!(reason.is_lifted_by_approval(), is_lifted, "{reason}");
        }
    }
}
