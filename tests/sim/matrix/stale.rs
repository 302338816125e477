//! A watch tells late what it has to tell of one kind of objects, or tells again what is long past.
//!
//! Whatever is decided over is read by quorum, which is never late; what watches tell is what wakes, and what fills in between. So the list
//! has each kind that is watched, at each stage at which something of it is decided on, and those kinds again whose past looks like work
//! to do.

use super::{WATCHED, eventually, has_ended, strike, victim};
use crate::network::Told;
use crate::objects::{CLAIM, OUT_OF_SERVICE, taint, text};
use crate::plan;
use crate::play::settle;
use crate::stage::Stage;
use serde_json::{Value, json};
use simapi::kinds::{ATTACHMENT, DEVICE, FENCE, NODE, POLICY};
use std::time::Duration;
use tokio::time::sleep;

/// How long nothing is told.
const LATE: Duration = Duration::from_secs(90);

/// From when on nothing is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// Before the machine fails: the record is decided on.
    Strike,
    /// When the Node is claimed: the command and the taint are.
    Claim,
    /// When it is out of service: the release is.
    Taint,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Stale {
    Late(&'static str, Since),
    Again(&'static str),
}

/// Five kinds at three stages, and three kinds whose past is told again.
pub(super) fn all() -> Vec<Stale> {
    let mut all = Vec::new();
    for kind in WATCHED {
        for since in [Since::Strike, Since::Claim, Since::Taint] {
            all.push(Stale::Late(kind.plural, since));
        }
    }
    let past = [NODE.plural, ATTACHMENT.plural, FENCE.plural];
    all.extend(past.map(Stale::Again));
    all
}

/// Changes what the watches of all operators tell.
pub(super) fn tell(stage: &Stage, change: impl Fn(&mut Told)) {
    let networks = stage.operators().iter().filter_map(|it| it.network());
    networks.for_each(|network| change(&mut network.faults().told));
}

/// So many events were late, lost or told again.
pub(super) fn befallen(stage: &Stage) -> usize {
    let networks = stage.operators().iter().filter_map(|it| it.network());
    networks.map(|network| network.faults().told.befallen).sum()
}

pub(super) fn has(stage: &Stage, node: &str, key: &str) -> bool {
    let node = stage.world.api.get(&NODE, "", node);
    node.is_some_and(|node| taint(&node, key).is_some())
}

impl Stale {
    pub(super) async fn happen(self, stage: &Stage) {
        let node = victim(stage);
        match self {
            Self::Late(kind, since) => late(stage, &node, kind, since).await,
            Self::Again(kind) => again(stage, &node, kind).await,
        }
        if befallen(stage) == 0 {
            stage.world.violation(format!("{self:?}: nothing was"));
        }
    }
}

async fn late(stage: &Stage, node: &str, kind: &'static str, since: Since) {
    let hush = || tell(stage, |told| told.late = Some(kind));
    if since == Since::Strike {
        hush();
    }
    strike(stage, node);
    let reached = || match since {
        Since::Strike => true,
        Since::Claim => has(stage, node, CLAIM),
        Since::Taint => has(stage, node, OUT_OF_SERVICE),
    };
    eventually(stage, "the stage", reached).await;
    hush();
    change(stage, node, kind, since);
    sleep(LATE).await;
    tell(stage, |told| told.late = None);
    sleep(LATE).await;
}

/// What is not told.
fn change(stage: &Stage, node: &str, kind: &str, since: Since) {
    let api = &stage.world.api;
    let annotate = |it: &mut Value| it["metadata"]["annotations"]["seen"] = json!("not yet");
    if kind == NODE.plural && since == Since::Claim {
        stage.world.with(node, |machine| machine.hung = false);
    } else if kind == NODE.plural {
        stage.world.power_on(node, "by hand");
    } else if kind == ATTACHMENT.plural {
        for attachment in api.all(&ATTACHMENT) {
            let name = text(&attachment, "/metadata/name");
            let _ = api.change("human", &ATTACHMENT, ("", name), annotate);
        }
    } else if kind == FENCE.plural {
        for fence in api.all(&FENCE) {
            let name = text(&fence, "/metadata/name");
            let _ = api.change("human", &FENCE, ("", name), |fence| {
                fence["spec"]["desiredState"] = json!("Released");
            });
        }
    } else if kind == DEVICE.plural {
        // Made anew, as another object.
        let _ = api.delete("human", &DEVICE, ("", &format!("bmc-{node}")), &Value::Null);
        let _ = api.add("human", &DEVICE, plan::device(node, node));
    } else {
        let _ = api.change("human", &POLICY, ("", "all"), |policy| {
            policy["spec"]["fence"]["mode"] = json!("Observe");
        });
    }
}

async fn again(stage: &Stage, node: &str, kind: &'static str) {
    tell(stage, |told| told.hears = true);
    strike(stage, node);
    let is_open = || !stage.world.api.all(&FENCE).is_empty();
    eventually(stage, "the record", is_open).await;
    tell(stage, |told| told.hears = false);
    eventually(stage, "the fence ends", || has_ended(stage, node)).await;
    stage.heal();
    settle(stage).await;
    let records = stage.world.api.all(&FENCE).len();
    stage.world.log.tell("FAULT", "the past is told again");
    tell(stage, |told| told.again = Some(kind));
    eventually(stage, "the past", || befallen(stage) > 0).await;
    sleep(LATE).await;
    let now = stage.world.api.all(&FENCE).len();
    let is_touched = has(stage, node, CLAIM) || has(stage, node, OUT_OF_SERVICE);
    if now != records || is_touched {
        stage.world.violation(format!(
            "S12: {now} records in place of {records}, touched: {is_touched}"
        ));
    }
    tell(stage, |told| told.late = None);
    // Whoever was told of the past goes on from there.
    stage.world.api.end_watches();
}
