//! How many logins are sent to a host that refuses them.

use super::*;
use fencing_drivers::address::Address;
use fencing_drivers::credentials::Credentials;
use futures::future::join_all;
use futures::poll;
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::yield_now;

/// What a device makes of a login.
#[derive(Debug, Clone, Copy)]
enum Says {
    /// The preparation of a command succeeds; everything else is refused.
    YesToAPreparation,
    No,
    /// Nothing within the time for a call.
    Nothing,
}

/// A device that counts the logins.
#[derive(Debug, Clone)]
struct Counting {
    says: Says,
    sent: Arc<AtomicUsize>,
}

impl FenceDriver for Counting {
    fn name(&self) -> &'static str {
        "redfish"
    }

    fn target(&self) -> String {
        "bmc:443".to_owned()
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(self.clone())
    }
}

impl Counting {
    fn refuse<T: Send + 'static>(&self) -> BoxFuture<'static, Result<T, DeviceError>> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = match self.says {
            Says::Nothing => DeviceError::Timeout {
                endpoint: "bmc:443".to_owned(),
                waited: Duration::from_secs(15),
            },
            Says::YesToAPreparation | Says::No => refusal("401"),
        };
        async {
            yield_now().await;
            Err(answer)
        }
        .boxed()
    }
}

impl FenceSession for Counting {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), DeviceError>> {
        self.refuse()
    }
    fn observe(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        self.refuse()
    }
    fn prepare_off(&mut self) -> BoxFuture<'_, Result<Identity, DeviceError>> {
        match self.says {
            Says::YesToAPreparation => async { Ok(Identity::default()) }.boxed(),
            Says::No | Says::Nothing => self.refuse(),
        }
    }
    fn seen(&self) -> Option<Reading> {
        None
    }

    fn force_off(&mut self) -> BoxFuture<'_, Result<OffOutcome, DeviceError>> {
        self.refuse()
    }
    fn prepare_on(&mut self) -> BoxFuture<'_, Result<Reading, DeviceError>> {
        match self.says {
            Says::YesToAPreparation => async { Ok(reading()) }.boxed(),
            Says::No | Says::Nothing => self.refuse(),
        }
    }
    fn power_on(&mut self) -> BoxFuture<'_, Result<OnOutcome, DeviceError>> {
        self.refuse()
    }
    fn probe(&mut self, _: Extent) -> BoxFuture<'_, Result<Probe, DeviceError>> {
        self.refuse()
    }
}

fn reading() -> Reading {
    Reading {
        state: fencing_core::reading::PowerState::Off,
        raw: "Off".to_owned(),
        identity: Identity::default(),
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked: Duration::ZERO,
        answered: Duration::ZERO,
        wall: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn refusal(said: &str) -> DeviceError {
    DeviceError::AuthFailed {
        endpoint: "bmc:443".to_owned(),
        said: said.to_owned(),
    }
}

/// A site whose devices refuse every login, unless it is said that they accept them.
#[derive(Default)]
struct Site {
    sent: Arc<AtomicUsize>,
    refusals: Arc<Refusals>,
    key: RandomState,
}

impl Site {
    fn login(&self, address: &str, secret: &str, password: &str) -> Login {
        let data = [("username", "root"), ("password", password)];
        let data = data.map(|(key, value)| (key.to_owned(), value.into()));
        let credentials = Credentials::from_secret(secret, &data.into(), &BTreeMap::new());
        let content = credentials.expect("credentials").digest(&self.key);
        let address = Address::parse(address).expect("an address");
        Login::new(&address, secret.to_owned(), content)
    }

    fn open(&self, login: Login, says: Says) -> Box<dyn FenceSession> {
        let sent = Arc::clone(&self.sent);
        let driver = Arc::new(Counting { says, sent });
        Guarded::new(driver, login, Arc::clone(&self.refusals), Clock::SYSTEM).open()
    }

    /// One that refuses, at any system of this host.
    fn refusing(&self, address: &str, secret: &str, password: &str) -> Box<dyn FenceSession> {
        self.open(self.login(address, secret, password), Says::No)
    }

    /// A login that the host takes.
    async fn accept(&self, address: &str, secret: &str, password: &str) {
        let mut session = self.open(
            self.login(address, secret, password),
            Says::YesToAPreparation,
        );
        session.prepare_off().await.expect("accepted");
    }

    /// Why a look at it fails, and how many logins that sent.
    async fn look(&self, address: &str, secret: &str, password: &str) -> (String, usize) {
        let before = self.sent();
        let mut session = self.refusing(address, secret, password);
        let refused = session.observe().await.expect_err("refused");
        assert_eq!(refused.reason(), "AuthFailed");
        (refused.to_string(), self.sent() - before)
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

const BMC: &str = "https://bmc";
/// Another way in to the same BMC.
const BMC_TOO: &str = "https://bmc:623";

#[tokio::test]
async fn a_fourth_login_within_ten_minutes_is_not_sent() {
    let site = Site::default();
    for _ in 0..5 {
        let mut session = site.refusing(BMC, "s", "wrong");
        let outcome = session.probe(Extent::Needed).await;
        assert!(matches!(outcome, Err(DeviceError::AuthFailed { .. })));
        let outcome = session.prepare_off().await;
        assert!(matches!(outcome, Err(DeviceError::AuthFailed { .. })));
        let outcome = session.force_off().await;
        assert!(matches!(outcome, Err(DeviceError::AuthFailed { .. })));
    }
    assert_eq!(site.sent(), 3);
    // What the device said is not forgotten for it.
    let (words, sent) = site.look(BMC, "s", "wrong").await;
    let says = "(401; 3 times within 10 minutes at this host; the next attempt is made when ";
    assert!(words.contains(says) && sent == 0, "{words}");
    // A probe waits for nobody, and is told the same.
    let mut session = site.refusing(BMC, "s", "wrong");
    assert!(session.take_turn_now() && session.probe(Extent::Needed).await.is_err());
    assert_eq!(site.sent(), 3);
    // The Secret says something else now.
    assert_eq!(site.look(BMC, "s", "other").await.1, 1);
}

/// A chassis manager has one list of users, however many systems are looked at and however many at once.
#[tokio::test]
async fn systems_of_one_host_share_their_tries() {
    let site = Site::default();
    let looks = (0..8).map(|_| async {
        let mut session = site.refusing("https://[2001:db8::1]", "s", "wrong");
        session.observe().await.expect_err("refused").to_string()
    });
    let refused = join_all(looks).await;
    assert_eq!(site.sent(), 3);
    let is_unsent = |words: &&String| words.contains("the next attempt is made");
    assert_eq!(refused.iter().filter(is_unsent).count(), 5);
    // Another Secret that says the same is the same account, and so is the address written at length; another host is not.
    let same = "https://[2001:db8:0:0::1]";
    assert_eq!(site.look(same, "t", "wrong").await.1, 0);
    assert_eq!(site.look("https://[2001:db8::2]", "s", "wrong").await.1, 1);
}

/// A BMC has one list of users, and locks them whichever way they were tried.
#[tokio::test]
async fn protocols_of_one_host_share_their_tries() {
    let site = Site::default();
    for (address, sent) in [(BMC, 1), (BMC_TOO, 1), (BMC, 1), (BMC_TOO, 0), (BMC, 0)] {
        assert_eq!(site.look(address, "s", "wrong").await.1, sent);
    }
}

/// A user who may not use IPMI does not take Redfish away, nor does the one device behind a port forwarder take another.
#[tokio::test]
async fn each_port_has_one_try_whatever_others_have_used_up() {
    let site = Site::default();
    for _ in 0..5 {
        let _ = site.look(BMC_TOO, "s", "p").await;
    }
    assert_eq!(site.sent(), 3);
    for _ in 0..5 {
        site.accept(BMC, "s", "p").await;
    }
    // That it is right there does not make it right here.
    assert_eq!(site.look(BMC_TOO, "s", "p").await.1, 0);
    // One refusal does not close a port that was open a while ago, three do.
    for sent in [1, 1, 1, 0] {
        assert_eq!(site.look(BMC, "s", "p").await.1, sent);
    }
    // A port of which nothing is known has one try, also of those that are under way together.
    join_all([0, 1].map(|_| site.look("https://bmc:8443", "s", "p"))).await;
    assert_eq!(site.sent(), 7);
}

/// A password that was changed on a chassis manager is not sent for each of its systems at once, though it was right a moment ago.
#[tokio::test]
async fn no_more_than_three_are_sent_together_where_the_login_was_right() {
    let site = Site::default();
    site.accept(BMC, "s", "p").await;
    let mut sessions = [0; 8].map(|_| site.refusing(BMC, "s", "p"));
    let refused = join_all(sessions.iter_mut().map(|session| session.observe())).await;
    assert!(refused.iter().all(Result::is_err));
    assert_eq!(site.sent(), 3);
}

/// Both ways in had the password, which was changed on the BMC: it is one account that would be locked.
#[tokio::test]
async fn ports_that_had_the_login_share_their_tries() {
    let site = Site::default();
    for address in [BMC, BMC_TOO] {
        site.accept(address, "s", "p").await;
    }
    for (address, sent) in [(BMC, 1), (BMC_TOO, 1), (BMC, 1), (BMC_TOO, 0), (BMC, 0)] {
        assert_eq!(site.look(address, "s", "p").await.1, sent);
    }
}

/// A device that asks a directory server may take longer to refuse than a call may take.
#[tokio::test]
async fn a_call_that_is_not_answered_in_time_is_what_the_last_one_was() {
    let site = Site::default();
    let unanswered = async || {
        let mut session = site.open(site.login(BMC, "s", "wrong"), Says::Nothing);
        session.observe().await
    };
    // Of a device that has refused nothing yet, nothing is known.
    for _ in 0..3 {
        assert!(unanswered().await.is_err());
    }
    assert_eq!(site.look(BMC, "s", "wrong").await.1, 1);
    for _ in 0..2 {
        assert!(unanswered().await.is_err());
    }
    assert_eq!(site.look(BMC, "s", "wrong").await.1, 0);
}

/// Who gives up early, at a device that is slow to refuse, has sent a wrong password all the same.
#[tokio::test]
async fn a_call_that_is_dropped_is_what_the_last_one_was() {
    let site = Site::default();
    assert_eq!(site.look(BMC, "s", "wrong").await.1, 1);
    for _ in 0..2 {
        let mut session = site.refusing(BMC, "s", "wrong");
        assert!(poll!(session.observe()).is_pending());
    }
    assert_eq!(site.sent(), 3);
    assert_eq!(site.look(BMC, "s", "wrong").await.1, 0);
}

/// A login that nobody waits for any more makes room.
#[tokio::test]
async fn a_call_that_is_dropped_leaves_its_place_to_another() {
    let site = Site::default();
    let mut sessions = [0; 5].map(|_| site.refusing(BMC, "s", "wrong"));
    let [under_way @ .., fourth, probed] = &mut sessions;
    let mut calls = Vec::from(under_way.each_mut().map(|session| session.observe()));
    for call in &mut calls {
        assert!(poll!(call).is_pending());
    }
    let mut fourth = fourth.observe();
    assert!(poll!(&mut fourth).is_pending());
    assert_eq!(site.sent(), 3);
    // A look in peace time comes back later instead, and then has a place that nobody takes away.
    assert!(!probed.take_turn_now());
    drop(calls);
    assert!(probed.take_turn_now() && probed.take_turn_now());
    assert!(fourth.await.is_err() && probed.probe(Extent::Needed).await.is_err());
    assert_eq!(site.sent(), 5);
    assert_eq!(site.look(BMC, "s", "wrong").await.1, 1);
    assert_eq!(site.look(BMC, "s", "wrong").await.1, 0);
}

/// Its claim was read a moment ago, and must not grow old while somebody else logs in.
#[tokio::test]
async fn a_command_has_the_place_of_its_preparation() {
    let site = Site::default();
    let mut session = site.open(site.login(BMC, "s", "p"), Says::YesToAPreparation);
    session.prepare_off().await.expect("accepted");
    assert_eq!(site.look(BMC, "s", "p").await.1, 1);
    let mut others = [0; 2].map(|_| site.refusing(BMC, "s", "p"));
    let [mut one, mut late] = others.each_mut().map(|session| session.observe());
    assert!(poll!(&mut one).is_pending() && poll!(&mut late).is_pending());
    assert_eq!(site.sent(), 2);
    let mut command = session.force_off();
    assert!(poll!(&mut command).is_pending());
    assert_eq!(site.sent(), 3);
}

#[tokio::test]
async fn a_power_on_has_the_place_of_its_preparation_too() {
    let site = Site::default();
    let mut session = site.open(site.login(BMC, "s", "p"), Says::YesToAPreparation);
    session.prepare_on().await.expect("accepted");
    assert_eq!(site.look(BMC, "s", "p").await.1, 1);
    let mut others = [0; 2].map(|_| site.refusing(BMC, "s", "p"));
    let [mut one, mut late] = others.each_mut().map(|session| session.observe());
    assert!(poll!(&mut one).is_pending() && poll!(&mut late).is_pending());
    assert_eq!(site.sent(), 2);
    let mut command = session.power_on();
    assert!(poll!(&mut command).is_pending());
    assert_eq!(site.sent(), 3);
}

#[tokio::test]
async fn a_secret_that_is_rewritten_again_and_again_has_six_tries() {
    let site = Site::default();
    for password in 0..6 {
        assert_eq!(site.look(BMC, "s", &password.to_string()).await.1, 1);
    }
    let (words, sent) = site.look(BMC, "s", "right at last").await;
    let says = "(401; 6 times within 10 minutes at this host; the next attempt is made when the first is 10 minutes old: also those of Secret `s`)";
    assert!(words.contains(says) && sent == 0, "{words}");
    assert_eq!(site.look(BMC, "another", "its own").await.1, 1);
}
