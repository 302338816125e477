//! Real nodes answer the questions that simulated nodes answer, and in the same words.

use anyhow::Result;
use e2e::parity;

use super::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn real_nodes_answer_as_simulated_ones_do() -> Result<()> {
    let Some(lab) = Lab::start("parity-real", 1).await? else {
        return Ok(());
    };
    let stage = parity::Stage {
        plane: &lab.plane,
        volumes: &lab.volumes,
        workloads: &lab.workloads,
        machine: lab.machines[0].as_ref(),
    };
    let answers = parity::ask(&stage).await?;
    answers.iter().for_each(|answer| println!("{answer}"));
    assert_eq!(answers, parity::expected());
    lab.check_volumes().await
}
