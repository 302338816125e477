//! `kubectl fence check`: is the fleet protected, and would a fence go through tonight?
//!
//! One line for each thing that was looked at, by category, as `linkerd check` has it; what is not well ends with the way out and the page of the
//! book. Everything is read with the user's own rights, and what they do not suffice for is said to be not known, which is no failure.

mod answers;
mod before;
mod cluster;
mod devices;
mod others;
pub(super) mod replicas;

use super::Done;
use super::cluster::{Cluster, Error as ClusterError};
use super::output::{Content, Form, forms, print, serialized, written};
use super::table::wrapped;
use super::time::time;
use fencing_api::policy::NodeFencingPolicy;
use fencing_core::quiesce::counted;
use fencing_drivers::clock::since_boot;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks of `--wait`.
const PAUSE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  Would a fence go through tonight?
      kubectl fence check

  Before the operator is installed:
      kubectl fence check --pre

  In a pipeline, after helm upgrade:
      kubectl fence check --wait 2m --strict -o short

What is not well ends with the page of the book that says more: a file of the \
operator's repository, since nothing is published, or a link to where you have \
put it (--book).

Exit codes: 0 nothing has failed, 1 something has, or the command line cannot be \
used, 2 with --strict: there are warnings.";

/// Where the pages of this version are: `hack/release` says it to the build. None: only their paths are known.
const BOOK: Option<&str> = option_env!("KUBECTL_FENCE_BOOK");

/// Check whether the fleet is protected
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Check the cluster before the operator is installed
    #[arg(long)]
    pre: bool,

    /// Repeat until nothing fails, at most this long, such as 90s or 2m
    #[arg(long, value_name = "TIME", value_parser = time)]
    wait: Option<SignedDuration>,

    /// URL of your copy of docs/, with a final /, for links in hints
    #[arg(long, value_name = "URL", env = "KUBECTL_FENCE_BOOK", hide_env_values = true, value_parser = book)]
    book: Option<String>,

    /// Fail on warnings too
    #[arg(long)]
    strict: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Short, Form::Json, Form::Yaml]))]
    output: Form,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Mark {
    /// Nobody has to do anything.
    Ok,
    /// It cannot be told with these rights, or from here.
    Unknown,
    /// It works, and may not on the night that it is needed.
    Warning,
    /// Fences do not go through.
    Failed,
}

/// What one look at one thing has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it belongs to.
    pub category: &'static str,
    /// Names the check: it never changes its meaning.
    pub check: &'static str,
    /// How it is.
    pub status: Mark,
    /// What was seen; of what is not well also the way out.
    pub message: String,
    /// The page of the book that says more, and the place in it: a file of the repository.
    pub page: &'static str,
    /// The same as a link, where `--book` says where the book is.
    pub url: Option<String>,
}

/// A URL that a page of the book can be put behind, as `alerts.runbooks` of the chart is.
fn book(text: &str) -> Result<String, String> {
    let is_web = ["https://", "http://"]
        .iter()
        .any(|it| text.starts_with(it));
    match is_web && text.ends_with('/') {
        true => Ok(text.to_owned()),
        false => Err(
            "must be a URL that ends with /, such as https://wiki.example.com/node-fencing/docs/"
                .to_owned(),
        ),
    }
}

/// What checks belong to, as it stands above them.
#[derive(Debug, Clone, Copy)]
struct Category(&'static str);

impl Category {
    const fn check(self, name: &'static str, page: &'static str) -> Check {
        let Self(category) = self;
        Check {
            category,
            name,
            page,
        }
    }
}

/// A check: what it is called, and where the book tells of it.
#[derive(Debug, Clone, Copy)]
struct Check {
    category: &'static str,
    name: &'static str,
    page: &'static str,
}

impl Check {
    fn found(self, status: Mark, message: impl Into<String>) -> Finding {
        Finding {
            category: self.category,
            check: self.name,
            status,
            message: message.into(),
            page: self.page,
            url: None,
        }
    }

    fn well(self, message: impl Into<String>) -> Finding {
        self.found(Mark::Ok, message)
    }

    fn fails(self, message: impl Into<String>) -> Finding {
        self.found(Mark::Failed, message)
    }

    fn warns(self, message: impl Into<String>) -> Finding {
        self.found(Mark::Warning, message)
    }

    fn unknown(self, message: impl Into<String>) -> Finding {
        self.found(Mark::Unknown, message)
    }
}

/// Runs the command.
///
/// # Errors
/// [`super::Error`].
pub async fn run(cluster: &Cluster, args: Args) -> Done {
    let wait = args.wait.and_then(|it| Duration::try_from(it).ok());
    let end = since_boot() + wait.unwrap_or_default();
    let mut findings = loop {
        let looked = match args.pre {
            true => before::look(cluster).await,
            false => look(cluster).await,
        };
        let findings = match looked {
            Ok(findings) => findings,
            // What is waited for may be the API server, the operator or a right, but no other kubeconfig.
            Err(error) if since_boot() < end && !is_of_kubeconfig(&error) => {
                sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let has_failed = findings.iter().any(|it| it.status == Mark::Failed);
        if !has_failed || since_boot() >= end {
            break findings;
        }
        sleep(PAUSE).await;
    };
    if let Some(book) = args.book.as_deref().or(BOOK) {
        link(&mut findings, book);
    }
    let content = Findings {
        findings: &findings,
    };
    print(&written(args.output, &content, |form| match form {
        Form::Short => told(&findings, |it| it.status != Mark::Ok),
        _ => told(&findings, |_| true),
    })?)?;
    Ok(exit_code(&findings, args.strict))
}

fn is_of_kubeconfig(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::Unauthorized(_) | ClusterError::Config(_)
    )
}

/// Makes links of the pages.
fn link(findings: &mut [Finding], book: &str) {
    for finding in findings {
        let page = finding.page.strip_prefix("docs/").unwrap_or(finding.page);
        finding.url = Some(format!("{book}{page}"));
    }
}

/// The findings as `-o json` has them.
///
/// # Errors
/// [`super::Error`].
pub async fn json(cluster: &Cluster) -> Result<String, super::Error> {
    let findings = look(cluster).await?;
    let content = Findings {
        findings: &findings,
    };
    serialized(Form::Json, &content)
}

/// What programs read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Findings<'a> {
    /// What was looked at.
    pub findings: &'a [Finding],
}

impl Content for Findings<'_> {
    const KIND: &'static str = "Check";
}

async fn look(cluster: &Cluster) -> Result<Vec<Finding>, ClusterError> {
    let mut findings = cluster::look(cluster).await?;
    // Where the custom resources are missing nothing else can be asked. Without its guard everything can.
    let ends = |it: &Finding| it.status == Mark::Failed && it.check != cluster::GUARD.name;
    if findings.iter().any(ends) {
        return Ok(findings);
    }
    let policies = cluster.ours::<NodeFencingPolicy>().await?;
    findings.extend(replicas::look(cluster).await?);
    findings.extend(devices::look(cluster, &policies).await?);
    findings.extend(others::look(cluster, &policies).await?);
    Ok(findings)
}

fn exit_code(findings: &[Finding], strict: bool) -> ExitCode {
    let any = |mark: Mark| findings.iter().any(|it| it.status == mark);
    match (any(Mark::Failed), any(Mark::Warning) && strict) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(2),
        (false, false) => ExitCode::SUCCESS,
    }
}

/// Lines under their categories.
fn told(findings: &[Finding], is_shown: fn(&Finding) -> bool) -> String {
    let mut text = String::new();
    let mut category = "";
    for finding in findings.iter().filter(|it| is_shown(it)) {
        if finding.category != category {
            category = finding.category;
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{category}\n");
        }
        let mark = match finding.status {
            Mark::Ok => "ok  ",
            Mark::Unknown => "?   ",
            Mark::Warning => "WARN",
            Mark::Failed => "FAIL",
        };
        let line = wrapped(&format!("{} [{}]", finding.message, finding.check), 7);
        text += &format!("  {mark} {}", line.trim_start());
        if finding.status != Mark::Ok {
            let page = finding.url.as_deref().unwrap_or(finding.page);
            text += &format!("       see {page}\n");
        }
    }
    let count = |mark: Mark| findings.iter().filter(|it| it.status == mark).count();
    text + &format!(
        "\n{} ok, {} unknown, {}, {} failed\n",
        count(Mark::Ok),
        count(Mark::Unknown),
        counted(count(Mark::Warning), "warning"),
        count(Mark::Failed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: Check = Check {
        category: "fleet",
        name: "devices",
        page: "docs/runbooks/FenceDeviceUnreachable.md#diagnosis",
    };

    #[test]
    fn what_is_not_well_ends_with_its_page_and_where_the_book_is_known_with_a_link() {
        let mut findings = vec![
            CHECK.well("fine"),
            CHECK.unknown("who knows"),
            CHECK.warns("may not"),
            CHECK.fails("does not"),
        ];
        let hints = |findings: &[Finding]| {
            let text = told(findings, |_| true);
            let hints = text.lines().filter_map(|it| it.strip_prefix("       see "));
            hints.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(hints(&findings), [CHECK.page; 3]);
        link(&mut findings, "https://wiki.example.com/nfo/");
        let url = "https://wiki.example.com/nfo/runbooks/FenceDeviceUnreachable.md#diagnosis";
        assert_eq!(hints(&findings), [url; 3]);
        let of_well = findings.first().and_then(|it| it.url.as_deref());
        assert_eq!(of_well, Some(url));
    }

    #[test]
    fn findings_stand_under_their_category_and_their_lines_hang() {
        let other = Check {
            category: "cluster",
            name: "api-server",
            ..CHECK
        };
        let long = "1 FenceDevice does not answer: worker-1-bmc; see whether the operator's pods reach its address";
        let findings = [other.well("fine"), CHECK.well("fine"), CHECK.fails(long)];
        assert_eq!(
            told(&findings, |_| true),
            "\
cluster
  ok   fine [api-server]

fleet
  ok   fine [devices]
  FAIL 1 FenceDevice does not answer: worker-1-bmc; see whether the operator's
       pods reach its address [devices]
       see docs/runbooks/FenceDeviceUnreachable.md#diagnosis

2 ok, 0 unknown, 0 warnings, 1 failed
"
        );
    }

    #[test]
    fn where_the_book_is_is_a_url_that_ends_with_a_slash() {
        assert!(book("https://wiki.example.com/nfo/").is_ok());
        for text in ["https://wiki.example.com/nfo", "docs/", ""] {
            let error = book(text).expect_err(text);
            assert!(error.contains("ends with /"), "{error}");
        }
    }
}
