//! The power-off proof of this incident, and what became of it since.

use crate::observed::NodeView;
use crate::proof_source::ProofSource;
use jiff::Timestamp;

/// The power-off proof of this incident, and what became of it since.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ProvenOff {
    /// Who has proven the machine down, by whatever claim: each is of the boot that was fenced.
    pub by: Option<ProofSource>,
    /// The kubelet's last report then, as it dates it ([`NodeView::last_report`]); none: not known.
    pub report: Option<Timestamp>,
    /// It is stored, by this process or the one before it: others go by it.
    pub published: bool,
    /// Its node was Ready in that very boot since, or was made anew in it.
    pub refuted: bool,
    /// There was a sign of life since, in words: whether the machine is down is not known before it is proven anew.
    pub doubted: Option<String>,
}

impl ProvenOff {
    /// Has the kubelet reported since the machine was proven down? No, where nobody knows when it had reported last.
    pub fn has_reported(&self, node: &NodeView) -> bool {
        self.reports(node).is_some_and(|(then, now)| then != now)
    }

    /// Is what the kubelet has reported last what it had when the machine was proven down?
    pub fn has_not_reported(&self, node: &NodeView) -> bool {
        self.reports(node).is_some_and(|(then, now)| then == now)
    }

    /// The kubelet's last report when the machine was proven down, and now.
    fn reports(&self, node: &NodeView) -> Option<(Timestamp, Timestamp)> {
        self.report.zip(node.last_report().parse().ok())
    }
}
