//! Nothing that is sent to a machine's address ever leaves this host: the machine may be off, on, dead or gone.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::machine::{Ailment, Machine};
use fencing_testbed::power::Power;
use k8s_openapi::api::core::v1::Node;

use super::{Lab, wait_for};

/// Where machines have their addresses.
const RANGE: &str = "10.77.0.0/16";

const KUBELET_PORT: u16 = 10250;

/// How long the operator gives the kubelet's port (`KUBELET_TIMEOUT`): the answer must not take longer.
const PATIENCE: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_sent_to_a_machine_leaves_this_host() -> Result<()> {
    let Some(lab) = Lab::start("address", 2).await? else {
        return Ok(());
    };
    let addresses: Vec<_> = lab
        .machines
        .iter()
        .map(|machine| machine.address())
        .collect();
    ensure!(addresses[0] != addresses[1], "{addresses:?}");
    for address in &addresses {
        is_unreachable(*address).context("before it has ever been on")?;
    }
    let (machine, address) = (&lab.machines[0], addresses[0]);
    lab.boot(machine).await?;
    ensure!(
        internal_ip(&lab.node(machine).await?) == Some(address.to_string()),
        "the Node names another address"
    );
    leads_to_the_machine(address).context("while it is on")?;
    wait_for("the kubelet's port answers", || async {
        Ok(connect(address, KUBELET_PORT).is_ok())
    })
    .await?;
    let refused = connect(address, 22).map_err(|error| error.kind());
    ensure!(
        refused == Err(ErrorKind::ConnectionRefused),
        "a port that nobody listens on: {refused:?}"
    );
    // A kubelet that hangs is not one that is dead.
    machine.ail(Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    });
    connect(address, KUBELET_PORT).context("while its kubelet hangs")?;
    machine.ail(Ailment {
        partitioned: true,
        ..Ailment::default()
    });
    is_unreachable(address).context("while it is partitioned")?;
    machine.ail(Ailment::default());
    connect(address, KUBELET_PORT).context("after the partition")?;

    machine.set_power(false);
    ensure!(
        connect(address, KUBELET_PORT).is_err(),
        "answers although it is dark"
    );
    leads_to_the_machine(address)
        .or_else(|_| is_unreachable(address))
        .context("as soon as it is dark")?;
    wait_for("the kernel has taken the cable away", || async {
        Ok(is_unreachable(address).is_ok())
    })
    .await?;

    // The lab takes its routes away when it ends.
    let left = || {
        route(
            "show",
            &["root", RANGE, "metric", &std::process::id().to_string()],
        )
    };
    ensure!(left()?.1.lines().count() >= 2);
    drop(lab);
    let (_, left) = left()?;
    let ours = addresses
        .iter()
        .any(|address| left.contains(&address.to_string()));
    ensure!(!ours, "left behind: {left}");
    Ok(())
}

/// No route leads to the address, and a connection to the kubelet's port or another fails at once.
fn is_unreachable(address: Ipv4Addr) -> Result<()> {
    let (found, told) = route("get", &[&address.to_string()])?;
    ensure!(!found, "there is a route to {address}: {told}");
    for port in [KUBELET_PORT, 22, 443] {
        let begin = Instant::now();
        let answer = connect(address, port).map_err(|error| error.kind());
        ensure!(
            answer == Err(ErrorKind::HostUnreachable),
            "{address}:{port} says {answer:?} after {:?}",
            begin.elapsed()
        );
    }
    Ok(())
}

/// Whatever is sent to the address goes into the machine's own cable.
fn leads_to_the_machine(address: Ipv4Addr) -> Result<()> {
    let (found, told) = route("get", &[&address.to_string()])?;
    ensure!(
        found && told.contains(" dev lab-"),
        "{address} is reached another way: {told}"
    );
    Ok(())
}

fn connect(address: Ipv4Addr, port: u16) -> io::Result<()> {
    TcpStream::connect_timeout(&SocketAddr::from((address, port)), PATIENCE).map(drop)
}

/// `ip route VERB`, in the table of the lab's routes unless it is asked where a packet would go.
fn route(verb: &str, arguments: &[&str]) -> Result<(bool, String)> {
    let mut ip = Command::new("ip");
    ip.args(["-4", "route", verb]).args(arguments);
    if verb == "show" {
        ip.args(["table", "local"]);
    }
    let output = ip.output().context("failed to run ip")?;
    let told = [output.stdout, output.stderr].concat();
    Ok((
        output.status.success(),
        String::from_utf8_lossy(&told).into_owned(),
    ))
}

fn internal_ip(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses
        .iter()
        .find(|address| address.type_ == "InternalIP");
    internal.map(|address| address.address.clone())
}
