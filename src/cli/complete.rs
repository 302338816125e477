//! What may follow on a command line that is not finished: `kubectl fence <TAB>`.
//!
//! kubectl asks the executable `kubectl_complete-fence`, with the words so far and the one that is begun (possibly empty) as the last, and takes a
//! completion a line, with a tab before what it means, and the directive of cobra after a colon (pkg/cmd/plugin_completion.go of kubectl, and
//! cobra's `ShellCompDirective`). Names are asked of the cluster; one that does not answer at once has none.

use super::cluster::Cluster;
use super::reach::Reach;
use crate::api::device::FenceDevice;
use crate::api::fence::NodeFence;
use crate::api::policy::NodeFencingPolicy;
use crate::shell::slim::SlimNode;
use clap::{Arg, Command};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::timeout;

/// Nobody waits longer for a list of names.
const PATIENCE: Duration = Duration::from_secs(3);

/// What may stand where the last word is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// One of these, with their meaning.
    Words(Vec<(String, String)>),
    /// The name of an object.
    Names(Kind),
    /// The name of a file.
    File,
    /// Anything.
    Free,
}

/// Of what kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Policy,
    Device,
    /// A NodeFence or a node.
    Incident,
}

/// The lines for kubectl.
pub async fn complete(command: &Command, words: &[String]) -> String {
    let (begun, before) = match words.split_last() {
        Some((begun, before)) => (begun.as_str(), before),
        None => ("", [].as_slice()),
    };
    let place = place(command, before, begun);
    let directive = match place {
        Place::File => 0,
        // ShellCompDirectiveNoFileComp.
        _ => 4,
    };
    let found = match place {
        Place::Words(words) => words,
        Place::Names(kind) => {
            let names = timeout(PATIENCE, names(kind, before)).await;
            let names = names.ok().flatten().unwrap_or_default();
            names.into_iter().map(|it| (it, String::new())).collect()
        }
        Place::File | Place::Free => Vec::new(),
    };
    let fitting = found.iter().filter(|(word, _)| word.starts_with(begun));
    let lines = fitting.map(|(word, meaning)| match meaning.is_empty() {
        true => format!("{word}\n"),
        false => format!("{word}\t{meaning}\n"),
    });
    lines.chain([format!(":{directive}\n")]).collect()
}

fn place(root: &Command, before: &[String], begun: &str) -> Place {
    let mut command = root;
    let mut positionals = 0;
    let mut waits_for_value: Option<&Arg> = None;
    for word in before {
        if waits_for_value.take().is_some() {
            continue;
        }
        match flag(root, command, word) {
            Some(arg) => {
                waits_for_value = Some(arg).filter(|it| takes_value(it) && !word.contains('='))
            }
            None if word.starts_with('-') => {}
            None => match command.find_subcommand(word) {
                Some(inner) => (command, positionals) = (inner, 0),
                None => positionals += 1,
            },
        }
    }
    if let Some(arg) = waits_for_value {
        return of(arg);
    }
    if begun.starts_with('-') {
        return Place::Words(flags(root, command));
    }
    if command.has_subcommands() {
        let inner = command.get_subcommands().filter(|it| !it.is_hide_set());
        return Place::Words(
            inner
                .map(|it| (it.get_name().to_owned(), about(it)))
                .collect(),
        );
    }
    let all: Vec<&Arg> = command.get_positionals().collect();
    let next = all.get(positionals).or(all.last());
    next.map_or(Place::Free, |it| of(it))
}

fn about(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// The flag that a word names, the command's own or one of all.
fn flag<'a>(root: &'a Command, command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    let mut args = command.get_arguments().chain(root.get_arguments());
    args.find(|arg| {
        let long = arg.get_long().map(|it| format!("--{it}"));
        let short = arg.get_short().map(|it| format!("-{it}"));
        long.as_deref() == Some(name) || short.as_deref() == Some(name)
    })
}

fn flags(root: &Command, command: &Command) -> Vec<(String, String)> {
    let mut args: Vec<&Arg> = command.get_arguments().collect();
    args.extend(root.get_arguments().filter(|it| it.is_global_set()));
    let long = |arg: &&Arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some((format!("--{}", arg.get_long()?), help))
    };
    let mut flags: Vec<_> = args.iter().filter_map(long).collect();
    flags.sort();
    flags.dedup();
    flags
}

/// What this argument takes.
fn of(arg: &Arg) -> Place {
    let values = arg.get_possible_values();
    if !values.is_empty() {
        let shown = values.iter().filter(|it| !it.is_hide_set());
        let meant = |it: &clap::builder::PossibleValue| {
            let help = it.get_help().map(ToString::to_string).unwrap_or_default();
            (it.get_name().to_owned(), help)
        };
        return Place::Words(shown.map(meant).collect());
    }
    let names = arg.get_value_names().unwrap_or_default();
    match (arg.get_id().as_str(), names.first().map(|it| it.as_str())) {
        ("node" | "yes_for", _) => Place::Names(Kind::Node),
        ("policy", _) => Place::Names(Kind::Policy),
        ("device", _) => Place::Names(Kind::Device),
        ("name", Some("NAME" | "name")) if arg.is_positional() => Place::Names(Kind::Incident),
        (_, Some("FILE" | "DIR")) => Place::File,
        _ => Place::Free,
    }
}

/// The names of a kind in the cluster that the words so far are about.
async fn names(kind: Kind, words: &[String]) -> Option<Vec<String>> {
    let value = |flag: &str| {
        let joined = words
            .iter()
            .find_map(|it| it.strip_prefix(&format!("{flag}=")));
        let mut pairs = words.windows(2);
        let apart = pairs.find_map(|it| match it {
            [name, value] if name == flag => Some(value.as_str()),
            _ => None,
        });
        joined.or(apart).map(str::to_owned)
    };
    let reach = Reach {
        kubeconfig: value("--kubeconfig").map(Into::into),
        context: value("--context"),
        user: value("--as"),
        groups: Vec::new(),
        request_timeout: None,
        operator_namespace: crate::args::NAMESPACE.to_owned(),
    };
    let cluster = Cluster::of(&reach).await.ok()?;
    match kind {
        Kind::Node => list::<SlimNode>(&cluster).await,
        Kind::Policy => list::<NodeFencingPolicy>(&cluster).await,
        Kind::Device => list::<FenceDevice>(&cluster).await,
        Kind::Incident => {
            let (fences, _) = cluster.readable::<NodeFence>().await.ok()?;
            let open = fences.iter().filter(|it| !it.is_ended());
            let nodes = open.map(|it| it.spec.node_name.clone());
            let own = fences.iter().map(ResourceExt::name_any);
            Some(nodes.chain(own).collect())
        }
    }
}

async fn list<K>(cluster: &Cluster) -> Option<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    // Of what this plugin cannot read nothing is said here: a shell would show it in the middle of the line.
    let (found, _) = cluster.readable::<K>().await.ok()?;
    Some(found.iter().map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str, begun: &str) -> Place {
        let command = super::super::command();
        let before: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        place(&command, &before, begun)
    }

    fn words(line: &str, begun: &str) -> Vec<String> {
        match at(line, begun) {
            Place::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn commands_come_first_and_then_what_they_take() {
        assert!(words("", "st").contains(&"status".to_owned()));
        assert!(words("--context lab", "").contains(&"status".to_owned()));
        for (line, kind) in [
            ("plan", Kind::Node),
            ("now", Kind::Node),
            ("confirm --reason seen", Kind::Node),
            ("confirm --yes-for", Kind::Node),
            ("pause", Kind::Policy),
            ("test worker-1 --device", Kind::Device),
            ("approve", Kind::Incident),
            ("--context=lab explain", Kind::Incident),
        ] {
            assert_eq!(at(line, ""), Place::Names(kind), "{line}");
        }
        assert_eq!(at("now worker-1 --reason", ""), Place::Free);
        assert_eq!(at("status --kubeconfig", ""), Place::File);
    }

    #[test]
    fn flags_and_their_values_are_named() {
        assert!(words("status", "--w").contains(&"--watch".to_owned()));
        assert!(words("status", "--").contains(&"--context".to_owned()));
        assert_eq!(
            words("status -o", ""),
            ["table", "wide", "json", "yaml", "name"]
        );
        assert!(words("completion", "").contains(&"bash".to_owned()));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_left_out_and_files_are_for_the_shell() {
        let command = super::super::command();
        let told = complete(&command, &["stat".to_owned()]).await;
        let lines: Vec<&str> = told.lines().collect();
        assert!(matches!(lines.as_slice(), [one, ":4"] if one.starts_with("status\t")));
        let file = ["status", "--kubeconfig", ""].map(str::to_owned);
        assert_eq!(complete(&command, &file).await, ":0\n");
    }
}
