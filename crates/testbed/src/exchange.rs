//! What fence devices were asked and told, and when: what the lab keeps for its judge.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Hands out what a device was asked so far.
pub type Recorder = Box<dyn Fn() -> Vec<Exchange> + Send + Sync>;

/// One question or command, and when it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// When it arrived.
    pub asked: Moment,
    /// When it was answered, if it was.
    pub answered: Option<Moment>,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What was asked of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what")]
pub enum What {
    /// The power of the machine.
    Reading {
        /// The device's own word for it.
        told: String,
    },
    /// To do something about it, whether or not the device then did.
    Command {
        /// The protocol's name for it.
        name: String,
        /// Is it the hard off?
        is_hard_off: bool,
        /// Is it the on?
        #[serde(default)]
        is_on: bool,
    },
}
