//! A container as a machine: its power switch is the Docker Engine's.
//!
//! A node of kind is a container, so that to kill it is what a power cut is to a machine, and to start it a boot. The Docker Engine API is
//! spoken over its socket by HTTP/1.0, where the end of the connection ends an answer. Its paths name no version: an engine takes its own
//! then, and newer ones refuse old versions.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::power::Power;

/// Limit of one read or write of the socket. The engine answers a kill when the container has ended, for which it waits ten seconds.
const TIMEOUT: Duration = Duration::from_secs(20);
/// What an answer weighs at most: the description of a container has some 10 KB.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A container, and the socket of its engine.
#[derive(Debug)]
pub struct Container {
    name: String,
    system_uuid: String,
    socket: PathBuf,
}

impl Container {
    /// The container of this name, as a machine of this system UUID.
    ///
    /// # Errors
    /// The name is none of a container.
    pub fn new(name: &str, system_uuid: &str, socket: &Path) -> Result<Self> {
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_.-".contains(sign);
        ensure!(
            !name.is_empty() && name.chars().all(is_plain),
            "`{name}` is no name of a container"
        );
        Ok(Self {
            name: name.to_owned(),
            system_uuid: system_uuid.to_owned(),
            socket: socket.to_owned(),
        })
    }

    /// Reads whether it runs. One that is paused does: its processes hold what they have open.
    ///
    /// # Errors
    /// The engine cannot be asked, does not know the container, or does not say.
    pub fn runs(&self) -> Result<bool> {
        let (status, body) = self.ask("GET", "json")?;
        ensure!(status == 200, "the engine answered {status}: {body}");
        let container: Value = serde_json::from_str(&body).context("the answer is no JSON")?;
        match container["State"]["Status"].as_str() {
            Some("created" | "exited" | "dead") => Ok(false),
            Some(_) => Ok(true),
            None => bail!("the answer has no State.Status"),
        }
    }

    fn switch(&self, on: bool) -> Result<()> {
        let (status, body) = self.ask("POST", if on { "start" } else { "kill" })?;
        // 304: it runs already. 409: it does not run.
        let is_done = matches!((on, status), (_, 204) | (true, 304) | (false, 409));
        ensure!(is_done, "the engine answered {status}: {body}");
        Ok(())
    }

    /// Status and body of the engine's answer.
    fn ask(&self, method: &str, action: &str) -> Result<(u16, String)> {
        let socket = self.socket.display();
        let mut stream = UnixStream::connect(&self.socket)
            .with_context(|| format!("failed to connect to {socket}"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let path = format!("/containers/{}/{action}", self.name);
        let request =
            format!("{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("the engine closed the connection")?;
        let status: Option<u16> = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.context("the answer has no status")?;
        Ok((status, body.to_owned()))
    }
}

impl Power for Container {
    fn name(&self) -> &str {
        &self.name
    }

    fn system_uuid(&self) -> &str {
        &self.system_uuid
    }

    /// What cannot be read counts as on: an Off would be taken for a proof.
    fn is_on(&self) -> bool {
        self.runs().unwrap_or_else(|error| {
            eprintln!("{}: its state is unknown: {error:#}", self.name);
            true
        })
    }

    fn set_power(&self, on: bool) {
        if let Err(error) = self.switch(on) {
            eprintln!("{}: it was not switched: {error:#}", self.name);
        }
    }
}

#[cfg(test)]
mod tests;
