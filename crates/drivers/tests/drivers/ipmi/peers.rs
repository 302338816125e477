//! The driver against BMCs that none of us wrote: OpenIPMI's `ipmi_sim`, and pyghmi's, which virtualbmc is made of. Both have suite 3
//! alone, and each its own manners where the specification leaves room.

use super::*;
use fencing_core::reading::PowerState;
use fencing_drivers::{Advice, Extent};
use fencing_testbed::debian;
use fencing_testbed::ipmi_peers::{Brand, IpmiPeer};
use fencing_testbed::power::Power;
use fencing_testbed::process::Guard;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// More than `ipmi_sim` has room for.
const SESSIONS: usize = 70;

/// A BMC of another's, and its machine, which runs.
struct Peer {
    plug: Arc<Plug>,
    bmc: IpmiPeer,
    _guard: Arc<Guard>,
    _logs: tempfile::TempDir,
}

impl Peer {
    async fn start(brand: Brand, address: [u8; 4]) -> Self {
        let plug = Arc::new(Plug::new("node-1", UUID));
        let (guard, logs) = (Guard::start().unwrap(), tempfile::tempdir().unwrap());
        let user = fencing_testbed::bmc::Credentials::default();
        let machine = plug.clone();
        let bmc = IpmiPeer::start(brand, address.into(), machine, user, &guard, logs.path());
        Self {
            bmc: bmc.await.unwrap(),
            plug,
            _guard: guard,
            _logs: logs,
        }
    }

    /// Suite 3, with the right password.
    fn settings(&self) -> IpmiSettings {
        let user = self.bmc.credentials();
        IpmiSettings {
            cipher_suite: 3,
            ..settings_of(self.bmc.address(), &user.username, &user.password)
        }
    }

    fn driver(&self, change: impl FnOnce(&mut IpmiSettings)) -> Ipmi {
        let mut settings = self.settings();
        change(&mut settings);
        Ipmi::new(settings).unwrap()
    }

    async fn error(&self, change: impl FnOnce(&mut IpmiSettings)) -> DeviceError {
        self.driver(change).open().observe().await.unwrap_err()
    }

    /// Reads, switches off and reads again, each time in the machine's own words.
    async fn reads_and_switches_off(&self) {
        let mut session = self.driver(|_| {}).open();
        let reading = session.observe().await.unwrap();
        assert_eq!(reading.state, PowerState::On);
        assert!(reading.identity.is_system(UUID), "{:?}", reading.identity);
        let identity = session.prepare_off().await.unwrap();
        assert!(identity.is_system(UUID), "{identity:?}");
        assert!(self.plug.is_on(), "nothing was commanded");
        assert_eq!(session.force_off().await, Ok(OffOutcome::Accepted));
        assert!(!self.plug.is_on());
        assert_eq!(session.observe().await.unwrap().state, PowerState::Off);
        // A hand at the machine.
        self.plug.set_power(true);
        assert_eq!(session.observe().await.unwrap().state, PowerState::On);
        // More than one where the BMC's answer came after its time and the question was put again: ipmi_sim carries out both.
        let switched = self.bmc.switched();
        let is_off = switched.iter().all(|(_, on)| !on);
        assert!(is_off && !switched.is_empty(), "hard off: {switched:?}");
    }

    /// What is dropped says so to the BMC, which answers.
    async fn hears_that_a_session_is_closed(&self) {
        let tap = Tap::open(self.bmc.address()).await;
        let driver = self.driver(|settings| settings.address = address_of(tap.address));
        let mut session = driver.open();
        session.observe().await.unwrap();
        let (asked, answered) = (tap.asked(), tap.answered());
        assert!(asked >= 4 && answered >= 4, "{asked}, {answered}");
        drop(session);
        let begun = Instant::now();
        while tap.asked() == asked || tap.answered() == answered {
            assert!(begun.elapsed() < ENDLESS, "it was not closed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Counts the datagrams between one driver and a BMC.
struct Tap {
    address: SocketAddr,
    counts: Arc<[AtomicUsize; 2]>,
    task: JoinHandle<()>,
}

impl Tap {
    async fn open(bmc: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        far.connect(bmc).await.unwrap();
        let address = near.local_addr().unwrap();
        let counts: Arc<[AtomicUsize; 2]> = Arc::default();
        let task = tokio::spawn({
            let counts = Arc::clone(&counts);
            async move {
                let (mut asked, mut answer) = ([0; 2048], [0; 2048]);
                let mut client = None;
                loop {
                    tokio::select! {
                        got = near.recv_from(&mut asked) => {
                            let (length, from) = got.unwrap();
                            client = Some(from);
                            counts[0].fetch_add(1, Ordering::Relaxed);
                            far.send(&asked[..length]).await.unwrap();
                        }
                        got = far.recv(&mut answer) => {
                            let length = got.unwrap();
                            counts[1].fetch_add(1, Ordering::Relaxed);
                            // The driver has closed its socket when the last answer comes.
                            let _ = near.send_to(&answer[..length], client.unwrap()).await;
                        }
                    }
                }
            }
        });
        Self {
            address,
            counts,
            task,
        }
    }

    fn asked(&self) -> usize {
        self.counts[0].load(Ordering::Relaxed)
    }

    fn answered(&self) -> usize {
        self.counts[1].load(Ordering::Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Credentials, and a deadline for a BMC that will be silent.
fn hastily_as(user: &str, password: &str) -> impl FnOnce(&mut IpmiSettings) {
    let credentials = credentials(user, password, &[]);
    move |settings| {
        settings.credentials = credentials;
        settings.call_timeout = SHORT;
    }
}

/// A human is told which suite this BMC has.
#[track_caller]
fn is_told_to_take_suite_3(error: &DeviceError) {
    assert_eq!(
        (error.reason(), error.advice()),
        ("NoSecureLogin", Advice::Human),
        "{error}"
    );
    let words = error.to_string();
    assert!(words.contains("`ipmi.cipherSuite: 3`"), "{words}");
}

#[tokio::test]
async fn ipmi_sim_is_read_switched_off_and_left_by_the_driver() {
    if !debian::available_to_test("ipmi_sim_is_read_switched_off_and_left_by_the_driver").unwrap() {
        return;
    }
    let peer = Peer::start(Brand::IpmiSim, [127, 86, 1, 1]).await;
    peer.reads_and_switches_off().await;
    peer.hears_that_a_session_is_closed().await;
    for session in 0..SESSIONS {
        // Nothing that would have to ask the machine.
        let opened = peer.driver(|_| {}).open().prepare_off().await;
        assert!(opened.is_ok(), "session {session}: {opened:?}");
    }
    let probe = peer.driver(|_| {}).open().probe(Extent::Whole).await;
    let probe = probe.unwrap();
    assert!(probe.off_denied.is_none(), "{probe:?}");
    // SMBIOS's order.
    let first = probe.reading.identity.system_uuid.unwrap();
    assert!(first.starts_with("44454c4c-"), "{first}");
}

#[tokio::test]
async fn ipmi_sim_says_who_is_refused_and_which_suite_it_lacks() {
    if !debian::available_to_test("ipmi_sim_says_who_is_refused_and_which_suite_it_lacks").unwrap()
    {
        return;
    }
    let peer = Peer::start(Brand::IpmiSim, [127, 86, 1, 2]).await;
    let wrong = peer.error(hastily_as("fence", "wrong")).await;
    assert_eq!(wrong.reason(), "AuthFailed", "{wrong}");
    let unknown = peer.error(hastily_as("nobody", "wrong")).await;
    assert_eq!(unknown.reason(), "UnknownUser", "{unknown}");
    let suite = peer.error(|settings| settings.cipher_suite = 17).await;
    is_told_to_take_suite_3(&suite);
    assert!(peer.plug.is_on());
    assert!(
        peer.driver(|_| {}).open().observe().await.is_ok(),
        "nothing is left behind"
    );
}

#[tokio::test]
async fn pyghmi_is_read_switched_off_and_left_by_the_driver() {
    let peer = Peer::start(Brand::Pyghmi, [127, 86, 1, 3]).await;
    peer.reads_and_switches_off().await;
    peer.hears_that_a_session_is_closed().await;
    let probe = peer.driver(|_| {}).open().probe(Extent::Whole).await;
    let probe = probe.unwrap();
    assert!(probe.off_denied.is_none(), "{probe:?}");
    assert_eq!(probe.cipher_suites, [3]);
    // The order of the text, which is RFC 4122's.
    assert_eq!(probe.reading.identity.system_uuid.as_deref(), Some(UUID));
}

/// It answers a wrong password with its own code, as the specification wants, and an unknown user with silence.
#[tokio::test]
async fn pyghmi_refuses_by_its_code_by_silence_and_by_another_suite() {
    let peer = Peer::start(Brand::Pyghmi, [127, 86, 1, 4]).await;
    let wrong = peer.error(hastily_as("fence", "wrong")).await;
    assert_eq!(wrong.reason(), "AuthFailed", "{wrong}");
    let unknown = peer.error(hastily_as("nobody", "wrong")).await;
    assert_eq!(unknown.reason(), "LoginUnanswered", "{unknown}");
    assert!(unknown.to_string().contains("`username`"), "{unknown}");
    // It opens a session of suite 3 whatever is asked for; its list is read in a probe alone.
    let driver = peer.driver(|settings| settings.cipher_suite = 17);
    let read = driver.open().observe().await.unwrap_err();
    let probed = driver.open().probe(Extent::Whole).await.unwrap_err();
    for suite in [read, probed] {
        is_told_to_take_suite_3(&suite);
    }
    assert!(peer.plug.is_on());
    assert!(peer.driver(|_| {}).open().observe().await.is_ok());
}
