//! A password that is rotated while it is in use: where a device refuses it, the Secret is read again, once (F53).
//!
//! Whoever rotates a password writes it to the device and to the Secret, at a moment that suits neither a fence nor a probe, be it
//! between two readings of a proof. Nobody has to be called for that: a session whose credentials are refused looks whether the Secret has
//! been written since they were read, and asks once more with what it says now. A Secret that says the same is not tried again, however often
//! it was written, since each refusal brings the account nearer to being locked ([`super::super::lockout`]). A power command itself is
//! never sent a second time. Readings of off that a proof counts together belong to one session: after the first of them the
//! question is not repeated here, but fails in words that begin the readings anew, in a session with the new credentials.

use super::access::{Access, Maker};
use super::recent::Freshness;
use fencing_api::device::FenceDevice;
use fencing_core::reading::{Identity, Reading};
use fencing_drivers::credentials::Digest;
use fencing_drivers::{
    DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Probe,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver that follows its Secret.
#[derive(Debug, Clone)]
pub(super) struct Renewing {
    newest: Arc<Mutex<Access>>,
    source: Arc<Source>,
}

/// What it takes to make it anew.
struct Source {
    maker: Arc<Maker>,
    device: FenceDevice,
    node: String,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Renewing {
    /// Begins with this driver, which `maker` has made for the device and the node.
    pub(super) fn new(
        access: &Access,
        maker: &Arc<Maker>,
        device: &FenceDevice,
        node: &str,
    ) -> Self {
        let source = Source {
            maker: Arc::clone(maker),
            // Not its status: that of a fleet is long.
            device: FenceDevice {
                metadata: device.metadata.clone(),
                spec: device.spec.clone(),
                status: None,
            },
            node: node.to_owned(),
        };
        Self {
            newest: Arc::new(Mutex::new(access.clone())),
            source: Arc::new(source),
        }
    }

    fn newest(&self) -> Access {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.clone()
    }

    /// The driver anew, if its Secret does not say this any more. Not if the device was changed: where the new password may go is for
    /// the new settings to say.
    async fn renewed(&self, refused: Option<Digest>) -> Option<Access> {
        let Source {
            maker,
            device,
            node,
        } = &*self.source;
        if !maker.is_current(device) {
            return None;
        }
        let made = maker.make(device, node, Freshness::Now).await.ok()?;
        if made.content == refused {
            return None;
        }
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = made.clone();
        Some(made)
    }
}

impl FenceDriver for Renewing {
    fn name(&self) -> &'static str {
        self.newest().driver.name()
    }

    fn target(&self) -> String {
        self.newest().driver.target()
    }

    fn endpoint(&self) -> String {
        self.newest().driver.endpoint()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        let Access {
            driver, content, ..
        } = self.newest();
        Box::new(RenewingSession {
            session: driver.open(),
            content,
            has_read: false,
            seen: None,
            driver: self.clone(),
        })
    }
}

#[derive(Debug)]
struct RenewingSession {
    session: Box<dyn FenceSession>,
    /// What the session logs in with.
    content: Option<Digest>,
    /// Something was read in it, which must not count together with what is read in another.
    has_read: bool,
    /// What an off's preparation has read of the power in the session before this one; that the machine had power counts whatever is read after it.
    seen: Option<Reading>,
    driver: Renewing,
}

impl RenewingSession {
    /// Is it worth asking once more? Then it is another session, with the Secret as it is now.
    async fn renew(&mut self, refused: &DeviceError) -> bool {
        if !refused.refuses_credentials() {
            return false;
        }
        let renewed = self.driver.renewed(self.content).await;
        let Some(made) = renewed else {
            return false;
        };
        let Source { device, node, .. } = &*self.driver.source;
        tracing::info!(
            device = device.metadata.name, %node, target = made.driver.target(),
            "the device refused the credentials, which have changed in their Secret meanwhile: trying once more"
        );
        self.seen = self.seen();
        self.session = made.driver.open();
        self.content = made.content;
        true
    }
}

impl FenceSession for RenewingSession {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        // No login, so nothing to refuse.
        self.session.connect()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            let mut answer = self.session.observe().await;
            if let Err(refused) = &answer
                && self.renew(refused).await
            {
                if std::mem::take(&mut self.has_read) {
                    let endpoint = self.driver.target();
                    return Err(DeviceError::CredentialsRenewed { endpoint });
                }
                answer = self.session.observe().await;
            }
            self.has_read |= answer.is_ok();
            answer
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async {
            match self.session.prepare_off().await {
                Err(refused) if self.renew(&refused).await => self.session.prepare_off().await,
                answer => answer,
            }
        }
        .boxed()
    }

    fn seen(&self) -> Option<Reading> {
        let (now, before) = (self.session.seen(), self.seen.clone());
        let is_on = |it: &Reading| it.state.has_power();
        match before.as_ref().is_some_and(is_on) && !now.as_ref().is_some_and(is_on) {
            true => before,
            false => now.or(before),
        }
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.session.force_off()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        async {
            match self.session.prepare_on().await {
                Err(refused) if self.renew(&refused).await => self.session.prepare_on().await,
                answer => answer,
            }
        }
        .boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        self.session.power_on()
    }

    fn take_turn_now(&mut self) -> bool {
        self.session.take_turn_now()
    }

    fn probe(&mut self, extent: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async move {
            match self.session.probe(extent).await {
                Err(refused) if self.renew(&refused).await => self.session.probe(extent).await,
                answer => answer,
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
