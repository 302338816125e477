//! The socket, and the machine of a session behind it: the only place of this driver that waits.
//!
//! The socket is connected, so the kernel drops what others send, and a closed port answers at once. Whatever ends a
//! conversation, the session is closed: [`Link`] does it when dropped, in a task that outlives the call by two seconds at most.

use super::Ipmi;
use super::codec::packet::DATAGRAM_BYTES_MAX;
use super::session::{Account, Done, Failure, Next, Session};
use crate::DeviceError;
use crate::clock::Clock;
use crate::resolve::{self, unreachable};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Time for the BMC to confirm that a session is closed.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// A socket to the BMC, and the session in it.
#[derive(Debug)]
pub struct Link {
    /// None only while the link is being dropped.
    wire: Option<Wire>,
}

/// How a piece of work failed.
#[derive(Debug)]
pub enum LinkError {
    /// The network says that nobody is there.
    Network(io::Error),
    /// The session cannot do it.
    Session(Failure),
}

#[derive(Debug)]
struct Wire {
    socket: UdpSocket,
    session: Session,
    clock: Clock,
}

impl Link {
    /// A connected socket to `pinned`, or to the first address of the host that has a route, and a session that is not open.
    /// Sends nothing. Tells which address it was.
    ///
    /// # Errors
    /// [`DeviceError`]: the address cannot be resolved, is not allowed, or has no route.
    pub async fn open(
        driver: &Ipmi,
        pinned: Option<SocketAddr>,
    ) -> Result<(Self, SocketAddr), DeviceError> {
        let Ipmi {
            address,
            credentials,
            rules,
            ..
        } = driver;
        let candidates = match pinned {
            Some(address) => vec![address],
            None => resolve::addresses(address, credentials, rules).await?,
        };
        let login = credentials.ipmi()?;
        let account = Account {
            suite: driver.suite,
            user: login.user.to_vec(),
            password: Zeroizing::new(login.password.to_vec()),
        };
        let mut problem = String::new();
        for candidate in candidates {
            match connect(candidate).await {
                Ok(socket) => {
                    let wire = Wire {
                        socket,
                        session: Session::new(account, Box::new(random)),
                        clock: driver.clock,
                    };
                    return Ok((Self { wire: Some(wire) }, candidate));
                }
                Err(error) => problem = format!("{candidate}: {error}"),
            }
        }
        Err(unreachable(address, problem))
    }

    /// The session.
    pub fn session(&self) -> Option<&Session> {
        self.wire.as_ref().map(|wire| &wire.session)
    }

    /// Begins a piece of work and waits for its end; the caller bounds it by dropping it.
    ///
    /// # Errors
    /// [`LinkError`]
    pub async fn run(
        &mut self,
        begin: impl FnOnce(&mut Session, Duration),
    ) -> Result<Done, LinkError> {
        let Some(wire) = &mut self.wire else {
            return Err(LinkError::Session(Failure::NoSession));
        };
        begin(&mut wire.session, wire.clock.since_boot());
        wire.drive().await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(mut wire) = self.wire.take() else {
            return;
        };
        let now = wire.clock.since_boot();
        wire.session.close(now);
        // At once, so that it is on its way before whoever is next in turn says anything; what is lost is repeated below.
        while let Next::Send(datagram) = wire.session.next(now) {
            match wire.socket.try_send(&datagram) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
        if !wire.session.is_open() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(async move { timeout(CLOSE_TIME_MAX, wire.drive()).await }));
        }
    }
}

impl Wire {
    async fn drive(&mut self) -> Result<Done, LinkError> {
        let mut datagram = [0; DATAGRAM_BYTES_MAX + 1];
        loop {
            let now = self.clock.since_boot();
            match self.session.next(now) {
                Next::Send(datagram) => {
                    self.socket
                        .send(&datagram)
                        .await
                        .map_err(LinkError::Network)?;
                }
                Next::Wait(until) => {
                    let received = self.socket.recv(&mut datagram);
                    let Ok(received) = timeout(until.saturating_sub(now), received).await else {
                        continue;
                    };
                    let length = received.map_err(LinkError::Network)?;
                    let datagram = datagram.get(..length).unwrap_or_default();
                    let now = self.clock.since_boot();
                    if let Err(why) = self.session.receive(datagram, now) {
                        tracing::debug!(%why, "dropped a datagram of a BMC");
                    }
                }
                Next::Done(result) => return result.map_err(LinkError::Session),
                Next::Idle => return Err(LinkError::Session(Failure::NoSession)),
            }
        }
    }
}

async fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket)
}

fn random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}
