//! What fails one day: a token that ends, a name that leads nowhere, a clock that is wrong.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::operator::NAMESPACE;
use fencing_testbed::bmc::Line;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use super::scene::{Scene, device, node};
use crate::devices::{change, wait};

/// A second device of the silent node, and its Secret.
const OLD: &str = "old";
/// What fires of it, and by which label it is known.
const ALERTS: [(&str, &[(&str, &str)]); 5] = [
    (
        "FenceDeviceCredentialExpires",
        &[("device", OLD), ("credential", "Token")],
    ),
    ("FenceDeviceNameUnresolved", &[]),
    ("FenceDeviceClockOff", &[("driver", "redfish")]),
    ("NodesWithoutHeadroom", &[]),
    ("FenceDeviceUnreachableFromStandby", &[]),
];

impl Scene {
    /// A device at a name that does not exist, with a token that ends within the hour, and the clock of the stranger's BMC, which is probed next.
    pub async fn devices_age(&self) -> Result<()> {
        let end = Timestamp::now().as_second() + 3600;
        let parts = [json!({"alg": "none"}), json!({"exp": end})];
        let [header, claims] = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let token = format!("{header}.{claims}.e30");
        let hosts = json!({"nodefencing.io/allowed-hosts": "bmc.invalid"});
        let secret = json!({"metadata": {"name": OLD, "annotations": hosts}, "stringData": {"token": token}});
        let secrets: Api<Secret> = Api::namespaced(self.lab.control_plane.admin(), NAMESPACE);
        let secret = serde_json::from_value(secret)?;
        secrets.create(&PostParams::default(), &secret).await?;
        let spec = json!({
            "nodeName": node("silent")?,
            "credentialsRef": {"name": OLD},
            "webhook": {"url": "https://bmc.invalid/v1", "tls": {"verification": "None"}},
        });
        self.lab.apply("FenceDevice", OLD, spec).await?;
        let bmc = &self.rig("stranger")?.bmc;
        bmc.faults(|faults| faults.manager_time = Some("2020-01-01T00:00:00Z".to_owned()));
        // The leader probes this one once more, and not again in this run.
        let (lab, spare) = (&self.lab, device("spare")?);
        let rarely = json!({"probe": {"periodSeconds": 86_400}});
        change(lab, "FenceDevice", &spare, rarely).await?;
        wait(lab, "FenceDevice", &spare, "Ready", "True/Probed").await?;
        self.rig("spare")?.bmc.set_line(Line::Refused)
    }

    /// The device goes then; the BMC is healed with the others.
    pub async fn age_is_told(&self) -> Result<()> {
        for (alert, labels) in ALERTS {
            self.fires(alert, labels).await?;
        }
        let devices = self.lab.api("FenceDevice");
        devices.delete(OLD, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The databases, which may run on their own nodes only, go.
    pub async fn age_is_over(&self) -> Result<()> {
        let delete = ["delete", "statefulset", "--all", "--all-namespaces"];
        self.lab.control_plane.kubectl_text(&delete).await?;
        self.rig("spare")?.bmc.set_line(Line::Up)?;
        for (alert, labels) in ALERTS {
            self.resolves(alert, labels).await?;
        }
        Ok(())
    }
}
