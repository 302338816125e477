//! A simulated machine: a plug, a boot ID, and a kubelet that runs while there is power.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::kubelet::Kubelet;
use super::view::Sight;
use super::{FleetOptions, MachineSpec};
use crate::machine::{Ailment, Boot, Machine, Power};
use crate::moment::Moment;
use crate::volume::Volumes;
use crate::volume::journal::Happening;

pub(super) struct SimulatedMachine {
    spec: Arc<MachineSpec>,
    options: Arc<FleetOptions>,
    volumes: Arc<Volumes>,
    sight: watch::Receiver<Sight>,
    ailment: watch::Sender<Ailment>,
    state: Mutex<State>,
    runtime: Handle,
}

struct State {
    boot_id: String,
    next_boot: Boot,
    /// The task of the current boot; `None` while the machine is off.
    running: Option<AbortHandle>,
}

impl SimulatedMachine {
    /// A machine without power.
    pub(super) fn new(
        spec: MachineSpec,
        options: Arc<FleetOptions>,
        volumes: Arc<Volumes>,
        sight: watch::Receiver<Sight>,
    ) -> Self {
        let state = State {
            boot_id: new_boot_id(),
            next_boot: Boot::default(),
            running: None,
        };
        Self {
            spec: Arc::new(spec),
            options,
            volumes,
            sight,
            ailment: watch::Sender::default(),
            state: Mutex::new(state),
            runtime: Handle::current(),
        }
    }

    fn power_on(&self, state: &mut State) {
        state.boot_id = new_boot_id();
        // A reboot cures what was wrong with the kubelet and the mounts, but not the network.
        self.ailment.send_modify(|ailment| {
            *ailment = Ailment {
                partitioned: ailment.partitioned,
                ..Ailment::default()
            };
        });
        let (node, boot) = (self.spec.name.clone(), state.boot_id.clone());
        self.volumes.writers().begin_boot(&boot);
        self.volumes
            .journal()
            .record(Moment::now(), Happening::PowerOn { node, boot });
        let kubelet = Kubelet::new(
            Arc::clone(&self.spec),
            Arc::clone(&self.options),
            std::mem::take(&mut state.next_boot),
            state.boot_id.clone(),
            Arc::clone(&self.volumes),
            self.sight.clone(),
            self.ailment.subscribe(),
        );
        state.running = Some(self.runtime.spawn(kubelet.run()).abort_handle());
    }

    fn power_off(&self, state: &State, running: &AbortHandle) {
        self.volumes.writers().end_boot(&state.boot_id);
        running.abort();
        let (node, boot) = (self.spec.name.clone(), state.boot_id.clone());
        self.volumes
            .journal()
            .record(Moment::now(), Happening::PowerOff { node, boot });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_boot_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

impl Power for SimulatedMachine {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn system_uuid(&self) -> &str {
        &self.spec.system_uuid
    }

    fn is_on(&self) -> bool {
        self.state().running.is_some()
    }

    fn set_power(&self, on: bool) {
        let mut state = self.state();
        match state.running.take() {
            None if on => self.power_on(&mut state),
            Some(running) if !on => self.power_off(&state, &running),
            unchanged => state.running = unchanged,
        }
    }
}

impl Machine for SimulatedMachine {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn boot_id(&self) -> String {
        self.state().boot_id.clone()
    }

    fn ail(&self, ailment: Ailment) {
        self.ailment.send_replace(ailment);
    }

    fn next_boot(&self, boot: Boot) {
        self.state().next_boot = boot;
    }
}
