//! A machine with power, without, and ill.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use e2e::{
    machine::{Ailment, Machine},
    real::{RealMachine, Usage},
    workload::{Template, node_of, wait_node_ready},
};
use fencing_testbed::{moment::Moment, power::Power};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::{LIMIT, Lab, info, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_ends_everything_and_a_reboot_begins_anew() -> Result<()> {
    let Some(lab) = Lab::start("power", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    assert!(!machine.is_on());
    println!("first boot: Ready after {:?}", lab.boot(machine).await?);
    let first = machine.boot_id();
    assert_eq!(
        info(&lab.node(machine).await?)?.system_uuid,
        machine.system_uuid()
    );

    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;
    let write = lab.write_by(&volume, &first).await?;
    assert_eq!(write.node, machine.name());
    println!("with one pod: {:?}", machine.usage());

    let cut = Moment::now();
    machine.set_power(false);
    let dark = Moment::now().since(cut);
    let last = lab.last_write(&volume)?.context("no write")?;
    println!(
        "dark after {dark:?}, last write {:.1} ms after the cut",
        last.at.seconds_since(cut) * 1e3
    );
    // A busy host takes its time to kill, too.
    assert!(dark < Duration::from_secs(10), "{dark:?}");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(lab.last_write(&volume)?, Some(last), "a dark machine wrote");
    assert_eq!(machine.usage(), Usage::default());

    println!("reboot: Ready after {:?}", lab.boot(machine).await?);
    assert_ne!(machine.boot_id(), first);
    assert_eq!(
        info(&lab.node(machine).await?)?.system_uuid,
        machine.system_uuid()
    );
    // The pod is still bound to the node, so it starts again there, with its volume mounted again.
    let write = lab.write_by(&volume, &machine.boot_id()).await?;
    println!("reboot: container writes after {:?}", write.at.since(cut));
    lab.check_volumes().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ailing_nodes_look_dead_and_go_on_writing() -> Result<()> {
    let Some(lab) = Lab::start("ailments", 1).await? else {
        return Ok(());
    };
    let machine = &lab.machines[0];
    lab.boot(machine).await?;
    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    lab.workloads.wait_running("db-0", LIMIT).await?;

    let partitioned = Ailment {
        partitioned: true,
        ..Ailment::default()
    };
    let hung = Ailment {
        kubelet_hung: true,
        ..Ailment::default()
    };
    for ailment in [partitioned, hung] {
        let begin = Instant::now();
        machine.ail(ailment.clone());
        wait_node_ready(lab.client.clone(), machine.name(), "Unknown", LIMIT).await?;
        println!("{ailment:?}: Unknown after {:?}", begin.elapsed());
        let last = lab.last_write(&volume)?.context("no write")?;
        assert!(
            Moment::now().seconds_since(last.at) < 0.5,
            "silent since {last}"
        );

        let begin = Instant::now();
        machine.ail(Ailment::default());
        wait_node_ready(lab.client.clone(), machine.name(), "True", LIMIT).await?;
        println!("cured: Ready after {:?}", begin.elapsed());
    }
    let writes = lab.volumes.writes(&volume)?;
    assert!(
        writes.iter().all(|write| write.pod == writes[0].pod),
        "the pod lived through all of it"
    );

    machine.ail(Ailment {
        unmount_hung: true,
        ..Ailment::default()
    });
    lab.workloads.delete_pod("db-0", Some(1)).await?;
    sleep(Duration::from_secs(4)).await;
    let pod = lab.workloads.api::<Pod>().get("db-0").await?;
    assert_eq!(
        pod.metadata.uid.as_ref(),
        Some(&writes[0].pod),
        "Terminating while its volume is mounted"
    );
    machine.ail(Ailment::default());
    wait_for("the pod is replaced", || async {
        Ok(lab
            .last_write(&volume)?
            .is_some_and(|write| write.pod != writes[0].pod))
    })
    .await?;
    lab.check_volumes().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_moves_from_a_dark_machine_to_another() -> Result<()> {
    let Some(lab) = Lab::start("moves", 2).await? else {
        return Ok(());
    };
    for machine in &lab.machines {
        lab.boot(machine).await?;
    }
    let volume = lab
        .workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let of_pod = |machine: &&Arc<RealMachine>| machine.name() == node_of(&pod);
    let old = lab
        .machines
        .iter()
        .find(of_pod)
        .context("no such machine")?;
    lab.write_by(&volume, &old.boot_id()).await?;

    let cut = Moment::now();
    old.set_power(false);
    wait_node_ready(lab.client.clone(), old.name(), "Unknown", LIMIT).await?;
    println!("Unknown {:?} after the power cut", Moment::now().since(cut));
    // What the operator will do, by hand: the forced deletion first, then the taint.
    lab.workloads.delete_pod("db-0", Some(0)).await?;
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
    let patch = Patch::Json::<()>(serde_json::from_value(
        json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]),
    )?);
    let nodes: Api<Node> = Api::all(lab.client.clone());
    nodes
        .patch(old.name(), &PatchParams::default(), &patch)
        .await?;
    let tainted = Moment::now();
    lab.workloads
        .wait_running_elsewhere("db-0", old.name(), LIMIT)
        .await?;
    println!(
        "Running elsewhere {:?} after the taint",
        Moment::now().since(tainted)
    );
    let new = lab
        .machines
        .iter()
        .find(|machine| machine.name() != old.name());
    let new = new.context("no other machine")?;
    lab.write_by(&volume, &new.boot_id()).await?;
    lab.check_volumes().await
}
