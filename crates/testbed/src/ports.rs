//! Ports that no other lab takes.
//!
//! "Bind port 0, close, hand the number to a server" loses the port now and then to whoever asks next, and always to
//! somebody while a test has the API server stopped. So the lab takes ports from below the kernel's range for outgoing
//! connections, and holds a locked file for each one as long as it needs it; the kernel drops the lock with the process.

use std::{
    fs::{File, OpenOptions},
    net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener},
    ops::RangeInclusive,
};

use anyhow::{Context, Result, bail};
use rustix::{
    fs::{FlockOperation, flock},
    net::{
        AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt::set_socket_reuseaddr,
    },
};

/// Below 32768, where Linux starts to take ports for outgoing connections, and above what servers use by default.
const RANGE: RangeInclusive<u16> = 20_000..=29_999;

/// A port of 127.0.0.1 that belongs to this lab until it is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port that nobody listens on.
    pub fn reserve() -> Result<Self> {
        Self::first(|number| is_free(number).then_some(())).map(|(port, ())| port)
    }

    /// The same, listening there.
    pub fn listen(address: IpAddr) -> Result<(Self, TcpListener)> {
        Self::first(|number| TcpListener::bind((address, number)).ok())
    }

    /// The first port that no other lab holds and that `take` can have.
    fn first<T>(take: impl Fn(u16) -> Option<T>) -> Result<(Self, T)> {
        let user = rustix::process::getuid().as_raw();
        let directory = std::env::temp_dir().join(format!("nodefencing-lab-ports-{user}"));
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("failed to make {}", directory.display()))?;
        // Labs that start together start to look at different places.
        let length = u32::from(RANGE.end() - RANGE.start()) + 1;
        let start = std::process::id().wrapping_mul(37) % length;
        for step in 0..length {
            let number = RANGE.start() + u16::try_from((start + step) % length)?;
            let lock = OpenOptions::new()
                .create(true)
                .append(true)
                .open(directory.join(number.to_string()))?;
            let ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            if ours && let Some(taken) = take(number) {
                let port = Self {
                    number,
                    _lock: lock,
                };
                return Ok((port, taken));
            }
        }
        bail!("all ports of {RANGE:?} are taken")
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Does nobody listen there? Bound, and not listened on, to find out: a program that is just being started has all that is open until it runs, and
/// what listens there would be in the way of whoever the port is for. A socket that is only bound is in nobody's way (`SO_REUSEADDR`).
fn is_free(number: u16) -> bool {
    let bound = || {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number))
    };
    bound().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_a_port_that_is_reserved_or_in_use() {
        let first = Port::reserve().expect("a port");
        let second = Port::reserve().expect("another port");
        assert_ne!(first.number(), second.number());

        // Listened on before it is given back: the test beside this one reserves ports, too.
        let number = first.number();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).expect("it was free");
        drop(first);
        let third = Port::reserve().expect("a third port");
        assert_ne!(third.number(), number);
    }

    /// Tests start programs all the time, each of which holds for a moment whatever is open.
    #[test]
    fn a_reserved_port_can_be_listened_on_while_programs_are_started() {
        use std::{
            process::Command,
            sync::atomic::{AtomicBool, Ordering},
            thread,
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        Command::new("true").status().expect("a program runs");
                    }
                });
            }
            let taken = (0..1_000).filter(|_| {
                let port = Port::reserve().expect("a port");
                TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).is_err()
            });
            let taken = taken.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(taken, 0, "of 1000");
        });
    }
}
