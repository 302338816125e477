//! What the storage and the power did, in time order: the half of the evidence that is not in the volumes' files.
//!
//! The storage array's own log is the exact source of attaches: the moment of a successful ControllerPublish, taken in with
//! [`Journal::read_array`]. Where that log is not at hand, [`Journal::watch_attachments`] takes the moment at which a
//! VolumeAttachment was seen with `status.attached: true`, some milliseconds later.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::task::AbortHandle;

use crate::csi::{Array, Event, EventKind};
use crate::moment::Moment;

/// Something that happened to a volume or to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The storage gave `volume` (its CSI handle) to `node`.
    Attached {
        /// The CSI volume handle.
        volume: String,
        /// The Node's name.
        node: String,
    },
    /// The storage took `volume` away from `node`.
    Detached {
        /// The CSI volume handle.
        volume: String,
        /// The Node's name.
        node: String,
    },
    /// The machine got power and began `boot`.
    PowerOn {
        /// The Node's name.
        node: String,
        /// The boot ID of the boot that began.
        boot: String,
    },
    /// The machine lost power, which ended `boot`.
    PowerOff {
        /// The Node's name.
        node: String,
        /// The boot ID of the boot that ended.
        boot: String,
    },
}

impl Happening {
    /// The node it happened to.
    pub fn node(&self) -> &str {
        match self {
            Self::Attached { node, .. } | Self::Detached { node, .. } => node,
            Self::PowerOn { node, .. } | Self::PowerOff { node, .. } => node,
        }
    }

    /// The volume it happened to, if it is about one.
    pub fn volume(&self) -> Option<&str> {
        match self {
            Self::Attached { volume, .. } | Self::Detached { volume, .. } => Some(volume),
            Self::PowerOn { .. } | Self::PowerOff { .. } => None,
        }
    }
}

/// All happenings of a lab. Shared: whoever does or sees something records it.
#[derive(Debug, Default)]
pub struct Journal {
    entries: Mutex<Vec<(Moment, Happening)>>,
}

impl Journal {
    /// Records something that happened at `at`.
    pub fn record(&self, at: Moment, happening: Happening) {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((at, happening));
    }

    /// Takes in what the storage array has done, as far as it is not known yet. To be called before judging.
    pub async fn read_array(&self, array: &Array) -> Result<()> {
        let events = array.events().await?;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known: HashSet<_> = entries
            .iter()
            .map(|(at, happening)| (at.wall, happening.clone()))
            .collect();
        for Event {
            at,
            kind,
            volume,
            node,
            ..
        } in events
        {
            let happening = match kind {
                EventKind::Attached => Happening::Attached { volume, node },
                EventKind::Detached => Happening::Detached { volume, node },
                _ => continue, // a refusal or a fault: nobody's access changed
            };
            if !known.contains(&(at, happening.clone())) {
                entries.push((Moment::at_wall(at), happening));
            }
        }
        Ok(())
    }

    /// Everything so far, oldest first.
    pub fn entries(&self) -> Vec<(Moment, Happening)> {
        let mut entries = self
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        entries.sort_by_key(|(at, _)| *at);
        entries
    }

    /// Records attaches and detaches as the VolumeAttachments show them, until the returned handle is dropped.
    pub fn watch_attachments(self: &Arc<Self>, client: Client) -> AttachmentWatch {
        let journal = Arc::clone(self);
        AttachmentWatch(tokio::spawn(async move { journal.follow(client).await }).abort_handle())
    }

    async fn follow(&self, client: Client) {
        let volumes: Api<PersistentVolume> = Api::all(client.clone());
        let mut attached: HashMap<String, Happening> = HashMap::new();
        let mut events = std::pin::pin!(watcher(
            Api::<VolumeAttachment>::all(client),
            watcher::Config::default()
        ));
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(attachment) | watcher::Event::InitApply(attachment))
                    if is_attached(&attachment) =>
                {
                    let at = Moment::now();
                    let name = attachment.name_any();
                    if !attached.contains_key(&name)
                        && let Some(volume) = handle(&volumes, &attachment).await
                    {
                        let node = attachment.spec.node_name;
                        self.record(
                            at,
                            Happening::Attached {
                                volume: volume.clone(),
                                node: node.clone(),
                            },
                        );
                        attached.insert(name, Happening::Detached { volume, node });
                    }
                }
                Ok(watcher::Event::Delete(attachment)) => {
                    if let Some(detached) = attached.remove(&attachment.name_any()) {
                        self.record(Moment::now(), detached);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "watch of VolumeAttachments broke, it starts again");
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        }
    }
}

/// Keeps [`Journal::watch_attachments`] going; dropping it ends the watch.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct AttachmentWatch(AbortHandle);

impl Drop for AttachmentWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn is_attached(attachment: &VolumeAttachment) -> bool {
    attachment
        .status
        .as_ref()
        .is_some_and(|status| status.attached)
}

/// The CSI handle of the volume that `attachment` is about.
async fn handle(volumes: &Api<PersistentVolume>, attachment: &VolumeAttachment) -> Option<String> {
    let name = attachment.spec.source.persistent_volume_name.as_deref()?;
    match volumes.get(name).await {
        Ok(volume) => Some(volume.spec?.csi?.volume_handle),
        Err(error) => {
            tracing::warn!(%error, volume = name, "an attach is missing in the journal");
            None
        }
    }
}
