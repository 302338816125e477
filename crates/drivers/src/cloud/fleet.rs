//! What one list of a provider says of all machines of an account: for probes in peace time alone, so that a thousand nodes take a few calls.
//!
//! A list may be some seconds old, and says less of a machine than the machine's own document does. So it answers for a machine that it shows
//! running, and that was read whole before; every other one is read by itself. No proof and no command ever rests on it.

use super::io::Io;
use super::{Machine, MachineId, Provider};
use crate::DeviceError;
use fencing_core::reading::{Identity, PowerState};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as Turn;

/// Machines that are remembered: those of Nodes that are gone go once there are so many.
const MACHINES_MAX: usize = 16_384;

/// The machines of an account.
#[derive(Debug, Default)]
pub struct Fleet {
    /// The last list. Whoever fetches one holds this; the others wait for it.
    listed: Turn<Option<Listed>>,
    /// Who each machine was when it was read whole.
    read: Mutex<HashMap<MachineId, Identity>>,
    /// Where each machine ran when it was seen last, for providers that forget it with the machine's end.
    places: Mutex<HashMap<MachineId, String>>,
}

/// A list, or why there is none.
#[derive(Debug)]
struct Listed {
    asked: Duration,
    answered: Duration,
    machines: Result<HashMap<MachineId, Machine>, DeviceError>,
}

/// A machine that a list shows running.
#[derive(Debug, Clone)]
pub struct Running {
    /// The machine, as who it was when it was read whole unless the list tells.
    pub machine: Machine,
    /// When the list was asked for, since boot.
    pub asked: Duration,
    /// When it was there.
    pub answered: Duration,
}

impl Fleet {
    /// Who this machine is, by a reading of itself.
    pub fn note(&self, id: &MachineId, identity: &Identity) {
        let mut read = self.read();
        if read.len() >= MACHINES_MAX && !read.contains_key(id) {
            read.clear();
        }
        read.insert(id.clone(), identity.clone());
    }

    /// The machine runs there; none: somewhere that is not known.
    pub fn note_place(&self, id: &MachineId, place: Option<String>) {
        let mut places = self.places();
        if places.len() >= MACHINES_MAX && !places.contains_key(id) {
            places.clear();
        }
        match place {
            Some(place) => drop(places.insert(id.clone(), place)),
            None => drop(places.remove(id)),
        }
    }

    /// Where the machine ran when it was seen last, as far as this process knows.
    pub fn place(&self, id: &MachineId) -> Option<String> {
        self.places().get(id).cloned()
    }

    /// The machine, if the list of now shows it running; none: it has to be read by itself.
    ///
    /// # Errors
    /// The provider has no time for a list now.
    pub async fn running<P: Provider>(
        &self,
        provider: &P,
        io: &mut Io,
        id: &MachineId,
    ) -> Result<Option<Running>, DeviceError> {
        let Some(identity) = self.read().get(id).cloned() else {
            return Ok(None);
        };
        let mut listed = self.listed.lock().await;
        let now = io.now();
        let is_recent = |it: &&Listed| now.saturating_sub(it.answered) < P::PACE.list_age_max;
        if listed.as_ref().filter(is_recent).is_none() {
            let ids: Vec<MachineId> = self.read().keys().cloned().collect();
            let machines = provider.fleet(io, &ids).await;
            *listed = Some(Listed {
                asked: now,
                answered: io.now(),
                machines: machines.map(|all| all.into_iter().collect()),
            });
        }
        let Some(listed) = listed.as_ref() else {
            return Ok(None);
        };
        let machines = match &listed.machines {
            Ok(machines) => machines,
            // Who is told to ask less does not ask for each by itself instead.
            Err(error @ DeviceError::Busy { .. }) => return Err(error.clone()),
            Err(_) => return Ok(None),
        };
        let machine = machines
            .get(id)
            .filter(|it| it.said.state == PowerState::On)
            .cloned();
        Ok(machine.map(|machine| Running {
            machine: Machine {
                identity: match machine.identity == Identity::default() {
                    true => identity,
                    false => machine.identity,
                },
                ..machine
            },
            asked: listed.asked,
            answered: listed.answered,
        }))
    }

    fn places(&self) -> MutexGuard<'_, HashMap<MachineId, String>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> MutexGuard<'_, HashMap<MachineId, Identity>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
