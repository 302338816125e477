//! The orders in which things happen at power-on.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::{
    machine::{Boot, Machine},
    workload::{Template, ready_status, wait_node_ready},
};
use fencing_testbed::{moment::Moment, power::Power};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::time::sleep;

use super::{LIMIT, Lab, info, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_boots_in_every_order_that_real_clusters_show() -> Result<()> {
    let Some(lab) = Lab::start("boots", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    lab.boot(machine).await?;
    let template = Template {
        host_network: true,
        ..Template::default()
    };
    let volume = lab.workloads.stateful_set("db", &template).await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;

    // The network plugin late, also after the node was found dead.
    for found_dead in [false, true] {
        machine.set_power(false);
        if found_dead {
            wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;
        }
        machine.next_boot(Boot {
            pods_before_ready: true,
            ..Boot::default()
        });
        let begin = Moment::now();
        let ready = lab.boot(machine).await?;
        let writes = lab.volumes.writes(&volume)?;
        let first = writes.iter().find(|write| write.boot == machine.boot_id());
        let first = first.context("no write before Ready")?.at.since(begin);
        println!("network late, found dead={found_dead}: first write {first:?}, Ready {ready:?}");
        assert!(first < ready);
    }

    // Every status update refused: the node looks as dead as it was.
    machine.set_power(false);
    wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;
    let before = info(&lab.node(machine).await?)?.boot_id.clone();
    machine.next_boot(Boot {
        status_refused: true,
        ..Boot::default()
    });
    machine.set_power(true);
    lab.write_by(&volume, &machine.boot_id()).await?;
    sleep(Duration::from_secs(2)).await;
    let node = lab.node(machine).await?;
    assert_eq!(info(&node)?.boot_id, before);
    println!(
        "status refused: Ready={:?} with the old boot ID",
        ready_status(&node)
    );

    // A slow firmware.
    machine.set_power(false);
    machine.next_boot(Boot {
        delay: Duration::from_secs(3),
        ..Boot::default()
    });
    let ready = lab.boot(machine).await?;
    println!("3 s of delay: Ready {ready:?}");
    assert!(ready > Duration::from_secs(3));
    lab.check_volumes().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_ready_before_its_network_daemonset_runs() -> Result<()> {
    let Some(lab) = Lab::start("daemonset", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    let nodes: Api<Node> = Api::all(lab.client.clone());
    machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/network".to_owned()),
        ..Boot::default()
    });
    machine.set_power(true);
    wait_for("the node registers", || async {
        Ok(nodes.get_opt(machine.name()).await?.is_some())
    })
    .await?;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(ready_status(&lab.node(machine).await?), Some("False"));
    lab.workloads
        .daemon_set("network", &Template::network_plugin())
        .await?;
    wait_node_ready(lab.client.clone(), machine.name(), "True", LIMIT).await?;
    // The next boot needs it again: what it wrote was in /run.
    machine.set_power(false);
    machine.next_boot(Boot {
        ready_needs_daemonset: Some("work/network".to_owned()),
        ..Boot::default()
    });
    println!(
        "Ready {:?} after a reboot, thanks to the DaemonSet's pod",
        lab.boot(machine).await?
    );
    Ok(())
}
