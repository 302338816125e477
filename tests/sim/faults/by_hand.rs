//! A human has a node fenced by a NodeFence of their own, beside those of the policy; lets one of them go later, or deletes it, against the
//! documentation.

use crate::libc::elapsed;
use crate::objects::{is_ended, ready, text};
use crate::stage::Stage;
use serde_json::{Value, json};
use simapi::kinds::{FENCE, NODE};
use std::time::Duration;
use tokio::time::sleep;

/// For an incident that is to be met somebody waits so long.
const PATIENCE: u64 = 60;

/// Which node a human has fenced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    BesideAnOpenOne,
    AfterOneThatEnded,
    NotNoticed,
    Healthy,
}

impl Whom {
    const ALL: [Self; 4] = [
        Self::BesideAnOpenOne,
        Self::AfterOneThatEnded,
        Self::NotNoticed,
        Self::Healthy,
    ];

    /// As the summary names it.
    fn name(self) -> &'static str {
        match self {
            Self::BesideAnOpenOne => "F57 beside an open one",
            Self::AfterOneThatEnded => "F57 after one that has ended",
            Self::NotNoticed => "F57 down and not noticed",
            Self::Healthy => "F57 healthy",
        }
    }
}

/// Two for one node, in the same moment.
const TWO: &str = "F57 two at once";
const RELEASED: &str = "F57 let go";
const DELETED: &str = "F57 deleted";
const MADE_ANEW: &str = "F57 deleted and made anew";

/// As the summary names them.
pub(super) fn names() -> Vec<&'static str> {
    let mut all = Whom::ALL.map(Whom::name).to_vec();
    all.extend([TWO, RELEASED, DELETED, MADE_ANEW]);
    all
}

/// Somebody asks for a fence, or for two, and sees to one of the node's NodeFences a while later.
pub(super) async fn fence(stage: &Stage, machine: &str, time: Duration) {
    let (world, dice) = (&stage.world, &stage.world.dice);
    let whom = *dice.pick(&Whom::ALL);
    let Some(node) = node(stage, machine, whom).await else {
        return;
    };
    let is_double = dice.chance(30);
    let mut made = Vec::new();
    for number in 0..=u64::from(is_double) {
        let name = format!("by-hand-{}-{number}", elapsed().as_millis());
        let wanted = json!({"metadata": {"name": name}, "spec": spec(stage, &node)});
        if create(stage, &wanted) {
            made.push(wanted);
        }
    }
    if made.is_empty() {
        return;
    }
    world.count(whom.name());
    if made.len() > 1 {
        world.count(TWO);
    }
    sleep(time / *dice.pick(&[2, 5, 10, 30])).await;
    match dice.between(0, 9) {
        0..3 => release(stage, &node),
        3..6 => drop(delete(stage, &node)),
        6..9 => make_anew(stage, &node, time / 20).await,
        _ => {}
    }
}

/// The node that somebody wants fenced.
async fn node(stage: &Stage, machine: &str, whom: Whom) -> Option<String> {
    let (world, dice) = (&stage.world, &stage.world.dice);
    match whom {
        Whom::BesideAnOpenOne | Whom::AfterOneThatEnded => {
            for _ in 0..PATIENCE {
                let all = world.api.all(&FENCE);
                let mut of = all.iter();
                let met = of.find(|it| is_ended(it) == (whom == Whom::AfterOneThatEnded));
                if let Some(fence) = met {
                    return Some(text(fence, "/spec/nodeName").to_owned());
                }
                sleep(Duration::from_secs(1)).await;
            }
            None
        }
        Whom::NotNoticed => {
            world.fails(machine, "its power fails");
            // From at once until the policy's wait, which begins with the kubelet's grace period, is nearly over.
            sleep(dice.seconds(0, 35 + stage.plan.wait)).await;
            Some(world.machine(machine).node)
        }
        Whom::Healthy => {
            let is_healthy = |node: &String| {
                let node = world.api.get(&NODE, "", node);
                node.is_some_and(|node| ready(&node) == "True")
            };
            let nodes: Vec<String> = world.nodes().into_iter().filter(is_healthy).collect();
            (!nodes.is_empty()).then(|| dice.pick(&nodes).clone())
        }
    }
}

/// What a human asks for: what the policy says or something else, but for what a judgement rests on.
fn spec(stage: &Stage, node: &str) -> Value {
    let (plan, dice) = (&stage.plan, &stage.world.dice);
    let policy = plan.policy();
    let of_policy = &policy["spec"];
    let mut fence = of_policy["fence"].clone();
    fence["mode"] = json!(dice.pick(&["PowerOff", "PowerOff", "ConfirmOnly", "Observe"]));
    let strategy = match dice.between(0, 9) {
        0 => "None",
        1..6 if plan.deletes_node => "DeleteNode",
        _ => "OutOfServiceTaint",
    };
    let release = match dice.between(0, 9) {
        0..2 if strategy != "DeleteNode" => "AfterRecovery",
        2..4 if strategy != "DeleteNode" => "Manual",
        _ => "AfterDetach",
    };
    let may_turn_on = fence["mode"] == "PowerOff"
        && strategy == "OutOfServiceTaint"
        && release == "AfterDetach"
        && dice.chance(40);
    let mut recovery = of_policy["recovery"].clone();
    recovery["strategy"] = json!(strategy);
    let mut power_on = of_policy["powerOn"].clone();
    power_on["policy"] = json!(if may_turn_on {
        "AfterRecovery"
    } else {
        "Never"
    });
    json!({
        "nodeName": node,
        "trigger": {"type": "Manual", "requestedBy": "human", "reason": "smoke in the rack"},
        "fence": fence, "recovery": recovery,
        "release": {"mode": release, "timeoutSeconds": 120},
        "powerOn": power_on,
    })
}

fn create(stage: &Stage, fence: &Value) -> bool {
    let world = &stage.world;
    let (name, spec) = (text(fence, "/metadata/name"), &fence["spec"]);
    let made = world.api.add("human", &FENCE, fence.clone());
    if made.is_ok() {
        let words = [
            "/nodeName",
            "/fence/mode",
            "/recovery/strategy",
            "/release/mode",
            "/powerOn/policy",
        ]
        .map(|at| text(spec, at));
        world.log.tell(
            "human",
            format!("makes NodeFence {name}: {}", words.join(", ")),
        );
    }
    made.is_ok()
}

/// One of the NodeFences of this node that have not ended: mostly a human's.
fn one_of(stage: &Stage, node: &str) -> Option<Value> {
    let dice = &stage.world.dice;
    let wants_human_s = dice.chance(70);
    let all = stage.world.api.all(&FENCE);
    let open: Vec<&Value> = all
        .iter()
        .map(|it| &**it)
        .filter(|it| text(it, "/spec/nodeName") == node && !is_ended(it))
        .collect();
    let is_wanted = |it: &&&Value| (it["spec"]["trigger"]["type"] == "Manual") == wants_human_s;
    let one = open.iter().find(is_wanted).or(open.first());
    one.map(|it| (*it).clone())
}

fn release(stage: &Stage, node: &str) {
    let Some(fence) = one_of(stage, node) else {
        return;
    };
    let name = text(&fence, "/metadata/name");
    let changed = stage.world.api.change("human", &FENCE, ("", name), |it| {
        it["spec"]["desiredState"] = json!("Released");
    });
    if changed == Ok(true) {
        stage.world.log.tell("human", format!("lets {name} go"));
        stage.world.count(RELEASED);
    }
}

/// What was deleted.
fn delete(stage: &Stage, node: &str) -> Option<Value> {
    let world = &stage.world;
    let fence = one_of(stage, node)?;
    let name = text(&fence, "/metadata/name");
    let deleted = world.api.delete("human", &FENCE, ("", name), &Value::Null);
    if deleted != Ok(true) {
        return None;
    }
    world.log.tell("human", format!("deletes {name}"));
    world.count(DELETED);
    Some(fence)
}

/// It is there again a moment later, by its name, and knows nothing.
async fn make_anew(stage: &Stage, node: &str, time: Duration) {
    let Some(mut fence) = delete(stage, node) else {
        return;
    };
    sleep(time).await;
    fence["metadata"] = json!({"name": fence["metadata"]["name"]});
    if let Some(fence) = fence.as_object_mut() {
        fence.remove("status");
    }
    if create(stage, &fence) {
        stage.world.count(MADE_ANEW);
    }
}
