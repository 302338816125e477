//! How many real machines fit on this host at the same time.
//!
//! The scarce good is inotify: the kernel allows each user 128 instances by default (`fs.inotify.max_user_instances`), and a
//! kubelet that gets none runs on without its plugins, so that no volume is ever mounted or unmounted on its node. Labs that
//! would exceed it wait here for one another; labs of another process are not known of.

use std::fs;

use anyhow::{Context, Result, ensure};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
/// Instances that a machine uses: five in its kubelet, one in its containerd.
const PER_MACHINE: usize = 6;
/// Control planes at the same time (`E2E_THREADS` in the Makefile), and what each uses: three in its API server, one in its
/// controller-manager.
const CONTROL_PLANES: usize = 10;
const PER_CONTROL_PLANE: usize = 4;
/// Instances for whatever else runs on the host.
const HOST: usize = 16;

/// Room for the real machines of one lab; given back when dropped, which has to be after the machines.
pub struct Room {
    _machines: SemaphorePermit<'static>,
}

impl Room {
    /// Waits until so many machines fit beside those of this process's other labs. Fails if they never will.
    pub async fn wait_for(machines: usize) -> Result<Self> {
        static ROOM: OnceCell<(usize, Semaphore)> = OnceCell::const_new();
        let measure = || async {
            let limit =
                fs::read_to_string(LIMIT).with_context(|| format!("failed to read {LIMIT}"))?;
            let fit = fit(limit.trim().parse()?);
            anyhow::Ok((fit, Semaphore::new(fit)))
        };
        let (fit, room) = ROOM.get_or_try_init(measure).await?;
        Self::take(*fit, room, machines).await
    }

    async fn take(fit: usize, room: &'static Semaphore, machines: usize) -> Result<Self> {
        ensure!(
            machines <= fit,
            "{machines} real machines need more inotify instances than this host allows, there is room for {fit}; \
             raise it: sysctl fs.inotify.max_user_instances=1024"
        );
        let machines = room.acquire_many(u32::try_from(machines)?).await?;
        Ok(Self {
            _machines: machines,
        })
    }
}

/// Machines for which so many instances are enough.
fn fit(instances: usize) -> usize {
    instances.saturating_sub(CONTROL_PLANES * PER_CONTROL_PLANE + HOST) / PER_MACHINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_take_only_what_the_control_planes_leave() {
        assert_eq!(fit(128), 12);
        assert_eq!(fit(1024), 161);
        assert_eq!(fit(40), 0);
    }

    #[tokio::test]
    async fn labs_that_do_not_fit_wait_for_one_another() {
        static ROOM: Semaphore = Semaphore::const_new(2);
        let both = Room::take(2, &ROOM, 2).await.unwrap();
        let mut next = Box::pin(Room::take(2, &ROOM, 1));
        assert!(futures::poll!(&mut next).is_pending());
        drop(both);
        next.await.unwrap();
        let error = Room::take(2, &ROOM, 3).await.err().unwrap();
        assert!(error.to_string().contains("inotify"), "{error}");
    }
}
