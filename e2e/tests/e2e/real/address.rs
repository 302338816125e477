//! Nothing that is sent to a machine's address ever leaves this host: the machine may be off, on, dead or gone.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::machine::Power;
use k8s_openapi::api::core::v1::Node;

use super::Lab;

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
        nothing_leaves(*address).context("before it has ever been on")?;
    }
    let machine = &lab.machines[0];
    lab.boot(machine).await?;
    ensure!(
        internal_ip(&lab.node(machine).await?) == Some(addresses[0].to_string()),
        "the Node names another address"
    );
    nothing_leaves(addresses[0]).context("while it is on")?;
    machine.set_power(false);
    nothing_leaves(addresses[0]).context("as soon as it is dark")?;

    // The lab takes its routes away when it ends, and nobody else's.
    let shown = |address: &Ipv4Addr| route("show", &["exact", &address.to_string()]);
    for address in &addresses {
        ensure!(shown(address)?.1.contains("unreachable"));
    }
    drop(lab);
    for address in &addresses {
        let (_, left) = shown(address)?;
        ensure!(left.is_empty(), "left behind: {left}");
    }
    Ok(())
}

/// No route leads to the address, and a connection to the kubelet's port or another fails at once.
fn nothing_leaves(address: Ipv4Addr) -> Result<()> {
    let (found, told) = route("get", &[&address.to_string()])?;
    ensure!(!found, "there is a route to {address}: {told}");
    for port in [10250, 22, 443] {
        let begin = Instant::now();
        let answer = TcpStream::connect_timeout(&SocketAddr::from((address, port)), PATIENCE);
        let error = answer.err().with_context(|| {
            format!("{address}:{port} was connected to, so a packet has left this host")
        })?;
        println!("{address}:{port}: {error} after {:?}", begin.elapsed());
        ensure!(
            error.kind() == ErrorKind::HostUnreachable,
            "{address}:{port}: {error}"
        );
    }
    Ok(())
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
