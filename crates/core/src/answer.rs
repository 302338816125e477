//! What became of an effect: what the API server and the devices have answered.

use super::attempt::{OffResult, OnResult};
use super::device::{DeviceAnswer, DeviceReadings};
use super::observed::PodView;
use std::collections::BTreeMap;
use std::time::Duration;

/// What became of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The API server did it.
    Done,
    /// The API server refused: nothing was written. HTTP status and message.
    Refused(u16, String),
    /// The request was never sent, for this reason: nothing was written.
    NotSent(String),
    /// No definite answer: it may have been written, or may still be (F21).
    Unknown(String),
    /// Device work has ended: the order's number and its answer.
    Device(u64, DeviceReply),
}

/// The node's pods, and when all of them were known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodList {
    /// The pods, complete.
    pub pods: Vec<PodView>,
    /// When the list was answered (time since boot).
    pub answered: Duration,
}

/// Answer of the devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceReply {
    /// To [`super::DeviceOrder::ReadPower`].
    PowerRead {
        /// What each device showed.
        answers: Vec<DeviceAnswer>,
        /// The node's pods, listed meanwhile; none: they have to be listed under the claim.
        pods: Option<Vec<PodView>>,
    },
    /// To [`super::DeviceOrder::Off`].
    Commanded {
        /// What devices showed before the command, while it was prepared.
        answers: Vec<DeviceAnswer>,
        /// What became of it, per device.
        results: BTreeMap<String, OffResult>,
    },
    /// To [`super::DeviceOrder::On`], per device.
    TurnedOn(BTreeMap<String, OnResult>),
    /// To [`super::DeviceOrder::Confirm`].
    Confirmed {
        /// What the devices said.
        readings: Vec<DeviceReadings>,
        /// Why it ended without an Off run, per device.
        failures: Vec<String>,
        /// What the devices of the node's other levels showed meanwhile; no reading: it was asked, and did not answer.
        others: Vec<DeviceReadings>,
        /// Something answered at the kubelet's port beside them; none: that is not known of the moment in which they were complete.
        kubelet_answers: Option<bool>,
        /// The node's pods, listed meanwhile, oldest first.
        pods: Vec<PodList>,
    },
}

impl DeviceReply {
    /// What devices have said; what was seen by a look is like what is read for a proof. Of one that did not answer there is no reading.
    pub fn reported(&self) -> Vec<DeviceReadings> {
        let seen = |answer: &DeviceAnswer| {
            let readings = answer.reading.iter().cloned().collect();
            DeviceReadings::of(&answer.device, readings)
        };
        match self {
            Self::PowerRead { answers, .. } | Self::Commanded { answers, .. } => {
                answers.iter().map(seen).collect()
            }
            Self::Confirmed {
                readings, others, ..
            } => readings.iter().chain(others).cloned().collect(),
            Self::TurnedOn(_) => Vec::new(),
        }
    }
}
