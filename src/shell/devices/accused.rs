//! Which devices were found to read Off of a running machine, from the moment it is known: their FenceDevices say so some moments later, or not at all
//! while the API server refuses it (S25).

use fencing_api::device::{FenceDevice, PositiveControl};
use fencing_core::control::{self, Control};
use fencing_core::observed::NodeView;
use fencing_core::reading::PowerState;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The device's uid and generation, and the Node's uid.
type Key = (Option<String>, Option<i64>, String);

/// What the probes of this process have learned.
#[derive(Debug, Default)]
pub(super) struct Accused(Mutex<HashMap<Key, PositiveControl>>);

impl Accused {
    /// A probe has judged the device.
    pub(super) fn note(&self, device: &FenceDevice, row: &PositiveControl) {
        let key = key(device, &row.node_uid);
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match row.power_state {
            PowerState::Off => rows.insert(key, row.clone()),
            _ => rows.remove(&key),
        };
    }

    /// The positive control that the FenceDevice shows, unless the device has lost it since.
    pub(super) fn control(
        &self,
        device: &FenceDevice,
        node: &NodeView,
        boot_id: &str,
        now: Timestamp,
    ) -> Control {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match control::by(rows.get(&key(device, &node.uid)), boot_id) {
            Control::OffWhileRunning => Control::OffWhileRunning,
            _ => control::of(device, node, boot_id, now),
        }
    }
}

fn key(device: &FenceDevice, node_uid: &str) -> Key {
    let meta = &device.metadata;
    (meta.uid.clone(), meta.generation, node_uid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures::node;
    use serde_json::json;

    /// S25: the status that says so may be refused for as long as it takes.
    #[test]
    fn what_reads_off_of_a_running_machine_proves_nothing_before_its_status_says_so() {
        let row = |power_state| {
            json!({
                "nodeName": "worker-1", "nodeUID": "uid-1", "bootID": "boot-1", "powerState": power_state, "sinceTime": "1970-01-01T00:00:00Z",
            })
        };
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc", "uid": "uid-bmc", "generation": 2},
            "spec": {"nodeName": "worker-1", "redfish": {"address": "https://10.0.0.1"}},
            "status": {"observedGeneration": 2, "positiveControls": [row("On")]},
        });
        let device: FenceDevice = serde_json::from_value(device).expect("a device");
        let learned = |power_state| serde_json::from_value(row(power_state)).expect("a row");
        let accused = Accused::default();
        let says = |device: &FenceDevice, node: &NodeView, boot_id: &str| {
            accused.control(device, node, boot_id, Timestamp::UNIX_EPOCH)
        };
        assert_eq!(says(&device, &node(), "boot-1"), Control::Shown);
        accused.note(&device, &learned("Off"));
        assert_eq!(says(&device, &node(), "boot-1"), Control::OffWhileRunning);
        assert_eq!(says(&device, &node(), "boot-2"), Control::Missing);
        let mut edited = device.clone();
        edited.metadata.generation = Some(3);
        assert_eq!(says(&edited, &node(), "boot-1"), Control::Missing);
        accused.note(&device, &learned("On"));
        assert_eq!(says(&device, &node(), "boot-1"), Control::Shown);
    }
}
