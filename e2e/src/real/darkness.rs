//! A power loss as the network sees it: nothing leaves the machine any more, not even that its connections end.
//!
//! The SIGKILL of a machine's processes is no power loss to those who talk to them: the kernel lives on and closes their connections for
//! them, so that a peer reads the end (FIN) some tens of milliseconds later. Nor does a dead machine take its route with it, as its network
//! namespace would. So here its cables go down first, and the namespace is held open until the next boot: who asks gets no answer, and finds
//! out by waiting. (After some 3 s of that the host no longer finds the neighbour and says so at once, as it does of a dead machine of its
//! own segment.)

use std::fs::File;

use anyhow::{Context, Result};

use super::cable::Plug;
use super::{RealMachine, State, uplink};

/// What is left of a machine that has gone dark. Dropping it is the end of its connections, and of its route.
pub(super) struct Dark {
    /// Its network.
    _network: File,
    /// Its end of the cable to the API server, with what was on its way.
    _plug: Plug,
}

impl RealMachine {
    /// Cuts the power so that nothing leaves it any more. Returns when the machine is dark. Like a power cut it changes nothing about a
    /// machine that is suspended.
    pub(super) fn go_dark_now(&self, state: &mut State) -> Result<()> {
        if state.suspended {
            return Ok(());
        }
        let Some(running) = state.running.take() else {
            return Ok(());
        };
        self.cable.pull(true);
        let network = running.network();
        let held = File::open(&network).with_context(|| network.clone())?;
        uplink::set_link(&network, false)?;
        state.dark = Some(Dark {
            _network: held,
            _plug: running.cut()?,
        });
        self.is_off(state)
    }

    /// The machine boots or ends: what was on its way is lost for good, before the cable carries anything again.
    pub(super) fn end_darkness(&self, state: &mut State) {
        if state.dark.take().is_some() {
            self.uplink.clear();
        }
        self.cable.pull(state.ailment.partitioned);
    }
}
