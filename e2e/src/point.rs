//! The points of the protocol at which a test holds the operator, to do the worst to it there.
//!
//! No hook in the product: the operator waits for the answer to a request of its own, which the proxy, the BMC or the
//! storage array has and keeps. Letting it go later is what a packet does that was long on its way.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::bmc::Which;
use crate::csi::{Array, EventKind};
use crate::https::Hold;
use crate::lab::{LIMIT, Lab, Rig, Stalling};
use crate::machine::Ailment;
use crate::proxy::{Proxy, writes};

/// A point of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The outage has been seen; the NodeFence is about to be created.
    Detected,
    /// The claim is stored, and the operator does not know yet.
    Claimed,
    /// No pod can start any more; the intent is about to be written.
    Quiesced,
    /// The machine has been turned off, and the operator does not know yet.
    OffSent,
    /// The machine is proven off; the evidence is about to be written.
    Proved,
    /// The patch that sets `out-of-service` is on its way.
    PatchInFlight,
    /// `out-of-service` is stored, and the operator does not know yet.
    Tainted,
    /// `out-of-service` stands, and a detach does not end.
    Detaching,
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
            Self::Quiesced | Self::OffSent => "PowerOff",
            _ => "ConfirmOnly",
        }
    }

    /// Does `out-of-service` stand already?
    pub fn is_tainted(self) -> bool {
        matches!(self, Self::Tainted | Self::Detaching)
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
            Self::OffSent => rig.bmc.hold_answer(Which::ForceOff),
            Self::Proved => proxy.hold(writes::evidence()),
            Self::PatchInFlight => proxy.hold(writes::taint().of(node)),
            Self::Tainted => proxy.hold_answer(writes::taint().of(node)),
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
