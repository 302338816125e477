//! What the operator does before a report (`early`): it looks, asks, judges and sends as the real shell does (`src/shell/early_detection.rs`,
//! `src/shell/found_off.rs`), which is retold here; what it may do is decided by the real core.

use crate::early::{Change, NOW, ago, lease, renewals};
use crate::early_guards::Guard;
use crate::early_state::{Broken, Captured, Device, Event, OLD, On, Report, Said, State, World};
use crate::state::Node;
use crate::views::node_view;
use fencing_core::early::mark::unknown;
use fencing_core::early::renewals::Renewal;
use fencing_core::early::{Brakes, DeviceSaid, LevelSaid, Off, Suspect, Verdict, judge, may_ask};
use fencing_core::observed::NodeView;
use fencing_core::verification::Require;
use serde_json::{Value, json};
use std::time::Duration;

fn renewal(s: &State, missing: Option<Guard>) -> Renewal {
    let mut renewal = renewals(s).of("worker-1").expect("it was noted").clone();
    if missing == Some(Guard::Silence) {
        renewal.seen = ago(OLD);
    }
    renewal
}

/// The Node by quorum.
fn node(world: &World, s: &State) -> NodeView {
    let mut node = node_view(
        &Node {
            uid: s.uid,
            boot: s.node_boot,
            ready: s.ready,
            ..Node::default()
        },
        false,
    );
    node.conditions[0].heartbeat = format!("2026-01-01T00:00:0{}Z", s.beat);
    if world.control_plane {
        let label = "node-role.kubernetes.io/control-plane".to_owned();
        node.labels.insert(label, String::new());
    }
    node
}

fn brakes(world: &World, s: &State, missing: Option<Guard>) -> Brakes<'static> {
    let is_on = |guard| missing != Some(guard);
    let renewal = renewal(s, missing);
    let others_renew = renewals(s).others_since("worker-1", &renewal);
    Brakes {
        own_node: (world.own && is_on(Guard::OwnNode)).then_some("worker-1"),
        // The other nodes of its rack go silent with it, or did so just before.
        suspects: 1
            + usize::from(world.rack && is_on(Guard::TooMany))
            + usize::from(world.rack_before && is_on(Guard::CountsReported)),
        limit: 1,
        others_renew: others_renew || !is_on(Guard::OthersRenew),
        had_its_turn: s.sent_in == s.node_boot && is_on(Guard::Once),
    }
}

/// The operator: it looks who is silent, has the device asked, judges, and sends.
pub fn operator(
    world: &World,
    s: &State,
    missing: Option<Guard>,
    can: &mut impl FnMut(Event, bool, Change<'_>),
) {
    let is_silent = renewal(s, missing).is_silent(NOW);
    let brakes = brakes(world, s, missing);
    let mut seen = node(world, s);
    if missing == Some(Guard::ControlPlane) {
        seen.labels.clear();
    }
    let is_suspect = is_silent && may_ask(&seen, &brakes).is_ok();
    can(Event::Looks, is_suspect != s.suspect, &|n| {
        n.suspect = is_suspect;
        n.said = Said::Nothing;
        None
    });
    let is_off = !s.on || s.lies || world.device == Device::Stuck;
    can(Event::Reads(!is_off), s.suspect, &|n| {
        let boot = n.node_boot;
        n.said = match (is_off, n.said) {
            (false, _) => Said::On,
            (
                true,
                Said::Off {
                    first,
                    on,
                    boot: of,
                    ..
                },
            ) if of == boot => Said::Off {
                first,
                last: 0,
                on,
                boot,
            },
            (true, _) => Said::Off {
                first: 0,
                last: 0,
                on: n.on_before,
                boot,
            },
        };
        if !is_off {
            n.on_before = On::Lately;
        }
        None
    });
    can(
        Event::Judges,
        s.suspect && s.api && s.report == Report::None,
        &|n| {
            n.report = judged(world, n, missing, &seen, &brakes);
            None
        },
    );
    let captured = match s.report {
        Report::None => return,
        Report::Judged(captured) => captured,
        Report::Sent(captured) => {
            can(Event::Lands, s.api, &|n| lands(world, n, missing, captured));
            return;
        }
    };
    // Ages end at 2.5 s here, before a reading's life of 5 s is over: that it is looked at right before the report leaves is shown by a test of
    // `shell::early_detection`.
    can(Event::Leaves, true, &|n| {
        n.report = Report::Sent(captured);
        n.sent_in = captured.boot;
        None
    });
}

/// What is known is judged at one moment.
fn judged(
    world: &World,
    s: &State,
    missing: Option<Guard>,
    seen: &NodeView,
    brakes: &Brakes<'_>,
) -> Report {
    let is_missing = |guard| missing == Some(guard);
    let Said::Off {
        first,
        last,
        on,
        boot,
    } = s.said
    else {
        return Report::None;
    };
    // `found_off`: what was said in another boot says nothing of this one.
    if boot != s.node_boot && !is_missing(Guard::SameBoot) {
        return Report::None;
    }
    let mut off = Off {
        first: ago(first),
        last: ago(last),
        on_before: match on {
            On::Lately => Some(ago(first) - Duration::from_millis(1)),
            On::LongAgo => Some(ago(first) - Duration::from_secs(76)),
        },
    };
    if is_missing(Guard::OnBefore) {
        off.on_before = Some(off.first - Duration::from_millis(1));
    }
    let renewal = renewal(s, missing);
    if is_missing(Guard::Twice) {
        off.first = off.first.min(off.last - Duration::from_millis(500));
        off.first = off.first.max(renewal.seen + Duration::from_millis(1));
        off.last = off.last.max(off.first + Duration::from_millis(500));
    }
    let levels = [reads_off(off)];
    let by_quorum = lease(s.untold && !is_missing(Guard::LeaseByQuorum));
    let suspect = Suspect {
        node: seen,
        lease: &by_quorum,
        renewal: &renewal,
        levels: &levels,
        port_is_silent: !answers(world, s) || is_missing(Guard::Port),
    };
    let verdict = judge(&suspect, brakes, NOW);
    match verdict {
        Ok(_) => Report::Judged(Captured {
            uid: s.uid,
            boot: s.node_boot,
            beat: s.beat,
            last,
        }),
        Err(_) => Report::None,
    }
}

/// The one level, whose one device has read this.
fn reads_off(off: Off) -> LevelSaid {
    LevelSaid {
        require: Require::All,
        devices: vec![DeviceSaid {
            device: "bmc".to_owned(),
            was_asked: true,
            reads_on: false,
            off: Some(off),
        }],
    }
}

/// Whatever runs there answers at the port, a kubelet that stands still too; but for what a firewall keeps from it.
fn answers(world: &World, s: &State) -> bool {
    s.on && !s.cut && !world.dark
}

/// The report meets the Node as it is.
fn lands(
    world: &World,
    s: &mut State,
    missing: Option<Guard>,
    captured: Captured,
) -> Option<Broken> {
    s.report = Report::None;
    let as_read = State {
        uid: captured.uid,
        node_boot: captured.boot,
        beat: captured.beat,
        ready: true,
        ..*s
    };
    let operations = patch(world, &as_read, missing);
    if !is_taken(&operations, &node(world, s)) {
        return None;
    }
    let before = *s;
    s.ready = false;
    s.landed += 1;
    let is_another = before.uid != captured.uid || before.node_boot != captured.boot;
    let checks = [
        (Broken::Again, s.landed > 1),
        (Broken::Another, is_another),
        (Broken::Overwrites, before.beat != captured.beat),
        (Broken::Forbidden, world.own || world.control_plane),
        (Broken::False, before.on && before.boot == before.node_boot),
    ];
    let first = checks.into_iter().find(|(_, is_broken)| *is_broken);
    s.landed = s.landed.min(1);
    first.map(|(broken, _)| broken)
}

/// The core's own patch, without the tests that are missing.
fn patch(world: &World, s: &State, missing: Option<Guard>) -> Value {
    let seen = node(world, s);
    let verdict = verdict();
    let patch = unknown(
        &seen,
        "FenceDevice bmc reads Off",
        "2026-01-01T00:00:09Z",
        &verdict,
    );
    let mut operations = patch.expect("it has the condition").operations;
    let paths: &[&str] = match missing {
        Some(Guard::TestUid) => &["/metadata/uid"],
        Some(Guard::TestHeartbeat) => &["/status/conditions/0/lastHeartbeatTime"],
        Some(Guard::TestBootAndHeartbeat) => &[
            "/status/nodeInfo/bootID",
            "/status/conditions/0/lastHeartbeatTime",
        ],
        _ => &[],
    };
    let list = operations.as_array_mut().expect("a JSON Patch");
    list.retain(|it| !(it["op"] == "test" && paths.iter().any(|path| it["path"] == *path)));
    operations
}

/// Any that says yes: what it allows was judged before.
fn verdict() -> Verdict {
    let first = World::honest().first();
    let s = State {
        seen: OLD,
        seen_other: 0,
        suspect: true,
        ..first
    };
    let world = World::honest();
    let (seen, renewal, brakes) = (
        node(&world, &s),
        renewal(&s, None),
        brakes(&world, &s, None),
    );
    let off = Off {
        first: NOW - Duration::from_secs(1),
        last: NOW,
        on_before: Some(NOW - Duration::from_secs(2)),
    };
    let levels = [reads_off(off)];
    let suspect = Suspect {
        node: &seen,
        lease: &lease(false),
        renewal: &renewal,
        levels: &levels,
        port_is_silent: true,
    };
    judge(&suspect, &brakes, NOW).expect("nothing speaks against it")
}

fn is_taken(operations: &Value, node: &NodeView) -> bool {
    let ready = &node.conditions[0];
    let mut object = json!({
        "metadata": {"uid": node.uid},
        "status": {
            "nodeInfo": {"bootID": node.boot_id},
            "conditions": [{"type": ready.kind, "status": ready.status, "lastHeartbeatTime": ready.heartbeat}],
        },
    });
    let patch: json_patch::Patch =
        serde_json::from_value(operations.clone()).expect("a JSON Patch");
    json_patch::patch(&mut object, &patch).is_ok()
}
