//! Microsoft's own Python client for virtual machines, which asks our cloud: what it does not understand, Azure would not have answered.
//!
//! It judges the form of [`crate::cloud::azure`], and no more: what machines do at Azure nobody but Microsoft runs.

use std::{fs, process::Command};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{cloud::azure, fetch::run, paths::workspace, pki::write_private, pypi};

/// What the client makes of these questions, each a word and the names of a machine, at the cloud below this URL. Blocks. Installs the client first,
/// if that has not been done.
pub fn asks(url: &str, ca_pem: &str, questions: &[(&str, &[&str])]) -> Result<Value> {
    let sources = workspace().join("crates/testbed/azure_mgmt");
    let python = pypi::python("azure_mgmt", &sources.join("requirements.txt"))?;
    let scratch = tempfile::Builder::new()
        .prefix("nodefencing-azure-")
        .tempdir()?;
    let ca = scratch.path().join("ca.pem");
    fs::write(&ca, ca_pem)?;
    let settings = scratch.path().join("settings.json");
    let text = json!({
        "url": url, "token": azure::TOKEN, "subscription": azure::SUBSCRIPTION, "do": questions,
    });
    write_private(&settings, &text.to_string())?;
    let said = run(Command::new(python)
        .arg(sources.join("client.py"))
        .arg(&settings)
        // No byte code beside our sources.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("REQUESTS_CA_BUNDLE", &ca))?;
    Ok(serde_json::from_str(&said)?)
}
