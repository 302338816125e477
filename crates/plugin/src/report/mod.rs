//! `kubectl fence report`: an archive for whoever is asked for help, without what is nobody else's business.
//!
//! Secrets are never read, so no password can be in it. Addresses of every kind are replaced by stand-ins ([`redact`]). What could not be read is
//! named in the archive, with the right that it takes: an archive with holes is better than none.

mod archive;
mod collect;
mod redact;
mod slim;

use super::cluster::Cluster;
use super::table::wrapped;
use super::{Done, Error, output};
use archive::File;
use collect::{Content, Entry, Missing};
use fencing_drivers::clock;
use jiff::Timestamp;
use redact::{LEFT_OUT, Redactor};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
      kubectl fence report
      kubectl fence report --file /tmp/report.tar.gz --log-lines 20000

The archive has the policies, devices, fences, nodes, leases, events and volume \
attachments, the operator's Deployment, pods and logs, the versions of the \
CustomResourceDefinitions, and what `kubectl fence check` finds. No Secret is \
read. IP and MAC addresses, names of devices' hosts, paths of URLs, serial \
numbers and UUIDs are replaced, each by the same word in all files, such as address-1. Names \
of objects stay. README in the archive says what could not be read.

Exit codes: 0 an archive is written, though some of it could not be read, 1 none \
is: nothing of it could be read, or the command line cannot be used.";

/// Write a support archive, with secrets and addresses left out
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to [default: node-fencing-report-TIME.tar.gz here]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Last lines of each log
    #[arg(long, value_name = "LINES", default_value_t = 5000, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    log_lines: i64,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let now = clock::wall();
    let (entries, missing) = collect::all(cluster, args.log_lines).await?;
    let files = files(entries, &missing, &cluster.namespace, now);
    let path = args.file.unwrap_or_else(|| {
        format!(
            "node-fencing-report-{}.tar.gz",
            now.strftime("%Y%m%dT%H%M%SZ")
        )
        .into()
    });
    archive::write(&path, &files, now).map_err(|error| {
        Error::No(format!(
            "failed to write {}: {error}; name another one with --file",
            path.display()
        ))
    })?;
    for missing in &missing {
        output::complain(&format!("not in it: {}", missing.what));
    }
    output::print(&format!("{}\n", path.display()))?;
    output::complain(
        "Check it before you share it: names of objects, reasons and users are unchanged",
    );
    Ok(ExitCode::SUCCESS)
}

/// What goes into the archive, without what does not.
fn files(entries: Vec<Entry>, missing: &[Missing], namespace: &str, now: Timestamp) -> Vec<File> {
    let mut redactor = Redactor::default();
    redactor.keep(entries.iter().flat_map(nodes));
    for entry in &entries {
        match &entry.content {
            Content::Objects(value) => redactor.learn(value),
            Content::Log(text) => redactor.learn_lines(text),
        }
    }
    let readme = readme(&entries, missing, namespace, now);
    let mut files = vec![File {
        path: "README".to_owned(),
        text: redactor.lines(&readme),
    }];
    files.extend(entries.into_iter().map(|entry| File {
        text: match entry.content {
            Content::Objects(value) => {
                let value = redactor.value(value);
                serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
            }
            Content::Log(text) => redactor.lines(&text),
        },
        path: entry.path,
    }));
    files
}

/// Names of the Nodes, where these are the Nodes.
fn nodes(entry: &Entry) -> Vec<String> {
    let objects = match &entry.content {
        Content::Objects(value) if entry.path == collect::NODES => value.as_array(),
        _ => None,
    };
    let names = objects.into_iter().flatten().filter_map(|it| {
        let name = it.pointer("/metadata/name").and_then(Value::as_str)?;
        Some(name.to_owned())
    });
    names.collect()
}

fn readme(entries: &[Entry], missing: &[Missing], namespace: &str, now: Timestamp) -> String {
    let mut text = format!(
        "Support archive of node-fencing-operator\n\nMade by kubectl-fence {} at {now:.0}; the operator's namespace is {namespace}.\n\nFiles\n",
        env!("CARGO_PKG_VERSION")
    );
    for entry in entries {
        text += &format!("  {}\n", entry.path);
    }
    text += "\nLeft out\n";
    for what in [
        "No Secret was read.",
        "IP and MAC addresses, host names of devices, serial numbers and UUIDs are replaced, equal ones by equal text (address-1, mac-1, serial-1, uuid-1).",
        "Paths of URLs are removed, except those of Kubernetes and Redfish.",
        &format!(
            "Environment values, parameters of fence agents and foreign annotations are replaced by {LEFT_OUT}, base64 text that contained any of it by encoded-1."
        ),
        "Managed fields, images of nodes and most fields of Nodes are left out.",
        "Names of objects, images and users, and people's reasons, are unchanged.",
    ] {
        text += &wrapped(what, 2);
    }
    text += "\nNot read\n";
    if missing.is_empty() {
        text += "  Nothing is missing.\n";
    }
    for missing in missing {
        let told = format!("{}: {}; {}", missing.what, missing.why, missing.way_out);
        text += &wrapped(&told, 2);
    }
    text
}

#[cfg(test)]
mod tests;
