//! The address of a real machine, which is the Node's InternalIP and leads nowhere.
//!
//! A kubelet must have an address, refuses one of 127.0.0.0/8, and an operator looks whether somebody answers there. So a
//! machine has one of 10.77.0.0/16, which is real inside its own network namespace only. On the host, left to the default
//! route, a packet to it would leave the box, and a gateway that answers for everybody would be taken for a kubelet that
//! lives. A route of the lab's own says that the address is unreachable, from before the machine exists until every process
//! of the lab is dead, so that no other route is ever asked: it stands in the table `local`, which Linux looks up first
//! whatever other rules there are.

use std::{
    net::Ipv4Addr,
    process::{Command, Output},
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context, Result, bail, ensure};

use crate::process::Guard;

/// An address that no other machine has, and that is unreachable from now on until the guard has ended the lab.
pub(super) fn reserve(guard: &Guard) -> Result<Ipv4Addr> {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let process = std::process::id();
    // Labs that start together start to look at different places.
    let start = u16::try_from(process.wrapping_mul(37) % u32::from(u16::MAX))?;
    for _ in 0..u16::MAX {
        let number = start.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
        let [high, low] = number.to_be_bytes();
        if [0, 255].contains(&low) {
            continue;
        }
        let address = Ipv4Addr::new(10, 77, high, low);
        // The metric says whose route it is: two labs that try the same address both see two, and nobody ever removes the
        // other's, even if it is killed at the worst moment.
        let route = format!("unreachable {address} table local metric {process}");
        guard.at_end(&format!("ip route delete {route} 2>/dev/null"))?;
        run("add", &route)?;
        if owners(address)? == 1 {
            return Ok(address);
        }
        run("delete", &route)?;
    }
    bail!("no address of 10.77.0.0/16 is free")
}

/// How many routes of labs there are to this address.
fn owners(address: Ipv4Addr) -> Result<usize> {
    let shown = run("show", &format!("exact {address} table local"))?;
    let text = String::from_utf8_lossy(&shown.stdout);
    Ok(text
        .lines()
        .filter(|line| line.starts_with("unreachable"))
        .count())
}

fn run(verb: &str, route: &str) -> Result<Output> {
    let output = Command::new("ip")
        .args(["-4", "route", verb])
        .args(route.split(' '))
        .output()
        .context("failed to run ip")?;
    ensure!(
        output.status.success(),
        "`ip route {verb} {route}` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output)
}
