//! What the caches hold of our own objects and of VolumeAttachments. What is asked for each node copies no more than it returns.

use super::{Caches, name};
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::slim::CachedAttachment;
use fencing_core::observed::NodeView;
use fencing_core::select::serves;
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, Store};
use std::sync::Arc;

impl Caches {
    /// All NodeFences that can be decoded.
    pub fn fences(&self) -> Vec<NodeFence> {
        decoded(&self.fences)
    }

    /// The names of the open ones of which this is true. Nothing else is copied.
    pub fn open_fences(&self, is: impl Fn(&NodeFence) -> bool) -> Vec<String> {
        let is_open = |fence: &NodeFence| !fence.is_ended() && is(fence);
        let is_open = |guard: &DeserializeGuard<NodeFence>| guard.0.as_ref().is_ok_and(is_open);
        let open = self.fences.state_filter(is_open);
        open.iter().map(|guard| name(&**guard)).collect()
    }

    /// Is there one of which this is true? Nothing is copied.
    pub fn has_fence(&self, is: impl Fn(&NodeFence) -> bool) -> bool {
        self.fences
            .find(|guard| guard.0.as_ref().is_ok_and(&is))
            .is_some()
    }

    /// Those of them that are about this node.
    pub fn fences_of(&self, node: &str) -> Vec<NodeFence> {
        let is_of = |fence: &NodeFence| fence.spec.node_name == node;
        let of_node = |guard: &DeserializeGuard<NodeFence>| guard.0.as_ref().is_ok_and(is_of);
        let fences = self.fences.state_filter(of_node);
        let decoded = fences.iter().filter_map(|guard| guard.0.as_ref().ok());
        decoded.cloned().collect()
    }

    /// The NodeFence, if it exists: decoded or not.
    pub fn fence_entry(&self, name: &str) -> Option<Arc<DeserializeGuard<NodeFence>>> {
        self.fences.get(&reflector::ObjectRef::new(name))
    }

    /// The FenceDevices that can be decoded and serve this node.
    pub fn devices_of(&self, node: &NodeView) -> Vec<FenceDevice> {
        let serves = |guard: &DeserializeGuard<FenceDevice>| {
            guard.0.as_ref().is_ok_and(|device| serves(device, node))
        };
        let devices = self.devices.state_filter(serves);
        let decoded = devices.iter().filter_map(|guard| guard.0.as_ref().ok());
        decoded.cloned().collect()
    }

    /// The FenceDevice, if it exists, without a copy of it: decoded or not.
    pub fn device_entry(&self, name: &str) -> Option<Arc<DeserializeGuard<FenceDevice>>> {
        self.devices.get(&reflector::ObjectRef::new(name))
    }

    /// The FenceDevice, if it exists and can be decoded.
    pub fn device(&self, name: &str) -> Option<FenceDevice> {
        self.device_entry(name)?.0.as_ref().ok().cloned()
    }

    /// Is there a NodeFence of this name that has not ended?
    pub fn has_open_fence(&self, name: &str) -> bool {
        let fence = self.fences.get(&reflector::ObjectRef::new(name));
        let is_open = |fence: &Result<NodeFence, _>| fence.as_ref().is_ok_and(|it| !it.is_ended());
        fence.is_some_and(|guard| is_open(&guard.0))
    }

    /// Is there a NodeFence of this name that does not fit the CustomResourceDefinitions of this version?
    pub fn is_undecodable(&self, name: &str) -> bool {
        let fence = self.fences.get(&reflector::ObjectRef::new(name));
        fence.is_some_and(|guard| guard.0.is_err())
    }

    /// The driver of the FenceDevice, as the metrics name it.
    pub fn driver_of(&self, device: &str) -> String {
        let device = self.device(device);
        let driver = device.as_ref().map(|device| device.spec.driver_name());
        driver.unwrap_or("none").to_owned()
    }

    /// All NodeFencingPolicies that can be decoded.
    pub fn policies(&self) -> Vec<NodeFencingPolicy> {
        decoded(&self.policies)
    }

    /// The NodeFencingPolicy, if it exists and can be decoded.
    pub fn policy(&self, name: &str) -> Option<NodeFencingPolicy> {
        let policy = self.policies.get(&reflector::ObjectRef::new(name))?;
        policy.0.as_ref().ok().cloned()
    }

    /// VolumeAttachments of this node.
    pub fn attachments_of(&self, node: &str) -> Vec<Arc<CachedAttachment>> {
        self.attached.of(node, &self.attachments)
    }
}

fn decoded<K: Resource<DynamicType = ()> + Clone>(store: &Store<DeserializeGuard<K>>) -> Vec<K> {
    store
        .state()
        .iter()
        .filter_map(|guard| guard.0.as_ref().ok().cloned())
        .collect()
}
