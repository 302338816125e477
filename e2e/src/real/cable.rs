//! The network cable between a machine and the control plane, which can be pulled.
//!
//! A machine has a network namespace of its own. Inside it, on the very address and port that the API server has outside,
//! a socket of ours listens and passes bytes on. So a kubelet uses the same URL and certificate as any other client, no
//! route leads out of the machine, and a partition is what it is in life: no byte passes, no connection is closed, and what
//! was under way arrives late when the cable is back. (A socket belongs to the namespace in which it was made, whichever
//! one its thread is in later: that is all the magic here.)

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, TcpListener as Listener},
    os::fd::AsFd,
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::{
    process::Pid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
};

/// How much of a connection may be on its way.
const BUFFER_BYTES: usize = 32 * 1024;

/// A cable, which stays when its machine is switched off and on. Plugged in at first.
#[derive(Debug)]
pub(super) struct Cable {
    pulled: watch::Sender<bool>,
}

/// A machine's end of the cable during one boot. Dropping it ends every connection.
#[derive(Debug)]
pub(super) struct Plug {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Cable {
    pub(super) fn new() -> Self {
        Self {
            pulled: watch::Sender::new(false),
        }
    }

    /// Pulls the cable, or plugs it in again.
    pub(super) fn pull(&self, pulled: bool) {
        self.pulled.send_replace(pulled);
    }

    /// Is it pulled?
    pub(super) fn is_pulled(&self) -> bool {
        *self.pulled.borrow()
    }

    /// Gives the machine with that PID 1 its socket: 127.0.0.1 and this port lead to the same outside.
    pub(super) fn plug(&self, init: Pid, port: u16) -> Result<Plug> {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let pulled = self.pulled.subscribe();
        // A thread and a runtime of its own: a test that blocks its runtime must not partition the machines.
        let thread = thread::Builder::new()
            .name("cable".to_owned())
            .spawn(move || {
                let prepared = listen(init, port).and_then(|listener| {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_io()
                        .enable_time()
                        .build()?;
                    Ok((runtime, listener))
                });
                let (runtime, listener) = match prepared {
                    Ok(prepared) => prepared,
                    Err(error) => return ready.send(Err(error)).unwrap_or_default(),
                };
                ready.send(Ok(())).unwrap_or_default();
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = serve(listener, port, pulled) => {}
                    }
                });
            })?;
        let plug = Plug {
            stop: Some(stop),
            thread: Some(thread),
        };
        is_ready
            .recv()
            .context("the cable's thread ended")?
            .context("failed to plug in the network cable")?;
        Ok(plug)
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It can only have panicked, which has been printed.
            let _ = thread.join();
        }
    }
}

/// Listens inside the machine's network namespace. The calling thread is back in its own when this returns.
fn listen(init: Pid, port: u16) -> io::Result<Listener> {
    let network = Some(LinkNameSpaceType::Network);
    let outside = File::open("/proc/thread-self/ns/net")?;
    let inside = File::open(format!("/proc/{}/ns/net", init.as_raw_nonzero()))?;
    move_into_link_name_space(inside.as_fd(), network)?;
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, port));
    move_into_link_name_space(outside.as_fd(), network)?;
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(listener: Listener, port: u16, pulled: watch::Receiver<bool>) {
    let listener = TcpListener::from_std(listener).expect("a nonblocking listener");
    loop {
        match listener.accept().await {
            Ok((inside, _)) => drop(tokio::spawn(connect(inside, port, pulled.clone()))),
            // Out of file descriptors, for example: the machine's client will try again, and so do we.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Carries one connection. Each end's close or error reaches the other end as a close.
async fn connect(inside: TcpStream, port: u16, mut pulled: watch::Receiver<bool>) {
    plugged_in(&mut pulled).await;
    let Ok(outside) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
        return;
    };
    // Requests are small and answered one by one; waiting to fill a packet would cost 40 ms each.
    let _ = (inside.set_nodelay(true), outside.set_nodelay(true));
    let (from_machine, to_machine) = inside.into_split();
    let (from_server, to_server) = outside.into_split();
    let (up, down) = (
        carry(from_machine, to_server, pulled.clone()),
        carry(from_server, to_machine, pulled),
    );
    // An error of either way ends both; a close of one way leaves the other open, as it does without us.
    let _ = tokio::try_join!(up, down);
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut pulled: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        // Whatever was read before the cable was pulled waits here, and so does the news of a closed connection.
        plugged_in(&mut pulled).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}

async fn plugged_in(pulled: &mut watch::Receiver<bool>) {
    // An error means that the machine is gone, and this runtime with it in a moment.
    let _ = pulled.wait_for(|pulled| !pulled).await;
}
