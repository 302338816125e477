//! The plug of a machine as a socket, for emulators that are programs of their own.
//!
//! A client sends one line, `read`, `On` or `Off`, and gets back the state of the machine, `On` or `Off`. So each emulator
//! sees what others did to the machine, too.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

use crate::{moment::Moment, power::Power};

/// When a machine was switched, and whether on or off.
type Switched = Vec<(Moment, bool)>;

/// An open socket. It is closed when dropped.
pub(crate) struct PowerSocket {
    path: PathBuf,
    switched: Arc<Mutex<Switched>>,
    task: JoinHandle<()>,
}

impl PowerSocket {
    /// Opens the socket of a machine in this directory.
    pub(crate) fn open(directory: &Path, power: Arc<dyn Power>) -> Result<Self> {
        let path = directory.join("power.sock");
        let listener = UnixListener::bind(&path)?;
        let switched = Arc::new(Mutex::default());
        let task = tokio::spawn(serve(listener, power, Arc::clone(&switched)));
        Ok(Self {
            path,
            switched,
            task,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What was done to the machine through it.
    pub(crate) fn switched(&self) -> Switched {
        self.switched
            .lock()
            .expect("no panic while a switch is noted")
            .clone()
    }
}

impl Drop for PowerSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: UnixListener, power: Arc<dyn Power>, switched: Arc<Mutex<Switched>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (power, switched) = (power.clone(), Arc::clone(&switched));
        tokio::spawn(async move {
            if let Err(error) = answer(stream, power, &switched).await {
                tracing::warn!(%error, "an emulator's request for power failed");
            }
        });
    }
}

async fn answer(
    stream: UnixStream,
    power: Arc<dyn Power>,
    switched: &Mutex<Switched>,
) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let on = match line.trim() {
        "read" => None,
        "On" => Some(true),
        "Off" => Some(false),
        other => anyhow::bail!("`{other}` is no request"),
    };
    if let Some(on) = on {
        switched
            .lock()
            .expect("no panic while a switch is noted")
            .push((Moment::now(), on));
        let power = power.clone();
        // Cutting the power of a real machine kills processes and waits for them.
        tokio::task::spawn_blocking(move || power.set_power(on))
            .await
            .context("failed to switch the machine")?;
    }
    let state = if power.is_on() { "On\n" } else { "Off\n" };
    stream.get_mut().write_all(state.as_bytes()).await?;
    Ok(())
}
