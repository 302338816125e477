//! Case 5: somebody powers the machine on while the operator is in the middle of its fence.
//!
//! The lab holds the operator at each point of its protocol, powers the machine on there, and lets it go on. Before the
//! taint, a node that is Ready again is left alone; after it, `out-of-service` stays until everything has detached and
//! the machine has booted anew. In every case no volume is ever written by two machines.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, condition, has_taint};
use e2e::machine::Boot;
use e2e::point::Point;
use e2e::proxy::writes::OUT_OF_SERVICE;
use e2e::workload::wait_node_ready;

use crate::scene::Scene;

/// The machine is powered on at `point`, and its node is Ready before the operator goes on.
async fn powered_on_and_ready(point: Point, kind: Kind) -> Result<()> {
    let Some(scene) = Scene::set("power-on", kind, point.mode()).await? else {
        return Ok(());
    };
    let held = scene.strike_and_hold(point).await?;
    scene.rig()?.machine.set_power(true);
    wait_node_ready(scene.lab.control_plane.admin(), &scene.node, "True", LIMIT).await?;
    if point == Point::Detaching {
        // A new boot is not enough while something is attached.
        stays_out_of_service(&scene, Duration::from_secs(3)).await?;
    }
    held.release().await?;
    if point.is_tainted() {
        scene.released_by_the_gate().await?;
    } else {
        scene.given_up().await?;
    }
    scene.verdict().await
}

/// The patch lands on a machine that is on again, but whose kubelet has not said so yet: the one moment at which nobody
/// can tell. The claim keeps its pods from starting, and the taint stays until the new boot is known.
async fn patch_lands_on_a_booting_machine(kind: Kind) -> Result<()> {
    let Some(scene) = Scene::set("power-on-late", kind, "ConfirmOnly").await? else {
        return Ok(());
    };
    let held = scene.strike_and_hold(Point::PatchInFlight).await?;
    let machine = &scene.rig()?.machine;
    machine.next_boot(Boot {
        delay: Duration::from_secs(12),
        ..Boot::default()
    });
    machine.set_power(true);
    held.release().await?;
    let alarmed = scene.lab.wait_fence(&scene.node, |fence| {
        condition(fence, "Escalated")
            .is_some_and(|escalated| escalated["reason"] == "FenceRegressed")
    });
    alarmed.await?;
    scene.released_by_the_gate().await?;
    scene.verdict().await
}

async fn stays_out_of_service(scene: &Scene, how_long: Duration) -> Result<()> {
    let begin = std::time::Instant::now();
    while begin.elapsed() < how_long {
        let node = scene.lab.node(&scene.node).await?;
        ensure!(
            has_taint(&node, OUT_OF_SERVICE),
            "out-of-service went while a volume was attached"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

macro_rules! at_each_point {
    ($($name:ident: $run:expr;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            $run.await
        }
    )* };
}

at_each_point! {
    simulated_node_powered_on_while_detected: powered_on_and_ready(Point::Detected, Kind::Simulated);
    simulated_node_powered_on_while_claimed: powered_on_and_ready(Point::Claimed, Kind::Simulated);
    simulated_node_powered_on_while_quiesced: powered_on_and_ready(Point::Quiesced, Kind::Simulated);
    simulated_node_powered_on_while_off_sent: powered_on_and_ready(Point::OffSent, Kind::Simulated);
    simulated_node_powered_on_while_proved: powered_on_and_ready(Point::Proved, Kind::Simulated);
    simulated_node_powered_on_while_patch_in_flight: powered_on_and_ready(Point::PatchInFlight, Kind::Simulated);
    simulated_node_powered_on_while_patch_in_flight_and_not_ready_yet: patch_lands_on_a_booting_machine(Kind::Simulated);
    simulated_node_powered_on_while_tainted: powered_on_and_ready(Point::Tainted, Kind::Simulated);
    simulated_node_powered_on_while_detaching: powered_on_and_ready(Point::Detaching, Kind::Simulated);
}
