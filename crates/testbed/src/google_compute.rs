//! Google's own Python client of Compute Engine, which asks our project: what it does not understand, Google would not have answered.
//!
//! It judges the form of [`crate::cloud::gcp`], and the tokens that this takes, and no more: what instances do at Google nobody but Google runs.

use std::{fs, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    cloud::gcp::{KEY, PROJECT, ZONE},
    fetch::run,
    paths::workspace,
    pki::write_private,
    pypi,
};

/// What the client makes of these questions, each a word and the name or the number of an instance, at the API with this URL. Blocks. Installs the
/// client first, if that has not been done.
pub fn asks(url: &str, ca_pem: &str, questions: &[(&str, &str)]) -> Result<Value> {
    let sources = workspace().join("crates/testbed/gcp");
    let python = pypi::python("google-compute", &sources.join("requirements.txt"))?;
    let scratch = tempfile::Builder::new()
        .prefix("nodefencing-gcp-")
        .tempdir()?;
    let ca = scratch.path().join("ca.pem");
    fs::write(&ca, ca_pem)?;
    let host = url.strip_prefix("https://").context("no https")?;
    let key: Value = serde_json::from_str(KEY)?;
    let text = json!({"host": host, "key": key, "project": PROJECT, "zone": ZONE, "do": questions});
    let settings = scratch.path().join("settings.json");
    write_private(&settings, &text.to_string())?;
    let said = run(Command::new(python)
        .arg(sources.join("client.py"))
        .arg(&settings)
        // No byte code beside our sources.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("REQUESTS_CA_BUNDLE", &ca))?;
    Ok(serde_json::from_str(&said)?)
}
