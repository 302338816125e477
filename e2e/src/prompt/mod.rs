//! `make lab`: a cluster to play with, and a prompt at which machines lose their power.
//!
//! Everything that the operator needs is there: machines with BMCs, a FenceDevice for each, their credentials, a policy
//! in ConfirmOnly, a StatefulSet with a ReadWriteOnce volume, and the operator itself with the rights of `deploy/` and no
//! others. Commands are read from standard input, by a person or a script; what follows from them is told as it happens.

mod command;
mod status;

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, Result};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::command::{Claim, Command, Deed, HELP};
use crate::lab::{Kind, LIMIT, Lab, Setup, available};
use crate::machine::Ailment;
use crate::operator::{Operator, plugins};
use crate::timeline::Timeline;
use crate::times::Times;
use crate::toolchain::kubernetes_version;
use crate::workload::{Template, node_of};
use fencing_testbed::bmc::{Effect, Reading};
use fencing_testbed::https::Line;

/// The StatefulSet whose pod moves.
const WORKLOAD: &str = "database";

/// A cluster at the prompt.
struct Prompt {
    lab: Lab,
    operator: Operator,
    timeline: Timeline,
    /// What ails the nodes that are not well.
    ailments: BTreeMap<String, Ailment>,
}

/// Starts a cluster with so many machines and these times, and keeps it until `quit`, Ctrl-C or SIGTERM. The end of standard input ends it
/// only at a terminal: a script's cluster stays.
pub async fn run(machines: usize, kind: Kind, times: Times) -> Result<()> {
    available(kind)
        .map_err(anyhow::Error::msg)
        .context("no such machines here")?;
    let mut prompt = Prompt::start(machines, kind, times).await?;
    prompt.introduce().await?;
    prompt.serve().await
}

impl Prompt {
    async fn start(machines: usize, kind: Kind, times: Times) -> Result<Self> {
        println!("Starting a Kubernetes control plane, {machines} machines and the operator ...");
        let setup = Setup::new("up", machines).on(kind).at(times).alone();
        let lab = Lab::start(setup).await?;
        let operator = lab.operator().await?;
        lab.wait_protected().await?;
        lab.policy("ConfirmOnly", json!({})).await?;
        lab.workloads
            .stateful_set(WORKLOAD, &Template::default())
            .await?;
        let pod = format!("{WORKLOAD}-0");
        lab.workloads.wait_running(&pod, LIMIT).await?;
        let timeline = Timeline::start(&lab.control_plane.admin(), &["work"]).await;
        Ok(Self {
            lab,
            operator,
            timeline,
            ailments: BTreeMap::new(),
        })
    }

    /// What there is, and how to get at it.
    async fn introduce(&self) -> Result<()> {
        let plane = &self.lab.control_plane;
        let pod = format!("{WORKLOAD}-0");
        let pod = self.lab.workloads.wait_running(&pod, LIMIT).await?;
        let machines = self.lab.rigs.len();
        let kind = self.lab.rig(1).machine.kind();
        let times = plane.options().times;
        let plugins = plugins().await?;
        println!(
            "
Kubernetes {} with {machines} {kind} nodes, each a machine with a BMC and its FenceDevice. Times are {}: {}.
The operator runs with the rights of deploy/. Its policy `lab` is in ConfirmOnly: it acts on machines that are off.
{WORKLOAD}-0 runs on {} with a ReadWriteOnce volume. In another terminal, where `kubectl fence` is the operator's plugin:

export KUBECONFIG={}
export PATH={}:{}:$PATH
kubectl fence status
kubectl get nodefencingpolicies,fencedevices,nodefences
kubectl get pods -n work -o wide

Logs: {}
The operator's: {}

What happens is told here, in seconds since the last command:
{HELP}
",
            kubernetes_version(),
            times.name(),
            times.words(),
            node_of(&pod),
            plane.kubeconfig_for_admin().display(),
            plane.toolchain().directory().display(),
            plugins.display(),
            plane.files().directory().display(),
            self.operator.log().display(),
        );
        Ok(())
    }

    async fn serve(&mut self) -> Result<()> {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut told = self.timeline.subscribe();
        let (mut lines, mut is_open) = (read_lines(), true);
        let mut every_second = tokio::time::interval(std::time::Duration::from_secs(1));
        ask();
        loop {
            tokio::select! {
                line = lines.recv(), if is_open => match line {
                    Some(line) => match Command::parse(&line) {
                        Ok(Some(Command::Quit)) => return Ok(()),
                        Ok(Some(command)) => self.obey(command).await,
                        Ok(None) => {}
                        Err(words) => println!("{words}"),
                    },
                    None if std::io::stdin().is_terminal() => return Ok(()),
                    None => is_open = false,
                },
                Some(entry) = told.recv() => tell(&self.timeline.line(&entry)),
                _ = every_second.tick() => {
                    self.operator.check()?;
                    self.lab.control_plane.check()?;
                    continue;
                }
                _ = terminated.recv() => return Ok(()),
                _ = interrupted.recv() => return Ok(()),
            }
            ask();
        }
    }

    /// Does it; what fails is said, and the cluster stays.
    async fn obey(&mut self, command: Command) {
        let done = match command {
            Command::To(node, deed) => self.act(&node, deed),
            Command::Status => self.status().await,
            Command::Check => match self.lab.volumes_are_whole().await {
                Ok(()) => {
                    println!("no volume was written by two machines");
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Command::Help => {
                println!("{HELP}");
                Ok(())
            }
            Command::Quit => Ok(()),
        };
        if let Err(error) = done {
            println!("{error:#}");
        }
    }

    fn act(&mut self, node: &str, deed: Deed) -> Result<()> {
        let rig = self.lab.rig_of(node)?;
        let ailment = self.ailments.entry(node.to_owned()).or_default();
        let words = match deed {
            Deed::Cut => "POWER CUT",
            Deed::Dark => "POWER LOST",
            Deed::Restore => "POWER RESTORED",
            Deed::Partition => "PARTITIONED",
            Deed::Hang => "KUBELET HANGS",
            Deed::Heal => "HEALED",
            Deed::Bmc { lit: true } => "BMC ANSWERS",
            Deed::Bmc { lit: false } => "BMC DARK",
            Deed::Says(Some(Claim::Off)) => "BMC SAYS OFF",
            Deed::Says(Some(Claim::On)) => "BMC SAYS ON",
            Deed::Says(None) => "BMC IS HONEST",
        };
        self.timeline.note(node, words, true);
        match deed {
            Deed::Cut | Deed::Dark | Deed::Restore => {
                match deed {
                    Deed::Dark => rig.machine.go_dark(),
                    _ => rig.machine.set_power(deed == Deed::Restore),
                }
                // A power cycle cures the kubelet.
                ailment.kubelet_hung = false;
            }
            Deed::Partition => ailment.partitioned = true,
            Deed::Hang => ailment.kubelet_hung = true,
            Deed::Heal => *ailment = Ailment::default(),
            Deed::Bmc { lit: true } => rig.bmc.set_line(Line::Up)?,
            Deed::Bmc { lit: false } => rig.bmc.set_line(Line::Dark)?,
            Deed::Says(claim) => rig.bmc.faults(|faults| {
                let lie = |it: Claim| (Reading::Says(json!(it.power_state())), Effect::Ignored);
                (faults.power_state, faults.effect) = claim.map(lie).unwrap_or_default();
            }),
        }
        if matches!(deed, Deed::Partition | Deed::Hang | Deed::Heal) {
            rig.machine.ail(ailment.clone());
        }
        Ok(())
    }
}

/// Prints a line, at a terminal over the prompt, which is shorter.
fn tell(line: &str) {
    if std::io::stdin().is_terminal() {
        print!("\r");
    }
    println!("{line}");
}

/// Shows that a command is expected, where a person would see it.
fn ask() {
    if std::io::stdin().is_terminal() {
        print!("lab> ");
        let _ = std::io::stdout().flush();
    }
}

/// Lines of standard input. A thread of its own: a read of standard input cannot be given up, and the runtime would wait
/// for it at the end.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
