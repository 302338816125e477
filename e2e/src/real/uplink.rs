//! The cable between a real machine and its host: how the host reaches the machine's address, and that nobody else does.
//!
//! A kubelet must have an address and refuses one of 127.0.0.0/8, and an operator looks whether anybody answers there. So a
//! machine has two addresses of 10.77.0.0/16: its own, which is the Node's InternalIP, and the host's end of the cable
//! (RFC 3021). While it has power, the kubelet's port answers there, also if the kubelet hangs, as on any machine. When
//! it dies, the kernel takes the network namespace, the cable and the route through it away.
//!
//! What is left then must not fall to the host's default route: the packet would leave this host, and a gateway that
//! answers for everybody would be taken for a kubelet that lives. So a route of the lab's own says that both addresses are
//! unreachable, from before the machine exists until every process of the lab is dead; the route through the cable is
//! merely more specific. They stand in the table `local`, which Linux asks first, whatever other rules there are.

use std::{
    net::Ipv4Addr,
    process::{Command, Output},
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context, Result, bail, ensure};

use fencing_testbed::process::Guard;

/// The addresses of one machine and the host's end of its cable.
#[derive(Debug)]
pub(super) struct Uplink {
    address: Ipv4Addr,
    host: Ipv4Addr,
    /// The host's network device, while the machine has power.
    device: String,
}

impl Uplink {
    /// Takes a pair of addresses that no other machine has. They are unreachable from now on, but for the cable, until the
    /// guard has ended the lab.
    pub(super) fn reserve(guard: &Guard) -> Result<Self> {
        static COUNT: AtomicU16 = AtomicU16::new(0);
        const PAIRS: u16 = 1 << 15;
        let process = std::process::id();
        // Labs that start together start to look at different places.
        let start = u16::try_from(process.wrapping_mul(37) % u32::from(PAIRS))?;
        for _ in 0..PAIRS {
            let pair = start.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)) % PAIRS;
            let at = |number: u16| {
                let [high, low] = number.to_be_bytes();
                Ipv4Addr::new(10, 77, high, low)
            };
            let address = at(pair * 2);
            // The metric says whose route it is: two labs that try the same pair both see two, and nobody ever removes the
            // other's, even if it is killed at the worst moment.
            let route = format!("unreachable {address}/31 table local metric {process}");
            guard.at_end(&format!("ip -4 route delete {route} 2>/dev/null"))?;
            ip(&format!("route add {route}"))?;
            if owners(address)? == 1 {
                let device = format!("lab-{pair:04x}");
                // Connections that never end may keep the cable of a machine that went dark.
                guard.at_end(&format!("ip link delete {device} 2>/dev/null"))?;
                return Ok(Self {
                    address,
                    host: at(pair * 2 + 1),
                    device,
                });
            }
            ip(&format!("route delete {route}"))?;
        }
        bail!("no addresses of 10.77.0.0/16 are free")
    }

    /// The machine's end: the Node's InternalIP.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// What PID 1 of the machine has to know in order to make the cable.
    pub(super) fn environment(&self) -> [(&'static str, String); 4] {
        let lab = std::process::id();
        [
            ("ADDRESS", self.address.to_string()),
            ("HOST_ADDRESS", self.host.to_string()),
            ("HOST_DEVICE", self.device.clone()),
            ("HOST_NETWORK", format!("/proc/{lab}/ns/net")),
        ]
    }

    /// Makes the machine reachable through the cable that its PID 1 has made, or unreachable as it was before.
    pub(super) fn plug(&self, plugged: bool) -> Result<()> {
        let Self {
            address,
            host,
            device,
        } = self;
        if plugged {
            ip(&format!(
                "route replace {address} dev {device} src {host} table local"
            ))?;
        } else {
            // An error means that there is none: the machine is unplugged already, or has just died.
            let _ = ip(&format!("route delete {address} dev {device} table local"));
        }
        Ok(())
    }

    /// Takes away what the kernel may not yet have taken away of a machine that is dark.
    pub(super) fn clear(&self) {
        // An error means that there is nothing.
        let _ = ip(&format!("link delete {}", self.device));
    }
}

/// Takes the network card at a machine's or a wire's own end up or down, in the network namespace of this path.
pub(super) fn set_link(network: &str, up: bool) -> Result<()> {
    let state = if up { "up" } else { "down" };
    let output = Command::new("nsenter")
        .arg(format!("--net={network}"))
        .args(["ip", "link", "set", "eth0", state])
        .output()
        .context("failed to run nsenter")?;
    ensure!(
        output.status.success(),
        "eth0 does not go {state}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// How many routes of labs there are to the pair that begins with this address.
fn owners(address: Ipv4Addr) -> Result<usize> {
    let shown = ip(&format!("route show exact {address}/31 table local"))?;
    let text = String::from_utf8_lossy(&shown.stdout);
    Ok(text
        .lines()
        .filter(|line| line.starts_with("unreachable"))
        .count())
}

fn ip(words: &str) -> Result<Output> {
    let output = Command::new("ip")
        .arg("-4")
        .args(words.split(' '))
        .output()
        .context("failed to run ip")?;
    ensure!(
        output.status.success(),
        "`ip {words}` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output)
}
