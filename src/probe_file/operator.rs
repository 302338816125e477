//! The operator's own judgement of a device, for a cluster that there is none of.
//!
//! What is judged is what the operator would find: the Node is Ready, in a boot of which nothing else is known, and reports the UUID that the
//! user gives, or else the one that the device names.

use crate::shell::probe::judge::{Finding, Judgement, asked, judge};
use fencing_api::device::FenceDevice;
use fencing_core::observed::{ConditionView, NodeView};
use fencing_drivers::clock::Clock;
use fencing_drivers::{DeviceError, Probe};

/// The operator, as far as it is needed here.
#[derive(Debug)]
pub struct Operator<'a> {
    device: &'a FenceDevice,
    node: &'a str,
    node_uuid: Option<&'a str>,
}

impl<'a> Operator<'a> {
    /// For this device and the node that it is asked for, which reports this UUID.
    pub fn new(device: &'a FenceDevice, node: &'a str, node_uuid: Option<&'a str>) -> Self {
        Self {
            device,
            node,
            node_uuid,
        }
    }

    /// What its status would say after such a probe.
    pub fn judge(&self, outcome: &Result<Probe, DeviceError>) -> Judgement {
        let identity = outcome.as_ref().ok();
        let identity = identity.map(|probe| probe.reading.identity.clone());
        let named = identity.as_ref().and_then(|it| it.system_uuid.as_deref());
        let node = self.ready_node(self.node_uuid.or(named).unwrap_or_default());
        let finding = Finding {
            at: Clock::SYSTEM.wall(),
            node,
            outcome: outcome.clone(),
            identity,
            trimmed_keys: Vec::new(),
            renewed: false,
            control: None,
            on_node: None,
            asked: asked(self.device),
        };
        judge(self.device, &finding, None)
    }

    fn ready_node(&self, system_uuid: &str) -> NodeView {
        let ready = ConditionView {
            kind: "Ready".to_owned(),
            status: "True".to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        };
        NodeView {
            name: self.node.to_owned(),
            uid: String::new(),
            labels: Default::default(),
            annotation_keys: Vec::new(),
            unschedulable: false,
            taints: Vec::new(),
            conditions: vec![ready],
            boot_id: "this one".to_owned(),
            system_uuid: system_uuid.to_owned(),
            provider_id: String::new(),
            addresses: Vec::new(),
            volumes_attached: 0,
            reported_early: false,
            resource_version: String::new(),
            finalizers: Vec::new(),
            deleting: false,
        }
    }
}
