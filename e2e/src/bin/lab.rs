//! The lab at the prompt: builds its programs, or keeps a cluster up until Ctrl-C.

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::{
    control_plane::{ControlPlane, Options},
    toolchain::Toolchain,
};

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
    /// Start a cluster, print how to reach it, and keep it until Ctrl-C.
    Up,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Build => build(),
        Command::Up => up().await,
    }
}

fn build() -> Result<()> {
    println!("{}", Toolchain::build()?.directory().display());
    Ok(())
}

async fn up() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("up")).await?;
    control_plane.apply_deploy().await?;
    let seconds = control_plane.startup().as_secs_f64();
    eprintln!(
        "lab: up in {seconds:.1} s; Ctrl-C ends it; logs are in {}",
        control_plane.files().directory().display()
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
