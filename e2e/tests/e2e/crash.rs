//! Case 6: the operator is killed in the middle of a fence, and a new one starts.
//!
//! What the dead one had sent still lands. The new one knows nothing but what the API server stores: it finishes the
//! fence, with a claim and a proof of its own, and repeats the off command at most once. It starts in the pod of the dead one, whose
//! Lease is its own; how another replica takes over is in `replicas.rs`.

use anyhow::{Result, ensure};
use e2e::lab::{Kind, LIMIT, has_taint};
use e2e::point::Point;
use e2e::proxy::writes::{self, OUT_OF_SERVICE};
use e2e::taints;

use crate::scene::Scene;

async fn killed(point: Point) -> Result<()> {
    let Some(scene) = Scene::set("crash", Kind::Real, point.mode()).await? else {
        return Ok(());
    };
    let held = scene.strike_and_hold(point).await?;
    scene.operator.kill()?;
    match point {
        // It lands when the new operator has claimed the node for itself, and is refused.
        Point::PatchInFlight => {
            let before = taints::claims(&scene.lab.history(&scene.node).await?).len();
            scene.operator.start_again().await?;
            scene.another_claim(before).await?;
            held.release().await?;
            let taint = writes::taint();
            let landed = scene.proxy.wait_for(LIMIT, |record| {
                taint.matches(&record.seen) && record.upstream_status.is_some()
            });
            let status = landed.await?.upstream_status;
            ensure!(
                status == Some(422),
                "the dead operator's taint was answered {status:?}"
            );
        }
        // Still stuck when the new one comes, which adopts the taint.
        Point::Detaching => {
            scene.operator.start_again().await?;
            ensure!(
                has_taint(&scene.lab.node(&scene.node).await?, OUT_OF_SERVICE),
                "the new operator took the taint away"
            );
            held.release().await?;
        }
        // The last that the dead operator sent lands at once.
        _ => {
            held.release().await?;
            scene.operator.start_again().await?;
        }
    }
    scene.finished_once(point).await?;
    let history = scene.lab.history(&scene.node).await?;
    let claims = taints::claims(&history);
    let expected = match point {
        Point::Detected | Point::Tainted | Point::Detaching => 1,
        _ => 2,
    };
    ensure!(
        claims.len() == expected,
        "{expected} claim(s) expected, one for each process that proved: {claims:?}"
    );
    scene.verdict().await
}

macro_rules! at_each_point {
    ($($name:ident: $point:ident;)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> Result<()> {
            killed(Point::$point).await
        }
    )* };
}

at_each_point! {
    real_node_operator_killed_while_detected: Detected;
    real_node_operator_killed_while_claimed: Claimed;
    real_node_operator_killed_while_quiesced: Quiesced;
    real_node_operator_killed_while_off_sent: OffSent;
    real_node_operator_killed_while_proved: Proved;
    real_node_operator_killed_while_patch_in_flight: PatchInFlight;
    real_node_operator_killed_while_tainted: Tainted;
    real_node_operator_killed_while_detaching: Detaching;
}
