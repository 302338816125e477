//! `kubectl fence`: the plugin that shows, explains and decides, with its user's own rights.
//!
//! A command is a file: its flags, what it reads of the [`cluster`], a function from that to text, and its exit code. No command touches a machine, but
//! for one that reads what BMCs say of themselves (`generate devices --from-redfish-scan`).
//! One that changes something changes an object, as its user, under the same admission policies as everybody else, and the operator does the rest;
//! what those policies cannot know (a device reads On, a Node is drained) the command looks at first, and refuses by itself.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long they wait"
    )
)]

pub mod answer;
pub mod check;
pub mod cluster;
pub mod complete;
pub mod confirm;
pub mod control;
pub mod dashboard;
pub mod diagnose;
pub mod dry_run;
pub mod explain;
pub mod fences;
pub mod foreign_text;
pub mod generate;
pub mod history;
pub mod leader;
pub mod mode;
pub mod name;
pub mod now;
pub mod output;
pub mod page;
pub mod pause;
pub mod plan;
pub mod prompt;
mod providers;
pub mod reach;
pub mod replica;
pub mod report;
pub mod schema;
pub mod status;
pub mod table;
pub mod test;
pub mod time;
pub mod timeline;
pub mod trail;
pub mod unfenced;
pub mod version;
pub mod watched;

use answer::Answer;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use cluster::Cluster;
use reach::Reach;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  Which incidents are open, and what do they wait for?
      kubectl fence status

  What happened to this node last night?
      kubectl fence history worker-3
      kubectl fence explain worker-3

  A policy waits for an approval:
      kubectl fence approve worker-3 --reason \"no power in rack 7\"

Exit codes: 0 done, 1 failed or invalid command line; others are described with \
each command.";

/// Fence failed nodes: show what is protected, explain incidents, and decide about them.
///
/// Flags follow the command: `kubectl fence status --context lab`. kubectl takes none before the name of a plugin.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-fence",
    bin_name = "kubectl fence",
    version,
    max_term_width = 80,
    after_help = EXAMPLES
)]
struct Args {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Status(status::Args),
    History(history::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Test(test::Args),
    /// Approve an incident that waits for a person
    #[command(after_help = answer::EXAMPLES)]
    Approve(answer::Yes),
    /// Deny an incident: this outage is not fenced again
    #[command(after_help = answer::EXAMPLES)]
    Deny(answer::Args),
    Confirm(confirm::Args),
    Diagnose(diagnose::Args),
    Dashboard(dashboard::Args),
    Generate(generate::Args),
    Now(now::Args),
    /// Cancel an open incident before its node is out of service
    #[command(after_help = answer::CANCEL_EXAMPLES)]
    Cancel(answer::Cancel),
    /// Let the release gate remove the out-of-service taint
    #[command(after_help = answer::RELEASE_EXAMPLES)]
    Release(answer::Args),
    Report(report::Args),
    Pause(pause::Args),
    Resume(pause::ResumeArgs),
    Completion(CompletionArgs),
    Version(version::Args),
    /// Reads a device from files, which the operator's own binary does
    #[command(hide = true)]
    Probe(ProbeArgs),
}

/// What is asked of `probe` is another program's.
#[derive(Debug, clap::Args)]
struct ProbeArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<String>,
}

/// Print shell completion code
///
/// It is that of the command `kubectl-fence`. For `kubectl fence` a shell asks kubectl, and that the executable kubectl_complete-fence beside the
/// plugin.
#[derive(Debug, clap::Args)]
struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Why a command has failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// It is not done, for the reason in these words: the command line contradicts itself, or the cluster has something against it.
    #[error("{0}")]
    No(String),
    /// Standard output or input.
    #[error("standard output or input: {0}")]
    Io(#[from] io::Error),
}

/// What a command has done: its exit code.
pub type Done = Result<ExitCode, Error>;

/// The whole command line, for what is generated from it: completion, manual pages, the book.
pub fn command() -> clap::Command {
    let mut command = Args::command().term_width(80);
    command.build();
    command
}

/// Runs `kubectl_complete-fence`, which kubectl asks for what may follow on a command line.
pub fn complete(words: &[String]) -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return ExitCode::FAILURE;
    };
    let command = command();
    let told = runtime.block_on(complete::complete(&command, words));
    match io::stdout().write_all(told.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs the plugin.
pub fn main(command_line: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(command_line) {
        Ok(args) => args,
        Err(error) => return unusable(&error),
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(error.into()),
    };
    done.unwrap_or_else(|error| {
        // A reader that has seen enough (`| head`) is no failure.
        if !is_closed_pipe(&error) {
            output::complain(&format!("error: {error}"));
        }
        ExitCode::FAILURE
    })
}

/// Prints help or the version, or says why the command line cannot be used: that is 1, as with kubectl, since 2 means that something was found.
fn unusable(error: &clap::Error) -> ExitCode {
    // Its text goes where it belongs, in colours on a terminal; a reader that has seen enough (`| head`) is no failure.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

fn is_closed_pipe(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

async fn run(args: Args) -> Done {
    let reach = &args.reach;
    match args.command {
        Command::Check(args) => check::run(&Cluster::of(reach).await?, args).await,
        Command::Status(args) => status::run(&Cluster::of(reach).await?, args).await,
        Command::History(args) => history::run(&Cluster::of(reach).await?, args).await,
        Command::Explain(args) => explain::run(&Cluster::of(reach).await?, args).await,
        Command::Plan(args) => plan::run(&Cluster::of(reach).await?, args).await,
        Command::Test(args) => test::run(&Cluster::of(reach).await?, args).await,
        Command::Approve(it) => give(reach, Answer::Approve, it.override_denial, it.args).await,
        Command::Deny(args) => give(reach, Answer::Deny, false, args).await,
        Command::Confirm(args) => confirm::run(&Cluster::of(reach).await?, args).await,
        Command::Diagnose(args) => diagnose::run(&Cluster::of(reach).await?, args).await,
        Command::Dashboard(args) => dashboard::run(Cluster::of(reach).await?, args).await,
        Command::Generate(args) => generate::run(reach, args).await,
        Command::Now(args) => now::run(&Cluster::of(reach).await?, args).await,
        Command::Cancel(it) => give(reach, Answer::Cancel, it.ignore_pending_off, it.args).await,
        Command::Release(args) => give(reach, Answer::Release, false, args).await,
        Command::Report(args) => report::run(&Cluster::of(reach).await?, args).await,
        Command::Pause(args) => pause::run(&Cluster::of(reach).await?, args).await,
        Command::Resume(args) => pause::resume(&Cluster::of(reach).await?, args).await,
        Command::Version(args) => version::run(reach, args).await,
        Command::Completion(args) => completion(args.shell),
        Command::Probe(_) => Err(Error::No(
            "`probe` is a command of the operator; run `node-fencing-operator probe FILE`, or test an applied FenceDevice (kubectl fence test NODE)".to_owned(),
        )),
    }
}

async fn give(reach: &Reach, answer: Answer, is_forced: bool, args: answer::Args) -> Done {
    let cluster = Cluster::of(reach).await?;
    answer::give(&cluster, answer, is_forced, args).await
}

fn completion(shell: Shell) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "kubectl-fence", &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_taken_as_kubectl_takes_it() {
        for line in [
            "-n shop status",
            "status -n shop",
            "status --namespace=shop",
        ] {
            let words = std::iter::once("kubectl-fence").chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_ok(), "{line}");
        }
        let line = "kubectl-fence diagnose -n shop pod/db-0";
        let args = Args::try_parse_from(line.split(' ')).expect("a command line");
        assert_eq!(args.reach.namespace.as_deref(), Some("shop"));
    }
}
