//! A conversation about one node's storage: each call asks the API server again, and nothing is kept between two.

use super::facts::{Class, Clients, Sidecar, Wanted, clients};
use super::object::{self, NetworkFence, PATH, Purpose, State};
use super::{NotCreated, NotRead, StorageFence};
use crate::error::printable;
use crate::limit::Limit;
use crate::{DeviceError, Extent, FenceSession, OffOutcome, OnOutcome, Probe};
use fencing_core::observed::NodeView;
use fencing_core::reading::{Identity, PowerState, Reading};
use futures::future::{BoxFuture, FutureExt, ready};
use serde::de::DeserializeOwned;
use serde_json::Value;

const CLASSES: &str = "/apis/csiaddons.openshift.io/v1alpha1/networkfenceclasses";
const SIDECARS: &str = "/apis/csiaddons.openshift.io/v1alpha1/csiaddonsnodes";
/// Who grants what the driver takes: the value of the chart, and the component of `deploy/`.
const GRANTED_BY: (&str, &str) = ("rbac.networkFence", "deploy/network-fence");
/// What CSI-Addons says where the storage has shut the node out.
const SHUT_OUT: &str = "Succeeded: fencing operation successful";
/// Longest raw text of a reading, in characters, with the sign that it was cut.
const RAW_CHARACTERS: usize = 63;

/// A conversation with the API server about a node's storage.
#[derive(Debug)]
pub(super) struct Session {
    driver: StorageFence,
    /// What the next command sends; or that it has been sent.
    prepared: Option<Prepared>,
}

#[derive(Debug)]
enum Prepared {
    Create(Value),
    Already(String),
}

/// What is there.
#[derive(Debug)]
struct Scene {
    node: NodeView,
    own: Option<NetworkFence>,
    others: Vec<NetworkFence>,
}

impl Session {
    pub(super) fn new(driver: StorageFence) -> Self {
        Self {
            driver,
            prepared: None,
        }
    }

    fn limit(&self, time: std::time::Duration) -> Limit {
        Limit {
            endpoint: self.endpoint(),
            time,
        }
    }

    fn endpoint(&self) -> String {
        format!("NetworkFence {}", self.driver.name)
    }

    fn declined(&self, problem: &str, way_out: &str) -> DeviceError {
        DeviceError::Declined {
            endpoint: self.endpoint(),
            problem: printable(problem, 300),
            way_out: way_out.to_owned(),
        }
    }

    fn not_granted(&self, request: String) -> DeviceError {
        DeviceError::NotGranted {
            endpoint: self.endpoint(),
            request,
            value: GRANTED_BY.0,
            component: GRANTED_BY.1,
        }
    }

    fn unread(&self, object: &str, why: NotRead) -> DeviceError {
        match why {
            NotRead::NotGranted(request) => self.not_granted(request),
            NotRead::Failed(problem) => DeviceError::Cluster {
                object: object.to_owned(),
                problem,
            },
        }
    }

    /// The Node, the class and all NetworkFences: another one may let the node in again.
    async fn scene(&self) -> Result<Scene, DeviceError> {
        let StorageFence {
            settings, cluster, ..
        } = &self.driver;
        let class = format!("{CLASSES}/{}", settings.network_fence_class_name);
        let (node, class, fences) = futures::join!(
            cluster.node(&self.driver.node),
            cluster.get(&class),
            cluster.list(PATH)
        );
        let node = node.map_err(|why| self.unread("the Node", why))?;
        let class = class.map_err(|why| self.unread("the NetworkFenceClass", why))?;
        let fences = fences.map_err(|why| self.unread("the NetworkFences", why))?;
        let node = node.ok_or_else(|| self.declined("its Node is gone", "create the Node"))?;
        let class: Class = match class {
            Some(class) => self.parsed(class)?,
            None => {
                let name = &settings.network_fence_class_name;
                let problem = format!("there is no NetworkFenceClass {name}");
                let field = "networkFence.networkFenceClassName";
                return Err(DeviceError::Settings { field, problem });
            }
        };
        class
            .check(settings)
            .map_err(|problem| DeviceError::Settings {
                field: "networkFence.networkFenceClassName",
                problem,
            })?;
        let fences: Result<Vec<NetworkFence>, _> =
            fences.into_iter().map(|it| self.parsed(it)).collect();
        let (mut own, others): (Vec<_>, Vec<_>) = fences?
            .into_iter()
            .partition(|it| it.metadata.name == self.driver.name);
        Ok(Scene {
            node,
            own: own.pop(),
            others,
        })
    }

    fn parsed<T: DeserializeOwned>(&self, object: Value) -> Result<T, DeviceError> {
        serde_json::from_value(object).map_err(|error| {
            let problem = format!("an object of CSI-Addons has another form ({error})");
            self.declined(
                &problem,
                "compare the versions of CSI-Addons and this operator",
            )
        })
    }

    /// The clients that would be shut out.
    async fn clients(&self, node: &NodeView) -> Result<Clients, DeviceError> {
        let StorageFence {
            settings, cluster, ..
        } = &self.driver;
        let sidecars = cluster.list(SIDECARS).await;
        let sidecars = sidecars.map_err(|why| self.unread("the CSIAddonsNodes", why))?;
        let sidecars: Result<Vec<Sidecar>, _> =
            sidecars.into_iter().map(|it| self.parsed(it)).collect();
        let wanted = Wanted {
            node: &node.name,
            addresses: &node.addresses,
            provisioner: &settings.provisioner,
            class: &settings.network_fence_class_name,
            client_addresses: settings.client_addresses,
        };
        clients(&sidecars?, wanted).map_err(|problem| {
            self.declined(
                &problem,
                "see `status.networkFenceClientStatus` of the CSIAddonsNodes",
            )
        })
    }

    /// What stands of an earlier fence, or was changed: it proves nothing, and no other is made beside it.
    fn left(&self, own: &NetworkFence, why: &str) -> DeviceError {
        let fence = own.purpose().map_or_else(
            || "it is not this operator's".to_owned(),
            |it| format!("it is of NodeFence {}", it.fence),
        );
        self.declined(
            &format!("{fence}, and {why}"),
            "the operator unfences and deletes its own once its Node has rebooted; others by hand",
        )
    }

    /// Is it the object of this very fence, as it was made?
    ///
    /// # Errors
    /// Nothing is concluded from it. Otherwise its state is `Fenced` or `Fencing`.
    fn check(&self, scene: &Scene, own: &NetworkFence) -> Result<State, DeviceError> {
        let purpose = Purpose::of(&scene.node);
        if purpose.is_none() || own.purpose() != purpose {
            return Err(self.left(own, "not of the claim on the Node"));
        }
        let class = &self.driver.settings.network_fence_class_name;
        if !own.is_of_class(class) || !own.has_cidrs() {
            return Err(self.left(
                own,
                "it has another class, or addresses that are not single ones",
            ));
        }
        match own.state() {
            state @ (State::Fenced | State::Fencing(_)) => Ok(state),
            State::Unfenced | State::Unfencing(_) => {
                Err(self.left(own, "it lets the node in again"))
            }
            State::Deleting => Err(self.left(own, "it is being deleted")),
            State::Spoilt(why) => Err(self.left(own, &why)),
        }
    }

    async fn read(&self) -> Result<(Reading, bool), DeviceError> {
        let asked = self.driver.clock.since_boot();
        let scene = self.scene().await?;
        let (state, raw, is_connected) = match &scene.own {
            None => {
                let clients = self.clients(&scene.node).await?;
                let raw = format!("no NetworkFence for {}", clients.cidrs.join(", "));
                (PowerState::On, raw, clients.is_connected)
            }
            Some(own) => match self.check(&scene, own)? {
                State::Fenced => (PowerState::Off, SHUT_OUT.to_owned(), true),
                State::Fencing(said) if !said.is_empty() => (PowerState::Transitional, said, true),
                _ => (PowerState::Transitional, "no result yet".to_owned(), true),
            },
        };
        let lets_in = |it: &&NetworkFence| scene.own.as_ref().is_some_and(|own| it.lets_in(own));
        let others = scene.others.iter().filter(lets_in);
        let faults = others.map(|it| {
            format!(
                "NetworkFence {} (Unfenced)",
                printable(&it.metadata.name, 60)
            )
        });
        let reading = Reading {
            state,
            raw: printable(&raw, RAW_CHARACTERS),
            identity: Identity::default(),
            faults: faults.collect(),
            off_parts: Vec::new(),
            asked,
            answered: self.driver.clock.since_boot(),
            wall: self.driver.clock.wall(),
        };
        Ok((reading, is_connected))
    }

    /// One object for this fence; none beside another one of its name, which has to be taken back first.
    async fn prepare(&mut self) -> Result<Identity, DeviceError> {
        self.prepared = None;
        let scene = self.scene().await?;
        let prepared = match &scene.own {
            Some(own) => {
                self.check(&scene, own)?;
                Prepared::Already(format!("NetworkFence {} is there", self.driver.name))
            }
            None => {
                let purpose = Purpose::of(&scene.node).ok_or_else(|| {
                    self.declined(
                        "the Node has no claim",
                        "fence it by a policy or a NodeFence",
                    )
                })?;
                let clients = self.clients(&scene.node).await?;
                let class = &self.driver.settings.network_fence_class_name;
                let object = object::new(&self.driver.name, class, &clients.cidrs, &purpose);
                Prepared::Create(object)
            }
        };
        self.prepared = Some(prepared);
        Ok(Identity::default())
    }

    async fn send(&mut self) -> Result<OffOutcome, DeviceError> {
        let object = match self.prepared.take() {
            Some(Prepared::Create(object)) => object,
            Some(Prepared::Already(said)) => return Ok(OffOutcome::AlreadyOff { said }),
            None => {
                return Err(DeviceError::Refused {
                    endpoint: self.endpoint(),
                    problem: "nothing was prepared in this session".to_owned(),
                });
            }
        };
        let create = self.driver.cluster.create(PATH, object);
        let way_out = "see `kubectl get networkfences`";
        let problem = match tokio::time::timeout(self.driver.command_timeout, create).await {
            Ok(Ok(())) => return Ok(OffOutcome::Accepted),
            Ok(Err(NotCreated::NotGranted(request))) => return Err(self.not_granted(request)),
            Ok(Err(NotCreated::Refused(problem))) => return Err(self.declined(&problem, way_out)),
            Ok(Err(NotCreated::Unknown(problem))) => problem,
            Err(_) => "the API server has not answered in time".to_owned(),
        };
        Ok(OffOutcome::Unknown(self.declined(&problem, way_out)))
    }

    /// Nothing is done to the machine, and what the storage was asked to do is taken back once another boot has reported.
    fn no_on(&self) -> DeviceError {
        DeviceError::Refused {
            endpoint: self.endpoint(),
            problem:
                "a storage turns no machine on, and lets the node in again after its next boot"
                    .to_owned(),
        }
    }
}

impl FenceSession for Session {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        ready(Ok(())).boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move { Ok(limit.on(self.read()).await?.0) }.boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move { limit.on(self.prepare()).await }.boxed()
    }

    /// As of outlets: it says nothing of a machine.
    fn seen(&self) -> Option<Reading> {
        None
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.send().boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        ready(Err(self.no_on())).boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        ready(Err(self.no_on())).boxed()
    }

    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        let limit = self.limit(self.driver.call_timeout);
        async move {
            let (reading, is_connected) = limit.on(self.read()).await?;
            let off_denied = (!is_connected).then(|| {
                self.declined(
                    "CSI-Addons is not connected to the sidecar on the node",
                    "see `status.message` of its CSIAddonsNode",
                )
            });
            Ok(Probe {
                reading,
                vendor: None,
                model: None,
                firmware: None,
                power_restore_policy: None,
                restarter: None,
                certificate_expiry: None,
                off_denied,
                cipher_suites: Vec::new(),
                clock: None,
            })
        }
        .boxed()
    }
}
