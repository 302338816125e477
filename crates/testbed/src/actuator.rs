//! What a BMC does to its machine once it has accepted a command: now, later or never, whatever language it was told in.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::power::Power;

/// How long a machine stays dark in a restart or a power cycle.
const RESTART_DARK: Duration = Duration::from_millis(100);

/// What is done to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    On,
    Off,
    /// Off, and on again after a moment.
    Restart,
    /// Left to an operating system, and nobody in the machine listens.
    Nothing,
}

/// What an accepted command does to the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// What it says, before it is answered.
    #[default]
    AtOnce,
    /// What it says, this long after.
    After(Duration),
    /// Nothing.
    Ignored,
}

/// The hand of one BMC.
#[derive(Debug, Default)]
pub(crate) struct Actuator {
    is_dark: AtomicBool,
}

impl Actuator {
    /// Whether the BMC itself has lost its power: it then does not get round to what it had accepted.
    pub(crate) fn set_dark(&self, is_dark: bool) {
        self.is_dark.store(is_dark, Ordering::Relaxed);
    }

    /// Lets the action take effect; with `restores_after`, a power-off ends that long after.
    pub(crate) async fn act(
        self: &Arc<Self>,
        machine: Arc<dyn Power>,
        action: Action,
        effect: Effect,
        restores_after: Option<Duration>,
    ) {
        match effect {
            Effect::Ignored => {}
            Effect::AtOnce => self.clone().work(machine, action, restores_after).await,
            Effect::After(delay) => {
                let later = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    later.work(machine, action, restores_after).await;
                });
            }
        }
    }

    async fn work(
        self: Arc<Self>,
        machine: Arc<dyn Power>,
        action: Action,
        restores_after: Option<Duration>,
    ) {
        match action {
            Action::On => self.switch(&machine, true).await,
            Action::Off => {
                self.switch(&machine, false).await;
                if let Some(delay) = restores_after {
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        self.switch(&machine, true).await;
                    });
                }
            }
            Action::Restart => {
                self.switch(&machine, false).await;
                tokio::time::sleep(RESTART_DARK).await;
                self.switch(&machine, true).await;
            }
            Action::Nothing => {}
        }
    }

    async fn switch(&self, machine: &Arc<dyn Power>, on: bool) {
        if self.is_dark.load(Ordering::Relaxed) {
            return;
        }
        let machine = machine.clone();
        // Cutting the power of a real machine kills processes and waits for them.
        let done = tokio::task::spawn_blocking(move || machine.set_power(on)).await;
        debug_assert!(done.is_ok(), "switching a machine must not panic");
    }
}
