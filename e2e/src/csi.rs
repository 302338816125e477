//! The lab's storage array, as a test sees it: who has which volume, what happened, and what is to go wrong.
//!
//! The array itself is `e2e/control-plane/cmd/csi-controller`, behind the real external-attacher. It refuses to attach a
//! volume to a second node, detaches without asking the node (as arrays do), and remembers over its own restart.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{control_plane::ControlPlane, plain_http};

/// The name of the lab's CSI driver.
pub const DRIVER: &str = "csi.lab.nodefencing.io";

/// The lab's hand on the array.
#[derive(Debug, Clone)]
pub struct Array {
    socket: PathBuf,
}

/// What the array knows.
#[derive(Debug, Clone, Deserialize)]
pub struct State {
    /// Volume handle to the names of the nodes that have it.
    pub attached: BTreeMap<String, Vec<String>>,
    /// Everything that happened since the array started, in the order in which it took effect.
    pub events: Vec<Event>,
}

/// One thing that happened to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Event {
    /// When, by the array's clock, which is this machine's.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
    /// The volume's handle.
    pub volume: String,
    /// The node's name.
    pub node: String,
    /// More about it, for humans.
    #[serde(default)]
    pub message: String,
}

/// What can happen to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum EventKind {
    /// The node has it from now on.
    Attached,
    /// The node has it no longer: from now on no write of it arrives.
    Detached,
    /// Another node has it.
    AttachRefused,
    /// An injected fault.
    AttachFailed,
    /// An injected fault.
    AttachDelayed,
    /// An injected fault.
    AttachHangs,
    /// An injected fault.
    DetachFailed,
    /// An injected fault.
    DetachDelayed,
    /// An injected fault.
    DetachHangs,
}

/// How the array misbehaves. The default is not at all.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Faults {
    /// Of attaching (ControllerPublishVolume).
    pub attach: Fault,
    /// Of detaching (ControllerUnpublishVolume).
    pub detach: Fault,
}

/// How one operation misbehaves. Delay, hang and failure happen in this order.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Fault {
    /// Milliseconds until a call has its effect, whether or not its caller still waits.
    pub delay_ms: u64,
    /// Calls do not return until the faults are changed or the caller gives up.
    pub hang: bool,
    /// So many calls fail; all of them if it is negative.
    pub fail: i64,
    /// With this message, which ends up in the VolumeAttachment's status.
    pub message: String,
    /// Only calls for this volume; empty is all.
    pub volume: String,
}

impl Fault {
    /// Every call fails with this message.
    pub fn failure(message: &str) -> Self {
        Self {
            fail: -1,
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// The next calls fail with this message, so many of them.
    pub fn failures(count: u32, message: &str) -> Self {
        Self {
            fail: count.into(),
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// Calls never return.
    pub fn hang() -> Self {
        Self {
            hang: true,
            ..Self::default()
        }
    }

    /// Calls take so long.
    pub fn delay(duration: Duration) -> Self {
        let delay_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            delay_ms,
            ..Self::default()
        }
    }

    /// The same, for one volume only.
    #[must_use]
    pub fn of_volume(self, handle: &str) -> Self {
        Self {
            volume: handle.to_owned(),
            ..self
        }
    }
}

impl Array {
    /// The array whose control socket this is.
    pub fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The HTTP socket on which the array answers `GET /state`, for a node plugin that wants to know what is attached.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Everything that it knows.
    pub async fn state(&self) -> Result<State> {
        let answer = plain_http::call(&self.socket, Method::GET, "/state", &Value::Null).await?;
        serde_json::from_value(answer).context("the array's answer is not understood")
    }

    /// Who has which volume.
    pub async fn attached(&self) -> Result<BTreeMap<String, Vec<String>>> {
        Ok(self.state().await?.attached)
    }

    /// What happened.
    pub async fn events(&self) -> Result<Vec<Event>> {
        Ok(self.state().await?.events)
    }

    /// Replaces all faults. Calls that hang see the new ones.
    pub async fn set_faults(&self, faults: &Faults) -> Result<()> {
        let body = serde_json::to_value(faults)?;
        plain_http::call(&self.socket, Method::PUT, "/faults", &body)
            .await
            .map(|_| ())
    }

    /// Makes every detach fail with this message until the faults change.
    pub async fn fail_detach(&self, message: &str) -> Result<()> {
        self.set_faults(&Faults {
            detach: Fault::failure(message),
            ..Faults::default()
        })
        .await
    }

    /// Makes every detach hang until the faults change.
    pub async fn hang_detach(&self) -> Result<()> {
        self.set_faults(&Faults {
            detach: Fault::hang(),
            ..Faults::default()
        })
        .await
    }

    /// Makes every detach take so long until the faults change.
    pub async fn delay_detach(&self, duration: Duration) -> Result<()> {
        self.set_faults(&Faults {
            detach: Fault::delay(duration),
            ..Faults::default()
        })
        .await
    }

    /// Ends all faults.
    pub async fn clear_faults(&self) -> Result<()> {
        self.set_faults(&Faults::default()).await
    }
}

impl ControlPlane {
    /// The storage array behind the external-attacher.
    pub fn array(&self) -> Array {
        Array::at(self.files().socket("csi-control.sock"))
    }
}
