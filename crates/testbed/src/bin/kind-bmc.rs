//! `kind-bmc NODE UUID`: the BMC of one node of kind (docs/how-to/kind.md).
//!
//! It runs in a container beside the node's, with the socket of the Docker Engine, and serves Redfish on port 443 with a certificate of its own.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, bail};
use fencing_testbed::bmc::{Bmc, BmcCa, Credentials};
use fencing_testbed::docker::Container;

const SOCKET: &str = "/var/run/docker.sock";
const USERNAME: &str = "fence";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(uuid)) = (arguments.next(), arguments.next()) else {
        bail!("usage: kind-bmc NODE UUID");
    };
    let password = std::env::var("BMC_PASSWORD").context("BMC_PASSWORD is not set")?;
    let machine = Container::new(&node, &uuid, Path::new(SOCKET))?;
    // A container that is not there is found now, and not in an outage.
    let state = if machine.runs()? { "On" } else { "Off" };
    let credentials = Credentials {
        username: USERNAME.to_owned(),
        password,
    };
    let ca = BmcCa::new("a BMC of kind")?;
    let bmc = Bmc::start([0, 0, 0, 0].into(), Arc::new(machine), credentials, &ca)?;
    println!("{node} reads {state}; its BMC listens on {}", bmc.address());
    std::future::pending().await
}
