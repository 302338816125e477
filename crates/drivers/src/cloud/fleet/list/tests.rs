//! Lists that take longer than a probe may, by a provider that is made of time alone.

use super::*;
use crate::clock::{self, Clock};
use crate::cloud::Sent;
use crate::cloud::account::Pace;
use crate::cloud::fixtures::Service;
use crate::cloud::kind::Fields;
use crate::cloud::operation::{Follow, Operation};
use crate::cloud::words::Said;
use crate::{Extent, FenceDriver, NodeFacts, Parts};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::{Instant, sleep};

const ITSELF: &str = "read by itself";
const LISTED: &str = "on a page";
/// Time that one page takes, and the whole of a probe.
const PAGE_TIME: Duration = Duration::from_secs(12);
const PROBE_TIME: Duration = Duration::from_secs(9);
const MACHINES: usize = 3;

impl Fleet {
    /// Pages of a list that is begun now.
    pub(in crate::cloud) fn pages(&self) -> Pages<'_> {
        Pages {
            lists: &self.lists,
            since: clock::since_boot(),
        }
    }

    /// What lists have shown.
    pub(in crate::cloud) fn listed(&self) -> Vec<MachineId> {
        lock(&self.lists.machines).keys().cloned().collect()
    }
}

/// Time of the runtime, which a test makes jump: another one's may be ahead when this is asked for first.
fn since_boot() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let first = *FIRST.get_or_init(Instant::now);
    (Instant::now() + Duration::from_hours(1)).duration_since(first)
}

const CLOCK: Clock = Clock {
    since_boot,
    wall: clock::wall,
};

/// Machine by machine on a page of its own.
#[derive(Debug, Clone, Default)]
struct Slow {
    lists: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
    /// A page takes no more than a moment.
    is_quick: bool,
    /// The page after the first never comes.
    hangs: bool,
    /// The list ends behind the first page, for want of requests.
    is_busy: bool,
}

fn machine(io: &Io, model: &str) -> Machine {
    Machine {
        said: Said {
            state: PowerState::On,
            raw: "on".to_owned(),
            faults: Vec::new(),
            may_resume: false,
            age: Duration::ZERO,
        },
        identity: Identity::default(),
        at: io.main(),
        path: String::new(),
        place: None,
        restarter: None,
        model: Some(model.to_owned()),
    }
}

impl Provider for Slow {
    const NAME: &'static str = "slow";
    const PACE: Pace = Pace {
        list_age_max: Duration::from_secs(20),
        ..Pace::USUAL
    };

    fn machine(&self, node: &NodeFacts) -> Result<MachineId, DeviceError> {
        Ok(MachineId::of(node, node.name.clone()))
    }

    async fn read(&self, io: &mut Io, _: &MachineId) -> Result<Machine, DeviceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(machine(io, ITSELF))
    }

    async fn off(&self, _: &mut Io, _: &Machine) -> Result<Sent, DeviceError> {
        Ok(Sent::Done)
    }

    async fn on(&self, _: &mut Io, _: &Machine) -> Result<Sent, DeviceError> {
        Ok(Sent::Done)
    }

    async fn fleet(
        &self,
        io: &mut Io,
        ids: &[MachineId],
        pages: &mut Pages<'_>,
    ) -> Result<(), DeviceError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        for number in 0..MACHINES {
            if self.hangs && number > 0 {
                std::future::pending::<()>().await;
            }
            if self.is_busy && number > 0 {
                return Err(DeviceError::Busy {
                    endpoint: io.main().to_string(),
                    request: "a list".to_owned(),
                    said: "too many requests".to_owned(),
                    retry_after: None,
                });
            }
            sleep(if self.is_quick {
                PAGE_TIME / 24
            } else {
                PAGE_TIME
            })
            .await;
            let of_page = ids.iter().find(|id| id.id == format!("node-{number}"));
            let found = of_page.map(|id| (id.clone(), machine(io, LISTED)));
            pages.add(io, found);
        }
        Ok(())
    }

    async fn follow(&self, _: &mut Io, _: &Operation) -> Result<Follow, DeviceError> {
        Ok(Follow::Done)
    }
}

/// The machines of one account, each read whole once.
async fn drivers(slow: &Slow) -> Vec<Arc<Cloud<Slow>>> {
    let (service, accounts) = (Service::new().await, Arc::default());
    let mut all = Vec::new();
    for number in 0..MACHINES {
        let parts = Parts {
            call_timeout: PROBE_TIME,
            clock: CLOCK,
            accounts: Arc::clone(&accounts),
            ..service.parts(NodeFacts::named(&format!("node-{number}")), &[])
        };
        let fields = Fields {
            address: "slow.address",
            ca: "slow.tls.caRef",
        };
        let driver = Cloud::new(slow.clone(), fields, parts).expect("a driver");
        let probe = driver.open().probe(Extent::Needed).await;
        assert_eq!(probe.expect("a probe").model.as_deref(), Some(ITSELF));
        all.push(driver);
    }
    all
}

async fn probe(driver: &Arc<Cloud<Slow>>) -> Result<String, DeviceError> {
    let probe = driver.open().probe(Extent::Listed).await?;
    assert!(probe.reading.asked <= probe.reading.answered);
    Ok(probe.model.unwrap_or_default())
}

/// Each probe of a subscription whose pages took longer than one probe may began its list again, and failed: no device was ever ready.
#[tokio::test(start_paused = true)]
async fn a_list_that_takes_longer_than_a_probe_goes_on_without_it() {
    let slow = Slow::default();
    let all = drivers(&slow).await;
    let begun = Instant::now();
    // All at once: one list, and each is read by itself in time.
    for found in futures::future::join_all(all.iter().map(probe)).await {
        assert_eq!(found.as_deref(), Ok(ITSELF));
    }
    assert!(begun.elapsed() < PROBE_TIME / 2, "{:?}", begun.elapsed());
    // The list is too old now to be waited for.
    sleep(PROBE_TIME / 3).await;
    let again = Instant::now();
    assert_eq!(probe(&all[0]).await.as_deref(), Ok(ITSELF));
    assert_eq!(again.elapsed(), Duration::ZERO);
    // Its first page serves while the others are on their way.
    tokio::time::sleep_until(begun + PAGE_TIME + Duration::from_millis(1)).await;
    assert_eq!(probe(&all[0]).await.as_deref(), Ok(LISTED));
    assert_eq!(probe(&all[1]).await.as_deref(), Ok(ITSELF));
    // The last page, when the first is too old.
    tokio::time::sleep_until(begun + PAGE_TIME * 3 + Duration::from_millis(1)).await;
    let found = futures::future::join_all(all.iter().map(probe)).await;
    let found: Vec<&str> = found.iter().flatten().map(String::as_str).collect();
    assert_eq!(found, [ITSELF, LISTED, LISTED]);
    assert_eq!(slow.lists.load(Ordering::Relaxed), 2, "the next one");
}

/// A fleet whose list is short is never read one by one, whenever a probe comes.
#[tokio::test(start_paused = true)]
async fn the_next_list_is_there_before_a_page_is_too_old() {
    let slow = Slow {
        is_quick: true,
        ..Slow::default()
    };
    let all = drivers(&slow).await;
    let reads = slow.reads.load(Ordering::Relaxed);
    for second in 0..200 {
        let driver = &all[second % MACHINES];
        assert_eq!(probe(driver).await.as_deref(), Ok(LISTED), "{second}");
        sleep(Duration::from_millis(970)).await;
    }
    assert_eq!(slow.reads.load(Ordering::Relaxed), reads);
    let lists = slow.lists.load(Ordering::Relaxed);
    assert!((8..=11).contains(&lists), "{lists}");
}

#[tokio::test(start_paused = true)]
async fn a_page_is_no_newer_than_the_one_before_it() {
    let slow = Slow::default();
    let all = drivers(&slow).await;
    let begun = since_boot();
    probe(&all[1]).await.expect("a probe");
    sleep(PAGE_TIME * 2).await;
    let reading = all[1].open().probe(Extent::Listed).await;
    let reading = reading.expect("a probe").reading;
    assert!(reading.asked >= begun + PAGE_TIME && reading.answered >= begun + PAGE_TIME * 2);
    assert!(reading.asked < begun + PAGE_TIME * 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_ends_and_another_one_is_begun() {
    let slow = Slow {
        hangs: true,
        ..Slow::default()
    };
    let all = drivers(&slow).await;
    let begun = Instant::now();
    let lists = || slow.lists.load(Ordering::Relaxed);
    while begun.elapsed() < LIST_TIME_MAX {
        probe(&all[1]).await.expect("a probe");
        assert_eq!(lists(), 1);
        sleep(Duration::from_secs(30)).await;
    }
    sleep(Slow::PACE.list_age_max).await;
    probe(&all[1]).await.expect("a probe");
    assert_eq!(lists(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_came_before_a_provider_had_no_time_serves() {
    let slow = Slow {
        is_busy: true,
        ..Slow::default()
    };
    let all = drivers(&slow).await;
    probe(&all[0]).await.expect("a probe");
    sleep(PAGE_TIME).await;
    assert_eq!(probe(&all[0]).await.as_deref(), Ok(LISTED));
    let busy = probe(&all[1]).await.expect_err("later");
    assert_eq!(busy.reason(), "Busy");
    let reads = slow.reads.load(Ordering::Relaxed);
    assert_eq!(reads, MACHINES + 1, "it is not asked for each by itself");
}

#[test]
fn a_list_that_comes_late_moves_no_machine() {
    let (fleet, seconds) = (Fleet::default(), Duration::from_secs);
    let id = MachineId::of(&NodeFacts::named("worker-1"), "104".to_owned());
    fleet.note_on(&id, seconds(10), Some("b"));
    fleet.note_on(&id, seconds(9), Some("a"));
    assert_eq!(fleet.last_on(&id).as_deref(), Some("b"));
    fleet.note_on(&id, seconds(11), Some("a"));
    assert_eq!(fleet.last_on(&id).as_deref(), Some("a"));
    fleet.note_on(&id, seconds(12), None);
    assert_eq!(fleet.last_on(&id), None);
}
