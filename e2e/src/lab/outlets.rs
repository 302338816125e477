//! PDUs in a lab: outlets that feed its machines, and the FenceDevices for them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Lab;
use fencing_testbed::power::Power;
use fencing_testbed::snmpd::{AUTHENTICATION_PASSWORD, Feed, PRIVACY_PASSWORD, Pdu, USER};

/// Name of the Secret with the user of the PDUs.
const SECRET: &str = "pdu";

impl Lab {
    /// What brings power to the machine of this number, to be plugged into outlets of [`Lab::pdu`]: into one for each supply.
    pub fn feed(&self, number: usize) -> Arc<Feed> {
        let power: Arc<dyn Power> = self.rig(number).machine.clone();
        Feed::new(power)
    }

    /// A PDU whose outlets feed these machines.
    pub async fn pdu(&self, outlets: BTreeMap<u32, Arc<Feed>>) -> Result<Pdu> {
        Pdu::start(
            Ipv4Addr::LOCALHOST.into(),
            outlets,
            self.control_plane.guard(),
            self.control_plane.files().directory(),
        )
        .await
    }

    /// Makes a FenceDevice of this name, labelled `tier: pdu`, for the machine of this number: these outlets of a PDU.
    pub async fn outlets(
        &self,
        name: &str,
        number: usize,
        pdu: &Pdu,
        outlets: &[u32],
    ) -> Result<()> {
        let login = json!({"username": USER, "authPassword": AUTHENTICATION_PASSWORD, "privPassword": PRIVACY_PASSWORD});
        self.secret(SECRET, login).await?;
        let params = PatchParams::apply("lab").force();
        let device = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice",
            "metadata": {"name": name, "labels": {"tier": "pdu"}},
            "spec": {
                "nodeName": self.rig(number).machine.name(),
                "identityCheck": "Skip",
                "pdu": {
                    "address": pdu.address().ip(), "port": pdu.address().port(),
                    "model": "APCRackPDU2", "outlets": outlets,
                },
                "credentialsRef": {"name": SECRET},
                "probe": {"periodSeconds": 30},
            },
        });
        self.api("FenceDevice")
            .patch(name, &params, &Patch::Apply(&device))
            .await
            .with_context(|| format!("failed to apply FenceDevice {name}"))
            .map(drop)
    }
}
