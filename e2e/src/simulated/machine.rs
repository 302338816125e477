//! A simulated machine: a plug, a boot ID, and a kubelet that runs while there is power.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::kubelet::Kubelet;
use super::view::Sight;
use super::{FleetOptions, MachineSpec};
use crate::machine::{Ailment, Boot, Machine};
use crate::volume::Volumes;
use crate::volume::journal::Happening;
use fencing_testbed::moment::Moment;
use fencing_testbed::power::Power;

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
    /// What is wrong with the node, whether or not it can show now.
    ailment: Ailment,
    /// The task of the current boot; `None` while the machine is off.
    running: Option<AbortHandle>,
    /// That boot is suspended.
    suspended: bool,
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
            ailment: Ailment::default(),
            running: None,
            suspended: false,
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
        state.ailment = Ailment {
            partitioned: state.ailment.partitioned,
            ..Ailment::default()
        };
        self.suffer(state);
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

    /// Cuts the power, also of a machine that is suspended.
    pub(super) fn cut(&self) {
        let mut state = self.state();
        state.suspended = false;
        if let Some(running) = state.running.take() {
            self.power_off(&state, &running);
        }
    }

    fn resume(&self, state: &mut State) {
        state.suspended = false;
        let (node, boot) = (self.spec.name.clone(), state.boot_id.clone());
        let at = Moment::now();
        self.volumes.writers().resume_boot(&boot);
        let journal = self.volumes.journal();
        journal.record(at, Happening::Resumed { node, boot });
        self.suffer(state);
    }

    /// Tells the kubelet what is wrong with it. While the machine is suspended it does nothing, and what it had asked for does not reach it.
    fn suffer(&self, state: &State) {
        let ailment = &state.ailment;
        self.ailment.send_replace(Ailment {
            kubelet_hung: ailment.kubelet_hung || state.suspended,
            partitioned: ailment.partitioned || state.suspended,
            unmount_hung: ailment.unmount_hung,
        });
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
        let state = self.state();
        state.running.is_some() && !state.suspended
    }

    fn set_power(&self, on: bool) {
        let mut state = self.state();
        if state.suspended {
            if on {
                self.resume(&mut state);
            }
            return;
        }
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
        let mut state = self.state();
        state.ailment = ailment;
        self.suffer(&state);
    }

    fn go_dark(&self) {
        self.set_power(false);
    }

    fn suspend(&self) {
        let mut state = self.state();
        if state.running.is_none() || state.suspended {
            return;
        }
        state.suspended = true;
        self.suffer(&state);
        let (node, boot) = (self.spec.name.clone(), state.boot_id.clone());
        self.volumes.writers().suspend_boot(&boot);
        let journal = self.volumes.journal();
        journal.record(Moment::now(), Happening::Suspended { node, boot });
    }

    fn next_boot(&self, boot: Boot) {
        self.state().next_boot = boot;
    }
}
