//! Real and simulated nodes answer the same questions in the same words.

use anyhow::Result;
use e2e::parity::{Stage, ask, expected};

use crate::real;
use crate::simulated::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn real_nodes_answer_as_simulated_ones_do() -> Result<()> {
    let Some(lab) = real::Lab::start("parity-real", 1).await? else {
        return Ok(());
    };
    let stage = Stage {
        plane: &lab.plane,
        volumes: &lab.volumes,
        workloads: &lab.workloads,
        machine: lab.machines[0].as_ref(),
    };
    let answers = ask(&stage).await?;
    answers.iter().for_each(|answer| eprintln!("{answer}"));
    assert_eq!(answers, expected());
    lab.check_volumes().await
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_nodes_answer_as_real_ones_do() -> Result<()> {
    let cluster = Cluster::of("parity-simulated", &["sim-1"]).await?;
    let stage = Stage {
        plane: &cluster.plane,
        volumes: &cluster.volumes,
        workloads: &cluster.workloads,
        machine: cluster.machine("sim-1")?,
    };
    let answers = ask(&stage).await;
    let answers = answers.inspect_err(|_| eprintln!("{}", cluster.timeline))?;
    answers.iter().for_each(|answer| eprintln!("{answer}"));
    assert_eq!(answers, expected(), "{}", cluster.timeline);
    cluster.check_volumes().await
}
