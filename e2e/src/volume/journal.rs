//! What the storage and the power did, in time order: the half of the evidence that is not in the volumes' files.
//!
//! Attaches come from the storage array's own log, which has the moment at which each took effect. The VolumeAttachments
//! of the API server would not do: they are seen some time later, and on a busy machine that can be after the first write
//! of the node that the volume was attached to.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::csi::{Array, Event, EventKind};
use fencing_testbed::moment::Moment;

/// Something that happened to a volume or to a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "what")]
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
    /// The machine lost power, and keeps its memory (R8).
    Suspended {
        /// The Node's name.
        node: String,
        /// The boot ID of the boot that does not end.
        boot: String,
    },
    /// The machine got power again and goes on in its boot.
    Resumed {
        /// The Node's name.
        node: String,
        /// The boot ID of the boot that goes on.
        boot: String,
    },
}

impl Happening {
    /// The node it happened to.
    pub fn node(&self) -> &str {
        match self {
            Self::Attached { node, .. } | Self::Detached { node, .. } => node,
            Self::PowerOn { node, .. }
            | Self::PowerOff { node, .. }
            | Self::Suspended { node, .. }
            | Self::Resumed { node, .. } => node,
        }
    }

    /// The volume it happened to, if it is about one.
    pub fn volume(&self) -> Option<&str> {
        match self {
            Self::Attached { volume, .. } | Self::Detached { volume, .. } => Some(volume),
            Self::PowerOn { .. }
            | Self::PowerOff { .. }
            | Self::Suspended { .. }
            | Self::Resumed { .. } => None,
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
}
