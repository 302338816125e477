//! The points of the protocol at which a test holds the operator, to do the worst to it there.
//!
//! No hook in the product: the operator waits for the answer to a request of its own, which the proxy, the BMC or the
//! storage array has and keeps. Letting it go later is what a packet does that was long on its way.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::csi::{Array, EventKind};
use crate::lab::{LIMIT, Lab, Rig, Stalling};
use crate::machine::Ailment;
use crate::proxy::{Matcher, Proxy, writes};
use fencing_testbed::bmc::Which;
use fencing_testbed::https::Hold;

/// A point of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The outage has been seen; the NodeFence is about to be created.
    Detected,
    /// The claim is stored, and the operator does not know yet.
    Claimed,
    /// No pod can start any more; the intent is about to be written.
    Quiesced,
    /// The intent is stored, and the operator does not know yet: nothing has been commanded.
    IntentStored,
    /// The machine has been turned off, and the operator does not know yet.
    OffSent,
    /// The machine is proven off; the evidence is about to be written.
    Proved,
    /// The forced deletion of the node's pod is on its way.
    Evicting,
    /// The patch that sets `out-of-service` is on its way.
    PatchInFlight,
    /// `out-of-service` is stored, and the operator does not know yet.
    Tainted,
    /// `out-of-service` stands, and a detach does not end.
    Detaching,
    /// The patch that takes `out-of-service` away is on its way.
    Releasing,
    /// The last write of the record, which ends it, is on its way.
    Closing,
}

/// The operator, held at a point.
pub enum Held {
    /// One of its requests is, which is to arrive late.
    Request(Hold, Stalling),
    /// The storage array does not finish a detach from this node.
    Detach(Array, String),
}

impl Point {
    /// The mode of a policy whose fences pass this point.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Quiesced | Self::IntentStored | Self::OffSent => "PowerOff",
            // These come to pass in every mode, and the most is at stake where somebody commands.
            Self::Evicting | Self::Releasing => "PowerOff",
            _ => "ConfirmOnly",
        }
    }

    /// Does `out-of-service` stand already?
    pub fn is_tainted(self) -> bool {
        matches!(self, Self::Tainted | Self::Detaching | Self::Releasing)
    }

    /// What is on its way at this point, and says nothing new by the time that another process has finished the fence: it is to arrive then.
    pub fn outlived(self) -> Option<Matcher> {
        match self {
            Self::Evicting => Some(writes::delete_pod()),
            Self::Releasing => Some(writes::release()),
            Self::Closing => Some(writes::close()),
            _ => None,
        }
    }

    /// Breaks the machine so that a fence passes this point: its power is cut, or, where the off command is to matter,
    /// only its kubelet hangs and its containers go on writing.
    pub fn strike(self, rig: &Rig) {
        if self == Self::OffSent {
            rig.machine.ail(Ailment {
                kubelet_hung: true,
                ..Ailment::default()
            });
        } else {
            rig.machine.set_power(false);
        }
    }

    /// Will hold the operator at this point of its next fence of this machine.
    pub async fn hold(self, lab: &Lab, proxy: &Proxy, rig: &Rig) -> Result<Held> {
        let node = rig.machine.name();
        let hold = match self {
            Self::Detected => proxy.hold(writes::create_fence()),
            Self::Claimed => proxy.hold_answer(writes::claim().of(node)),
            Self::Quiesced => proxy.hold(writes::intent()),
            Self::IntentStored => proxy.hold_answer(writes::intent()),
            Self::OffSent => rig.bmc.hold_answer(Which::ForceOff),
            Self::Proved => proxy.hold(writes::evidence()),
            Self::Evicting => proxy.hold(writes::delete_pod()),
            Self::PatchInFlight => proxy.hold(writes::taint().of(node)),
            Self::Tainted => proxy.hold_answer(writes::taint().of(node)),
            Self::Releasing => proxy.hold(writes::release().of(node)),
            Self::Closing => proxy.hold(writes::close()),
            Self::Detaching => {
                let array = lab.control_plane.array();
                array.hang_detach().await?;
                return Ok(Held::Detach(array, node.to_owned()));
            }
        };
        Ok(Held::Request(hold, lab.stalls_requests()))
    }
}

impl Held {
    /// Waits until the operator is at the point.
    pub async fn wait_arrived(&self) -> Result<()> {
        match self {
            Self::Request(hold, _) => hold.wait_arrived(LIMIT).await,
            Self::Detach(array, node) => {
                let begin = std::time::Instant::now();
                while begin.elapsed() < LIMIT {
                    let events = array.events().await?;
                    let hangs = events
                        .iter()
                        .any(|event| event.kind == EventKind::DetachHangs && event.node == *node);
                    if hangs {
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                bail!("no detach from {node} was asked for within {LIMIT:?}")
            }
        }
    }

    /// Lets it go on.
    pub async fn release(self) -> Result<()> {
        match self {
            Self::Request(hold, stalling) => {
                hold.release();
                drop(stalling);
                Ok(())
            }
            Self::Detach(array, _) => array.clear_faults().await,
        }
    }
}
