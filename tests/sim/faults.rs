//! The faults, and how each happens. Ids are those of `docs/faults.md`.
//!
//! A fault happens at a moment of the seed's choosing, lasts for a while, and is undone; what is left of it when the trouble is over,
//! [`crate::heal`] undoes.

mod bmc;
mod by_hand;
mod callers;
mod cluster;
pub mod early;
mod people;
mod steps;

use crate::kubelet;
use crate::libc;
use crate::network::{Aim, Fate, Moment, Network, Step};
use crate::stage::Stage;
use serde_json::Value;
use simapi::kinds::NODE;
use std::time::Duration;
use tokio::time::sleep;

macro_rules! faults {
    ($($(#[$words:meta])* $name:ident = $id:literal),* $(,)?) => {
        /// A fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[$words])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: [Self; [$($id),*].len()] = [$(Self::$name),*];

            /// As the summary names it. [`Self::Crash`], [`Self::PowerOn`] and [`Self::FenceByHand`] go by the names of what they hit, see [`all`].
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($id, " ", stringify!($name)),)*
                }
            }
        }
    };
}

faults! {
    /// The operator dies at a write.
    Crash = "F01-F09",
    /// Two operators act.
    Rival = "F10",
    /// A write of a Node arrives when nobody waits for it any more.
    LateWrite = "F11",
    /// Whatever is sent takes long.
    SlowWay = "F12",
    /// An off takes effect when nobody waits for it any more.
    OffDelayed = "F12",
    /// Somebody takes the claim away before an off is sent.
    ClaimTaken = "F12",
    /// The host sleeps.
    Suspend = "F13",
    /// The wall clock is set.
    WallJump = "F14",
    /// The Lease is deleted, edited, forged.
    LeaseForged = "F15",
    /// Watches are late.
    StaleWatch = "F16",
    /// An API server that is behind answers watches, and reads that are content with any state.
    Behind = "F17",
    /// Events of watches get lost.
    Missed = "F18",
    /// Watches end, die, or have to begin anew.
    WatchLoss = "F18",
    /// 409.
    Conflict = "F19",
    /// 429, 500, 502, 503, 504.
    ServerErrors = "F20",
    /// Done, and the answer lost.
    LostAnswer = "F21",
    /// Done, done again by what stands in between, and the answer is that to the second one.
    Repeated = "F21",
    /// Half an answer, or a list without its end.
    Garbage = "F22",
    /// Lists in pages of one or two.
    Pages = "F22",
    /// Writes are denied.
    Denied = "F23",
    /// A right is taken away.
    Revoked = "F24",
    /// A right is taken away for longer than a proof lives, at the moment when it is needed.
    RevokedAtProof = "F24",
    /// Somebody turns a machine on.
    PowerOn = "F33-F40",
    /// A node is cut off and runs on.
    Partition = "F41",
    /// A kubelet hangs, and goes on by itself.
    Freeze = "F42",
    /// A node heals while it is claimed.
    HealsClaimed = "F42",
    /// A Node is deleted.
    NodeDeleted = "F43",
    /// A Node is deleted and registers anew.
    NodeAnew = "F44",
    /// A machine is installed anew, as another Node.
    Reimaged = "F45",
    /// The operator is on the wrong side.
    OperatorCut = "F46",
    /// Several nodes are cut off.
    RackCut = "F47",
    /// All machines lose their power, with their BMCs or without.
    SitePower = "F48",
    /// etcd is put back.
    Restore = "F49",
    /// etcd is put back, and the operator starts anew.
    RestoreRestart = "F50",
    /// A newer operator has written the status: an unknown stage.
    Newer = "F51",
    /// The policy is edited, or deleted.
    PolicyEdit = "F52",
    /// The Secret is deleted, or wrong.
    SecretGone = "F53",
    /// A human sets or removes taints.
    HumanTaints = "F54",
    /// A human takes the claim away while the taint is on its way.
    ClaimLifted = "F54",
    /// The controller-manager, a part of it, or the CSI driver does nothing.
    ManagersDown = "F55",
    /// A pod is held by a finalizer.
    PodHeld = "F56",
    /// A human has a node fenced by a NodeFence of their own.
    FenceByHand = "F57",
    /// Another controller asks for a fence, and withdraws that.
    Remediation = "L1",
    /// The API server is away, for everybody.
    ApiOutage = "F20",
    /// A kubelet ends, and begins anew a while later.
    KubeletRestart = "F42",
    /// A BMC begins anew, and reads Off meanwhile.
    BmcRestart = "D-restart",
    /// Somebody writes a Node again and again.
    Storm = "L6",
    /// SIGTERM.
    Terminate = "L8",
    /// A BMC answers nothing.
    BmcHangs = "D-hang",
    /// A BMC cannot be reached.
    BmcAway = "D-away",
    /// A BMC is busy.
    BmcBusy = "D-busy",
    /// A BMC says nonsense.
    BmcNonsense = "D-nonsense",
    /// A BMC is slow.
    BmcSlow = "D-slow",
    /// The way to a BMC leads to that of another machine, which is down.
    BmcOfAnother = "D-another",
    /// A BMC takes an off and does nothing.
    OffIgnored = "D-ignored",
    /// An off takes effect late.
    OffLate = "D-late",
    /// The answer to an off gets lost.
    OffLost = "D-lost",
}

/// All faults, as the summary names them.
pub fn all() -> Vec<&'static str> {
    let plain = Fault::ALL
        .iter()
        .filter(|it| !matches!(it, Fault::Crash | Fault::PowerOn | Fault::FenceByHand));
    let mut all: Vec<&str> = plain.map(|fault| fault.name()).collect();
    all.extend(steps::names());
    all.extend(by_hand::names());
    all.extend(callers::names());
    all.sort_unstable();
    all
}

impl Fault {
    /// What may be taken for a dead machine: only where nodes are reported early.
    pub const OF_EARLY: [Self; 3] = [Self::ApiOutage, Self::KubeletRestart, Self::BmcRestart];

    /// Lets it happen, and undoes it after a while.
    pub async fn happen(self, stage: &Stage) {
        let dice = &stage.world.dice;
        let machine = stage.machine();
        let time = dice.seconds(5, 90);
        let what = format!("{} ({machine}, {} s)", self.name(), time.as_secs());
        stage.world.log.tell("FAULT", what);
        // Counted when it hits something, see [`crate::world::World::hit`] and [`Fate`].
        stage.world.arm(self);
        match self {
            Self::PowerOn if dice.chance(40) => cluster::on_while_detaching(stage).await,
            Self::Crash
            | Self::PowerOn
            | Self::ClaimTaken
            | Self::ClaimLifted
            | Self::RevokedAtProof
            | Self::LateWrite
            | Self::Conflict
            | Self::ServerErrors
            | Self::LostAnswer
            | Self::Repeated
            | Self::Garbage
            | Self::Denied => self.fates(stage),
            Self::Rival => stage.rival(time * 2).await,
            Self::LeaseForged => people::forge_lease(stage),
            Self::Suspend => {
                libc::suspend(dice.seconds(1, 120));
                stage.world.hit(self);
            }
            Self::WallJump => {
                libc::set_wall(if dice.chance(50) { 3600 } else { -3600 });
                stage.world.hit(self);
            }
            Self::SlowWay | Self::StaleWatch | Self::OperatorCut => self.way(stage, time).await,
            Self::WatchLoss => cluster::watch_loss(stage, time).await,
            Self::Behind => cluster::behind(stage, time).await,
            Self::Missed => cluster::miss(stage),
            Self::Pages => stage
                .world
                .api
                .limit_pages(usize::from(dice.chance(50)) + 1),
            Self::Revoked => cluster::revoke(stage, time).await,
            Self::ApiOutage => early::outage(stage, dice.seconds(1, 25)).await,
            Self::KubeletRestart => early::restart(stage, &machine, dice.seconds(1, 25)).await,
            Self::BmcRestart => early::restart_bmc(stage, &machine).await,
            Self::Partition => cluster::cut(stage, self, &[machine], time * 2).await,
            Self::Freeze => cluster::freeze(stage, &machine, time).await,
            Self::HealsClaimed => people::heal_claimed(stage, &machine).await,
            Self::Reimaged => people::install_anew(stage, &machine, time).await,
            Self::Newer => people::write_as_newer(stage),
            Self::PodHeld => people::hold_pod(stage, &machine, time).await,
            Self::FenceByHand => by_hand::fence(stage, &machine, time).await,
            Self::Remediation => callers::ask(stage, &machine, time).await,
            Self::NodeDeleted | Self::NodeAnew => self.delete_node(stage, &machine, time).await,
            Self::RackCut => {
                let mut half = stage.world.names();
                half.retain(|_| dice.chance(60));
                cluster::cut(stage, self, &half, time * 2).await;
            }
            Self::SitePower => cluster::site_power(stage, time).await,
            Self::Restore | Self::RestoreRestart => self.restore(stage, time).await,
            Self::PolicyEdit => people::edit_policy(stage, time).await,
            Self::SecretGone => people::lose_secret(stage, time).await,
            Self::HumanTaints => people::taint_by_hand(stage, &machine, time).await,
            Self::ManagersDown => cluster::managers_down(stage, time).await,
            Self::Storm => cluster::storm(stage, &machine, time).await,
            Self::Terminate => cluster::terminate(stage).await,
            Self::BmcOfAnother => people::miswire(stage, &machine, time).await,
            Self::OffIgnored => self.of_a_machine_that_runs(stage, &machine, time * 2).await,
            _ => self.bmc(stage, &machine, time * 2).await,
        }
    }

    /// Most of those that are turned off have no power: this one's kubelet hangs.
    async fn of_a_machine_that_runs(self, stage: &Stage, machine: &str, time: Duration) {
        let hangs = cluster::freeze(stage, machine, time);
        tokio::join!(self.bmc(stage, machine, time), hangs);
    }

    /// It waits for steps of the protocol to hit.
    pub fn waits(self) -> bool {
        matches!(
            self,
            Self::Crash
                | Self::PowerOn
                | Self::ClaimTaken
                | Self::ClaimLifted
                | Self::RevokedAtProof
                | Self::HealsClaimed
        )
    }

    /// Of requests that are still to come.
    fn fates(self, stage: &Stage) {
        let dice = &stage.world.dice;
        let Some(network) = stage.network() else {
            return;
        };
        let most = if self.waits() { 5 } else { 3 };
        for _ in 0..dice.between(1, most) {
            let (aim, fate) = match self {
                Self::Crash => {
                    let moments = [
                        Moment::BeforeSending,
                        Moment::BeforeAnswer,
                        Moment::AfterAnswer,
                    ];
                    let step = *dice.pick(steps::deaths(&stage.plan));
                    let fate = Fate::Death(*dice.pick(&moments));
                    let waiting = (Aim::Step(step), fate, step.death());
                    stage.world.steps().push(waiting);
                    continue;
                }
                Self::PowerOn => {
                    let (step, moment, fault) = *dice.pick(&steps::power_ons(&stage.plan));
                    let waiting = (Aim::Step(step), Fate::PowerOn(moment), fault);
                    stage.world.steps().push(waiting);
                    continue;
                }
                Self::ClaimTaken | Self::ClaimLifted => {
                    let (step, moment) = match self {
                        Self::ClaimTaken => (Step::Intent, Moment::BeforeAnswer),
                        _ => (Step::Taint, Moment::BeforeSending),
                    };
                    let waiting = (Aim::Step(step), Fate::ClaimTaken(moment), self.name());
                    stage.world.steps().push(waiting);
                    return;
                }
                Self::RevokedAtProof => {
                    let step = *dice.pick(&[Step::Evidence, Step::Taint]);
                    let fate = Fate::Revoked(dice.seconds(5, 60));
                    let waiting = (Aim::Step(step), fate, self.name());
                    stage.world.steps().push(waiting);
                    return;
                }
                Self::LateWrite if dice.chance(30) => {
                    (Aim::Eviction, Fate::Late(dice.seconds(6, 120)))
                }
                Self::LateWrite => (Aim::NodeWrite, Fate::Late(dice.seconds(6, 120))),
                Self::Conflict => (Aim::Write, Fate::Refused(409, None)),
                Self::Denied => (Aim::Write, Fate::Refused(403, None)),
                Self::LostAnswer => (Aim::Write, Fate::AnswerLost),
                Self::Repeated if dice.chance(50) => (Aim::NodeWrite, Fate::Repeated),
                Self::Repeated => (Aim::Write, Fate::Repeated),
                Self::Garbage if dice.chance(50) => (Aim::List, Fate::Partial),
                Self::Garbage => (Aim::Read, Fate::Cut),
                _ => {
                    let code = *dice.pick(&[429, 500, 502, 503, 504]);
                    let wait = (code == 429).then(|| dice.between(1, 20));
                    let aim = if dice.chance(50) {
                        Aim::Write
                    } else {
                        Aim::Read
                    };
                    (aim, Fate::Refused(code, wait))
                }
            };
            network.faults().fates.push_back((aim, fate, self.name()));
        }
    }

    /// Of the way between operator and API server.
    async fn way(self, stage: &Stage, time: Duration) {
        let Some(network) = stage.network() else {
            return;
        };
        let slow = *stage.world.dice.pick(&[400, 800]);
        let set = |network: &Network, on: bool| {
            let mut faults = network.faults();
            match self {
                Self::SlowWay => faults.lag = if on { slow } else { 0 },
                Self::StaleWatch => faults.watch_lag = Duration::from_secs(if on { 20 } else { 0 }),
                _ => faults.cut = on,
            }
        };
        set(&network, true);
        sleep(time).await;
        set(&network, false);
    }

    async fn delete_node(self, stage: &Stage, machine: &str, time: Duration) {
        let node = stage.world.machine(machine).node;
        let place = ("", node.as_str());
        let deleted = stage.world.api.delete("human", &NODE, place, &Value::Null);
        stage.world.hit_if(deleted == Ok(true), self);
        sleep(if self == Self::NodeAnew {
            time / 10
        } else {
            time
        })
        .await;
        stage
            .world
            .with(machine, |machine| machine.reported = false);
    }

    async fn restore(self, stage: &Stage, time: Duration) {
        let (snapshot, version) = (stage.world.api.snapshot(), stage.world.api.version());
        let past = stage.judge.past();
        sleep(time / 2).await;
        stage.world.log.tell("FAULT", "etcd is put back");
        stage.world.switches().restored = true;
        stage
            .world
            .hit_if(stage.world.api.version() > version, self);
        stage.world.api.restore(snapshot);
        stage.judge.restored(past);
        kubelet::forgotten(&stage.world);
        if self == Self::RestoreRestart {
            stage.kill();
        }
    }
}
