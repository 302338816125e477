//! `--dry-run` of every command that changes something, and how it tells what it has done.

use super::cluster::Write;
use super::{Done, output};
use std::process::ExitCode;

/// The flag of every command that changes something.
#[derive(Debug, Clone, clap::Args)]
pub struct DryRun {
    /// Only have the API server look at it: `server`
    #[arg(long, value_name = "WHERE", value_parser = ["none", "server"], default_value = "none")]
    dry_run: String,
}

impl DryRun {
    /// Is nothing kept?
    pub fn is_on(&self) -> bool {
        self.dry_run == "server"
    }

    /// Only looked at, by whoever has this role.
    pub fn server(&self, role: &'static str) -> Write {
        Write {
            dry_run: true,
            role,
        }
    }

    /// How it is written, by whoever has this role.
    pub fn write(&self, role: &'static str) -> Write {
        Write {
            dry_run: self.is_on(),
            role,
        }
    }

    /// `TYPE/name verbed`, as kubectl tells it.
    ///
    /// # Errors
    /// [`super::Error::Io`].
    pub fn told(&self, kind: &str, name: &str, verbed: &str) -> Done {
        let aside = match self.dry_run.as_str() {
            "server" => " (server dry run)",
            _ => "",
        };
        output::print(&format!("{kind}.nodefencing.io/{name} {verbed}{aside}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}
