//! Case 5: somebody powers the machine on while the operator is in the middle of its fence.
//!
//! The lab holds the operator at each point of its protocol, powers the machine on there, and lets it go on. Before the
//! taint, a node that is Ready again is left alone; after it, `out-of-service` stays until everything has detached and
//! the machine has booted anew. In every case no volume is ever written by two machines.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, has_taint};
use e2e::machine::Boot;
use e2e::point::Point;
use e2e::proxy::writes::{self, OUT_OF_SERVICE, QUARANTINE};
use e2e::proxy::{Action, Fate};
use e2e::workload::wait_node_ready;
use fencing_testbed::bmc::Entry;
use fencing_testbed::moment::Moment;

use crate::scene::Scene;

/// The machine is powered on at `point`, and its node is Ready before the operator goes on.
async fn powered_on_and_ready(point: Point, kind: Kind) -> Result<()> {
    let Some(scene) = Scene::set("power-on", kind, point.mode()).await? else {
        return Ok(());
    };
    let held = scene.strike_and_hold(point).await?;
    // What the operator sends anew, having waited in vain for the answer, is kept from a machine that is slow to boot.
    let refuse = Action::Before(Fate::Status(503, None));
    let sent_anew = scene.proxy.rule(writes::taint().of(&scene.node), refuse);
    scene.rig()?.machine.set_power(true);
    wait_node_ready(scene.lab.control_plane.admin(), &scene.node, "True", LIMIT).await?;
    sent_anew.remove();
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
    let is_out = |node: &_| has_taint(node, OUT_OF_SERVICE);
    scene
        .lab
        .wait_node(&scene.node, "the patch has landed", is_out)
        .await?;
    // Nothing is attached any more after a moment, but the machine is neither off nor known to have booted anew.
    stays_out_of_service(&scene, Duration::from_secs(4)).await?;
    scene.released_by_the_gate().await?;
    scene.verdict().await
}

/// In mode PowerOff a machine that comes back while its volumes detach is turned off again, and stays off.
async fn turned_off_again_while_detaching(kind: Kind) -> Result<()> {
    let Some(scene) = Scene::set("power-on-off", kind, "PowerOff").await? else {
        return Ok(());
    };
    let held = scene.strike_and_hold(Point::Detaching).await?;
    let rig = scene.rig()?;
    let commands = rig.bmc.power_commands().len();
    rig.machine.next_boot(Boot {
        delay: LIMIT,
        ..Boot::default()
    });
    let on_at = Moment::now();
    rig.machine.set_power(true);
    let off_again =
        |entry: &Entry| entry.reset_type.is_some() && entry.at.monotonic_ns > on_at.monotonic_ns;
    rig.bmc.wait_for(LIMIT, off_again).await?;
    held.release().await?;
    let fence = scene.released_by_the_gate().await?;
    let again = rig.bmc.power_commands().len() - commands;
    ensure!(
        again <= 2,
        "it was turned off {again} more times; {:#}",
        fence.data["status"]["attempts"]
    );
    ensure!(
        has_taint(&scene.lab.node(&scene.node).await?, QUARANTINE),
        "a machine that is off is released without a quarantine"
    );
    scene.verdict().await
}

async fn stays_out_of_service(scene: &Scene, how_long: Duration) -> Result<()> {
    let begin = std::time::Instant::now();
    while begin.elapsed() < how_long {
        let node = scene.lab.node(&scene.node).await?;
        ensure!(
            has_taint(&node, OUT_OF_SERVICE),
            "out-of-service went too early"
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
    simulated_node_powered_on_while_detaching_is_turned_off_again: turned_off_again_while_detaching(Kind::Simulated);
    real_node_powered_on_while_detected: powered_on_and_ready(Point::Detected, Kind::Real);
    real_node_powered_on_while_claimed: powered_on_and_ready(Point::Claimed, Kind::Real);
    real_node_powered_on_while_quiesced: powered_on_and_ready(Point::Quiesced, Kind::Real);
    real_node_powered_on_while_off_sent: powered_on_and_ready(Point::OffSent, Kind::Real);
    real_node_powered_on_while_proved: powered_on_and_ready(Point::Proved, Kind::Real);
    real_node_powered_on_while_patch_in_flight: powered_on_and_ready(Point::PatchInFlight, Kind::Real);
    real_node_powered_on_while_patch_in_flight_and_not_ready_yet: patch_lands_on_a_booting_machine(Kind::Real);
    real_node_powered_on_while_tainted: powered_on_and_ready(Point::Tainted, Kind::Real);
    real_node_powered_on_while_detaching: powered_on_and_ready(Point::Detaching, Kind::Real);
    real_node_powered_on_while_detaching_is_turned_off_again: turned_off_again_while_detaching(Kind::Real);
}
