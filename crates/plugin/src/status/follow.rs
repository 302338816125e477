//! `--watch`: what goes on, by watches, so that a step is seen when it is written and nothing is listed again; the time that is left is drawn anew here,
//! each second.
//!
//! Who leads is asked for now and then, and a Node where they may not be watched: the role of those who read may get that one Lease, and a Lease changes all the
//! time. That question also tells a dead connection from a quiet cluster.

use super::sight::{Sight, leader, node};
use super::{Args, Incident, Operator, Status, exit_code, is_going_on, written};
use crate::cluster::Cluster;
use crate::name::Name;
use crate::output::{Form, complain, print, print_raw};
use crate::table::wrapped;
use crate::unfenced::Unfenced;
use crate::watched::{Watched, forget_fields, watch};
use crate::{Done, Error, fences};
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::slim::SlimNode;
use jiff::Timestamp;
use kube::ResourceExt;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Between two questions for who leads.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Between two screens in which nothing but the time has changed.
const TICK: Duration = Duration::from_secs(1);

/// Follows until no incident is open, and none is to come.
pub(super) async fn follow(cluster: &Cluster, args: &Args, sight: Sight) -> Done {
    let changed = Arc::new(Notify::new());
    // They end with it.
    let mut tasks = JoinSet::new();
    let client = &cluster.clients.writes;
    let watches = Watches {
        policies: watch(client, forget_fields, &changed, &mut tasks),
        fences: watch(client, forget_fields, &changed, &mut tasks),
        // Who may not list them may not watch them.
        nodes: (sight.nodes_unknown.is_none())
            .then(|| watch(client, SlimNode::trim, &changed, &mut tasks)),
    };
    let shown = RefCell::new(Shown {
        // What devices read changes with each probe, and is not followed.
        sight: Sight {
            devices: None,
            ..sight
        },
        unanswered: None,
    });
    let shape = Shape::of(args.output, io::stdout().is_terminal());
    let print = |text: &str| {
        if shape == Shape::Screen {
            // In the place of the last one.
            print_raw("\x1b[2J\x1b[H")?;
        }
        print(text)
    };
    let place = Place { shape, print };
    tokio::select! {
        done = draw(place, args, &shown, &watches, &changed) => done,
        never = ask_again(cluster, args.name.as_ref(), &shown, &changed) => match never {},
    }
}

struct Watches {
    policies: Watched<NodeFencingPolicy>,
    fences: Watched<NodeFence>,
    nodes: Option<Watched<SlimNode>>,
}

struct Shown {
    sight: Sight,
    /// Why the last question has no answer.
    unanswered: Option<String>,
}

impl Shown {
    /// Takes in what the watches have seen. What they have not seen yet stays as it was listed.
    fn take(&mut self, watches: &Watches) {
        if let Ok(policies) = watches.policies.seen(Clone::clone) {
            self.sight.policies = policies;
        }
        if let Ok(fences) = watches.fences.seen(Clone::clone) {
            self.sight.fences = fences::newest_first(fences);
        }
        let nodes = watches.nodes.as_ref();
        if let Some(Ok(nodes)) = nodes.map(|it| it.seen(Clone::clone)) {
            self.sight.nodes = nodes;
        }
    }

    /// How it stands, at this moment.
    fn status(&self, name: Option<&Name>, now: Timestamp) -> Status {
        let status = self.sight.status(name, now);
        let Some(leader) = status
            .operator
            .leader
            .as_ref()
            .filter(|_| self.unanswered.is_some())
        else {
            return status;
        };
        // How it is with the Lease is not known since.
        let words = format!("the leader is not known, it was {leader}");
        Status {
            operator: Operator::unknown(words),
            ..status
        }
    }

    /// What is not up to date, and why.
    fn troubles(&self, watches: &Watches) -> Vec<String> {
        let nodes = watches.nodes.as_ref().and_then(Watched::trouble);
        let watched = [watches.policies.trouble(), watches.fences.trouble(), nodes];
        let watched = watched.into_iter().flatten().map(|it| it.words);
        let all = watched.chain(self.unanswered.clone());
        all.map(|it| format!("error: {it}; retrying")).collect()
    }
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// All of it, each second anew: for a terminal.
    Screen,
    /// What has changed of an incident, or of a node of which one is to come, with the time and what may be typed about it: for people who read a file, or a
    /// pipe. Ages, which change at every look, are not in it.
    Steps,
    /// Each state, for a program.
    Values,
}

impl Shape {
    fn of(form: Form, is_terminal: bool) -> Self {
        match (form, is_terminal) {
            (Form::Table | Form::Wide, true) => Self::Screen,
            (Form::Table | Form::Wide, false) => Self::Steps,
            _ => Self::Values,
        }
    }
}

/// Where it is drawn.
struct Place<P: FnMut(&str) -> Result<(), Error>> {
    shape: Shape,
    print: P,
}

async fn draw<P: FnMut(&str) -> Result<(), Error>>(
    mut place: Place<P>,
    args: &Args,
    shown: &RefCell<Shown>,
    watches: &Watches,
    changed: &Notify,
) -> Done {
    let (mut printed, mut complained) = (String::new(), Vec::new());
    let (mut followed, mut told) = (BTreeSet::new(), Steps::new());
    loop {
        shown.borrow_mut().take(watches);
        let now = shown.borrow().sight.now();
        let mut status = shown.borrow().status(args.name.as_ref(), now);
        // Who follows an outage is not left alone by a moment of it.
        let troubles = shown.borrow().troubles(watches);
        let (is_open, goes_on) = (!status.incidents.is_empty(), is_going_on(&status));
        let code = exit_code(&status);
        if is_open {
            followed.extend(status.incidents.iter().map(|it| it.fence.clone()));
        }
        // How each of them ended is the last that is shown, and among steps it has its time.
        if !is_open || place.shape == Shape::Steps {
            let sight = &shown.borrow().sight;
            let ended = sight.fences.iter().filter(|it| it.is_ended());
            let ended = ended.filter(|it| followed.contains(&it.name_any()));
            status.incidents.extend(ended.map(|it| sight.incident(it)));
        }
        let text = match place.shape {
            Shape::Steps => news(&mut told, &status, now),
            Shape::Screen | Shape::Values => written(&status, args, now)?,
        };
        let divider = match args.output {
            Form::Yaml if !printed.is_empty() => "---\n",
            _ => "",
        };
        if place.shape == Shape::Screen {
            let troubles: String = troubles.iter().map(|it| wrapped(it, 0)).collect();
            (place.print)(&format!("{text}{troubles}"))?;
        } else {
            for new in troubles.iter().filter(|it| !complained.contains(*it)) {
                complain(new);
            }
            if text != printed && !text.is_empty() {
                (place.print)(&format!("{divider}{text}"))?;
            }
        }
        (printed, complained) = (text, troubles);
        if !goes_on {
            return Ok(code);
        }
        // Whether something has changed or a second is over makes no difference.
        let _ = timeout(TICK, changed.notified()).await;
    }
}

/// The last that was told of each incident, and of each node of which one is to come.
type Steps = BTreeMap<(&'static str, String), String>;

/// What has changed since, each with the time.
fn news(told: &mut Steps, status: &Status, now: Timestamp) -> String {
    let of_incident = |it: &Incident| (("nodefence", it.fence.clone()), step(it));
    // One that waited is told to its end: why none is to come of it any more.
    let was_told = |node: &str| told.contains_key(&("node", node.to_owned()));
    let waiting = status.unfenced.iter();
    let waiting = waiting.filter(|it| it.waits() || was_told(&it.node));
    let has_more = |node: &str| {
        let mut down = status.unfenced.iter();
        let mut incidents = status.incidents.iter();
        down.any(|it| it.node == node) || incidents.any(|it| it.node == node)
    };
    let nodes = told.keys().filter(|(kind, _)| *kind == "node");
    let over = nodes.filter(|(_, node)| !has_more(node)).map(|of| {
        let step = format!(
            "{0} <none> Over: no incident is due; see kubectl fence status {0}\n",
            of.1
        );
        (of.clone(), step)
    });
    let of_node = |it: &Unfenced| {
        let step = format!("{} <none> {}: {}\n", it.node, it.reason, it.message);
        (("node", it.node.clone()), step)
    };
    let steps = status.incidents.iter().map(of_incident);
    let steps: Vec<_> = steps.chain(waiting.map(of_node)).chain(over).collect();
    let is_new = |(of, step): &&(_, String)| told.get(of) != Some(step);
    let at = now.strftime("%FT%TZ");
    let new = steps.iter().filter(is_new);
    let text = new.map(|(_, step)| format!("{at} {step}")).collect();
    *told = steps.into_iter().collect();
    text
}

/// With what a person has to know, and may type about it.
fn step(incident: &Incident) -> String {
    let message = fences::beside(&incident.message, &incident.warnings);
    let message = message.map_or_else(String::new, |it| format!(": {it}"));
    let warnings = fences::told(&incident.warnings);
    let warnings = warnings.map(|it| format!("{} {}", it.kind.title().to_uppercase(), it.words));
    let lines = warnings.chain(incident.before_commands());
    let lines = lines.chain(incident.commands.iter().cloned());
    let lines = lines.map(|it| format!("    {it}\n"));
    let step = format!(
        "{} {} {}{message}\n",
        incident.node, incident.fence, incident.stage
    );
    [step].into_iter().chain(lines).collect()
}

/// Asks who leads again and again.
async fn ask_again(
    cluster: &Cluster,
    name: Option<&Name>,
    shown: &RefCell<Shown>,
    changed: &Notify,
) -> Infallible {
    loop {
        sleep(ASK_AGAIN).await;
        let unlisted = name.filter(|_| shown.borrow().sight.nodes_unknown.is_some());
        let asked = ask(cluster, unlisted).await;
        let mut shown = shown.borrow_mut();
        match asked {
            Ok((operator, node)) => {
                shown.sight.operator = operator;
                if let Some(node) = node {
                    shown.sight.nodes = node;
                }
                shown.unanswered = None;
            }
            Err(error) => shown.unanswered = Some(error.to_string()),
        }
        changed.notify_one();
    }
}

async fn ask(
    cluster: &Cluster,
    name: Option<&Name>,
) -> Result<(Operator, Option<Vec<SlimNode>>), Error> {
    let operator = leader(cluster).await?;
    let node = match name {
        Some(name) => Some(node(cluster, &name.name).await?),
        None => None,
    };
    Ok((operator, node))
}

#[cfg(test)]
mod tests;
