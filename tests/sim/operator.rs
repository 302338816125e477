//! The operators: the program's own tasks, each life over a network of its own, started again when it ends.

use crate::device::outside;
use crate::judge::Judge;
use crate::network::Network;
use crate::objects::NAMESPACE;
use crate::world::World;
use fencing_cluster::stop::Stopper;
use fencing_core::election::Times;
use fencing_drivers::address::AddressRules;
use node_fencing_operator::args::Settings;
use node_fencing_operator::shell::alive::{Alive, Apart};
use node_fencing_operator::shell::health::Health;
use node_fencing_operator::shell::metrics::Metrics;
use node_fencing_operator::shell::run::{self, Equipment};
use node_fencing_operator::telemetry::LogFormat;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// One operator, through all its lives.
#[derive(Clone)]
pub struct Operator(Arc<Mutex<Inner>>);

struct Inner {
    number: u32,
    lives: u32,
    /// The pod that it is in: its name in the election.
    pod: String,
    life: Option<Life>,
    is_wanted: bool,
    serves_callers: bool,
    world: World,
    judge: Judge,
}

struct Life {
    network: Network,
    stopper: Stopper,
    work: JoinHandle<()>,
}

impl Operator {
    /// One that does not run yet. `serves_callers`: whenever it does, then with `--callers`.
    pub fn absent(world: &World, judge: &Judge, number: u32, serves_callers: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            number,
            lives: 0,
            pod: format!("operator-{number}"),
            life: None,
            is_wanted: false,
            serves_callers,
            world: world.clone(),
            judge: judge.clone(),
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins its next life, if it has none.
    pub fn revive(&self) {
        self.with(Inner::revive);
    }

    /// It dies at once: nothing of it is sent, nothing reaches it.
    pub fn kill(&self) {
        self.with(Inner::kill);
    }

    /// It dies and stays dead.
    pub fn dismiss(&self) {
        self.with(|inner| {
            inner.kill();
            inner.is_wanted = false;
        });
    }

    /// SIGTERM: it ends by itself. Gives what is to be waited for.
    pub fn terminate(&self) -> Option<JoinHandle<()>> {
        self.with(|inner| {
            let life = inner.life.take()?;
            inner.world.log.tell(&life.network.name, "is asked to end");
            inner.judge.ends(&life.network.name);
            inner.judge.lives(&life.network.name, false);
            life.stopper.stop();
            Some(life.work)
        })
    }

    /// The pod that it is in.
    pub fn pod(&self) -> String {
        self.with(|inner| inner.pod.clone())
    }

    /// The network of its present life.
    pub fn network(&self) -> Option<Network> {
        self.with(|inner| inner.life.as_ref().map(|life| life.network.clone()))
    }

    /// Buries it when it has died or ended, and starts it again a while later, as a kubelet does.
    pub async fn supervise(self) {
        loop {
            sleep(Duration::from_millis(250)).await;
            let is_over = self.with(|inner| {
                inner
                    .life
                    .as_ref()
                    .is_some_and(|life| life.network.faults().died || life.work.is_finished())
            });
            if is_over {
                self.kill();
                let pause = self.with(|inner| inner.world.dice.seconds(1, 15));
                sleep(pause).await;
                // A rival may have been sent away meanwhile.
                if self.with(|inner| inner.is_wanted) {
                    self.revive();
                }
            }
        }
    }
}

impl Inner {
    fn revive(&mut self) {
        if self.life.is_some() {
            return;
        }
        self.is_wanted = true;
        self.lives += 1;
        let name = format!("operator-{}.{}", self.number, self.lives);
        // Mostly a container that starts again in its pod, and sometimes another pod.
        if self.lives > 1 && self.world.dice.chance(30) {
            self.pod = format!("operator-{}-{}", self.number, self.lives);
        }
        self.world
            .log
            .tell(&name, format!("starts as {}", self.pod));
        self.judge.lives(&name, true);
        let network = Network::new(&self.world, &self.judge, &name);
        let (stopper, stop) = Stopper::new();
        let clients = network.clients();
        let equipment = Equipment {
            alive: Alive {
                apart: Apart::here(),
                client: clients.writes.clone(),
            },
            clients,
            outside: outside(&self.world, &self.judge, &network),
            metrics: Arc::new(Metrics::new().expect("metrics")),
            health: Health::default(),
        };
        let settings = Settings {
            callers: self.serves_callers,
            ..settings(&self.pod, self.world.own_node.clone())
        };
        let log = self.world.log.clone();
        let work = tokio::spawn(async move {
            if let Err(error) = run::work(&settings, equipment, &stop, JoinSet::new()).await {
                log.tell(&name, format!("ends: {error}"));
            }
        });
        self.life = Some(Life {
            network,
            stopper,
            work,
        });
    }

    fn kill(&mut self) {
        if let Some(life) = self.life.take() {
            self.world.log.tell(&life.network.name, "is dead");
            self.judge.lives(&life.network.name, false);
            life.network.faults().dead = true;
            life.stopper.stop();
            life.work.abort();
        }
    }
}

fn settings(pod: &str, own_node: Option<String>) -> Settings {
    Settings {
        namespace: NAMESPACE.to_owned(),
        http_bind: ([127, 0, 0, 1], 0).into(),
        http_tls_dir: None,
        log_format: LogFormat::Text,
        log_filter: String::new(),
        node_name: own_node,
        max_concurrent: None,
        callers: false,
        headroom: false,
        pod_name: Some(pod.to_owned()),
        election: Times::default(),
        addresses: AddressRules::new(Vec::new(), Vec::new()),
        kubeconfig: None,
    }
}
