//! The way between one operator and the API server: how slow it is, and what gets lost on it.
//!
//! Behind kube's own client, with its own retries: a fault here is what the client sees of it.

mod corrupt;
mod people;
mod step;
mod watches;

use crate::faults::Fault;
use crate::judge::Judge;
use crate::libc::elapsed;
use crate::objects::NAMESPACE;
use crate::world::World;
use corrupt::{partial, refused, shortened};
use fencing_cluster::client::Clients;
use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use simapi::{Answer, Api, Request, answer};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
pub use step::Step;
use tokio::time::sleep;
use tower::BoxError;
use tower::retry::Retry;
pub use watches::Told;

/// What becomes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The server never sees it; it says this (HTTP status, and seconds to wait).
    Refused(u16, Option<u64>),
    /// It is done, and its answer gets lost.
    AnswerLost,
    /// It is done twice, and the second answer arrives.
    Repeated,
    /// It is done that much later, when nobody waits for it any more.
    Late(Duration),
    /// It is done, and half of the answer arrives.
    Cut,
    /// A list without its rest: it says that it goes on elsewhere.
    Partial,
    /// The operator dies: before it is sent, when it is done, when the answer has arrived.
    Death(Moment),
    /// Somebody turns on the machine that it is about: before it is done, when it is done, when the answer has arrived.
    PowerOn(Moment),
    /// Nobody has the right to do it, for so long.
    Revoked(Duration),
    /// Somebody takes the claim away: before it is done; or when it is done, and then the BMC is slow.
    ClaimTaken(Moment),
}

/// When it happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The request never leaves.
    BeforeSending,
    /// It is done, and nobody hears of it.
    BeforeAnswer,
    /// It is done, and the answer has arrived.
    AfterAnswer,
}

/// Which requests a fate waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim {
    /// Any write of the protocol: Nodes, NodeFences, pods.
    Write,
    /// Any write of a Node.
    NodeWrite,
    /// A forced deletion of a pod, or that of a VolumeAttachment.
    Eviction,
    /// Any read.
    Read,
    /// Any list that has no limit.
    List,
    /// This step of the protocol.
    Step(Step),
}

/// A fate, which requests it waits for, and the fault that it is.
pub type Waiting = (Aim, Fate, &'static str);

/// What is wrong with the way.
#[derive(Default)]
pub struct Faults {
    /// No packet passes.
    pub cut: bool,
    /// Each way takes that much longer at most, in milliseconds.
    pub lag: u64,
    /// Watches say nothing, and nobody notices.
    pub watches_dead: bool,
    /// Events of watches come that much later.
    pub watch_lag: Duration,
    /// What is to happen to requests that are still to come.
    pub fates: VecDeque<Waiting>,
    /// Watches, and reads that are content with any state, are answered by a server that hears of nothing.
    pub behind: Option<Api>,
    /// So many events of watches get lost.
    pub missed: u32,
    /// What watches tell of one kind.
    pub told: Told,
    /// It has an election to itself, and so leads whatever the Lease of all says.
    pub alone: bool,
    /// The process is gone: nothing leaves it, nothing reaches it.
    pub dead: bool,
    /// It died by a fate, and is to be buried.
    pub died: bool,
}

/// The network of one life of one operator.
#[derive(Clone)]
pub struct Network {
    /// `operator-0.3`: which one, and which life of it.
    pub name: String,
    world: World,
    judge: Judge,
    faults: Arc<Mutex<Faults>>,
}

impl Network {
    /// A way without faults.
    pub fn new(world: &World, judge: &Judge, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            world: world.clone(),
            judge: judge.clone(),
            faults: Arc::default(),
        }
    }

    /// What is wrong with it.
    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clients over this way, as the program makes them.
    pub fn clients(&self) -> Clients {
        let this = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let this = this.clone();
            async move { this.send(request).await }
        });
        let retried = Retry::new(RetryPolicy::server_retry(), service.clone());
        Clients {
            reads: Client::new(retried, "default"),
            writes: Client::new(service, "default"),
            server: "http://simulated".to_owned(),
        }
    }

    async fn send(
        self,
        request: http::Request<Body>,
    ) -> Result<http::Response<answer::Body>, BoxError> {
        let mut request = Request::read(self.name.as_str().into(), request).await?;
        if !self.world.may_ask() {
            return std::future::pending().await;
        }
        if request.path.contains("/leases") && self.faults().alone {
            request.path = request.path.replace(NAMESPACE, &self.name);
        }
        let kind = request
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let fate = self.fate(&request);
        if let Some(fate) = &fate {
            let line = format!("{fate:?}: {}", line(&request));
            self.world.log.tell(&self.name, line);
        }
        if fate == Some(Fate::Death(Moment::BeforeSending)) {
            self.die();
        }
        if fate == Some(Fate::PowerOn(Moment::BeforeSending)) {
            self.power_on(&request);
        }
        if fate == Some(Fate::ClaimTaken(Moment::BeforeSending)) {
            self.take_claim(&request);
        }
        if let Some(Fate::Revoked(time)) = fate {
            self.revoke(&request, time);
        }
        let asked = elapsed();
        self.travel().await?;
        let answer = match &fate {
            Some(Fate::Refused(code, wait)) => return Ok(refused(*code, *wait)),
            Some(Fate::Late(time)) => {
                let (this, time) = (self.clone(), *time);
                // Its sender may be gone by then.
                request.actor = format!("{} (late)", self.name).into();
                tokio::spawn(async move {
                    sleep(time).await;
                    this.ask(&request);
                });
                return std::future::pending().await;
            }
            Some(Fate::Repeated) => {
                self.ask(&request);
                self.ask(&request)
            }
            _ => self.ask(&request),
        };
        self.bring_back(fate, &request, (kind, asked), answer).await
    }

    /// What becomes of the answer on its way to whoever asked.
    async fn bring_back(
        self,
        fate: Option<Fate>,
        request: &Request,
        (kind, asked): (String, Duration),
        answer: Answer,
    ) -> Result<http::Response<answer::Body>, BoxError> {
        match fate {
            Some(Fate::Death(moment)) => {
                if moment == Moment::BeforeAnswer {
                    self.die();
                }
                self.travel().await?;
                self.die();
                Ok(answer.into_response())
            }
            Some(Fate::PowerOn(moment)) => {
                if moment == Moment::BeforeAnswer {
                    self.power_on(request);
                }
                self.travel().await?;
                if moment == Moment::AfterAnswer {
                    self.power_on(request);
                }
                Ok(answer.into_response())
            }
            Some(Fate::ClaimTaken(moment)) => {
                if moment == Moment::BeforeAnswer {
                    self.take_claim(request);
                    self.slow_bmc(request);
                }
                self.travel().await?;
                Ok(answer.into_response())
            }
            Some(Fate::AnswerLost) => {
                sleep(self.world.dice.millis(0, 6000)).await;
                Err("connection reset by peer".into())
            }
            Some(Fate::Cut) => Ok(shortened(answer).into_response()),
            Some(Fate::Partial) => Ok(partial(answer).into_response()),
            _ => {
                self.travel().await?;
                self.judge.learned(&self.name, request, asked, &answer);
                Ok(self.watched(kind, answer).into_response())
            }
        }
    }

    fn ask(&self, request: &Request) -> Answer {
        if request.method == http::Method::DELETE {
            self.judge.deletes(&self.name, request);
        }
        let is_content = request.is_watch() || request.parameter("resourceVersion") == Some("0");
        let behind = self.faults().behind.clone();
        let answer = match behind.filter(|_| request.is_read() && is_content) {
            Some(behind) => {
                self.world.hit(Fault::Behind);
                behind.answer(request)
            }
            None => self.world.api.answer(request),
        };
        let is_alone = self.faults().alone;
        let hit_if = |has_hit, fault| self.world.hit_if(has_hit, fault);
        hit_if(is_alone && Step::of(request).is_some(), Fault::Rival);
        hit_if(answer.code() == 403, Fault::Revoked);
        hit_if(request.parameter("continue").is_some(), Fault::Pages);
        let line = format!("{} -> {}", line(request), answer.code());
        // What is done the judge tells in words.
        match request.is_read() || request.is_dry() || answer.code() < 400 {
            true => self.world.log.note(&self.name, line),
            false => self.world.log.tell(&self.name, line),
        }
        answer
    }

    /// One way.
    async fn travel(&self) -> Result<(), BoxError> {
        let (dead, cut, lag) = {
            let faults = self.faults();
            (faults.dead, faults.cut, faults.lag)
        };
        self.world.hit_if(cut, Fault::OperatorCut);
        self.world.hit_if(lag > 0, Fault::SlowWay);
        let is_away = self.world.switches().api_away;
        if is_away && !dead {
            sleep(self.world.dice.millis(1, 4)).await;
            return Err("connection refused".into());
        }
        if dead || cut {
            // Whoever waits gives up by itself.
            sleep(Duration::from_secs(30)).await;
            return Err("no route to host".into());
        }
        sleep(self.world.dice.millis(1, 4 + lag)).await;
        let died_meanwhile = self.faults().dead;
        if died_meanwhile {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// The process ends here.
    pub fn die(&self) {
        let mut faults = self.faults();
        faults.dead = true;
        faults.died = true;
    }

    /// Takes the next fate, if it is for this request.
    fn fate(&self, request: &Request) -> Option<Fate> {
        let step = Step::of(request);
        if let Some(fate) = step.and_then(|step| self.world.fate_of(step)) {
            return Some(fate);
        }
        let is_protocol = ["/nodes", "/nodefences", "/pods"]
            .iter()
            .any(|it| request.path.contains(it));
        let is_node = request.path.starts_with("/api/v1/nodes/");
        let is_detachment = request.path.contains("/volumeattachments/");
        let hits = |aim: &Aim| match aim {
            // That is the world's.
            Aim::Step(_) => false,
            Aim::Write => !request.is_read() && (is_protocol || is_detachment),
            Aim::NodeWrite => !request.is_read() && is_node,
            Aim::Eviction => {
                let is_pod = request.path.contains("/pods/");
                request.method == http::Method::DELETE && (is_pod || is_detachment)
            }
            Aim::Read => request.is_read() && is_protocol && !request.is_watch(),
            Aim::List => {
                let is_whole = request.parameter("limit").is_none() && !request.is_watch();
                request.is_read()
                    && is_whole
                    && (request.path.ends_with("/pods")
                        || request.path.ends_with("/volumeattachments"))
            }
        };
        let mut faults = self.faults();
        let at = faults.fates.iter().position(|(aim, ..)| hits(aim))?;
        let (_, fate, fault) = faults.fates.remove(at)?;
        self.world.count(fault);
        Some(fate)
    }

    /// Takes the fate of an off, which goes to a device.
    pub fn fate_of_off(&self) -> Option<Fate> {
        let fate = self.world.fate_of(Step::Off)?;
        self.world.log.tell(&self.name, format!("{fate:?}: off"));
        Some(fate)
    }
}

/// What a log says of a request.
fn line(request: &Request) -> String {
    let mut text = format!("{} {}", request.method, request.path);
    if !request.is_read() {
        let body = String::from_utf8_lossy(&request.body);
        let body: String = body.chars().take(700).collect();
        let _ = write!(text, " {body}");
    } else if request.is_watch() {
        let from = request.parameter("resourceVersion").unwrap_or_default();
        let _ = write!(text, " watch from {from}");
    }
    text
}
