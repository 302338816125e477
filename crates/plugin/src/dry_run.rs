//! `--dry-run` and `-o` of every command that changes something, and how it tells what it has done.

use super::cluster::Write;
use super::output::{Form, forms};
use super::{Done, output};
use clap::ValueEnum;
use clap::builder::{EnumValueParser, TypedValueParser};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

/// The flags of every command that changes something.
#[derive(Debug, Clone, clap::Args)]
pub struct DryRun {
    /// Must be "none" or "server"
    #[arg(long, value_name = "WHERE", value_parser = place(), default_value = "none")]
    dry_run: Place,

    /// Output format [default: `TYPE/name` and what was done]
    #[arg(short, long, value_name = "FORMAT", value_parser = forms(&[Form::Json, Form::Yaml, Form::Name]))]
    pub output: Option<Form>,
}

/// Who only looks at it: kubectl's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    /// Do it
    None,
    /// Submit the request without persisting the resource
    Server,
    /// Known, to say why it is not taken.
    #[value(hide = true)]
    Client,
}

fn place() -> impl TypedValueParser<Value = Place> {
    EnumValueParser::<Place>::new().try_map(|it| match it {
        Place::None | Place::Server => Ok(it),
        Place::Client => {
            Err("rights and policies are checked by the API server; use --dry-run=server")
        }
    })
}

impl DryRun {
    /// Is nothing kept?
    pub fn is_on(&self) -> bool {
        self.dry_run == Place::Server
    }

    /// How it is written, by whoever has this role.
    pub fn write(&self, role: &'static str) -> Write {
        Write {
            dry_run: self.is_on(),
            role,
        }
    }

    /// What is shown before anything is done: where a program reads standard output, not among that.
    ///
    /// # Errors
    /// [`super::Error::Io`].
    pub fn shows(&self, text: &str) -> Result<(), super::Error> {
        match self.output {
            Some(_) => {
                eprint!("{}", output::visible(text));
                Ok(())
            }
            None => output::print(text),
        }
    }

    /// `TYPE/name verbed`, as kubectl tells it, with `-o name` no more than that name, and with `-o json` or `yaml` the object; on standard error what
    /// else is to be known of it.
    ///
    /// # Errors
    /// [`super::Error::Io`].
    pub fn told<K: Resource<DynamicType = ()> + Serialize>(
        &self,
        object: &K,
        verbed: &str,
        notes: impl IntoIterator<Item = String>,
    ) -> Done {
        let kind = K::kind(&()).to_lowercase();
        let text = match self.output {
            Some(form @ (Form::Json | Form::Yaml)) => output::object(form, object)?,
            _ => self.line(&kind, &object.name_any(), verbed),
        };
        output::print(&text)?;
        for words in notes {
            output::complain(&words);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// How somebody at a terminal follows an incident of this node that goes on now.
    pub fn follow(&self, node: &str) -> Option<String> {
        let words = self.way_to_follow(node);
        words.filter(|_| io::stderr().is_terminal())
    }

    /// None: nothing was kept, or a program reads the name.
    fn way_to_follow(&self, node: &str) -> Option<String> {
        (self.output.is_none() && !self.is_on())
            .then(|| format!("follow it: kubectl fence status {node} --watch"))
    }

    fn line(&self, kind: &str, name: &str, verbed: &str) -> String {
        let full = format!("{kind}.nodefencing.io/{name}");
        match (self.output, self.is_on()) {
            (Some(Form::Name), _) => format!("{full}\n"),
            (_, true) => format!("{full} {verbed} (server dry run)\n"),
            (_, false) => format!("{full} {verbed}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        dry_run: DryRun,
    }

    fn flags(line: &str) -> Result<DryRun, String> {
        let words = line.split(' ').filter(|it| !it.is_empty());
        let words = ["now"].into_iter().chain(words);
        let line = Line::try_parse_from(words).map_err(|it| it.to_string())?;
        Ok(line.dry_run)
    }

    fn told(line: &str) -> Result<String, String> {
        Ok(flags(line)?.line("nodefence", "worker-3-now-1", "created"))
    }

    #[test]
    fn what_was_done_is_told_and_to_a_pipe_its_name_alone() {
        let name = "nodefence.nodefencing.io/worker-3-now-1";
        for (line, words) in [
            ("", " created\n"),
            ("--dry-run=none", " created\n"),
            ("--dry-run=server", " created (server dry run)\n"),
            ("-o name", "\n"),
            ("-o name --dry-run=server", "\n"),
        ] {
            assert_eq!(told(line), Ok(format!("{name}{words}")), "{line}");
        }
    }

    #[test]
    fn what_goes_on_is_followed_and_what_was_only_looked_at_is_not() {
        let follow = "follow it: kubectl fence status worker-3 --watch";
        for (line, words) in [
            ("", Some(follow)),
            ("--dry-run=none", Some(follow)),
            ("--dry-run=server", None),
            ("-o name", None),
            ("-o yaml", None),
        ] {
            let flags = flags(line).expect("flags");
            let told = flags.way_to_follow("worker-3");
            assert_eq!(told.as_deref(), words, "{line}");
        }
    }

    #[test]
    fn a_dry_run_of_this_machine_is_refused_with_the_reason() {
        let error = told("--dry-run=client").expect_err("client");
        assert!(error.contains("--dry-run=server"), "{error}");
        let error = told("--dry-run=here").expect_err("nothing that there is");
        assert!(error.contains("[possible values: none, server]"), "{error}");
        assert!(told("-o wide").is_err());
    }
}
