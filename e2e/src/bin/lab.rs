//! The lab at the prompt: builds its programs, or keeps a cluster up until Ctrl-C.

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::{
    control_plane::{ControlPlane, Options},
    pki::User,
    simulated::{Fleet, FleetOptions, MachineSpec},
    toolchain::Toolchain,
    volume::Volumes,
};
use kube::Client;

/// A Kubernetes cluster in one process tree, with machines whose power can be cut.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the programs of the control plane, if they are not built yet.
    Build,
    /// Cut the power of two nodes, one of them protected, and show what happens.
    Demo,
    /// Start a cluster, print how to reach it, and keep it until Ctrl-C.
    Up {
        /// Number of simulated nodes, node-1 and so on.
        #[arg(long, default_value_t = 3)]
        nodes: u16,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Build => build(),
        Command::Demo => e2e::demo::run().await,
        Command::Up { nodes } => up(nodes).await,
    }
}

fn build() -> Result<()> {
    println!("{}", Toolchain::build()?.directory().display());
    Ok(())
}

async fn up(nodes: u16) -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("up")).await?;
    control_plane.apply_deploy().await?;
    let volumes = Volumes::new(control_plane.files().directory().join("volumes"))?;
    let fleet = Fleet::new(control_plane.admin(), volumes, FleetOptions::default());
    for number in 1..=nodes {
        let mut spec = MachineSpec::new(format!("node-{number}"));
        // With the rights of a kubelet and no others, as on a real cluster.
        spec.client = Some(Client::try_from(
            control_plane.client_config(&User::node(&spec.name)).await?,
        )?);
        fleet.add(spec).set_power(true);
    }

    let seconds = control_plane.startup().as_secs_f64();
    let logs = control_plane.files().directory().display();
    eprintln!(
        "lab: control plane up in {seconds:.1} s, {nodes} nodes; logs are in {logs}; Ctrl-C ends it"
    );
    println!(
        "export KUBECONFIG={}",
        control_plane.kubeconfig_for_admin().display()
    );
    println!(
        "export PATH={}:$PATH",
        control_plane.toolchain().directory().display()
    );
    tokio::signal::ctrl_c().await?;
    Ok(())
}
