//! `kubectl fence diagnose`: why does this pod not get its volume?
//!
//! "Multi-Attach error" has many causes, of which a dead node is one. The command reads what volumes hang on, once ([`facts`]), tells the causes
//! apart ([`signatures`]), and ends with the way out as commands to copy. Of one object it prints first all that a guide would have a reader look
//! up ([`checklist`]).

pub mod attachers;
pub mod backends;
pub mod checklist;
pub mod facts;
pub mod finding;
pub mod index;
pub mod scope;
pub mod signatures;
pub mod stuck;
pub mod waiting;
#[cfg(test)]
mod world;

use super::cluster::{Cluster, Error as ClusterError, VIEWER, seen};
use super::output::{Content, Form, forms, print, written};
use super::table::wrapped;
use super::{Done, Error, fences};
use checklist::{Checklist, checklist};
use clap::ArgAction;
use facts::Facts;
use finding::{Finding, Id, Object};
use index::Index;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use schemars::JsonSchema;
use scope::{Kind, Scope, subject};
use serde::Serialize;
use signatures::findings;
use std::collections::BTreeSet;
use std::process::ExitCode;
use waiting::{Wait, waits};

/// Exit code where something was found.
const FOUND: u8 = 2;
/// Exit code where nothing was found, and a pod waits for what may yet be in order.
const WAITS: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  Why does this pod not start?
      kubectl fence diagnose pod/db-0 -n shop

  Which node has this volume, and what would detach it?
      kubectl fence diagnose pvc/data-db-0 -n shop

  What waits for this node?
      kubectl fence diagnose node/worker-3

  Everything that is stuck on a volume, for a script:
      kubectl fence diagnose -A -o json

What is found:
  D1   a node with volumes is silent, and is not fenced
  D2   a node with volumes is silent, and is being fenced
  D3   volumes do not detach: the storage refuses, or nothing answers
  D4   a rollout starts the new pod before the old one stops
  D5   two workloads share a volume that goes to one node
  D6   a kubelet does not release a volume that no pod uses
  D7   a VolumeAttachment of a node that is no more
  D8   pods that tolerate out-of-service, which no fence evicts
  D9   the storage says attached, the cluster knows nothing of it
  D10  the scheduler's own limits: no fence lifts them
  D11  a pod is Terminating for minutes and keeps its volume
  D12  a node is out of service, and no NodeFence is open for it
  D13  a VolumeAttachment of a driver that attaches nothing
  D14  the pods that detach for a driver are on nodes that are down
  D15  a volume that can be reached from lost nodes only
  D16  a volume is attached where no pod uses it
  D17  an error or a wait that none of the others explains

It reads only, with your own rights; what you may not read is shown as unknown. -o name prints the objects of what was found.

Exit codes: 0 nothing was found, 2 something was, or an incident requires
action, 3 nothing was found and a pod waits, as it does for some seconds while
a volume detaches: ask again (after 6 minutes, or 1 of an error, that is D17),
1 failed, or nothing was found and not all could be read, or the command line
cannot be used.";

/// Explain why a pod cannot attach its volume
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// One object: pod/NAME, pvc/NAME or node/NAME, or `pod NAME`
    /// [default: all of the namespace]
    #[arg(value_names = ["TYPE[/NAME]", "NAME"], num_args = 0..=2, action = ArgAction::Set)]
    subject: Vec<String>,

    /// Namespace of the pod or claim [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// The whole cluster
    #[arg(short = 'A', long, conflicts_with_all = ["subject", "namespace"])]
    all_namespaces: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Json, Form::Yaml, Form::Name]))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// Of one object: all that hangs on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checklist: Option<Checklist>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
    /// A ClusterRole of the operator's that has the rights which are missing for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Pods that wait for a volume for a reason that none of the findings tells.
    pub waiting: Vec<String>,
    /// The same in fields, with their age.
    pub waits: Vec<Wait>,
    /// Open incidents that call for people, which none of the findings tells of.
    pub calls: Vec<Call>,
}

/// An open incident that calls for people.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Its NodeFence.
    pub fence: String,
    /// Why, and where to look.
    pub words: String,
}

impl Diagnosis {
    fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.calls.is_empty()
    }

    /// Exit code.
    fn code(&self) -> u8 {
        match (self.is_empty(), self.unknown.is_empty()) {
            (false, _) => FOUND,
            // Whether there is something is not known.
            (true, false) => 1,
            (true, true) if !self.waits.is_empty() => WAITS,
            (true, true) => 0,
        }
    }
}

impl Content for Diagnosis {
    const KIND: &'static str = "Diagnosis";

    /// The objects of all findings, each once. As kubectl has it, the namespace is not in a name.
    fn names(&self) -> Vec<String> {
        let objects: BTreeSet<&Object> = self.findings.iter().flat_map(|it| &it.objects).collect();
        let found = objects.into_iter();
        let found = found.map(|it| format!("{}/{}", it.kind, it.name));
        let calls = self.calls.iter().map(|it| fences::full_name(&it.fence));
        found.chain(calls).collect()
    }
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let scope = meant(cluster, &args)?;
    let facts = facts::read(cluster, scope.namespace()).await?;
    let diagnosis = diagnose(&facts, &scope)?;
    if let Scope::Namespace(namespace) = &scope
        && facts.is_empty_of(namespace)
    {
        refuse_absent(cluster, namespace).await?;
    }
    print(&written(args.output, &diagnosis, |_| {
        told(&diagnosis, &scope, facts.now)
    })?)?;
    Ok(ExitCode::from(diagnosis.code()))
}

/// In a namespace that is not there nothing is found, and somebody may have mistyped it. Who may not read namespaces is not told.
async fn refuse_absent(cluster: &Cluster, namespace: &str) -> Result<(), Error> {
    let found = cluster.find(&cluster.api::<Namespace>(), namespace).await;
    match seen(found)? {
        Ok(Some(_)) | Err(_) => Ok(()),
        Ok(None) => Err(Error::Cluster(ClusterError::Absent {
            kind: "Namespace".to_owned(),
            name: namespace.to_owned(),
            way_out: "`kubectl get namespaces` lists those that there are".to_owned(),
        })),
    }
}

fn meant(cluster: &Cluster, args: &Args) -> Result<Scope, Error> {
    let namespace = || {
        let own = cluster.clients.reads.default_namespace();
        args.namespace.clone().unwrap_or_else(|| own.to_owned())
    };
    let subject = subject(&args.subject).map_err(Error::No)?;
    Ok(match (args.all_namespaces, subject) {
        (true, _) => Scope::All,
        (false, Some((kind, name))) => Scope::One(kind, namespace(), name),
        (false, None) => Scope::Namespace(namespace()),
    })
}

/// The diagnosis of these facts.
///
/// # Errors
/// The object is not there, or whether it is cannot be known.
pub fn diagnose(facts: &Facts, scope: &Scope) -> Result<Diagnosis, Error> {
    let index = Index::of(facts);
    if !scope.is_there(&index) {
        return Err(absent(facts, scope));
    }
    let findings = findings(facts);
    let waits = waits(&index, scope, &findings);
    Ok(Diagnosis {
        checklist: checklist(&index, scope),
        unknown: facts.unknown(),
        role: facts.is_forbidden().then_some(VIEWER),
        calls: calls(facts, scope, &findings),
        findings: scope.of_it(&index, findings),
        waiting: waits.iter().map(Wait::told).collect(),
        waits,
    })
}

/// Of the incident of a node that is Ready none of the signatures tells, and it may call for people all the same.
fn calls(facts: &Facts, scope: &Scope, findings: &[Finding]) -> Vec<Call> {
    // Those tell of the NodeFence, not of the node alone.
    let telling = findings.iter().filter(|it| it.id == Id::D2);
    let told: BTreeSet<&Object> = telling.flat_map(|it| &it.objects).collect();
    let is_of_it = |node: &str| match scope {
        Scope::All => true,
        Scope::One(Kind::Node, _, name) => name == node,
        Scope::One(..) | Scope::Namespace(_) => false,
    };
    let open = facts.fences.items.iter().filter(|it| !it.is_ended());
    let calls = open.filter_map(|fence| {
        let node = &fence.spec.node_name;
        let (reason, words) = fences::escalated(fence)?;
        let is_untold = !told.contains(&Object::node(node));
        let name = fence.name_any();
        (is_of_it(node) && is_untold).then(|| Call {
            words: format!(
                "NodeFence {name} of node {node} requires action: {reason}: {words}: see kubectl fence status {node}"
            ),
            fence: name,
        })
    });
    calls.collect()
}

fn absent(facts: &Facts, scope: &Scope) -> Error {
    let Scope::One(kind, namespace, name) = scope else {
        return Error::No("nothing was selected".to_owned());
    };
    let (nodes, pods, claims) = (&facts.nodes, &facts.pods, &facts.claims);
    let named = kind.name();
    let ((named, unknown, is_forbidden), way_out) = match kind {
        Kind::Node => (nodes.gap(named), "kubectl get nodes".to_owned()),
        Kind::Pod => (pods.gap(named), format!("kubectl -n {namespace} get pods")),
        Kind::Claim => (claims.gap(named), format!("kubectl -n {namespace} get pvc")),
    };
    // A Node has none.
    let elsewhere = match kind {
        Kind::Node => "",
        Kind::Pod | Kind::Claim => ", and -n names another namespace",
    };
    match unknown {
        Some(why) if is_forbidden => Error::Cluster(ClusterError::Forbidden {
            message: format!("{named} `{name}` could not be read: {why}"),
            role: VIEWER,
        }),
        Some(why) => Error::No(format!("{named} `{name}` could not be read: {why}")),
        None => Error::Cluster(ClusterError::Absent {
            kind: named.to_owned(),
            name: name.clone(),
            way_out: format!("`{way_out}` lists the existing ones{elsewhere}"),
        }),
    }
}

/// The way out of a missing right, as all commands have it.
fn granted(role: &str) -> String {
    format!(
        "An administrator can grant you the right: kubectl create clusterrolebinding NAME --clusterrole={role} --user=YOU"
    )
}

/// First what was looked at, then what was found, which ends with the way out.
fn told(diagnosis: &Diagnosis, scope: &Scope, now: Timestamp) -> String {
    let mut text = String::new();
    if let Some(checklist) = &diagnosis.checklist {
        text += &checklist.told(now);
        text.push('\n');
    }
    for unknown in &diagnosis.unknown {
        text += &wrapped(&format!("Not known: {unknown}"), 0);
    }
    if let Some(role) = diagnosis.role {
        text += &wrapped(&granted(role), 0);
    }
    if !diagnosis.unknown.is_empty() {
        text.push('\n');
    }
    for waiting in &diagnosis.waiting {
        let words =
            "none of D1 to D17 explains it; try again, since a regular detach takes some seconds";
        text += &wrapped(&format!("{waiting}: {words}"), 0);
    }
    for calls in &diagnosis.calls {
        text += &wrapped(&calls.words, 0);
    }
    if diagnosis.findings.is_empty() && !diagnosis.unknown.is_empty() {
        return text
            + &wrapped(
                &format!(
                    "In what could be read nothing of D1 to D17 was found {}; the rest is unknown",
                    scope.told()
                ),
                0,
            );
    }
    if diagnosis.findings.is_empty() {
        // Of a node that is down without volumes, too, somebody wants to know that.
        let sheet = diagnosis.checklist.as_ref().and_then(|it| it.node.as_ref());
        let is_down = sheet.is_some_and(|it| it.is_down);
        let more = match scope {
            Scope::One(Kind::Node, _, node) if is_down => {
                format!("; whether it is fenced, and why not: kubectl fence status {node}")
            }
            _ => String::new(),
        };
        let words = format!("Nothing of D1 to D17 was found {}{more}", scope.told());
        return text + &wrapped(&words, 0);
    }
    let findings: Vec<String> = diagnosis.findings.iter().map(Finding::told).collect();
    text + &findings.join("\n")
}

#[cfg(test)]
mod tests;
