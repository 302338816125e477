//! Nutanix' own Python clients, which ask our Prism Central: what they do not understand, Nutanix would not have answered.
//!
//! They judge the form of [`crate::cloud::nutanix`], and no more: what AHV does nobody but AHV runs.

use std::{fs, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    cloud::nutanix::{KEY, LOGIN},
    fetch::run,
    paths::workspace,
    pki::write_private,
    pypi,
};

/// What opens the Prism Central.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// The key of a service account.
    Key,
    /// User and password.
    Login,
    /// A key that nobody has given.
    WrongKey,
}

/// What the clients make of these questions, each a word and what it is about, at the `https://HOST:PORT` of this URL. Blocks. Installs the clients
/// first, if that has not been done.
pub fn asks(url: &str, opens: Opens, ca_pem: &str, questions: &[(&str, String)]) -> Result<Value> {
    let sources = workspace().join("crates/testbed/ntnx");
    let python = pypi::python("ntnx", &sources.join("requirements.txt"))?;
    let scratch = tempfile::Builder::new()
        .prefix("nodefencing-ntnx-")
        .tempdir()?;
    let ca = scratch.path().join("ca.pem");
    fs::write(&ca, ca_pem)?;
    let place = url.trim_start_matches("https://").rsplit_once(':');
    let (host, port) = place.context("a URL without a port")?;
    let port: u16 = port.parse()?;
    let mut text = json!({"host": host, "port": port, "ca": ca, "do": questions});
    match opens {
        Opens::Key => text["apiKey"] = json!(KEY),
        Opens::WrongKey => text["apiKey"] = json!("another"),
        Opens::Login => {
            text["username"] = json!(LOGIN[0]);
            text["password"] = json!(LOGIN[1]);
        }
    }
    let settings = scratch.path().join("settings.json");
    write_private(&settings, &text.to_string())?;
    let said = run(Command::new(python)
        .arg(sources.join("client.py"))
        .arg(&settings)
        // What they write of themselves goes there.
        .current_dir(scratch.path())
        // No byte code beside our sources.
        .env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(serde_json::from_str(&said)?)
}
