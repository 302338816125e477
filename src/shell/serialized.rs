//! Devices of one chassis act one at a time (`spec.serializationGroup`).
//!
//! A chassis manager or a PDU does one thing at once however many machines hang on it. A [`super::devices::Devices::turn`] is held for
//! a whole session, which would let the devices of one level wait for each other for ever when they have to be read off together; so
//! the group is held for a single call. Between the preparation of an off command and the command it is not let go: the claim is
//! read in between, and what was read must not grow old while somebody else acts (F12).

use fencing_core::reading::{Identity, Reading};
use fencing_drivers::{
    DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Probe,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A driver whose calls wait for those of its group.
#[derive(Debug)]
pub struct Serialized {
    driver: Arc<dyn FenceDriver>,
    group: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct SerializedSession {
    session: Box<dyn FenceSession>,
    group: Arc<Mutex<()>>,
    /// Kept from a preparation to its command, or taken ahead for the next call.
    prepared: Option<OwnedMutexGuard<()>>,
}

impl Serialized {
    /// `group` is shared by all devices of the group.
    pub fn new(driver: Arc<dyn FenceDriver>, group: Arc<Mutex<()>>) -> Self {
        Self { driver, group }
    }
}

impl FenceDriver for Serialized {
    fn name(&self) -> &'static str {
        self.driver.name()
    }

    fn target(&self) -> String {
        self.driver.target()
    }

    fn endpoint(&self) -> String {
        self.driver.endpoint()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(SerializedSession {
            session: self.driver.open(),
            group: Arc::clone(&self.group),
            prepared: None,
        })
    }
}

impl SerializedSession {
    /// The group, from a preparation that went before or anew.
    async fn turn(&mut self) -> OwnedMutexGuard<()> {
        match self.prepared.take() {
            Some(turn) => turn,
            None => Arc::clone(&self.group).lock_owned().await,
        }
    }
}

impl FenceSession for SerializedSession {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        async {
            let _turn = self.turn().await;
            self.session.connect().await
        }
        .boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            let _turn = self.turn().await;
            self.session.observe().await
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async {
            let turn = self.turn().await;
            let prepared = self.session.prepare_off().await?;
            self.prepared = Some(turn);
            Ok(prepared)
        }
        .boxed()
    }

    fn seen(&self) -> Option<Reading> {
        self.session.seen()
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        async {
            let _turn = self.turn().await;
            self.session.force_off().await
        }
        .boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            let kept = self.turn().await;
            let reading = self.session.prepare_on().await?;
            self.prepared = Some(kept);
            Ok(reading)
        }
        .boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        async {
            let _turn = self.turn().await;
            self.session.power_on().await
        }
        .boxed()
    }

    fn take_turn_now(&mut self) -> bool {
        if self.prepared.is_none() {
            self.prepared = Arc::clone(&self.group).try_lock_owned().ok();
        }
        self.prepared.is_some() && self.session.take_turn_now()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            let _turn = self.turn().await;
            self.session.probe(extent).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::manual_confirmation::ValidConfirmation;
    use fencing_drivers::clock::Clock;
    use fencing_drivers::manual::Manual;
    use futures::poll;
    use std::time::Duration;

    /// A device of this group that answers at once.
    fn device(group: &Arc<Mutex<()>>) -> Box<dyn FenceSession> {
        let heard = ValidConfirmation {
            user: "alice".to_owned(),
            valid_until: Duration::MAX,
        };
        let driver = Arc::new(Manual::new(Ok(heard), Clock::SYSTEM));
        Serialized::new(driver, Arc::clone(group)).open()
    }

    #[tokio::test]
    async fn nobody_acts_between_a_preparation_and_its_command() {
        let group = Arc::default();
        let (mut one, mut other) = (device(&group), device(&group));
        one.prepare_off().await.expect("prepared");
        assert!(poll!(&mut other.observe()).is_pending());
        one.force_off().await.expect("commanded");
        other.observe().await.expect("its turn");
        // A look in peace time does not wait, and nobody waits for one that has not begun.
        assert!(other.take_turn_now() && other.take_turn_now());
        assert!(!one.take_turn_now());
        assert!(poll!(&mut one.observe()).is_pending());
        other.observe().await.expect("with the turn that it took");
        assert!(one.take_turn_now());
        one.observe().await.expect("with the turn that it took");
        one.prepare_off().await.expect("prepared");
        // Given up: without its claim nothing is commanded.
        drop(one);
        other.observe().await.expect("its turn");
    }

    /// A device of this group that is off, and takes each command.
    fn switched(group: &Arc<Mutex<()>>) -> Box<dyn FenceSession> {
        Serialized::new(Arc::new(Switched), Arc::clone(group)).open()
    }

    #[derive(Debug, Clone)]
    struct Switched;

    impl FenceDriver for Switched {
        fn name(&self) -> &'static str {
            "switched"
        }
        fn target(&self) -> String {
            "bmc".to_owned()
        }
        fn open(&self) -> Box<dyn FenceSession> {
            Box::new(self.clone())
        }
    }

    impl FenceSession for Switched {
        fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
            async { Ok(()) }.boxed()
        }
        fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
            self.prepare_on()
        }
        fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
            async { Ok(Identity::default()) }.boxed()
        }
        fn seen(&self) -> Option<Reading> {
            None
        }

        fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
            async { Ok(OffOutcome::Accepted) }.boxed()
        }
        fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
            let reading = Reading {
                state: fencing_core::reading::PowerState::Off,
                raw: "Off".to_owned(),
                identity: Identity::default(),
                faults: Vec::new(),
                off_parts: Vec::new(),
                asked: Duration::ZERO,
                answered: Duration::ZERO,
                wall: jiff::Timestamp::UNIX_EPOCH,
            };
            async { Ok(reading) }.boxed()
        }
        fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
            async { Ok(OnOutcome::Accepted) }.boxed()
        }
        fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
            async { Err(DeviceError::Unsupported { driver: "switched" }) }.boxed()
        }
    }

    #[tokio::test]
    async fn nobody_acts_between_a_preparation_and_its_power_on() {
        let group = Arc::default();
        let (mut one, mut other) = (switched(&group), switched(&group));
        one.prepare_on().await.expect("prepared");
        assert!(poll!(&mut other.observe()).is_pending());
        assert_eq!(one.power_on().await, Ok(OnOutcome::Accepted));
        other.observe().await.expect("its turn");
    }
}
