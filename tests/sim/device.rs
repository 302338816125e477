//! BMCs without a network: drivers whose sessions look at, and switch, the machines of the world.

use crate::faults::Fault;
use crate::judge::{Asked, Judge};
use crate::libc::elapsed;
use crate::network::{Fate, Moment, Network};
use crate::objects::PASSWORD;
use crate::world::{Bmc, Machine, World};
use fencing_cluster::slim::Kubelet;
use fencing_core::reading::{Identity, PowerState, Reading};
use fencing_drivers::clock::Clock;
use fencing_drivers::credentials::Credentials;
use fencing_drivers::{
    DeviceError, DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Parts, Probe,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use node_fencing_operator::shell::knock::Knocked;
use node_fencing_operator::shell::outside::Outside;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The ways out of one operator: to the BMCs and to the kubelets of the world.
pub fn outside(world: &World, judge: &Judge, network: &Network) -> Outside {
    let (devices, kubelets) = (world.clone(), world.clone());
    let (judge, network) = (judge.clone(), network.clone());
    Outside {
        device: Arc::new(move |kind: &dyn DriverKind, parts: Parts| {
            let machine = parts
                .address
                .host
                .trim_start_matches("bmc-")
                .trim_end_matches(".sim")
                .to_owned();
            Ok(Arc::new(Driver {
                target: kind.targets(&parts.node).concat(),
                machine,
                is_welcome: is_welcome(&parts.credentials),
                call_timeout: parts.call_timeout,
                command_timeout: parts.command_timeout,
                operator: network.name.clone(),
                network: network.clone(),
                world: devices.clone(),
                judge: judge.clone(),
            }))
        }),
        surroundings: Default::default(),
        // Its stories are of those that lead.
        from_standby: false,
        kubelet: Arc::new(move |kubelet: Kubelet| {
            let world = kubelets.clone();
            async move {
                let name = kubelet.address.trim_end_matches(".sim");
                sleep(Duration::from_millis(1)).await;
                let machine = world.machine(name);
                let answers =
                    machine.on && elapsed() >= machine.up_at && !machine.cut && !machine.hung;
                if !answers {
                    sleep(Duration::from_millis(299)).await;
                }
                match answers {
                    true => Knocked::Answers,
                    false => Knocked::Silent,
                }
            }
            .boxed()
        }),
    }
}

fn is_welcome(credentials: &Credentials) -> bool {
    use base64::Engine;
    let expected = base64::engine::general_purpose::STANDARD.encode(format!("fencer:{PASSWORD}"));
    credentials
        .basic()
        .is_ok_and(|header| header == format!("Basic {expected}"))
}

#[derive(Clone)]
struct Driver {
    target: String,
    machine: String,
    is_welcome: bool,
    call_timeout: Duration,
    command_timeout: Duration,
    operator: String,
    network: Network,
    world: World,
    judge: Judge,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver of {}", self.machine)
    }
}

impl FenceDriver for Driver {
    fn name(&self) -> &'static str {
        "redfish"
    }

    fn target(&self) -> String {
        self.target.clone()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Session {
            reached: self.reached(),
            driver: self.clone(),
        })
    }
}

/// A connection, which stays with the BMC that it was made to.
#[derive(Debug)]
struct Session {
    driver: Driver,
    reached: String,
}

impl Driver {
    fn bmc(&self) -> Bmc {
        self.world.machine(&self.machine).bmc
    }

    /// The machine that is at the other end.
    fn reached(&self) -> String {
        let leads_to = self.bmc().leads_to;
        self.world.hit_if(leads_to.is_some(), Fault::BmcOfAnother);
        leads_to.unwrap_or_else(|| self.machine.clone())
    }

    /// One call: the way there, the BMC's pace, its moods.
    async fn call(&self, reached: &str) -> Result<Machine, DeviceError> {
        let bmc = self.bmc();
        let pace = self.world.dice.millis(20, 250) + bmc.slow;
        let hit_if = |has_hit, fault| self.world.hit_if(has_hit, fault);
        hit_if(!bmc.slow.is_zero(), Fault::BmcSlow);
        let answer = async {
            if bmc.hangs {
                hit_if(true, Fault::BmcHangs);
                std::future::pending::<()>().await;
            }
            sleep(pace).await;
        };
        let endpoint = self.target.clone();
        if timeout(self.call_timeout, answer).await.is_err() {
            let waited = self.call_timeout;
            return Err(DeviceError::Timeout { endpoint, waited });
        }
        self.alive().await;
        let machine = self.world.machine(reached);
        let bmc = self.bmc();
        hit_if(bmc.unreachable, Fault::BmcAway);
        if bmc.unreachable || !machine.mains {
            let problem = "connection refused".to_owned();
            return Err(DeviceError::Unreachable { endpoint, problem });
        }
        if !self.is_welcome {
            let said = "401".to_owned();
            return Err(DeviceError::AuthFailed { endpoint, said });
        }
        if bmc.busy {
            hit_if(true, Fault::BmcBusy);
            return Err(DeviceError::Busy {
                endpoint,
                request: "GET".to_owned(),
                said: "503".to_owned(),
                retry_after: Some(Duration::from_secs(2)),
            });
        }
        Ok(machine)
    }

    /// Whoever is dead goes no further.
    async fn alive(&self) {
        if self.network.faults().dead {
            std::future::pending::<()>().await;
        }
    }

    async fn read(&self, reached: &str) -> Result<Reading, DeviceError> {
        let asked = Clock::SYSTEM.since_boot();
        let machine = self.call(reached).await?;
        let bmc = self.bmc();
        let speaks_nonsense = bmc.nonsense;
        self.world.hit_if(speaks_nonsense, Fault::BmcNonsense);
        let (state, raw) = match (speaks_nonsense, machine.on && elapsed() >= bmc.off_until) {
            (true, _) => (PowerState::Unknown, "Paused"),
            (false, true) => (PowerState::On, "On"),
            (false, false) => (PowerState::Off, "Off"),
        };
        self.world
            .log
            .note(&self.operator, format!("reads {raw} at {}", self.machine));
        Ok(Reading {
            state,
            raw: raw.to_owned(),
            identity: identity(&machine),
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked,
            answered: Clock::SYSTEM.since_boot(),
            wall: Clock::SYSTEM.wall(),
        })
    }

    async fn off(&self, reached: &str) -> Result<OffOutcome, DeviceError> {
        let fate = self.network.fate_of_off();
        if fate == Some(Fate::Death(Moment::BeforeSending)) {
            self.network.die();
        }
        self.alive().await;
        self.judge.commanded(&self.operator, reached);
        let was_on = self.call(reached).await?.on;
        if matches!(fate, Some(Fate::PowerOn(_))) {
            self.world.power_on(reached, "by hand, meanwhile");
        }
        let bmc = self.bmc();
        self.world
            .log
            .tell(&self.operator, format!("commands OFF at {reached}"));
        self.world
            .hit_if(was_on && bmc.ignores_off, Fault::OffIgnored);
        if was_on && !bmc.ignores_off {
            self.take_effect(reached, bmc.late_off);
        }
        if let Some(Fate::Death(moment)) = fate {
            if moment == Moment::BeforeAnswer {
                self.network.die();
            }
            self.alive().await;
            self.network.die();
        }
        if bmc.loses_reply {
            let is_late = was_on && !bmc.late_off.is_zero();
            self.world.hit_if(is_late, Fault::OffDelayed);
            self.world.hit(Fault::OffLost);
            sleep(self.command_timeout).await;
            let (endpoint, waited) = (self.target.clone(), self.command_timeout);
            return Ok(OffOutcome::Unknown(DeviceError::Timeout {
                endpoint,
                waited,
            }));
        }
        Ok(match was_on {
            true => OffOutcome::Accepted,
            false => OffOutcome::AlreadyOff {
                said: "already off".to_owned(),
            },
        })
    }
}

impl Driver {
    /// What is wrong with how it takes an off is wrong with an on: it ignores it, or its answer is lost.
    async fn on(&self, reached: &str) -> Result<OnOutcome, DeviceError> {
        self.alive().await;
        self.judge.turned_on(&self.operator, reached);
        let was_on = self.call(reached).await?.on;
        self.alive().await;
        let bmc = self.bmc();
        self.world
            .log
            .tell(&self.operator, format!("commands ON at {reached}"));
        if !was_on && !bmc.ignores_off {
            self.world
                .power_on(reached, &format!("commanded by {}", self.operator));
        }
        if bmc.loses_reply {
            sleep(self.command_timeout).await;
            let (endpoint, waited) = (self.target.clone(), self.command_timeout);
            return Ok(OnOutcome::Unknown(DeviceError::Timeout {
                endpoint,
                waited,
            }));
        }
        Ok(match was_on {
            false => OnOutcome::Accepted,
            true => OnOutcome::AlreadyOn {
                said: "already on".to_owned(),
            },
        })
    }

    /// The machine goes down, in a moment or late.
    fn take_effect(&self, machine: &str, late: Duration) {
        self.world.hit_if(!late.is_zero(), Fault::OffLate);
        let effect = self.world.dice.millis(0, 2000) + late;
        let (world, name, by) = (
            self.world.clone(),
            machine.to_owned(),
            self.operator.clone(),
        );
        let judge = self.judge.clone();
        let sent = elapsed();
        judge.lands(&name, sent + effect);
        tokio::spawn(async move {
            sleep(effect).await;
            judge.landed(&name);
            if world.machine(&name).failed_at > sent {
                return;
            }
            world.power_off(&name, &format!("commanded by {by}"));
        });
    }
}

fn identity(machine: &Machine) -> Identity {
    Identity {
        system_uuid: Some(machine.uuid.clone()),
        serial_number: None,
    }
}

impl FenceSession for Session {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        sleep(Duration::from_millis(5)).map(Ok).boxed()
    }

    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        let (this, reached) = (&self.driver, &self.reached);
        async move {
            let asked = Asked::now();
            let reading = this.read(reached).await?;
            // What another machine says is no reading of this one.
            let is_off = reading.state == PowerState::Off && *reached == this.machine;
            this.judge
                .read(&this.operator, &this.machine, asked, is_off);
            Ok(reading)
        }
        .boxed()
    }

    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        async { Ok(identity(&self.driver.call(&self.reached).await?)) }.boxed()
    }

    fn seen(&self) -> Option<Reading> {
        None
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.driver.off(&self.reached).boxed()
    }

    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        self.driver.read(&self.reached).boxed()
    }

    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        self.driver.on(&self.reached).boxed()
    }

    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        async {
            let reading = self.driver.read(&self.reached).await?;
            Ok(Probe {
                reading,
                vendor: None,
                model: None,
                firmware: None,
                power_restore_policy: None,
                restarter: None,
                certificate_expiry: None,
                off_denied: None,
                cipher_suites: Vec::new(),
                clock: None,
            })
        }
        .boxed()
    }
}
