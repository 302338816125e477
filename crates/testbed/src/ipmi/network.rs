//! The line of the BMC: its socket, and what becomes of datagrams on their way.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::net::{connect, connect_unspec};
use tokio::{net::UdpSocket, time::sleep};

use super::{
    faults::{Network, Path, Source},
    service::Service,
};
use crate::{https::Line, ports::Port, splitmix64};

/// More than any datagram on a line of Ethernet.
const DATAGRAM_BYTES_MAX: usize = 4096;
/// How many answers are kept to be replayed.
const KEPT: usize = 8;
/// Whence answers come that come from a stranger.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 253);

/// The socket of a BMC, and those of strangers that speak for it.
pub(super) struct Wire {
    socket: UdpSocket,
    other_port: UdpSocket,
    other_address: UdpSocket,
    address: SocketAddr,
    line: Mutex<Line>,
    /// Datagrams that have come so far.
    count: AtomicU64,
    /// Datagrams that were lost on purpose.
    lost: AtomicU64,
    sent: Mutex<Vec<Vec<u8>>>,
    _port: Option<Port>,
}

impl Wire {
    /// On the preferred port or, if that is taken or not allowed, on a free one.
    pub(super) fn new(address: IpAddr, preferred: u16) -> Result<Self> {
        let (socket, port) = bind_or_else(address, preferred)?;
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            other_port: bind((address, 0).into())?,
            other_address: bind((STRANGER, 0).into())?,
            line: Mutex::default(),
            count: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            sent: Mutex::default(),
            _port: port,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Changes the line's state at once. A socket that is connected to itself is a closed port for everybody else: the
    /// kernel refuses what they send, and nobody else can take the port meanwhile.
    pub(super) fn set_line(&self, line: Line) -> Result<()> {
        let mut now = self.line.lock().expect("no panic while the line changes");
        match line {
            Line::Refused => connect(&self.socket, &self.address)?,
            Line::Up | Line::BlackHole | Line::Dark => connect_unspec(&self.socket)?,
        }
        *now = line;
        Ok(())
    }

    fn is_up(&self) -> bool {
        *self.line.lock().expect("no panic while the line changes") == Line::Up
    }

    /// Receives and answers until it is stopped.
    pub(super) async fn serve(self: Arc<Self>, service: Arc<Service>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let received = self.socket.recv_from(&mut buffer).await;
            let Ok((length, from)) = received else {
                // What a client has refused. It is not said which one, and does not matter.
                sleep(Duration::from_millis(1)).await;
                continue;
            };
            if !self.is_up() {
                continue;
            }
            let network = service.faults().network;
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let dice = Dice::new(network.seed, number);
            let (wire, service) = (self.clone(), service.clone());
            let datagram = buffer[..length].to_vec();
            tokio::spawn(wire.carry(service, datagram, from, network, dice));
        }
    }

    async fn carry(
        self: Arc<Self>,
        service: Arc<Service>,
        datagram: Vec<u8>,
        from: SocketAddr,
        network: Network,
        mut dice: Dice,
    ) {
        for request in self.travel(datagram, &network.requests, &mut dice).await {
            let Some(answer) = service.receive(&request, from).await else {
                continue;
            };
            if dice.falls(network.replayed) {
                self.replay(from, network.source, &mut dice).await;
            }
            self.keep(&answer);
            for answer in self.travel(answer, &network.answers, &mut dice).await {
                self.send(&answer, from, network.source).await;
            }
        }
    }

    /// What arrives of a datagram, as often as it does.
    async fn travel(&self, mut datagram: Vec<u8>, path: &Path, dice: &mut Dice) -> Vec<Vec<u8>> {
        let [lost, twice, corrupted, late] =
            [path.lost, path.duplicated, path.corrupted, path.late]
                .map(|chance| dice.falls(chance));
        if corrupted && !datagram.is_empty() {
            let bit = dice.below(datagram.len() * 8);
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        let more = if late { path.late_by } else { Duration::ZERO };
        let delay = path.delay + more;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if lost {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Vec::new();
        }
        vec![datagram; 1 + usize::from(twice)]
    }

    async fn send(&self, datagram: &[u8], to: SocketAddr, source: Source) {
        if !self.is_up() {
            return;
        }
        let socket = match source {
            Source::Own => &self.socket,
            Source::OtherPort => &self.other_port,
            Source::OtherAddress => &self.other_address,
        };
        // A client that has gone away is no concern of a BMC.
        let _ = socket.send_to(datagram, to).await;
    }

    fn keep(&self, answer: &[u8]) {
        let mut sent = self.sent.lock().expect("no panic while answers are kept");
        if sent.len() == KEPT {
            sent.remove(0);
        }
        sent.push(answer.to_vec());
    }

    async fn replay(&self, to: SocketAddr, source: Source, dice: &mut Dice) {
        let old = {
            let sent = self.sent.lock().expect("no panic while answers are kept");
            let index = dice.below(sent.len());
            sent.get(index).cloned()
        };
        if let Some(old) = old {
            self.send(&old, to, source).await;
        }
    }
}

/// A socket on the preferred port or, if that is taken or not allowed, on a free one.
pub(super) fn bind_or_else(address: IpAddr, preferred: u16) -> Result<(UdpSocket, Option<Port>)> {
    if let Ok(socket) = bind((address, preferred).into()) {
        return Ok((socket, None));
    }
    let port = Port::reserve()?;
    let socket = bind((address, port.number()).into())?;
    Ok((socket, Some(port)))
}

pub(super) fn bind(address: SocketAddr) -> Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address);
    let socket = socket.with_context(|| format!("failed to bind UDP {address}"))?;
    socket.set_nonblocking(true)?;
    Ok(UdpSocket::from_std(socket)?)
}

/// Chances that come out the same for the same seed and the same datagram.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed ^ number.wrapping_mul(splitmix64::STEP.rotate_left(32)));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        splitmix64::next(&mut self.0)
    }

    /// Whether something of this chance happens.
    fn falls(&mut self, chance: f64) -> bool {
        let whole = (1_u64 << 53) as f64;
        ((self.next() >> 11) as f64) / whole < chance
    }

    /// A number below this one; 0 if there is none.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }
}
