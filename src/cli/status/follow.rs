//! `--watch`: what goes on, by watches, so that a step is seen when it is written and nothing is listed again; the time that is left is drawn anew here,
//! each second.
//!
//! Who leads, and the labels of a Node, are asked for now and then: the role of those who read may get that one Lease, and a Lease changes all the
//! time. That question also tells a dead connection from a quiet cluster.

use super::sight::{Sight, leader, node};
use super::{Args, Incident, Operator, exit_code, incident, written};
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::cli::cluster::Cluster;
use crate::cli::output::{Form, complain, print, print_raw};
use crate::cli::table::wrapped;
use crate::cli::watched::{Watched, forget_fields, watch};
use crate::cli::{Done, Error, fences};
use crate::core::observed::NodeView;
use kube::ResourceExt;
use std::cell::RefCell;
use std::collections::BTreeSet;
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

/// Follows until no incident is open.
pub(super) async fn follow(cluster: &Cluster, args: &Args, sight: Sight) -> Done {
    let changed = Arc::new(Notify::new());
    // They end with it.
    let mut tasks = JoinSet::new();
    let client = &cluster.clients.writes;
    let watches = Watches {
        policies: watch(client, forget_fields, &changed, &mut tasks),
        fences: watch(client, forget_fields, &changed, &mut tasks),
    };
    let shown = RefCell::new(Shown {
        sight,
        unanswered: None,
    });
    let is_terminal = io::stdout().is_terminal();
    let is_screen = is_terminal && matches!(args.output, Form::Table | Form::Wide);
    let print = |text: &str| {
        if is_screen {
            // In the place of the last one.
            print_raw("\x1b[2J\x1b[H")?;
        }
        print(text)
    };
    let place = Place { is_terminal, print };
    tokio::select! {
        done = draw(place, args, &shown, &watches, &changed) => done,
        never = ask_again(cluster, args.name.as_deref(), &shown, &changed) => match never {},
    }
}

struct Watches {
    policies: Watched<NodeFencingPolicy>,
    fences: Watched<NodeFence>,
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
    }

    /// What is not up to date, and why.
    fn troubles(&self, watches: &Watches) -> Vec<String> {
        let watched = [watches.policies.trouble(), watches.fences.trouble()];
        let watched = watched.into_iter().flatten().map(|it| it.words);
        let all = watched.chain(self.unanswered.clone());
        all.map(|it| format!("error: {it}; it is tried again"))
            .collect()
    }
}

/// Where it is drawn.
struct Place<P: FnMut(&str) -> Result<(), Error>> {
    is_terminal: bool,
    print: P,
}

async fn draw<P: FnMut(&str) -> Result<(), Error>>(
    mut place: Place<P>,
    args: &Args,
    shown: &RefCell<Shown>,
    watches: &Watches,
    changed: &Notify,
) -> Done {
    let is_for_people = matches!(args.output, Form::Table | Form::Wide);
    let is_screen = place.is_terminal && is_for_people;
    let (mut printed, mut complained) = (String::new(), Vec::new());
    let mut followed = BTreeSet::new();
    loop {
        shown.borrow_mut().take(watches);
        let mut status = shown.borrow().sight.status(args.name.as_deref());
        // Who follows an outage is not left alone by a moment of it.
        let troubles = shown.borrow().troubles(watches);
        let is_open = !status.incidents.is_empty();
        let code = exit_code(&status);
        if is_open {
            followed.extend(status.incidents.iter().map(|it| it.fence.clone()));
        } else {
            // How each of them ended is the last that is shown.
            let sight = &shown.borrow().sight;
            let ended = sight.fences.iter();
            let ended = ended.filter(|it| followed.contains(&it.name_any()));
            status.incidents = ended.map(incident).collect();
        }
        let text = match is_for_people && !place.is_terminal {
            // In a file, or a pipe, a line for each step: ages change at every look.
            true => status.incidents.iter().map(step).collect(),
            false => written(&status, args)?,
        };
        let divider = match args.output {
            Form::Yaml if !printed.is_empty() => "---\n",
            _ => "",
        };
        if is_screen {
            let troubles: String = troubles.iter().map(|it| wrapped(it, 0)).collect();
            (place.print)(&format!("{text}{troubles}"))?;
        } else {
            for new in troubles.iter().filter(|it| !complained.contains(*it)) {
                complain(new);
            }
            if text != printed {
                (place.print)(&format!("{divider}{text}"))?;
            }
        }
        (printed, complained) = (text, troubles);
        if !is_open {
            return Ok(code);
        }
        if is_screen {
            // Whether something has changed or a second is over makes no difference.
            let _ = timeout(TICK, changed.notified()).await;
        } else {
            changed.notified().await;
        }
    }
}

fn step(incident: &Incident) -> String {
    format!(
        "{} {} {}: {}\n",
        incident.node, incident.fence, incident.stage, incident.message
    )
}

/// Asks who leads again and again.
async fn ask_again(
    cluster: &Cluster,
    name: Option<&str>,
    shown: &RefCell<Shown>,
    changed: &Notify,
) -> Infallible {
    loop {
        sleep(ASK_AGAIN).await;
        let asked = ask(cluster, name).await;
        let mut shown = shown.borrow_mut();
        match asked {
            Ok((operator, node)) => {
                shown.sight.operator = operator;
                shown.sight.node = node.or(shown.sight.node.take());
                shown.unanswered = None;
            }
            Err(error) => shown.unanswered = Some(error.to_string()),
        }
        changed.notify_one();
    }
}

async fn ask(cluster: &Cluster, name: Option<&str>) -> Result<(Operator, Option<NodeView>), Error> {
    let operator = leader(cluster).await?;
    let node = match name {
        Some(name) => node(cluster, name).await?,
        None => None,
    };
    Ok((operator, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{Fake, Seen, failure};
    use serde_json::{Value, json};
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn fence(succeeded: &str, reason: &str, deadline: jiff::Timestamp) -> Value {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence",
            "metadata": {"name": "worker-1-5c0ffee5", "resourceVersion": "7"},
            "spec": {
                "nodeName": "worker-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff"},
                "recovery": {}, "release": {}, "powerOn": {},
            },
            "status": {"stageDeadlineTime": deadline.to_string(), "conditions": [{
                "type": "Succeeded", "status": succeeded, "reason": reason, "message": "words",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        })
    }

    /// Its watches bring nothing for as long as they last, and then the end of the incident.
    async fn server(has_ended: Arc<AtomicBool>, deadline: jiff::Timestamp) -> Fake {
        Fake::start(move |request: &Seen| {
            let is_watch = request.line.contains("watch=true");
            let is_fences = request.line.contains("/nodefences?");
            if is_watch {
                std::thread::sleep(Duration::from_millis(300));
            }
            match (is_watch, is_fences) {
                (true, true) if has_ended.load(Ordering::Relaxed) => {
                    let fence = fence("True", "Recovered", deadline);
                    (200, json!({"type": "MODIFIED", "object": fence}))
                }
                (true, _) => {
                    let metadata = json!({"resourceVersion": "7"});
                    let object = json!({"apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": metadata});
                    (200, json!({"type": "BOOKMARK", "object": object}))
                }
                (false, true) => {
                    let items = [fence("Unknown", "Fencing", deadline)];
                    (200, json!({"metadata": {"resourceVersion": "7"}, "items": items}))
                }
                (false, false) if request.line.contains("/nodefencingpolicies?") => {
                    (200, json!({"metadata": {"resourceVersion": "7"}, "items": []}))
                }
                _ => failure(404, "not found"),
            }
        })
        .await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_time_that_is_left_is_drawn_each_second_and_nothing_is_listed_again() {
        let deadline = crate::clock::wall() + jiff::SignedDuration::from_secs(90);
        let has_ended = Arc::new(AtomicBool::new(false));
        let server = server(Arc::clone(&has_ended), deadline).await;
        let (changed, mut tasks) = (Arc::new(Notify::new()), JoinSet::new());
        let client = &server.clients.writes;
        let watches = Watches {
            policies: watch(client, forget_fields, &changed, &mut tasks),
            fences: watch(client, forget_fields, &changed, &mut tasks),
        };
        let open = serde_json::from_value(fence("Unknown", "Fencing", deadline));
        let shown = RefCell::new(Shown {
            sight: Sight {
                policies: Vec::new(),
                fences: vec![open.expect("a NodeFence")],
                operator: Operator {
                    leader: Some("operator-1".to_owned()),
                    renew_time: None,
                    unknown: None,
                },
                node: None,
            },
            unanswered: None,
        });
        let args = Args {
            name: None,
            watch: true,
            output: Form::Table,
        };
        let mut screens = Vec::new();
        let place = Place {
            is_terminal: true,
            print: |text: &str| {
                screens.push(text.to_owned());
                // It ends once enough was seen.
                let left = |it: &String| it.split("escalates in ").nth(1).map(str::to_owned);
                let distinct: std::collections::BTreeSet<_> =
                    screens.iter().filter_map(left).collect();
                has_ended.store(distinct.len() >= 3, Ordering::Relaxed);
                Ok(())
            },
        };
        let drawn = draw(place, &args, &shown, &watches, &changed);
        let done = timeout(Duration::from_secs(30), drawn).await;
        let done = done.expect("it ends").expect("an exit code");
        assert_eq!(format!("{done:?}"), format!("{:?}", ExitCode::SUCCESS));
        let last = screens.last().expect("a screen");
        let ended = "Node worker-1 (nodefence/worker-1-5c0ffee5): Recovered\n";
        assert!(last.contains(ended), "{last}");
        let seen = server.seen();
        let lists = seen
            .iter()
            .filter(|it| it.line.contains("/nodefences?") && !it.line.contains("watch=true"));
        assert_eq!(lists.count(), 1, "{seen:#?}");
        let fences = &shown.borrow().sight.fences;
        assert_eq!(
            fences.first().map(|it| it.name_any()).as_deref(),
            Some("worker-1-5c0ffee5")
        );
    }
}
