//! The lab at the prompt: builds its programs, or keeps a cluster up until Ctrl-C.

use anyhow::{Result, anyhow};
use clap::{Parser, Subcommand, ValueEnum};
use e2e::{
    control_plane::{ControlPlane, Options},
    lab::{Kind, available},
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
    /// Cut a node's power again and again, and print how long its pod was away, stage by stage.
    BenchFailover {
        /// Number of power cuts; for figures that mean something, at least 10.
        #[arg(long, default_value_t = 10)]
        runs: usize,
        /// What runs on the machines; real kubelets where they may, if it is not given.
        #[arg(long)]
        kind: Option<Nodes>,
    },
    /// Start a cluster, print how to reach it, and keep it until Ctrl-C.
    Up {
        /// Number of simulated nodes, node-1 and so on.
        #[arg(long, default_value_t = 3)]
        nodes: u16,
    },
}

/// What runs on the machines.
#[derive(Clone, Copy, ValueEnum)]
enum Nodes {
    /// Nodes in the lab's process.
    Simulated,
    /// Kubelets and containers.
    Real,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Build => build(),
        Command::Demo => e2e::demo::run().await,
        Command::BenchFailover { runs, kind } => bench_failover(runs, kind).await,
        Command::Up { nodes } => up(nodes).await,
    }
}

fn build() -> Result<()> {
    println!("{}", Toolchain::build()?.directory().display());
    Ok(())
}

async fn bench_failover(runs: usize, nodes: Option<Nodes>) -> Result<()> {
    let kind = match nodes {
        Some(Nodes::Simulated) => Kind::Simulated,
        Some(Nodes::Real) => Kind::Real,
        None if available(Kind::Real).is_ok() => Kind::Real,
        None => Kind::Simulated,
    };
    available(kind).map_err(|reason| anyhow!("no such machines here: {reason}"))?;
    e2e::bench::failover(runs, kind).await
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
