//! A cell: how a fault comes about for a driver, and the device with the fault in it.

use crate::ipmi::UUID;
use fencing_core::identity_rule::IdentityRule;
use fencing_drivers::FenceDriver;
use fencing_testbed::bmc::Plug;
use fencing_testbed::power::Power;
use futures::future::BoxFuture;
use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Time for a call where what is shown does not wait for its end: longer than anything takes on the busiest machine.
pub const ENDLESS: Duration = Duration::from_secs(60);
/// Time for a call that waits for an answer in vain.
pub const SHORT: Duration = Duration::from_millis(1200);

/// An address to which the kernel sends nothing of ours: it refuses to connect, as where there is no route.
pub const BROADCAST: &str = "127.255.255.255";

/// A name that does not exist (RFC 6761, 6.4).
pub const NO_SUCH_NAME: &str = "bmc.invalid";

/// How a fault comes about.
pub enum Cell {
    /// In this device.
    Runs(BoxFuture<'static, Bench>),
    /// Not at all, and why.
    Never(&'static str),
    /// Not at a single device: a test of this file shows it, by this name.
    Elsewhere(&'static str, &'static str),
}

impl Cell {
    /// In this device.
    pub fn of(bench: impl Future<Output = Bench> + Send + 'static) -> Self {
        Self::Runs(Box::pin(bench))
    }
}

/// A device with a fault, and the machine that it controls.
pub struct Bench {
    pub driver: Arc<dyn FenceDriver>,
    /// The machine, which runs unless the fault says otherwise.
    pub machine: Arc<Plug>,
    /// Who must answer.
    pub rule: IdentityRule,
    /// The power commands that have arrived, and whether each is a hard off.
    pub commands: Box<dyn Fn() -> Vec<bool> + Send + Sync>,
    /// What befalls the device while the power is read for a proof.
    pub midway: Option<Midway>,
    /// What the device is known by, where two nodes could share it.
    pub targets: Vec<String>,
    /// Whatever has to live as long.
    pub _device: Box<dyn Any + Send + Sync>,
}

/// What befalls a device, and what ends it.
pub struct Midway {
    pub breaks: Box<dyn Fn() + Send + Sync>,
    pub mends: Box<dyn Fn() + Send + Sync>,
}

impl Bench {
    pub fn new(
        driver: Arc<dyn FenceDriver>,
        machine: &Arc<Plug>,
        device: Arc<impl Send + Sync + 'static>,
        commands: impl Fn() -> Vec<bool> + Send + Sync + 'static,
    ) -> Self {
        Self {
            targets: vec![driver.target()],
            driver,
            machine: Arc::clone(machine),
            rule: IdentityRule::Is(UUID.to_owned()),
            commands: Box::new(commands),
            midway: None,
            _device: Box::new(device),
        }
    }

    /// The same, with something that befalls the device midway, and ends when a reading was lost.
    pub fn befalls(
        self,
        breaks: impl Fn() + Send + Sync + 'static,
        mends: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let midway = Midway {
            breaks: Box::new(breaks),
            mends: Box::new(mends),
        };
        Self {
            midway: Some(midway),
            ..self
        }
    }

    /// A hand at the machine's plug.
    pub fn machine_is(&self, on: bool) {
        self.machine.set_power(on);
    }
}

/// A machine that runs.
pub fn machine() -> Arc<Plug> {
    Arc::new(Plug::new("node-1", UUID))
}
