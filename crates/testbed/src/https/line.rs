//! The line between a server and its clients: up, refused, a black hole, or dark.
//!
//! All of it is done with the listening socket alone, so that no privilege and no packet filter is needed, and the port
//! stays ours all the while. The system calls are made at once: when [`Switch::set`] returns, no new connection can be
//! made that the new state forbids, and no connection answers that the new state silences.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::net::{Shutdown, listen, shutdown};
use tokio::sync::watch;

const BACKLOG: i32 = 1024;

/// The state of the line to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Line {
    /// Connections are accepted and answered.
    #[default]
    Up,
    /// The port is closed, and open connections are cut: clients learn of it at once.
    Refused,
    /// TCP connects, and then nothing ever comes, not even a TLS handshake. Open connections fall silent.
    BlackHole,
    /// Nothing answers at all, not even TCP, as if the power were gone. Open connections fall silent.
    Dark,
}

/// Holds the listening socket and changes the state of its line.
pub(super) struct Switch {
    listener: TcpListener,
    address: SocketAddr,
    state: watch::Sender<Line>,
    // Connections of our own that fill the accept queue, so that the kernel drops everyone else's SYN.
    fillers: Mutex<Vec<TcpStream>>,
}

impl Switch {
    pub(super) fn new(listener: TcpListener) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (state, _) = watch::channel(Line::Up);
        Ok(Self {
            listener,
            address,
            state,
            fillers: Mutex::default(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn watch(&self) -> watch::Receiver<Line> {
        self.state.subscribe()
    }

    /// A listener on the same socket for the asynchronous runtime. Made anew each time the line comes up: the runtime
    /// would take a socket that was shut down once for closed for ever.
    pub(super) fn listener(&self) -> Result<tokio::net::TcpListener> {
        Ok(tokio::net::TcpListener::from_std(
            self.listener.try_clone()?,
        )?)
    }

    pub(super) fn set(&self, line: Line) -> Result<()> {
        let mut fillers = self
            .fillers
            .lock()
            .expect("no panic while the line is switched");
        let before = *self.state.borrow();
        if before == line {
            return Ok(());
        }
        match line {
            Line::Up | Line::BlackHole => {
                listen(&self.listener, BACKLOG).context("failed to listen again")?
            }
            Line::Refused => {
                shutdown(&self.listener, Shutdown::Both).context("failed to close the port")?
            }
            Line::Dark => {
                listen(&self.listener, 0).context("failed to shorten the accept queue")?;
                self.state.send_replace(line);
                *fillers = self.fill();
                return Ok(());
            }
        }
        fillers.clear();
        self.state.send_replace(line);
        Ok(())
    }

    /// Connects until the kernel no longer answers. A queue of length 0 holds one connection; connections that were
    /// being accepted at this moment make room for a few more.
    fn fill(&self) -> Vec<TcpStream> {
        let connect = |_| TcpStream::connect_timeout(&self.address, Duration::from_millis(50)).ok();
        (0..16).map_while(connect).collect()
    }
}
