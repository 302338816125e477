//! What may follow on a command line that is not finished: `kubectl fence <TAB>`.
//!
//! kubectl asks the executable `kubectl_complete-fence`, with the words so far and the one that is begun (possibly empty) as the last, and takes a
//! completion a line, with a tab before what it means, and the directive of cobra after a colon (pkg/cmd/plugin_completion.go of kubectl, and
//! cobra's `ShellCompDirective`). Names are asked of the cluster; one that does not answer at once has none.

use super::cluster::Cluster;
use super::diagnose::scope::Kind as Subject;
use super::reach::Reach;
use clap::{Arg, Command};
use fencing_api::device::FenceDevice;
use fencing_api::fence::NodeFence;
use fencing_api::policy::NodeFencingPolicy;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::timeout;

/// Nobody waits longer for a list of names.
const PATIENCE: Duration = Duration::from_secs(3);
/// Cobra's ShellCompDirectiveNoSpace: what follows belongs to the same word.
const NO_SPACE: u8 = 2;
/// Cobra's ShellCompDirectiveNoFileComp.
const NO_FILES: u8 = 4;
/// What `diagnose` takes before the slash.
const SUBJECTS: [&str; 3] = ["pod/", "pvc/", "node/"];

/// What may stand where the last word is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// One of these, with their meaning.
    Words(Vec<(String, String)>),
    /// The name of an object, behind what stands before each.
    Names(Kind, String),
    /// One of [`SUBJECTS`], and a name behind it.
    Subject,
    /// The name of a file.
    File,
    /// Anything.
    Free,
}

/// Of what kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Context,
    Cluster,
    User,
    Namespace,
    Node,
    Policy,
    Device,
    /// A NodeFence or a node.
    Incident,
    /// The same of those that are open.
    Open,
    /// A policy, a node or a NodeFence.
    Any,
    Pod,
    Claim,
}

/// The words before the one that is begun.
struct Line<'a> {
    root: &'a Command,
    /// The innermost one.
    command: &'a Command,
    positionals: Vec<&'a str>,
    /// Flags with their values.
    given: Vec<(&'a Arg, &'a str)>,
    /// The flag whose value comes next.
    waiting: Option<&'a Arg>,
}

/// The lines for kubectl.
pub async fn complete(command: &Command, words: &[String]) -> String {
    let (begun, before) = match words.split_last() {
        Some((begun, before)) => (begun.as_str(), before),
        None => ("", [].as_slice()),
    };
    let line = Line::of(command, before);
    let (place, begun) = line.place(begun);
    let directive = match place {
        Place::File => 0,
        Place::Subject => NO_FILES | NO_SPACE,
        _ => NO_FILES,
    };
    let plain = |words: Vec<String>| words.into_iter().map(|it| (it, String::new())).collect();
    let found = match place {
        Place::Words(words) => words,
        Place::Names(kind, before) => {
            let names = timeout(PATIENCE, line.names(kind)).await;
            let names = names.ok().flatten().unwrap_or_default();
            plain(names.iter().map(|it| format!("{before}{it}")).collect())
        }
        Place::Subject => plain(SUBJECTS.map(str::to_owned).into()),
        Place::File | Place::Free => Vec::new(),
    };
    let fitting = found.iter().filter(|(word, _)| word.starts_with(begun));
    let lines = fitting.map(|(word, meaning)| match meaning.is_empty() {
        true => format!("{word}\n"),
        false => format!("{word}\t{meaning}\n"),
    });
    lines.chain([format!(":{directive}\n")]).collect()
}

impl<'a> Line<'a> {
    fn of(root: &'a Command, before: &'a [String]) -> Self {
        let mut line = Self {
            root,
            command: root,
            positionals: Vec::new(),
            given: Vec::new(),
            waiting: None,
        };
        for word in before {
            line.take(word);
        }
        line
    }

    fn take(&mut self, word: &'a str) {
        if let Some(arg) = self.waiting.take() {
            self.given.push((arg, word));
            return;
        }
        if word.starts_with('-') {
            let (name, value) = parts(word);
            let arg = self.flag(name);
            match value {
                Some(value) => self.given.extend(arg.map(|it| (it, value))),
                None => self.waiting = arg.filter(|it| it.get_action().takes_values()),
            }
            return;
        }
        match self.command.find_subcommand(word) {
            Some(inner) => (self.command, self.positionals) = (inner, Vec::new()),
            None => self.positionals.push(word),
        }
    }

    /// What may stand there, and what of it is begun: of `--output=js` what follows the sign, as cobra has it.
    fn place<'b>(&self, begun: &'b str) -> (Place, &'b str) {
        if let Some(arg) = self.waiting {
            return (self.of_arg(arg, begun), begun);
        }
        if begun.starts_with("--")
            && let (name, Some(value)) = parts(begun)
        {
            let arg = self.flag(name);
            return (arg.map_or(Place::Free, |it| self.of_arg(it, value)), value);
        }
        if begun.starts_with('-') {
            return (Place::Words(self.flags()), begun);
        }
        if self.command.has_subcommands() {
            let inner = self.command.get_subcommands();
            let shown = inner.filter(|it| !it.is_hide_set());
            let words = shown.map(|it| (it.get_name().to_owned(), text(it.get_about())));
            return (Place::Words(words.collect()), begun);
        }
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let next = all.get(self.positionals.len()).or(all.last());
        (next.map_or(Place::Free, |it| self.of_arg(it, begun)), begun)
    }

    /// The flag of this name, the command's own or one of all.
    fn flag(&self, name: &str) -> Option<&'a Arg> {
        let own = self.command.get_arguments();
        let mut args = own.chain(self.root.get_arguments());
        args.find(|arg| {
            let long = arg.get_long().map(|it| format!("--{it}"));
            let short = arg.get_short().map(|it| format!("-{it}"));
            long.as_deref() == Some(name) || short.as_deref() == Some(name)
        })
    }

    fn flags(&self) -> Vec<(String, String)> {
        let mut args: Vec<&Arg> = self.command.get_arguments().collect();
        args.extend(self.root.get_arguments().filter(|it| it.is_global_set()));
        let long = |arg: &&Arg| Some((format!("--{}", arg.get_long()?), text(arg.get_help())));
        args.retain(|it| !it.is_hide_set());
        let mut flags: Vec<_> = args.iter().filter_map(long).collect();
        flags.sort();
        flags.dedup();
        flags
    }

    /// What this argument takes.
    fn of_arg(&self, arg: &Arg, begun: &str) -> Place {
        let values = arg.get_possible_values();
        if !values.is_empty() {
            let shown = values.iter().filter(|it| !it.is_hide_set());
            let meant = shown.map(|it| (it.get_name().to_owned(), text(it.get_help())));
            return Place::Words(meant.collect());
        }
        let names = arg.get_value_names().unwrap_or_default();
        let kind = match (arg.get_id().as_str(), names.first().map(|it| it.as_str())) {
            ("node" | "confirm_node", _) => Kind::Node,
            ("policy", _) => Kind::Policy,
            ("device", _) => Kind::Device,
            ("context", _) => Kind::Context,
            ("cluster", _) => Kind::Cluster,
            ("user", _) => Kind::User,
            ("namespace" | "operator_namespace", _) => Kind::Namespace,
            ("name", _) if !arg.is_positional() => return Place::Free,
            ("name", _) if self.command.get_name() == "status" => Kind::Any,
            ("name", _) if self.command.get_name() == "explain" => Kind::Incident,
            ("name", _) => Kind::Open,
            ("subject", _) => return self.subject(begun),
            (_, Some("FILE" | "DIR")) => return Place::File,
            _ => return Place::Free,
        };
        Place::Names(kind, String::new())
    }

    /// `TYPE/NAME`, or `TYPE NAME`.
    fn subject(&self, begun: &str) -> Place {
        let named = |kind: &str, before: String| match Subject::of(kind) {
            Some(Subject::Pod) => Place::Names(Kind::Pod, before),
            Some(Subject::Claim) => Place::Names(Kind::Claim, before),
            Some(Subject::Node) => Place::Names(Kind::Node, before),
            None => Place::Free,
        };
        match (self.positionals.as_slice(), begun.split_once('/')) {
            ([], Some((kind, _))) => named(kind, format!("{kind}/")),
            ([], None) => Place::Subject,
            ([kind], _) => named(kind, String::new()),
            _ => Place::Free,
        }
    }

    /// The values of a flag.
    fn values(&self, id: &str) -> impl Iterator<Item = String> {
        let given = self.given.iter().filter(move |(arg, _)| arg.get_id() == id);
        given.map(|(_, value)| (*value).to_owned())
    }

    /// The names of a kind where the words are about.
    async fn names(&self, kind: Kind) -> Option<Vec<String>> {
        let reach = Reach {
            kubeconfig: self.values("kubeconfig").last().map(Into::into),
            context: self.values("context").last(),
            cluster: self.values("cluster").last(),
            user: self.values("user").last(),
            server: self.values("server").last().and_then(|it| it.parse().ok()),
            token: self.values("token").last(),
            as_user: self.values("as_user").last(),
            as_uid: self.values("as_uid").last(),
            groups: self.values("groups").collect(),
            request_timeout: None,
            verbosity: 0,
            namespace: None,
            operator_namespace: fencing_api::names::NAMESPACE.to_owned(),
        };
        if let Kind::Context | Kind::Cluster | Kind::User = kind {
            let own = reach.kubeconfig().ok()?;
            return Some(match kind {
                Kind::Context => own.contexts.into_iter().map(|it| it.name).collect(),
                Kind::Cluster => own.clusters.into_iter().map(|it| it.name).collect(),
                _ => own.auth_infos.into_iter().map(|it| it.name).collect(),
            });
        }
        let cluster = Cluster::of(&reach).await.ok()?;
        let namespace = self.values("namespace").last();
        match kind {
            Kind::Context | Kind::Cluster | Kind::User => None,
            Kind::Namespace => listed(&cluster.api::<Namespace>()).await,
            Kind::Node => listed(&cluster.api::<Node>()).await,
            Kind::Policy => listed(&cluster.api::<NodeFencingPolicy>()).await,
            Kind::Device => listed(&cluster.api::<FenceDevice>()).await,
            Kind::Pod => listed(&within::<Pod>(&cluster, namespace)).await,
            Kind::Claim => listed(&within::<PersistentVolumeClaim>(&cluster, namespace)).await,
            Kind::Any => {
                // What they may not list is no reason to keep quiet about the rest.
                let policies = listed(&cluster.api::<NodeFencingPolicy>()).await;
                let nodes = listed(&cluster.api::<Node>()).await;
                let fences = listed(&cluster.api::<NodeFence>()).await;
                let all = [policies, nodes, fences].into_iter().flatten();
                Some(all.flatten().collect())
            }
            Kind::Incident | Kind::Open => {
                let (mut fences, _) = cluster.readable::<NodeFence>().await.ok()?;
                fences.retain(|it| kind == Kind::Incident || !it.is_ended());
                let open = fences.iter().filter(|it| !it.is_ended());
                let nodes = open.map(|it| it.spec.node_name.clone());
                let own = fences.iter().map(ResourceExt::name_any);
                Some(nodes.chain(own).collect())
            }
        }
    }
}

/// A flag's name, and the value in the same word, if it is there: `--output=json`, `-ojson`.
fn parts(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        let pair = word.split_once('=');
        return pair.map_or((word, None), |(name, value)| (name, Some(value)));
    }
    match word.split_at_checked(2) {
        Some((name, value)) if !value.is_empty() => {
            (name, Some(value.strip_prefix('=').unwrap_or(value)))
        }
        _ => (word, None),
    }
}

fn text<T: ToString>(words: Option<T>) -> String {
    words.map(|it| it.to_string()).unwrap_or_default()
}

/// In this namespace, else in the context's.
fn within<K>(cluster: &Cluster, namespace: Option<String>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = cluster.clients.reads.clone();
    match namespace {
        Some(namespace) => Api::namespaced(client, &namespace),
        None => Api::default_namespaced(client),
    }
}

async fn listed<K>(api: &Api<K>) -> Option<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // Names alone, also of objects that this plugin cannot read.
    let found = api.list_metadata(&ListParams::default()).await.ok()?;
    Some(found.iter().map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests;
