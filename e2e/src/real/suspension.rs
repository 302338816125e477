//! What is wrong with a machine that has power, and how all of it stands still without power and goes on later (R8).
//!
//! A machine is suspended by a SIGSTOP for each of its processes, from PID 1 down to the containers, and its cables are pulled: the kernel, which it
//! shares with the host, would answer for it. What it had in memory, its mounts and its boot ID are kept.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{RealMachine, State, processes, remove};
use crate::machine::Ailment;
use crate::volume::journal::Happening;
use fencing_testbed::moment::Moment;

impl RealMachine {
    /// Makes its ailment true, as far as it runs.
    pub(super) fn suffer(&self, state: &State) -> Result<()> {
        let Ailment {
            partitioned,
            kubelet_hung,
            unmount_hung,
        } = state.ailment;
        self.cable
            .pull(partitioned || state.suspended || state.dark.is_some());
        let Some(running) = &state.running else {
            return Ok(());
        };
        self.uplink.plug(!partitioned && !state.suspended)?;
        if !state.suspended {
            let hang = [Signal::CONT, Signal::STOP][usize::from(kubelet_hung)];
            processes::signal_kubelet(running.init(), hang);
        }
        let file = self.hang_file();
        let done = if unmount_hung {
            fs::write(&file, "")
        } else {
            remove(&file)
        };
        done.with_context(|| file.display().to_string())
    }

    pub(super) fn suspend_now(&self, state: &mut State) -> Result<()> {
        if state.running.is_none() || state.suspended {
            return Ok(());
        }
        state.suspended = true;
        self.suffer(state)?;
        if let Some(running) = &state.running {
            running.suspend()?;
        }
        let (node, boot) = (self.name.clone(), state.boot_id.clone());
        let journal = self.volumes.journal();
        journal.record(Moment::now(), Happening::Suspended { node, boot });
        Ok(())
    }

    pub(super) fn resume(&self, state: &mut State) -> Result<()> {
        let (node, boot) = (self.name.clone(), state.boot_id.clone());
        let journal = self.volumes.journal();
        journal.record(Moment::now(), Happening::Resumed { node, boot });
        state.suspended = false;
        if let Some(running) = &state.running {
            running.resume();
        }
        self.suffer(state)
    }
}
