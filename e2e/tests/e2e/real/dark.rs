//! Nothing leaves a machine that goes dark: neither to a peer of its kubelet's port nor to the API server. One whose processes
//! are killed has its connections closed by the kernel, which is what everything here is held against.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Result, ensure};
use e2e::{
    audit::Request,
    machine::{Ailment, Machine},
    real::RealMachine,
    workload::wait_node_ready,
};
use fencing_testbed::{moment::Moment, power::Power};

use super::{LIMIT, Lab, wait_for};

const KUBELET_PORT: u16 = 10250;

/// Many times what the end of a connection takes to arrive, which is some 30 ms.
const SILENCE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaves_a_machine_that_goes_dark() -> Result<()> {
    let Some(lab) = Lab::start("dark", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];

    lab.boot(machine).await?;
    let mut kept = connect(machine).await?;
    let before = Moment::now();
    machine.set_power(false);
    kept.set_read_timeout(Some(LIMIT))?;
    let ended = kept.read(&mut [0; 64]).map_err(|error| error.kind());
    ensure!(
        matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)),
        "killed processes keep a connection: {ended:?}"
    );
    wait_for("the API server hears that watches end", || async {
        let requests = requests_since(&lab, machine, before, Moment::now()).await?;
        Ok(requests.iter().any(|it| it.starts_with("watch")))
    })
    .await?;

    lab.boot(machine).await?;
    let mut kept = connect(machine).await?;
    let before = Moment::now();
    machine.go_dark();
    let dark = Moment::now();
    ensure!(!machine.is_on());
    // Within the 3 s for which the kernel looks for the neighbour (ARP); then it gives up at once, as on any segment.
    let port = SocketAddr::from((machine.address(), KUBELET_PORT));
    let answer = TcpStream::connect_timeout(&port, Duration::from_millis(300));
    let answer = answer.map(drop).map_err(|error| error.kind());
    ensure!(
        answer == Err(ErrorKind::TimedOut),
        "who asks is to wait in vain: {answer:?}"
    );
    kept.set_read_timeout(Some(SILENCE))?;
    // A live kubelet answers what is no TLS by closing the connection.
    kept.write_all(b"no TLS")?;
    let answer = kept.read(&mut [0; 64]).map_err(|error| error.kind());
    ensure!(
        answer == Err(ErrorKind::WouldBlock),
        "it answers {answer:?}"
    );
    // What ails a machine without power does not show, least of all as what it had still to say.
    machine.ail(Ailment::default());
    let requests = requests_since(&lab, machine, before, dark).await?;
    ensure!(requests.is_empty(), "they arrived: {requests:?}");
    wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;

    // It boots as any other one, and what it had to say before is lost.
    lab.boot(machine).await?;
    connect(machine).await?;
    lab.check_volumes().await
}

/// A connection to the kubelet's port, which says nothing of itself.
async fn connect(machine: &RealMachine) -> Result<TcpStream> {
    let port = SocketAddr::from((machine.address(), KUBELET_PORT));
    wait_for("the kubelet's port answers", || async {
        Ok(TcpStream::connect_timeout(&port, SILENCE).is_ok())
    })
    .await?;
    Ok(TcpStream::connect_timeout(&port, SILENCE)?)
}

/// What has arrived of its kubelet at the API server: ends of watches since its power was taken, and requests since it was gone.
async fn requests_since(
    lab: &Lab,
    machine: &RealMachine,
    taken: Moment,
    gone: Moment,
) -> Result<Vec<String>> {
    let audit = lab.plane.audit();
    audit.settled().await?;
    let user = format!("system:node:{}", machine.name());
    let mut requests = audit.requests_of(&user)?;
    requests.retain(|request| match request.verb.as_str() {
        "watch" => request.answered > taken.wall,
        _ => request.received > gone.wall,
    });
    Ok(requests.iter().map(Request::summary).collect())
}
