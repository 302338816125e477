//! One cycle: a fate befalls the lab, everything is healed, and the lab becomes whole again.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep, sleep_until};

use super::Kills;
use super::ailing::Controller;
use super::fate::{Ailing, Death, Detach, Fate, Mishap, Victim};
use super::scene::{PODS, Replica, Scene};
use crate::control_plane::Component;
use crate::lab::Rig;
use crate::machine::Ailment;
use crate::proxy::{self, Action, Matcher, writes};
use crate::workload::{is_ready, node_of};
use fencing_testbed::https::Line;
use fencing_testbed::process::Signal;

/// Between two looks at where a pod is.
const LOOK: Duration = Duration::from_millis(200);

/// What a cycle was like.
#[derive(Debug, Clone)]
pub(super) struct Cycle {
    /// For each pod of the node that runs on another one now, how long after the death it did.
    pub(super) recoveries: Vec<Duration>,
    /// From the last healing to the lab's being whole.
    pub(super) whole: Duration,
}

impl Scene {
    pub(super) async fn cycle(&self, fate: &Fate) -> Result<Cycle> {
        let homes = self.homes().await?;
        let rig = match fate.victim {
            Victim::Number(number) => self.lab.rig(number),
            Victim::OfPod(number) => self.lab.rig_of(&homes[number])?,
        };
        let lost = PODS.into_iter().zip(&homes);
        let lost: Vec<&str> = lost
            .filter_map(|(pod, home)| (*home == rig.machine.name()).then_some(pod))
            .collect();
        let died = Instant::now();
        let controller = self.controller(rig);
        controller.ail(fate.ailing)?;
        die(rig, fate.death);
        let recoveries = RefCell::new(vec![]);
        let watching = self.watch(rig, lost, died, &recoveries);
        let befalling = async {
            tokio::try_join!(
                self.mishap(fate, died),
                cure(rig, fate, died),
                turn_on(rig, fate, died),
                heal(controller, fate, died),
                self.detach(fate, died),
            )?;
            // What was broken is whole, whoever broke it.
            rig.machine.ail(Ailment::default());
            let healed = Instant::now();
            self.is_whole().await?;
            Ok(healed.elapsed())
        };
        let whole: Result<Duration> = tokio::select! {
            whole = befalling => whole,
            never = watching => match never {},
        };
        Ok(Cycle {
            whole: whole?,
            recoveries: recoveries.into_inner(),
        })
    }

    /// Notes when each of these pods runs on another node, and sees to the control plane as a kubelet would: a scheduler that has missed
    /// events while the API server was away ends itself ("cache is corrupted").
    async fn watch(
        &self,
        rig: &Rig,
        mut lost: Vec<&str>,
        died: Instant,
        recoveries: &RefCell<Vec<Duration>>,
    ) -> Infallible {
        let pods = self.lab.workloads.api::<Pod>();
        loop {
            sleep(LOOK).await;
            for dead in self.lab.control_plane.revive().await.unwrap_or_default() {
                println!("  {} ended by itself, and was started again", dead.name());
            }
            let mut still = vec![];
            for pod in lost {
                let elsewhere = |it: &Pod| is_ready(it) && node_of(it) != rig.machine.name();
                // The API server may be the one that is dead.
                match pods.get(pod).await {
                    Ok(it) if elsewhere(&it) => recoveries.borrow_mut().push(died.elapsed()),
                    _ => still.push(pod),
                }
            }
            lost = still;
        }
    }

    /// Keeps the storage from taking volumes away at once.
    async fn detach(&self, fate: &Fate, died: Instant) -> Result<()> {
        let array = self.lab.control_plane.array();
        match fate.detach {
            Detach::Prompt => return Ok(()),
            Detach::Slow => array.delay_detach(Duration::from_secs(3)).await?,
            Detach::Hangs => array.hang_detach().await?,
        }
        sleep_until(died + fate.prompt_at).await;
        array.clear_faults().await
    }

    /// Befalls a replica, or the API server, and ends.
    async fn mishap(&self, fate: &Fate, died: Instant) -> Result<()> {
        sleep_until(died + fate.mishap_at).await;
        // During a hand-over there may be no leader, or two that say so.
        let leader = self.leader().await.unwrap_or(0);
        let Replica { operator, proxy } = &self.replicas[fate.replica.unwrap_or(leader)];
        let plane = &self.lab.control_plane;
        let over = || sleep_until(died + fate.mishap_at + fate.mishap_for);
        match fate.mishap {
            Mishap::None => {}
            Mishap::Killed => {
                operator.kill()?;
                over().await;
                operator.start_again().await?;
            }
            Mishap::Frozen => {
                operator.pause()?;
                over().await;
                operator.resume()?;
            }
            Mishap::CutOff => {
                // What was on the line when it was cut arrives when it is whole again.
                let _stalling = self.lab.stalls_requests();
                proxy.set_line(Line::Dark)?;
                over().await;
                proxy.set_line(Line::Up)?;
            }
            Mishap::Slow | Mishap::AnswersLost => {
                let (matcher, action) = match fate.mishap {
                    Mishap::Slow => {
                        let delay = Duration::from_millis(500);
                        (Matcher::new("everything"), Action::Delay(delay))
                    }
                    _ => {
                        let writes = Matcher::new("writes");
                        let writes = writes.when(|seen| seen.method != http::Method::GET);
                        (writes, Action::After(proxy::Fate::Reset))
                    }
                };
                let rule = proxy.rule(matcher, action);
                over().await;
                rule.remove();
            }
            Mishap::ApiServerKilled => {
                match self.kills {
                    Kills::InSilence => self.kill_the_api_server().await?,
                    Kills::AtWork => self.kill_the_api_server_at_work(fate).await?,
                }
                over().await;
                plane.start_component(Component::ApiServer).await?;
            }
            Mishap::ApiServerFrozen => {
                let _stalling = self.lab.stalls_requests();
                plane.signal_component(Component::ApiServer, Signal::STOP)?;
                over().await;
                plane.signal_component(Component::ApiServer, Signal::CONT)?;
            }
        }
        for Replica { operator, .. } in &self.replicas {
            operator.check().context("it ended by itself")?;
        }
        Ok(())
    }
}

/// Those whose writes the judge asks for, beside the operator and the kubelets.
const WRITERS: [Component; 3] = [
    Component::ControllerManager,
    Component::Scheduler,
    Component::CsiAttacher,
];

impl Scene {
    /// SIGKILL. A write that the API server did and had not logged yet would be missing for the judge, so whoever writes is silenced a
    /// moment before. What the operator had under way it takes for lost, as it would be: some of it was done, and some not.
    async fn kill_the_api_server(&self) -> Result<()> {
        let plane = &self.lab.control_plane;
        let silence = |line, signal| {
            for Replica { proxy, .. } in &self.replicas {
                proxy.set_line(line)?;
            }
            let mut writers = WRITERS.into_iter();
            writers.try_for_each(|it| plane.signal_component(it, signal))
        };
        silence(Line::Refused, Signal::STOP)?;
        sleep(Duration::from_millis(200)).await;
        plane.audit().settled().await?;
        plane.stop_component(Component::ApiServer)?;
        silence(Line::Up, Signal::CONT)
    }
}

/// How long somebody is waited for who writes.
const WRITER_WITHIN: Duration = Duration::from_secs(10);

impl Scene {
    /// SIGKILL with a write of the operator under way: it has arrived a few milliseconds before, and nobody but the store knows whether it
    /// was done. What was done and not logged is missing for the judge: see [`Judgement::of_single_records`].
    ///
    /// [`Judgement::of_single_records`]: crate::judge::Judgement::of_single_records
    async fn kill_the_api_server_at_work(&self, fate: &Fate) -> Result<()> {
        let of_fence = || {
            writes::any_write().when(|seen| {
                let segments = seen.segments();
                segments.contains(&"nodes") || segments.contains(&"nodefences")
            })
        };
        let holds = self.replicas.each_ref().map(|it| it.proxy.hold(of_fence()));
        let [one, other] = &holds;
        tokio::select! {
            _ = one.wait_arrived(WRITER_WITHIN) => {}
            _ = other.wait_arrived(WRITER_WITHIN) => {}
        }
        for hold in holds {
            hold.release();
        }
        // Too soon for any of it, in the middle, or just after it.
        let millis = u64::from(fate.mishap_for.subsec_millis() % 12);
        sleep(Duration::from_millis(millis)).await;
        self.lab.control_plane.stop_component(Component::ApiServer)
    }
}

fn die(rig: &Rig, death: Death) {
    match death {
        Death::PowerCut => rig.machine.set_power(false),
        Death::KubeletHung => rig.machine.ail(Ailment {
            kubelet_hung: true,
            ..Ailment::default()
        }),
        Death::Partitioned => rig.machine.ail(Ailment {
            partitioned: true,
            ..Ailment::default()
        }),
    }
}

async fn cure(rig: &Rig, fate: &Fate, died: Instant) -> Result<()> {
    if fate.death != Death::PowerCut {
        sleep_until(died + fate.cured_at).await;
        rig.machine.ail(Ailment::default());
    }
    Ok(())
}

async fn turn_on(rig: &Rig, fate: &Fate, died: Instant) -> Result<()> {
    sleep_until(died + fate.power_on_at).await;
    rig.machine.set_power(true);
    Ok(())
}

async fn heal(controller: Controller<'_>, fate: &Fate, died: Instant) -> Result<()> {
    if fate.ailing != Ailing::Nothing {
        sleep_until(died + fate.well_at).await;
        controller.heal()?;
    }
    Ok(())
}
