//! Does the judge notice? A driver that says off whatever happens, and takes every command, passes no row that it could not have earned.

use super::cell::{Bench, machine};
use super::rows::ROWS;
use super::verdict::Verdict;
use crate::ipmi::UUID;
use fencing_core::reading::{Identity, PowerState, Reading};
use fencing_drivers::clock;
use fencing_drivers::{
    DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Probe,
};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Clone, Default)]
struct Liar {
    commands: Arc<AtomicUsize>,
}

fn identity() -> Identity {
    Identity {
        system_uuid: Some(UUID.to_owned()),
        serial_number: None,
    }
}

fn off() -> Reading {
    let now = clock::since_boot();
    Reading {
        state: PowerState::Off,
        raw: "Off".to_owned(),
        identity: identity(),
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked: now,
        answered: now,
        wall: Timestamp::UNIX_EPOCH,
    }
}

impl FenceDriver for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }

    fn target(&self) -> String {
        "nothing".to_owned()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(self.clone())
    }
}

impl FenceSession for Liar {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        ready(Ok(())).boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        ready(Ok(off())).boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        ready(Ok(off())).boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        ready(Ok(OnOutcome::Accepted)).boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        ready(Ok(identity())).boxed()
    }

    fn seen(&self) -> Option<Reading> {
        None
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        ready(Ok(OffOutcome::Accepted)).boxed()
    }

    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        let error = DeviceError::Unsupported { driver: "liar" };
        ready(Err(error)).boxed()
    }
}

#[tokio::test]
async fn a_driver_that_always_says_off_passes_no_row() {
    for (_, words, verdict) in ROWS {
        let liar = Liar::default();
        let sent = Arc::clone(&liar.commands);
        let commands = move || vec![true; sent.load(Ordering::Relaxed)];
        let bench = Bench::new(Arc::new(liar), &machine(), Arc::new(()), commands);
        let shown = verdict.shown(&bench).await;
        // That the device lies is the fault there, and what is shared is refused whatever it says.
        let is_earned = matches!(verdict, Verdict::Contradicted | Verdict::Shared);
        assert_eq!(shown.is_ok(), is_earned, "{words}: {shown:?}");
    }
}
