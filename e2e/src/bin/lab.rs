//! The lab's command line: builds its programs, shows them, measures, or keeps a cluster up to play with.

use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use e2e::{
    bench::Plan,
    lab::{Kind, available},
    times::Times,
    toolchain::{Programs, Toolchain},
};
use fencing_testbed::bench::emulators;
use fencing_testbed::moment::Moment;

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
        /// Number of power cuts for each column; for figures that mean something, at least 10.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// What runs on the machines; if it is not given, real nodes, or simulated ones where those cannot be had.
        #[arg(long, value_delimiter = ',')]
        kind: Vec<Nodes>,
        /// The times of the control plane and of the kubelets: `fast` under the shortest policy, the others under the default one.
        #[arg(long, value_delimiter = ',', default_values = ["stock", "tuned"])]
        times: Vec<Times>,
        /// Measure also under a policy with `earlyDetection: Enabled`, which the operator has to know.
        #[arg(long)]
        early: bool,
        /// How long the pod is given without the operator, in seconds. Kubernetes evicts it after 300, which changes nothing.
        #[arg(long, default_value_t = 400)]
        patience: u64,
        /// Also print, on standard error, every request of the operator between the policy's deadline and the taint, and every
        /// write of it, with their offsets.
        #[arg(long)]
        verbose: bool,
    },
    /// Look at a thousand devices in peace time, and print what that costs the operator.
    BenchRest,
    /// Let nodes of small and large clusters die, alone and many at once, and print when they were out of service and what that cost.
    BenchScale {
        /// Nodes of each cluster.
        #[arg(long, value_delimiter = ',', default_values_t = [200, 5000])]
        nodes: Vec<usize>,
        /// Fences one after the other in each cluster.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// Nodes that die at once, one storm after the other.
        #[arg(long, value_delimiter = ',', default_values_t = [90, 300])]
        storms: Vec<usize>,
        /// With a kube-controller-manager (`true`), without one (`false`), or in both ways.
        #[arg(long, value_delimiter = ',', action = clap::ArgAction::Set, default_values_t = [false, true])]
        controllers: Vec<bool>,
        /// Have perf write a profile of each storm into this directory.
        #[arg(long)]
        profile: Option<std::path::PathBuf>,
    },
    /// So many emulated devices, until standard input ends: `bench-rest` starts itself so.
    #[command(hide = true)]
    Emulate { ipmi: usize, redfish: usize },
    /// Let nodes die, and operators and BMCs fail, at random moments, and judge what was written.
    Chaos {
        /// How many deaths.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
        cycles: u16,
        /// What the dice begin with; the time if it is not given.
        #[arg(long)]
        seed: Option<u64>,
        /// What runs on the machines.
        #[arg(long, default_value = "simulated")]
        kind: Nodes,
    },
    /// Compare the rights that the operator used in the last run of the e2e tests with those that deploy/rbac.yaml grants; `make e2e`
    /// does so when all of them have passed.
    Rights,
    /// Start a cluster with the operator at work, and cut and restore the power of its machines at a prompt.
    ///
    /// Commands are read from standard input (`help` lists them). Where that is no terminal, its end ends nothing: the
    /// cluster stays until SIGINT or SIGTERM.
    Up {
        /// Number of machines; their nodes are node-1 and so on.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
        nodes: u8,
        /// What runs on the machines.
        #[arg(long, default_value = "simulated")]
        kind: Nodes,
        /// How soon Kubernetes gives a node up, and how often its kubelet gives signs of life.
        #[arg(long, default_value = "fast")]
        times: Times,
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

impl From<Nodes> for Kind {
    fn from(nodes: Nodes) -> Self {
        match nodes {
            Nodes::Simulated => Self::Simulated,
            Nodes::Real => Self::Real,
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Build => build(),
        Command::Demo => e2e::demo::run().await,
        Command::BenchFailover {
            runs,
            kind,
            times,
            early,
            patience,
            verbose,
        } => {
            e2e::bench::failover(&Plan {
                runs: runs.into(),
                kinds: kinds(&kind),
                times,
                early,
                patience: Duration::from_secs(patience),
                verbose,
            })
            .await
        }
        Command::BenchRest => e2e::bench::rest::run().await,
        Command::BenchScale {
            nodes,
            runs,
            storms,
            controllers,
            profile,
        } => {
            e2e::bench::scale::run(&e2e::bench::scale::Plan {
                nodes,
                runs: runs.into(),
                storms,
                controllers,
                profile,
            })
            .await
        }
        Command::Emulate { ipmi, redfish } => emulators::serve(ipmi, redfish).await,
        Command::Chaos { cycles, seed, kind } => {
            let seed = seed.unwrap_or_else(|| Moment::now().monotonic_ns);
            let (name, kind) = ("chaos".to_owned(), kind.into());
            e2e::chaos::run(&e2e::chaos::Plan {
                name,
                kind,
                cycles: cycles.into(),
                seed,
                kills: e2e::chaos::Kills::InSilence,
            })
            .await
        }
        Command::Rights => rights(),
        Command::Up { nodes, kind, times } => {
            e2e::prompt::run(nodes.into(), kind.into(), times).await
        }
    }
}

fn build() -> Result<()> {
    println!("{}", Toolchain::build(Programs::All)?.directory().display());
    Ok(())
}

fn rights() -> Result<()> {
    println!("{}", e2e::rights::compare()?);
    Ok(())
}

/// The kinds of node to measure on.
fn kinds(wanted: &[Nodes]) -> Vec<Kind> {
    if !wanted.is_empty() {
        return wanted.iter().map(|nodes| (*nodes).into()).collect();
    }
    match available(Kind::Real) {
        Ok(()) => vec![Kind::Real],
        Err(reason) => {
            eprintln!("(no real kubelets here: {reason}; simulated nodes)");
            vec![Kind::Simulated]
        }
    }
}
