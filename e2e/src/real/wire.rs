//! A wire with a server at its far end that can be cut: the kernel loses every packet, and tells neither end.
//!
//! The server's socket is in a network namespace of its own, and a pair of virtual network cards leads there. While the wire is cut,
//! the far card is down: connections stay open, both ends send again and again and give up by their own deadlines, and whoever tries
//! to connect gets no answer. That needs root; what a proxy can do without (`Line::Dark`) closes no connection either, but TCP still
//! acknowledges every byte.

use std::{
    fs::File,
    net::{IpAddr, SocketAddr, TcpListener},
    os::fd::AsFd,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{
    host,
    uplink::{Uplink, set_link},
};
use fencing_testbed::{
    eventually::eventually,
    process::{Guard, Process, Spec},
};

/// How long it may take to lay it. It takes 40 ms.
const LIMIT: Duration = Duration::from_secs(10);

/// A wire, whole at first. The far end goes when this is dropped.
#[derive(Debug)]
pub struct Wire {
    uplink: Uplink,
    far_end: Process,
}

impl Wire {
    /// Lays a wire; `log` is for what its far end has to say. Fails where [`super::available`] does.
    pub async fn lay(guard: &Arc<Guard>, log: &Path) -> Result<Self> {
        let uplink = Uplink::reserve(guard)?;
        let script = host::script("wire.sh");
        let mut spec =
            Spec::new("wire", "unshare", log).args(["--net".as_ref(), script.as_os_str()]);
        for (key, value) in uplink.environment() {
            spec = spec.env(key, value);
        }
        let far_end = spec.spawn(guard)?;
        let this = Self { uplink, far_end };
        eventually("a wire is laid", LIMIT, async || {
            this.far_end.check()?;
            let said = this.far_end.tail(1);
            ensure!(said == "laid", "it says: {said}");
            Ok(())
        })
        .await?;
        this.uplink.plug(true)?;
        Ok(this)
    }

    /// The address of its far end.
    pub fn address(&self) -> IpAddr {
        self.uplink.address().into()
    }

    /// A socket at its far end, on a port of the kernel's choice.
    pub fn listen(&self) -> Result<TcpListener> {
        let network = Some(LinkNameSpaceType::Network);
        let outside = File::open("/proc/thread-self/ns/net")?;
        let inside = File::open(self.network())?;
        move_into_link_name_space(inside.as_fd(), network)?;
        let listener = TcpListener::bind(SocketAddr::new(self.address(), 0));
        move_into_link_name_space(outside.as_fd(), network)?;
        listener.context("failed to listen at the far end of a wire")
    }

    /// Cuts it, or mends it.
    pub fn cut(&self, is_cut: bool) -> Result<()> {
        set_link(&self.network(), !is_cut)
    }

    fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.far_end.pid().as_raw_nonzero())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // An error means that it has ended. The network card of this end goes with the far one's.
        let _ = self.far_end.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Kind, available_to_test};
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;

    #[tokio::test]
    async fn what_is_sent_while_it_is_cut_arrives_when_it_is_mended_and_nobody_is_told() {
        if !available_to_test(Kind::Real, "wire").unwrap() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let guard = Guard::start().unwrap();
        let log = directory.path().join("wire.log");
        let wire = Wire::lay(&guard, &log).await.unwrap();
        let listener = wire.listen().unwrap();
        let address = listener.local_addr().unwrap();
        let mut near = TcpStream::connect(address).unwrap();
        let (mut far, _) = listener.accept().unwrap();

        wire.cut(true).unwrap();
        near.write_all(b"late").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let mut bytes = [0; 4];
        let error = far.read(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let refused = TcpStream::connect_timeout(&address, Duration::from_millis(300)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);

        wire.cut(false).unwrap();
        far.set_read_timeout(Some(LIMIT)).unwrap();
        far.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"late");
    }
}
