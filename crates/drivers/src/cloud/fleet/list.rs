//! The lists of an account: one at a time, in the background, and each page of it serves probes as soon as it is there.
//!
//! A list may take longer than a probe may: a whole subscription comes page by page. So it belongs to no probe, and ends with none. A probe waits
//! for the first seconds of a list at most; after that a machine whose page has not come yet is read by itself.

use super::Fleet;
use crate::DeviceError;
use crate::cloud::io::Io;
use crate::cloud::{Cloud, Machine, MachineId, Provider};
use crate::limit::Limit;
use crate::tls::Expiry;
use fencing_core::reading::{Identity, PowerState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// A list that has so much behind it is waited for by no probe.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A list ends after so long. What it has shown until then counts.
const LIST_TIME_MAX: Duration = Duration::from_mins(5);

/// What the lists of an account have shown.
#[derive(Debug, Default)]
pub(super) struct Lists {
    last: Mutex<Option<Last>>,
    machines: Mutex<HashMap<MachineId, Listed>>,
    /// Tells of each page, and of the end.
    news: watch::Sender<()>,
}

/// The last list, which may go on.
#[derive(Debug, Clone)]
struct Last {
    /// Since boot.
    begun: Duration,
    /// How it ended.
    ended: Option<Result<(), DeviceError>>,
}

/// A machine on a page.
#[derive(Debug, Clone)]
struct Listed {
    machine: Machine,
    page: Page,
}

/// What is known of a page.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// When it had not been asked for yet, since boot.
    pub asked: Duration,
    /// When it was there.
    pub answered: Duration,
    /// When the certificate expires that the service has presented.
    pub expiry: Option<Expiry>,
}

/// A machine that a list shows running.
#[derive(Debug, Clone)]
pub struct Running {
    /// The machine, as who it was when it was read whole unless the list tells.
    pub machine: Machine,
    /// The page that shows it.
    pub page: Page,
}

/// Where a provider puts the pages of a list.
#[derive(Debug)]
pub struct Pages<'a> {
    lists: &'a Lists,
    /// When the last page was there, or the list was begun: the next one was asked for no earlier.
    since: Duration,
}

impl Pages<'_> {
    /// These machines were on the page that has just come.
    pub fn add(&mut self, io: &Io, machines: impl IntoIterator<Item = (MachineId, Machine)>) {
        let page = Page {
            asked: self.since,
            answered: io.now(),
            expiry: io.expiry(),
        };
        self.put(page, machines);
    }

    fn put(&mut self, page: Page, machines: impl IntoIterator<Item = (MachineId, Machine)>) {
        let machines = machines.into_iter();
        let machines = machines.map(|(id, machine)| (id, Listed { machine, page }));
        lock(&self.lists.machines).extend(machines);
        self.since = page.answered;
        self.lists.news.send_replace(());
    }
}

/// What a probe makes of the lists.
enum Found {
    /// It runs.
    Running(Box<Listed>),
    /// It has to be read by itself.
    Alone,
    /// Its page may come within this time.
    Soon(Duration),
}

impl Lists {
    /// Is one to be begun now? It is taken for begun then. Not while one goes on, or if one was begun within this time: the machines of a page have
    /// their next page before this one is too old.
    fn begin(&self, now: Duration, age_max: Duration) -> bool {
        let mut last = lock(&self.last);
        let serves = last.as_ref().is_some_and(|it| it.serves(now, age_max));
        if !serves {
            *last = Some(Last {
                begun: now,
                ended: None,
            });
        }
        !serves
    }

    /// The list has ended like this.
    fn end(&self, now: Duration, how: Result<(), DeviceError>, age_max: Duration) {
        // What is too old to serve is remembered by nobody.
        lock(&self.machines).retain(|_, it| it.is_recent(now, age_max));
        if let Some(last) = lock(&self.last).as_mut() {
            last.ended = Some(how);
        }
        self.news.send_replace(());
    }

    /// The machine at this time, for a probe that waits no longer than this for a list.
    fn find(
        &self,
        id: &MachineId,
        now: Duration,
        (age_max, wait_max): (Duration, Duration),
    ) -> Result<Found, DeviceError> {
        let listed = lock(&self.machines).get(id).cloned();
        if let Some(listed) = listed.filter(|it| it.is_recent(now, age_max)) {
            return Ok(match listed.machine.said.state == PowerState::On {
                true => Found::Running(Box::new(listed)),
                false => Found::Alone,
            });
        }
        Ok(match lock(&self.last).as_ref() {
            Some(Last { begun, ended: None }) => match (*begun + wait_max).checked_sub(now) {
                Some(left) if !left.is_zero() => Found::Soon(left),
                _ => Found::Alone,
            },
            // Who is told to ask less does not ask for each by itself instead.
            Some(Last {
                ended: Some(Err(error @ DeviceError::Busy { .. })),
                ..
            }) => return Err(error.clone()),
            _ => Found::Alone,
        })
    }
}

impl Last {
    /// Is no other list to be begun yet?
    fn serves(&self, now: Duration, age_max: Duration) -> bool {
        match self.ended {
            Some(_) => now.saturating_sub(self.begun) < age_max,
            // One that nobody goes on with has no end.
            None => now.saturating_sub(self.begun) < LIST_TIME_MAX * 2,
        }
    }
}

impl Listed {
    fn is_recent(&self, now: Duration, age_max: Duration) -> bool {
        now.saturating_sub(self.page.answered) < age_max
    }
}

impl Fleet {
    /// The machine of this driver, if a list of now shows it running; none: it has to be read by itself. The list is waited for for a third of what
    /// a probe may take, and goes on without it.
    ///
    /// # Errors
    /// The provider has no time for a list now.
    pub async fn running<P: Provider>(
        &self,
        driver: &Arc<Cloud<P>>,
    ) -> Result<Option<Running>, DeviceError> {
        let Some(identity) = self.read().get(&driver.id).cloned() else {
            return Ok(None);
        };
        let (clock, age_max) = (driver.clock, P::PACE.list_age_max);
        let wait_max = WAIT_MAX.min(driver.call_timeout / 3);
        let mut news = self.lists.news.subscribe();
        let now = clock.since_boot();
        if self.lists.begin(now, age_max) {
            tokio::spawn(list(Arc::clone(driver), now));
        }
        loop {
            let now = clock.since_boot();
            news.mark_unchanged();
            match self.lists.find(&driver.id, now, (age_max, wait_max))? {
                Found::Running(listed) => return Ok(Some(listed.running(identity))),
                Found::Alone => return Ok(None),
                Found::Soon(left) => {
                    // Woken by a page, by the end of the list, or when it has taken too long.
                    let _ = timeout(left, news.changed()).await;
                }
            }
        }
    }
}

impl Listed {
    fn running(self, identity: Identity) -> Running {
        let machine = self.machine;
        Running {
            machine: Machine {
                identity: match machine.identity == Identity::default() {
                    true => identity,
                    false => machine.identity,
                },
                ..machine
            },
            page: self.page,
        }
    }
}

/// Goes through a list that was begun at this time, by the login of this driver.
async fn list<P: Provider>(driver: Arc<Cloud<P>>, since: Duration) {
    let fleet = &driver.account.fleet;
    let ids: Vec<MachineId> = fleet.read().keys().cloned().collect();
    let mut io = driver.io();
    let mut pages = Pages {
        lists: &fleet.lists,
        since,
    };
    let limit = Limit {
        endpoint: driver.target.address.to_string(),
        time: LIST_TIME_MAX,
    };
    let all = driver.provider.fleet(&mut io, &ids, &mut pages);
    let how = limit.on(all).await;
    let now = driver.clock.since_boot();
    fleet.lists.end(now, how, P::PACE.list_age_max);
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
