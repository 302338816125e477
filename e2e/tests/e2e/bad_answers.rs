//! Answers that are no answers: spoiled, partial, refused with a long wait. Whatever is read is read again, and nothing is decided over
//! what could not be read (F20, F22).

use anyhow::{Result, ensure};
use e2e::lab::LIMIT;
use e2e::proxy::{Action, Fate, Spoil, writes};
use serde_json::json;

use crate::outage::Outage;

/// Each of these befalls each kind of read once.
const BAD: [Action; 11] = [
    Action::Spoil(Spoil::Truncated),
    Action::Spoil(Spoil::Garbage),
    Action::Spoil(Spoil::WrongContentType),
    Action::Spoil(Spoil::Empty),
    Action::Spoil(Spoil::OtherKind),
    Action::Spoil(Spoil::Partial),
    Action::Before(Fate::Status(429, Some(600))),
    Action::Before(Fate::Status(500, None)),
    Action::Before(Fate::Status(502, None)),
    Action::Before(Fate::Status(503, Some(600))),
    Action::Before(Fate::Status(504, None)),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_fail_in_every_way_delay_a_fence_and_spoil_none() -> Result<()> {
    let outage = Outage::prepare("bad-answers", "PowerOff", json!({})).await?;
    let mut rules = Vec::new();
    for bad in BAD {
        let lists = writes::list_pods().once();
        let reads = writes::read_node().of(&outage.node).once();
        rules.push((bad, outage.proxy.rule(lists, bad)));
        rules.push((bad, outage.proxy.rule(reads, bad)));
    }
    outage.cut().await?;
    let fence = outage.lab.wait_stage(&outage.node, "Recovered").await?;
    for (bad, rule) in rules {
        ensure!(rule.hits() == 1, "{bad:?} befell nothing");
    }
    let commands = outage.rig()?.bmc.power_commands();
    ensure!(commands.len() == 1, "one outage, one command: {commands:?}");
    outage.lab.silent_after_proof(&fence).await?;
    outage
        .lab
        .workloads
        .wait_running_elsewhere("db-0", &outage.node, LIMIT)
        .await?;
    outage.verdict().await
}
