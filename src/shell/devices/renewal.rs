//! A password that is rotated while it is in use: where a device refuses it, the Secret is read again, once (F53).
//!
//! Whoever rotates a password writes it to the device and to the Secret, at a moment that suits neither a fence nor a probe, be it
//! between two readings of a proof. Nobody has to be called for that: a session whose credentials are refused looks whether the Secret has
//! been written since they were read, and asks once more with what it says now. A Secret that is the same is not tried again, since each
//! refusal brings the account nearer to being locked ([`super::super::lockout`]). The power-off itself is never sent a second time.

use super::access::{Access, Maker};
use crate::api::device::FenceDevice;
use crate::core::reading::{Identity, Reading};
use crate::fence::{DeviceError, Extent, FenceDriver, FenceSession, OffOutcome, Probe};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver that follows its Secret.
#[derive(Debug, Clone)]
pub(super) struct Renewing {
    newest: Arc<Mutex<Made>>,
    source: Arc<Source>,
}

/// A driver, and the `resourceVersion` of the Secret that it was made of.
#[derive(Debug, Clone)]
struct Made {
    driver: Arc<dyn FenceDriver>,
    secret_version: Option<String>,
}

/// What it takes to make it anew.
struct Source {
    maker: Maker,
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

impl From<&Access> for Made {
    fn from(access: &Access) -> Self {
        Self {
            driver: Arc::clone(&access.driver),
            secret_version: access.secret_version.clone(),
        }
    }
}

impl Renewing {
    /// Begins with this driver, which `maker` has made for the device and the node.
    pub(super) fn new(access: &Access, maker: &Maker, device: &FenceDevice, node: &str) -> Self {
        let source = Source {
            maker: maker.clone(),
            device: device.clone(),
            node: node.to_owned(),
        };
        Self {
            newest: Arc::new(Mutex::new(Made::from(access))),
            source: Arc::new(source),
        }
    }

    fn newest(&self) -> Made {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.clone()
    }

    /// The driver anew, if its Secret is not of this version any more.
    async fn renewed(&self, refused_version: Option<&String>) -> Option<Made> {
        let Source {
            maker,
            device,
            node,
        } = &*self.source;
        let made = Made::from(&maker.make(device, node).await.ok()?);
        if made.secret_version.as_ref() == refused_version {
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
        let Made {
            driver,
            secret_version,
        } = self.newest();
        Box::new(RenewingSession {
            session: driver.open(),
            secret_version,
            driver: self.clone(),
        })
    }
}

#[derive(Debug)]
struct RenewingSession {
    session: Box<dyn FenceSession>,
    /// Of the Secret that the session uses.
    secret_version: Option<String>,
    driver: Renewing,
}

impl RenewingSession {
    /// Is it worth asking once more? Then it is another session, with the Secret as it is now.
    async fn renew(&mut self, refused: &DeviceError) -> bool {
        if !refused.refuses_credentials() {
            return false;
        }
        let renewed = self.driver.renewed(self.secret_version.as_ref()).await;
        let Some(made) = renewed else {
            return false;
        };
        tracing::info!(
            target = made.driver.target(),
            "the device refused the credentials, and their Secret has been written since: it is asked once more"
        );
        self.session = made.driver.open();
        self.secret_version = made.secret_version;
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
            match self.session.observe().await {
                Err(refused) if self.renew(&refused).await => self.session.observe().await,
                answer => answer,
            }
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

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.session.force_off()
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
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::core::reading::PowerState;
    use crate::fence::address::AddressRules;
    use crate::shell::devices::Devices;
    use crate::shell::fake::{Fake, failure};
    use serde_json::{Value, json};

    const SECRET: &str = "GET /api/v1/namespaces/ns/secrets/bmc";
    const SYSTEM: &str = "GET /redfish/v1/Systems/1";
    const RESET: &str = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

    /// When a Secret is written whose BMC has got another password.
    #[derive(Clone, Copy, PartialEq)]
    enum Secret {
        AtOnce,
        /// As soon as the BMC has refused somebody.
        Late,
        Never,
    }

    /// An API server and a BMC in one.
    struct Site {
        server: Fake,
        state: Arc<Mutex<State>>,
    }

    struct State {
        /// `resourceVersion` of the Secret.
        secret: u32,
        /// The BMC takes what a Secret of this version says, whoever has read it last.
        bmc: u32,
        /// Of the Secret that was read last.
        read: u32,
        /// When the Secret will be the one that the BMC takes.
        follows: Secret,
    }

    impl Site {
        async fn new() -> Self {
            let state = State {
                secret: 1,
                bmc: 1,
                read: 0,
                follows: Secret::Never,
            };
            let state = Arc::new(Mutex::new(state));
            let shared = Arc::clone(&state);
            let server = Fake::start(move |request| {
                let mut state = shared.lock().expect("lock");
                answer(&mut state, &request.line)
            })
            .await;
            Self { server, state }
        }

        async fn driver(&self) -> Arc<dyn FenceDriver> {
            let local = vec!["127.0.0.0/8".parse().expect("a range")];
            let rules = AddressRules::new(local, Vec::new());
            let client = self.server.clients.reads.clone();
            let devices = Devices::new(client, "ns".to_owned(), rules, Clock::SYSTEM);
            let redfish = json!({
                "address": format!("http://{}", self.server.address),
                "systemID": "1",
                "tls": {"verification": "None"},
            });
            let spec =
                json!({"nodeName": "w1", "redfish": redfish, "credentialsRef": {"name": "bmc"}});
            let device = FenceDevice::new("bmc", serde_json::from_value(spec).expect("a spec"));
            devices.driver(&device, "w1").await.expect("a driver")
        }

        /// The BMC gets the next password.
        fn rotate(&self, secret: Secret) {
            let mut state = self.state.lock().expect("lock");
            state.bmc += 1;
            state.secret += u32::from(secret == Secret::AtOnce);
            state.follows = secret;
        }

        /// What was asked since the last time.
        fn asked(&self, before: &mut usize) -> Vec<String> {
            let seen = self.server.seen().into_iter().map(|request| request.line);
            let new: Vec<_> = seen.skip(*before).collect();
            *before += new.len();
            new
        }
    }

    fn answer(state: &mut State, line: &str) -> (u16, Value) {
        if line == SECRET {
            state.read = state.secret;
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "bmc", "resourceVersion": state.secret.to_string()},
                "data": {"username": "cm9vdA==", "password": "c2VjcmV0"},
            });
            return (200, secret);
        }
        if state.read != state.bmc {
            state.secret += u32::from(state.follows == Secret::Late);
            state.follows = Secret::Never;
            return failure(401, "who are you?");
        }
        let system = json!({
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "PowerState": "Off",
            "UUID": crate::core::fixtures::MACHINE,
            "Actions": {"#ComputerSystem.Reset": {
                "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": ["ForceOff"],
            }},
        });
        (200, system)
    }

    #[tokio::test]
    async fn a_password_that_is_rotated_between_two_readings_is_read_again_once() {
        let site = Site::new().await;
        let driver = site.driver().await;
        let mut seen = 0;
        let mut session = driver.open();
        session.observe().await.expect("a reading");
        assert_eq!(site.asked(&mut seen), [SECRET, SYSTEM]);
        for secret in [Secret::AtOnce, Secret::Late] {
            site.rotate(secret);
            let reading = session.observe().await.expect("a reading");
            assert_eq!(reading.state, PowerState::Off);
            assert_eq!(site.asked(&mut seen), [SYSTEM, SECRET, SYSTEM]);
        }
        // What is opened later begins with the new one.
        driver.open().observe().await.expect("a reading");
        assert_eq!(site.asked(&mut seen), [SYSTEM]);
    }

    #[tokio::test]
    async fn a_secret_that_is_still_the_same_is_not_tried_again() {
        let site = Site::new().await;
        let driver = site.driver().await;
        site.rotate(Secret::Never);
        let mut seen = 0;
        let refused = driver.open().observe().await.expect_err("refused");
        assert_eq!(refused.reason(), "AuthFailed");
        assert_eq!(site.asked(&mut seen), [SECRET, SYSTEM, SECRET]);
    }

    #[tokio::test]
    async fn a_command_that_is_refused_is_not_sent_again() {
        let site = Site::new().await;
        let driver = site.driver().await;
        let mut seen = 0;
        site.rotate(Secret::AtOnce);
        let mut session = driver.open();
        session
            .prepare_off()
            .await
            .expect("by the Secret as it is now");
        assert_eq!(site.asked(&mut seen), [SECRET, SYSTEM, SECRET, SYSTEM]);
        site.rotate(Secret::AtOnce);
        let refused = session.force_off().await.expect_err("refused");
        assert_eq!(refused.reason(), "AuthFailed");
        assert_eq!(site.asked(&mut seen), [RESET]);
    }
}
