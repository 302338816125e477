//! The world of a seed: the API server, the machines, and what is wrong with them at the moment.

use crate::dice::Dice;
use crate::faults::Fault;
use crate::libc::elapsed;
use crate::log::Log;
use crate::network::{Aim, Fate, Step, Waiting};
use simapi::Api;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A container that runs.
#[derive(Debug, Clone)]
pub struct Container {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The PersistentVolume that it writes to.
    pub volume: Option<String>,
    /// When its pod was seen being deleted, and for how long it is given to end.
    pub stops: Option<Duration>,
    /// Its pod tolerates out-of-service.
    pub tolerates: bool,
    /// etcd was put back to a state in which the pod, or its volume, is not here: nobody there can know that it writes.
    pub is_forgotten: bool,
}

/// What is wrong with a BMC.
#[derive(Debug, Clone, Default)]
pub struct Bmc {
    /// Takes connections and says nothing.
    pub hangs: bool,
    /// No way to it.
    pub unreachable: bool,
    /// Says a power state that is none.
    pub nonsense: bool,
    /// Busy, with an error.
    pub busy: bool,
    /// Takes the off and does nothing.
    pub ignores_off: bool,
    /// The off takes effect that much later.
    pub late_off: Duration,
    /// Its answer to an off gets lost.
    pub loses_reply: bool,
    /// Each call takes that much longer.
    pub slow: Duration,
    /// The BMC of this machine answers in its place.
    pub leads_to: Option<String>,
    /// It begins anew, and reads Off until then.
    pub off_until: Duration,
}

/// A machine, as it is.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Name of its Node.
    pub node: String,
    /// SMBIOS system UUID.
    pub uuid: String,
    /// Power of the host.
    pub on: bool,
    /// Mains. Without it the BMC is dark too.
    pub mains: bool,
    /// Boots so far.
    pub boots: u32,
    /// When the kubelet of this boot runs.
    pub up_at: Duration,
    /// When it lost its power last, other than by a command. Its BMC is assumed not to keep an off for later then (`docs/model.md`).
    pub failed_at: Duration,
    /// The kubelet of this boot has said that it is Ready.
    pub reported: bool,
    /// No way between it and the API server.
    pub cut: bool,
    /// The kubelet hangs; its containers run on.
    pub hung: bool,
    /// How often the kubelet of this machine has begun anew.
    pub restarts: u32,
    /// What runs there, by the pod's uid.
    pub containers: BTreeMap<String, Container>,
    /// What starts there: the pod's uid, and when it runs.
    pub starting: BTreeMap<String, (Duration, Container)>,
    /// Its BMC.
    pub bmc: Bmc,
}

impl Machine {
    /// The boot ID of the boot that runs.
    pub fn boot_id(&self, name: &str) -> String {
        format!("{name}-boot-{}", self.boots)
    }

    /// Whatever may write: what runs, and what is being started, which nothing but a loss of power ends.
    pub fn alive(&self) -> impl Iterator<Item = &Container> {
        let starting = self.starting.values().map(|(_, container)| container);
        self.containers.values().chain(starting)
    }
}

/// What is wrong with the control plane.
#[derive(Debug, Clone, Default)]
pub struct Switches {
    /// The controller-manager is down.
    pub managers_down: bool,
    /// Pod GC does nothing.
    pub no_pod_gc: bool,
    /// Attach/detach does nothing.
    pub no_attach_detach: bool,
    /// The CSI driver answers nothing.
    pub csi_stuck: bool,
    /// The API server answers nobody.
    pub api_away: bool,
    /// etcd has been put back in time in this run.
    pub restored: bool,
}

type Counts = Arc<Mutex<BTreeMap<&'static str, u32>>>;

fn count(counts: &Counts, name: &'static str) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry(name).or_default() += 1;
}

/// Seeds that take long have a tenth of it.
const REQUESTS_MAX: u32 = 40_000;

/// The world. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct World {
    /// The API server.
    pub api: Api,
    /// What is left to chance.
    pub dice: Dice,
    /// What happened.
    pub log: Log,
    /// The node that the operators run on.
    pub own_node: Option<String>,
    /// More are those of a loop that does not end.
    pub requests_max: u32,
    machines: Arc<Mutex<BTreeMap<String, Machine>>>,
    switches: Arc<Mutex<Switches>>,
    /// What is to happen to steps of the protocol, whoever takes them.
    steps: Arc<Mutex<Vec<Waiting>>>,
    /// What was broken.
    pub violations: Arc<Mutex<Vec<String>>>,
    happened: Counts,
    /// Faults that have not hit anything yet.
    armed: Arc<Mutex<BTreeSet<Fault>>>,
    judged: Counts,
    requests: Arc<Mutex<u32>>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// Without machines.
    pub fn new(api: Api, dice: Dice) -> Self {
        Self {
            api,
            dice,
            log: Log::default(),
            own_node: None,
            requests_max: REQUESTS_MAX,
            machines: Arc::default(),
            switches: Arc::default(),
            steps: Arc::default(),
            violations: Arc::default(),
            happened: Arc::default(),
            armed: Arc::default(),
            judged: Arc::default(),
            requests: Arc::default(),
        }
    }

    /// The machines. Nobody asks the API server anything while this is held.
    pub fn machines(&self) -> MutexGuard<'_, BTreeMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with the control plane.
    pub fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to happen to steps of the protocol.
    pub fn steps(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to happen to this step.
    pub fn fate_of(&self, step: Step) -> Option<Fate> {
        let mut steps = self.steps();
        let at = steps.iter().position(|(aim, ..)| *aim == Aim::Step(step))?;
        let (_, fate, fault) = steps.remove(at);
        self.count(fault);
        Some(fate)
    }

    /// Names of the machines.
    pub fn names(&self) -> Vec<String> {
        self.machines().keys().cloned().collect()
    }

    /// Names of their Nodes.
    pub fn nodes(&self) -> Vec<String> {
        let machines = self.machines();
        machines.values().map(|it| it.node.clone()).collect()
    }

    /// The machine behind a Node, and its name; none: it has become another Node.
    pub fn of_node(&self, node: &str) -> Option<(String, Machine)> {
        let machines = self.machines();
        let mut all = machines.iter();
        let (name, machine) = all.find(|(_, machine)| machine.node == node)?;
        Some((name.clone(), machine.clone()))
    }

    /// A fault begins, and may hit something.
    pub fn arm(&self, fault: Fault) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.insert(fault);
    }

    /// A fault has hit something. It counts the first time.
    pub fn hit(&self, fault: Fault) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        if armed.remove(&fault) {
            self.count(fault.name());
        }
    }

    /// If so, a fault has hit something.
    pub fn hit_if(&self, has_hit: bool, fault: Fault) {
        if has_hit {
            self.hit(fault);
        }
    }

    /// A fault has happened.
    pub fn count(&self, fault: &'static str) {
        count(&self.happened, fault);
    }

    /// Something was held against this bound.
    pub fn judged(&self, bound: &'static str) {
        count(&self.judged, bound);
    }

    /// How often each fault has happened, and how often each bound was judged.
    pub fn counts(&self) -> [BTreeMap<String, u32>; 2] {
        [&self.happened, &self.judged].map(|counts| {
            let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let named = counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count));
            named.collect()
        })
    }

    /// One machine, as it is now.
    pub fn machine(&self, name: &str) -> Machine {
        self.machines()[name].clone()
    }

    /// Changes a machine.
    pub fn with<T>(&self, name: &str, change: impl FnOnce(&mut Machine) -> T) -> T {
        change(self.machines().get_mut(name).expect("a machine"))
    }

    /// A machine loses its power, but by no command.
    pub fn fails(&self, name: &str, why: &str) {
        self.with(name, |machine| {
            if machine.on {
                machine.failed_at = elapsed();
            }
        });
        self.power_off(name, why);
    }

    /// A machine loses its power, for whatever reason: everything in it ends at once.
    pub fn power_off(&self, name: &str, why: &str) {
        let was_on = self.with(name, |machine| {
            machine.containers.clear();
            machine.starting.clear();
            std::mem::replace(&mut machine.on, false)
        });
        if was_on {
            self.log.tell(name, format!("OFF ({why})"));
        }
    }

    /// Somebody turns a machine on. It boots, if there is mains.
    pub fn power_on(&self, name: &str, why: &str) {
        let boot = self.dice.seconds(5, 30);
        let boots = self.with(name, |machine| {
            if machine.on || !machine.mains {
                return None;
            }
            machine.on = true;
            machine.boots += 1;
            machine.reported = false;
            machine.hung = false;
            machine.up_at = elapsed() + boot;
            Some(machine.boots)
        });
        if let Some(boots) = boots {
            self.log.tell(name, format!("ON, boot {boots} ({why})"));
        }
    }

    /// Something is not as it must be.
    pub fn violation(&self, what: String) {
        self.log.tell("JUDGE", format!("VIOLATION {what}"));
        let mut violations = self
            .violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if violations.len() < 20 {
            violations.push(what);
        }
    }

    /// Counts a request. Too many of them are a violation, and the last.
    pub fn may_ask(&self) -> bool {
        let count = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            *requests += 1;
            *requests
        };
        if count == self.requests_max {
            self.violation(format!("L3: {count} requests: a loop does not end"));
        }
        count < self.requests_max
    }

    /// What has been broken so far.
    pub fn broken(&self) -> Vec<String> {
        let violations = self
            .violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        violations.clone()
    }
}
