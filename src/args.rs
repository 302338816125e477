//! From flags and environment to one validated [`Settings`].
//!
//! clap only splits the command line ([`Args`], plain strings); everything that a value must fulfil is checked here, once, so
//! that the rest of the program never sees a bad one. Every complaint is one line that names the flag, the value, the rule and
//! the way out, because it will be read in the log of a container that does not start.

pub mod check;
pub mod conformance;
mod election;
pub mod probe;

use crate::telemetry::{self, LogFormat};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use fencing_api::names::{NAMESPACE, is_dns_name};
use fencing_core::election::Times;
use fencing_drivers::address::AddressRules;
use fencing_drivers::cidr::Cidr;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What `--max-concurrent-fences` may be at most.
const MAX_CONCURRENT_MAX: u32 = 1000;

/// What is to be done.
#[derive(Debug)]
pub enum Order {
    /// Run the operator.
    Run(Box<Settings>),
    /// Look once at a device that stands in a file.
    Probe(Box<probe::Probing>),
    /// Try the contract of a webhook against a service.
    Conformance(Box<conformance::Conforming>),
    /// Look once at the cluster as the operator meets it.
    Check(Box<check::Checking>),
}

/// How the operator is to run: checked, and complete.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the operator: the Secrets of the fence devices are there.
    pub namespace: String,
    /// Where `/livez`, `/readyz` and `/metrics` are served. Port 0 takes any free one, which the log names.
    pub http_bind: SocketAddr,
    /// Directory with certificate and key for HTTPS there; none: plain HTTP.
    pub http_tls_dir: Option<PathBuf>,
    /// How the log is written.
    pub log_format: LogFormat,
    /// What is logged, in the syntax of `tracing`'s `EnvFilter`; whether it is valid is for [`telemetry::start`] to say.
    pub log_filter: String,
    /// Node this process runs on: never fenced. None outside a cluster.
    pub node_name: Option<String>,
    /// Pod this process is: names the reporter of events. None outside a cluster.
    pub pod_name: Option<String>,
    /// How many fences may be under way in the whole cluster; none: as many as the policies allow.
    pub max_concurrent: Option<u32>,
    /// Are fences opened for NodeFenceRemediations?
    pub callers: bool,
    /// Judge for each node whether its pods would find room elsewhere.
    pub headroom: bool,
    /// Addresses to which credentials may go.
    pub addresses: AddressRules,
    /// How the replicas agree who works.
    pub election: Times,
    /// Kubeconfig file; none: `KUBECONFIG`, or else the pod's service account.
    pub kubeconfig: Option<PathBuf>,
}

/// Why the command line is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--help` or `--version`: not an error, its text goes to standard output.
    #[error("{0}")]
    Shown(String),
    /// The command line is malformed: an unknown flag, a missing value.
    #[error("{0}; --help lists the flags")]
    Malformed(String),
    /// What is asked for is not said clearly enough to be done.
    #[error("{0}")]
    Unclear(String),
    /// A value breaks a rule.
    #[error("{flag}: `{value}` {rule}")]
    Invalid {
        /// The flag, and the environment variable that also sets it.
        flag: &'static str,
        /// The value as given.
        value: String,
        /// The rule, and the way out.
        rule: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  In a cluster, everything comes from the pod (see deploy/deployment.yaml):
      node-fencing-operator

  From a workstation, against the cluster of a kubeconfig, with the account of that file (with deploy/admission.yaml applied,
  only the operator's service account may claim a node, so that others can only observe):
      node-fencing-operator --kubeconfig ~/.kube/lab.yaml --http-bind 127.0.0.1:8080 --log-format text

  Keep credentials away from the cluster's own networks:
      node-fencing-operator --deny-device-cidr 10.96.0.0/12 --deny-device-cidr 10.244.0.0/16

Without a NodeFencingPolicy or a NodeFence that says otherwise it changes nothing in the cluster or on any machine.

Exit codes: 0 stopped by a signal; 1 failed, a restart may help; 2 a human must change something (flags, kubeconfig, port, \
cluster version, CRDs). The last line of the log says what and why.";

/// Proves that failed Kubernetes nodes are down, and only then lets their pods and volumes move.
#[derive(Debug, Parser)]
#[command(
    name = "node-fencing-operator",
    version,
    term_width = 100,
    after_help = EXAMPLES,
    // The last one counts: what a chart's `extraArgs` add has to win over what the chart wrote before.
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
struct Args {
    /// Namespace of the operator; Secrets of fence devices are read there, and nowhere else
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = NAMESPACE)]
    namespace: String,

    /// Where /livez, /readyz and /metrics are served; port 0 takes a free one. [::] is IPv4 too, or alone without IPv6
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:8080")]
    http_bind: String,

    /// Serve HTTPS there with tls.crt and tls.key of this directory, which are read again when they change
    #[arg(long, value_name = "DIRECTORY")]
    http_tls_dir: Option<PathBuf>,

    /// How the log is written to standard error: text, json [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// What is logged: a level (error, warn, info, debug, trace), or levels per module such as info,kube=debug
    #[arg(long, value_name = "FILTER", default_value = telemetry::DEFAULT_FILTER)]
    log_filter: String,

    /// Node that the operator runs on; it is never fenced
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,

    /// Pod that the operator runs in; it signs the events
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pod_name: Option<String>,

    /// Fences that may be in progress in the whole cluster; manual ones count and never wait, the next ones of policies wait for their turn. 0: only each policy's limit
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "0",
        allow_negative_numbers = true
    )]
    max_concurrent_fences: String,
    /// Judge for each node whether its pods would find room elsewhere (node_fencing_node_recoverable), one node a second; takes deploy/headroom
    #[arg(long)]
    headroom: bool,

    /// Serve the NodeFenceRemediations of Medik8s' NodeHealthCheck and Cluster API, with the rights of deploy/callers
    #[arg(long)]
    callers: bool,

    /// Fence devices may have addresses in this range although a rule denies it (loopback, link-local, ...); repeatable
    #[arg(long, value_name = "CIDR")]
    allow_device_cidr: Vec<String>,

    /// Fence devices may not have addresses in this range, such as the cluster's pod and service networks; repeatable
    #[arg(long, value_name = "CIDR")]
    deny_device_cidr: Vec<String>,

    /// Use only Secrets with the annotation nodefencing.io/allowed-hosts, which lists the hosts that they may be sent to
    #[arg(long)]
    require_allowed_hosts: bool,

    #[command(flatten)]
    election: election::ElectionArgs,

    /// Kubeconfig file [default: KUBECONFIG, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Probe(probe::ProbeArgs),
    Conformance(conformance::ConformanceArgs),
    Check(check::CheckArgs),
}

impl Order {
    /// Reads the command line, program name first, and the environment.
    ///
    /// # Errors
    /// [`Error`], also for `--help` and `--version`.
    pub fn read(command_line: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let mut args = Args::try_parse_from(command_line).map_err(|error| from_clap(&error))?;
        Ok(match args.command.take() {
            Some(Command::Probe(probe)) => Self::Probe(Box::new(probe.validated()?)),
            Some(Command::Conformance(it)) => Self::Conformance(Box::new(it.validated()?)),
            Some(Command::Check(check)) => Self::Check(Box::new(check.validated()?)),
            None => Self::Run(Box::new(args.validated()?)),
        })
    }
}

impl Args {
    fn validated(self) -> Result<Settings, Error> {
        let node_name = self
            .node_name
            .map(|name| object_name("--node-name (NODE_NAME)", name))
            .transpose()?;
        let pod_name = self
            .pod_name
            .map(|name| object_name("--pod-name (POD_NAME)", name))
            .transpose()?;
        let allowed = ranges("--allow-device-cidr", &self.allow_device_cidr)?;
        let denied = ranges("--deny-device-cidr", &self.deny_device_cidr)?
            .into_iter()
            .map(|range| (range, format!("{range} (--deny-device-cidr)")))
            .collect();
        Ok(Settings {
            election: self.election.validated()?,
            max_concurrent: max_concurrent(&self.max_concurrent_fences)?,
            callers: self.callers,
            headroom: self.headroom,
            namespace: namespace("--namespace (POD_NAMESPACE)", self.namespace)?,
            http_bind: bind(&self.http_bind)?,
            http_tls_dir: self.http_tls_dir,
            log_format: self
                .log_format
                .map_or_else(|| Ok(LogFormat::for_this_terminal()), |text| format(&text))?,
            log_filter: self.log_filter,
            node_name,
            pod_name,
            addresses: AddressRules::new(allowed, denied)
                .requiring_hosts(self.require_allowed_hosts),
            kubeconfig: self.kubeconfig,
        })
    }
}

/// A label of RFC 1123, as Kubernetes wants it for a namespace.
fn namespace(flag: &'static str, name: String) -> Result<String, Error> {
    if name.len() <= 63 && !name.contains('.') && is_dns_name(&name) {
        return Ok(name);
    }
    let rule =
        "must be the name of a namespace: at most 63 lower-case letters, digits and inner hyphens";
    Err(invalid(flag, &name, rule))
}

/// A DNS subdomain, as Kubernetes wants it for a Node or a Pod.
fn object_name(flag: &'static str, name: String) -> Result<String, Error> {
    if is_dns_name(&name) {
        return Ok(name);
    }
    let rule = "must be the name of an object: at most 253 lower-case letters, digits, inner hyphens and dots; \
                leave it out if there is none";
    Err(invalid(flag, &name, rule))
}

fn bind(text: &str) -> Result<SocketAddr, Error> {
    text.parse().map_err(|_| {
        let port_is_wrong = text.rsplit_once(':').is_some_and(|(host, port)| {
            format!("{host}:0").parse::<SocketAddr>().is_ok() && port.parse::<u16>().is_err()
        });
        let rule = if port_is_wrong {
            "has a bad port: it must be a number from 0 to 65535"
        } else {
            "must be an IP address and a port, such as 0.0.0.0:8080, 127.0.0.1:8080 or [::]:8080"
        };
        invalid("--http-bind", text, rule)
    })
}

/// None is written 0, so that a chart can always pass the flag.
fn max_concurrent(text: &str) -> Result<Option<u32>, Error> {
    let number: Option<u32> = text.parse().ok();
    let number = number.filter(|it| *it <= MAX_CONCURRENT_MAX);
    let rule = format!(
        "must be a number from 0 (no limit but `budget.maxConcurrent` of each policy) to {MAX_CONCURRENT_MAX}; to pause use `pauseRequests`"
    );
    let number = number.ok_or_else(|| invalid("--max-concurrent-fences", text, &rule))?;
    Ok((number > 0).then_some(number))
}

/// A time in whole seconds.
fn seconds(flag: &'static str, text: &str, range: &RangeInclusive<u64>) -> Result<Duration, Error> {
    let number = text.parse().ok().filter(|it| range.contains(it));
    number.map(Duration::from_secs).ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        let rule = format!("must be a number of seconds from {min} to {max}");
        invalid(flag, text, &rule)
    })
}

fn format(text: &str) -> Result<LogFormat, Error> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(invalid("--log-format", text, "must be text or json")),
    }
}

fn ranges(flag: &'static str, texts: &[String]) -> Result<Vec<Cidr>, Error> {
    let read = |text: &String| {
        text.parse::<Cidr>()
            .map_err(|error| invalid(flag, text, &format!("is no range of addresses: {error}")))
    };
    texts.iter().map(read).collect()
}

fn invalid(flag: &'static str, value: &str, rule: &str) -> Error {
    Error::Invalid {
        flag,
        // A line break in a value must not make two lines of the message.
        value: value.escape_debug().to_string(),
        rule: rule.to_owned(),
    }
}

/// clap's own message spreads over five lines; what it knows fits on one.
fn from_clap(error: &clap::Error) -> Error {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return Error::Shown(error.to_string());
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let what = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    if let (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        let missing = missing.join(", ");
        return Error::Malformed(format!("{missing} is missing"));
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => {
            Error::Malformed(format!("{what}; did you mean {flag}?"))
        }
        _ => Error::Malformed(what),
    }
}

#[cfg(test)]
mod tests;
