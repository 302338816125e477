//! Whose turn it is: one agent at a time for a device, and a few for all of them.
//!
//! Whoever asks a device waits for its turn as everybody does; but one who has gone away leaves an agent behind that is being ended, and the
//! next one must not meet it. And an agent is a Python process of 17 MB, which a thousand probes at once cannot be.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::{Mutex as Device, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Agents that read at the same time.
const AT_ONCE: usize = 8;
/// Of these, for periodic probes: a fence finds room whatever they do.
const PROBES_AT_ONCE: usize = 4;

static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AT_ONCE)));
static ROOM_FOR_PROBES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(PROBES_AT_ONCE)));
static DEVICES: LazyLock<Mutex<HashMap<String, Arc<Device<()>>>>> = LazyLock::new(Mutex::default);

/// What an agent is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A periodic probe.
    Probe,
    /// A reading of a fence.
    Read,
    /// A power command. It waits for its device alone: the agents of others that hang would outlast its time, and those that a policy's
    /// budget admits are few.
    Command,
}

/// Held as long as anything of an agent runs.
#[derive(Debug)]
pub struct Turn {
    _device: OwnedMutexGuard<()>,
    _room: [Option<OwnedSemaphorePermit>; 2],
}

/// Waits until nothing else runs for this device, and there is room.
pub async fn of(endpoint: &str, purpose: Purpose) -> Turn {
    let place = async |room: &Arc<Semaphore>| Arc::clone(room).acquire_owned().await.ok();
    // First, so that a probe that waits for room keeps no fence from its device.
    let among_probes = match purpose {
        Purpose::Probe => place(&ROOM_FOR_PROBES).await,
        Purpose::Read | Purpose::Command => None,
    };
    let device = device(endpoint).lock_owned().await;
    let among_all = match purpose {
        Purpose::Command => None,
        Purpose::Read | Purpose::Probe => place(&ROOM).await,
    };
    Turn {
        _device: device,
        _room: [among_probes, among_all],
    }
}

fn device(endpoint: &str) -> Arc<Device<()>> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    // What nobody holds or waits for is forgotten.
    devices.retain(|_, device| Arc::strong_count(device) > 1);
    Arc::clone(devices.entry(endpoint.to_owned()).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    /// No other test of this process takes any of the room.
    #[tokio::test]
    async fn probes_leave_room_for_fences_and_a_command_needs_none() {
        let mut probes = Vec::new();
        for at in 0..PROBES_AT_ONCE {
            probes.push(of(&format!("probe {at}"), Purpose::Probe).await);
        }
        assert!(of("a probe more", Purpose::Probe).now_or_never().is_none());
        let mut reads = vec![of("a fence beside them", Purpose::Read).await];
        drop(probes);
        for at in 1..AT_ONCE {
            reads.push(of(&format!("read {at}"), Purpose::Read).await);
        }
        assert!(of("a read more", Purpose::Read).now_or_never().is_none());
        let command = of("a command", Purpose::Command).now_or_never();
        assert!(command.is_some(), "it waits for no other device");
        let second = of("a command", Purpose::Command).now_or_never();
        assert!(second.is_none(), "one at a time");
    }
}
