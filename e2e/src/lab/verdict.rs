//! What is held against the operator at the end of a test: its writes, and what the volumes saw.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::api::DynamicObject;

use super::{Lab, resource};
use crate::audit::{OPERATOR, Request};
use crate::taints;
use crate::volume::oracle::VolumeOracle;
use fencing_testbed::moment::Moment;

impl Lab {
    /// Successful and failed writes of the operator, without Events, which tell and change nothing.
    pub async fn writes(&self) -> Result<Vec<Request>> {
        let audit = self.control_plane.audit();
        audit.settled().await?;
        let writes = audit.writes_of(OPERATOR)?;
        Ok(writes
            .into_iter()
            .filter(|write| {
                let told = ["events", "selfsubjectaccessreviews", "selfsubjectreviews"];
                !told.contains(&resource(write).as_str())
            })
            .collect())
    }

    /// No volume was written by two machines, and the operator wrote nothing that its protocol does not know. With that, the
    /// control plane may go to another test when the lab ends.
    pub async fn verdict(&self) -> Result<()> {
        self.volumes_are_whole().await?;
        for write in self.writes().await? {
            let known = matches!(
                (write.verb.as_str(), resource(&write).as_str()),
                (
                    "patch",
                    "nodes" | "nodefences" | "fencedevices" | "nodefencingpolicies"
                ) | ("create", "nodefences")
                    | ("create" | "patch", "networkfences")
                    | ("patch", "nodefenceremediations")
                    | ("delete", "pods")
                    // Of a pod's status: the judge looks at what it changes (S24).
                    | ("patch", "pods")
            ) || is_bound_deletion(&write);
            ensure!(
                known,
                "the operator sent a write that its protocol does not know: {}",
                write.summary()
            );
        }
        let nodes = self.control_plane.audit().writes_to("nodes")?;
        taints::check(&taints::histories(&nodes))?;
        self.judged().await?.ensure_good()?;
        if self.shares_control_plane {
            self.control_plane.give_back_at_end();
        }
        Ok(())
    }

    /// No volume was written by two machines: every line in them is checked, against the attachments too.
    pub async fn volumes_are_whole(&self) -> Result<()> {
        let oracle = VolumeOracle::new(&self.volumes);
        Ok(oracle.check_with(&self.control_plane.array()).await?)
    }

    /// The fenced boot wrote nothing after the proof in this NodeFence.
    pub async fn silent_after_proof(&self, fence: &DynamicObject) -> Result<()> {
        let evidence = &fence.data["status"]["evidence"];
        let boot = evidence["nodeBootID"]
            .as_str()
            .context("the evidence names no boot")?;
        let last = evidence["readings"]
            .as_array()
            .and_then(|readings| readings.last())
            .context("no readings")?;
        let dated: Timestamp = last["time"]
            .as_str()
            .context("a reading has a time")?
            .parse()?;
        let at = Moment::at_wall(dated - self.date_ahead());
        VolumeOracle::new(&self.volumes).check_silent_since(boot, at)?;
        Ok(())
    }
}

/// Deletes a record of an ended incident, a NetworkFence, a Node or a VolumeAttachment, and only the very one that was looked at. What else it takes the judge
/// of the records knows.
fn is_bound_deletion(write: &Request) -> bool {
    let bound = &write.request_object["preconditions"];
    let is_versioned = match resource(write).as_str() {
        "nodefences" | "nodes" | "networkfences" => bound["resourceVersion"].is_string(),
        "volumeattachments" => true,
        _ => return false,
    };
    write.verb == "delete" && bound["uid"].is_string() && is_versioned
}
