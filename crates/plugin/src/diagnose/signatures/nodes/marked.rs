//! D12: a node is out of service by somebody's hand, and no NodeFence proves its machine off.

use super::super::super::finding::{Finding, Id, steps};
use super::super::super::index::Index;
use super::super::steps::power;
use super::Scene;
use fencing_cluster::slim::WideNode;
use fencing_core::observed::Ready;
use kube::ResourceExt;

/// Is it out of service, and is it known that no NodeFence is open for it?
pub(super) fn is_by_human(index: &Index<'_>, node: &WideNode) -> bool {
    let (name, facts) = (node.name_any(), index.facts);
    let are_known = facts.fences.is_complete() || !facts.is_installed();
    node.is_marked() && are_known && index.fence(&name).is_none()
}

impl Scene<'_> {
    /// D12.
    pub(super) fn by_human(&self, index: &Index<'_>) -> Finding {
        let node = self.node.name_any();
        let mut seen = self.seen(index);
        seen.push(format!("no NodeFence is open for node {node}"));
        let first = match self.node.view().ready() {
            Ready::Unknown => power(index, &node),
            _ => steps(&format!(
                "# its kubelet reports, so the machine runs: remove the taint before a second node writes
                kubectl taint nodes {node} node.kubernetes.io/out-of-service-"
            )),
        };
        let more = steps(&format!(
            "# what is still attached; each detaches within some minutes while the machine is off
            kubectl get volumeattachments -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,VOLUME:.spec.source.persistentVolumeName,ERROR:.status.detachError.message --sort-by=.spec.nodeName
            # what is still to end there, and by which finalizers it is held
            kubectl get pods -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers --field-selector spec.nodeName={node}"
        ));
        Finding {
            id: Id::D12,
            title: format!("node {node} is out of service, and no NodeFence is open for it"),
            objects: self.objects(),
            cause: format!(
                "the taint out-of-service of node {node} was not set by an open NodeFence, so no device confirmed its machine off. Kubernetes detaches its volumes anyway"
            ),
            seen,
            fix: [first, more].concat(),
        }
    }
}
