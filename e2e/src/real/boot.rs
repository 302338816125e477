//! One boot of a machine: from the start of its PID 1 to the power cut.

use std::{
    fs,
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cable::{Cable, Plug};
use super::processes;
use fencing_testbed::process::{Guard, Process, Spec};

/// How long PID 1 may take to bring the network up. It takes 40 ms.
const BOOT_LIMIT: Duration = Duration::from_secs(10);

/// How long the kernel may take to end or to stop all processes of a machine. It takes 30 to 70 ms, and beside a dozen other clusters on two cores was
/// seen to take more than 10 s. The power is off for whoever asks when the last of them is gone.
const DARK_LIMIT: Duration = Duration::from_secs(60);

/// How often to look. Power figures are in tens of milliseconds.
const POLL: Duration = Duration::from_millis(1);

/// A machine that has power.
pub(super) struct Running {
    /// `unshare`, which ends when everything in the machine has ended.
    process: Process,
    init: Pid,
    /// The same, without the risk of signalling a later process of that ID.
    init_descriptor: OwnedFd,
    plug: Plug,
}

impl Running {
    /// Starts PID 1 and plugs in the network cable. PID 1 writes its ID, as the host sees it, to `init_file` once it has
    /// a network.
    pub(super) fn start(
        spec: Spec,
        guard: &Arc<Guard>,
        init_file: &Path,
        cable: &Cable,
        port: u16,
    ) -> Result<Self> {
        let process = spec.spawn(guard)?;
        let init = wait_for_network(&process, init_file)?;
        let descriptor = pidfd_open(init, PidfdFlags::empty());
        let init_descriptor = descriptor.context("PID 1 of the machine has ended")?;
        let plug = cable.plug(init, port)?;
        Ok(Self {
            process,
            init,
            init_descriptor,
            plug,
        })
    }

    /// PID 1, as the host sees it.
    pub(super) fn init(&self) -> Pid {
        self.init
    }

    /// Where its network namespace is to be found while it has power.
    pub(super) fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.init.as_raw_nonzero())
    }

    /// Stops every process. Returns when none of them runs.
    pub(super) fn suspend(&self) -> Result<()> {
        let end = Instant::now() + DARK_LIMIT;
        while processes::stop(self.init) > 0 {
            if Instant::now() > end {
                bail!("the machine still runs after {DARK_LIMIT:?}");
            }
            sleep(POLL);
        }
        Ok(())
    }

    /// Lets every process go on.
    pub(super) fn resume(&self) {
        processes::go_on(self.init);
    }

    /// Cuts the power. Returns when no process of the machine exists any more; its end of the cable is left.
    pub(super) fn cut(self) -> Result<Plug> {
        // An error means that it has ended already.
        let _ = pidfd_send_signal(&self.init_descriptor, Signal::KILL);
        let end = Instant::now() + DARK_LIMIT;
        while self.process.ended().is_none() {
            if Instant::now() > end {
                bail!("the machine is not dark after {DARK_LIMIT:?}");
            }
            sleep(POLL);
        }
        Ok(self.plug)
    }
}

fn wait_for_network(process: &Process, init_file: &Path) -> Result<Pid> {
    let end = Instant::now() + BOOT_LIMIT;
    loop {
        if let Ok(text) = fs::read_to_string(init_file) {
            return Pid::from_raw(text.trim().parse()?).context("PID 1 of the machine has no ID");
        }
        process.check()?;
        if Instant::now() > end {
            bail!(
                "the machine has no network yet; its console says:\n{}",
                process.tail(15)
            );
        }
        sleep(POLL);
    }
}
