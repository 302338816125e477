//! Hetzner's own Python client, which asks our project: what it does not understand, Hetzner would not have answered.
//!
//! It judges the form of [`crate::cloud::hetzner`], and no more: what servers do at Hetzner nobody but Hetzner runs.

use std::{fs, process::Command};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{fetch::run, paths::workspace, pki::write_private, pypi};

/// What the client makes of these questions, each a word and the id of a server, at the API below this URL. Blocks. Installs the client first, if that
/// has not been done.
pub fn asks(url: &str, token: &str, ca_pem: &str, questions: &[(&str, usize)]) -> Result<Value> {
    let sources = workspace().join("crates/testbed/hcloud");
    let python = pypi::python("hcloud", &sources.join("requirements.txt"))?;
    let scratch = tempfile::Builder::new()
        .prefix("nodefencing-hcloud-")
        .tempdir()?;
    let ca = scratch.path().join("ca.pem");
    fs::write(&ca, ca_pem)?;
    let settings = scratch.path().join("settings.json");
    let text = json!({"url": format!("{url}/v1"), "token": token, "do": questions});
    write_private(&settings, &text.to_string())?;
    let said = run(Command::new(python)
        .arg(sources.join("client.py"))
        .arg(&settings)
        // No byte code beside our sources.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("REQUESTS_CA_BUNDLE", &ca))?;
    Ok(serde_json::from_str(&said)?)
}
