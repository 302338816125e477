//! The language of the stories: reads events, plays them on the [`World`], and prints each decision of the core.

use super::cluster::{Answer, World};
use fencing_api::settings::{
    ApprovalTimeout, FenceMode, PodDeletion, RecoveryStrategy, ReleaseMode,
};
use fencing_core::decision::{Decision, DeviceOrder, Effect};
use fencing_core::delay::HeldCondition;
use fencing_core::device::{Device, Level};
use fencing_core::hold::{HeldBy, Hold};
use fencing_core::identity_rule::IdentityRule;
use fencing_core::power_on::PowerOn;
use fencing_core::settings::{Approval, Settings};
use fencing_core::stage::Stage;
use fencing_core::verification::Require;
use std::time::Duration;

/// Decisions after one event: more than these is a loop that never waits.
const DECISIONS_MAX: usize = 40;

/// The story anew: its own lines, and under each event what the core decides now.
pub fn retell(told: &str) -> Result<String, String> {
    let mut world = World::new();
    let mut lines = Vec::new();
    for (number, line) in told.lines().enumerate() {
        let at = |error: String| format!("line {}: {error}: `{line}`", number + 1);
        if line.starts_with("    ") {
            continue;
        }
        lines.push(line.to_owned());
        let begins_with = |test: fn(char) -> bool| line.starts_with(test);
        if begins_with(|first| first.is_ascii_digit()) {
            let (time, events) = line
                .split_once(": ")
                .ok_or_else(|| at("no `: `".to_owned()))?;
            world.now = seconds(time).map_err(at)?;
            for event in events.replace(r"\; ", "\0").split("; ") {
                let so_far = |error: String| format!("{}\n{error}", lines.join("\n"));
                let event = event.replace('\0', "; ");
                happen(&mut world, &event).map_err(at).map_err(so_far)?;
            }
            play(&mut world, &mut lines).map_err(at)?;
        } else if !line.is_empty() && !line.starts_with('#') {
            set(&mut world.settings, line).map_err(at)?;
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// Decides until there is something to wait for.
fn play(world: &mut World, lines: &mut Vec<String>) -> Result<(), String> {
    lines.extend(world.notes.drain(..).map(|note| format!("    .. {note}")));
    if world.ended {
        return Ok(());
    }
    for _ in 0..DECISIONS_MAX {
        let decision = world.decide();
        lines.push(line(world, &decision));
        if let Some((reason, message)) = &decision.escalation {
            let same = *message == decision.message;
            let message = if same {
                String::new()
            } else {
                format!(": {message}")
            };
            lines.push(format!("    !! {reason}{message}"));
        }
        let waits = matches!(decision.effect, Effect::Wait | Effect::Device { .. });
        world.act(decision);
        lines.extend(world.notes.drain(..).map(|note| format!("    .. {note}")));
        if waits || world.ended {
            return Ok(());
        }
    }
    Err(format!("{DECISIONS_MAX} decisions without a wait"))
}

fn line(world: &World, decision: &Decision) -> String {
    let wait = match decision.wake {
        Some(at) => format!("wait until {:.1}s", at.as_secs_f64()),
        None => "wait".to_owned(),
    };
    let does = match &decision.effect {
        Effect::Wait => wait,
        Effect::Bind { uid, boot_id } => format!("bind to {uid}, {boot_id}"),
        Effect::Claim(patch) => format!("claim{}", under(&patch.operations)),
        Effect::DropClaim(_) => "drop the claim".to_owned(),
        Effect::RecordIntent(attempt) => format!("record intent {}", attempt.id),
        Effect::RecordOn(attempt) => format!("record on {}", attempt.id),
        Effect::Device { order, level, .. } => {
            let what = match order {
                DeviceOrder::ReadPower => "look at",
                DeviceOrder::Off(_) => "turn off by",
                DeviceOrder::On(_) => "turn on by",
                DeviceOrder::Confirm { .. } => "confirm by",
            };
            let names = match order {
                DeviceOrder::On(attempt) => attempt.devices.join(", "),
                _ => world.device_names(*level).join(", "),
            };
            match order {
                DeviceOrder::Confirm { window } if *window > world.settings.verification.window => {
                    format!("{what} {names} over {}s", window.as_secs())
                }
                _ => format!("{what} {names}"),
            }
        }
        Effect::StoreEvidence(_) => "store evidence".to_owned(),
        Effect::Evict(eviction) => format!("delete {} pod(s)", eviction.pods.len()),
        Effect::Taint(_) if world.settings.deletes_node() => "taint detaching".to_owned(),
        Effect::Taint(_) => "taint out-of-service".to_owned(),
        Effect::Detach(it) => format!("detach {} volume(s)", it.attachments.len()),
        Effect::DeleteNode(_) => "delete the Node".to_owned(),
        Effect::Release(patch) => {
            match patch
                .operations
                .to_string()
                .contains("nodefencing.io/quarantine")
            {
                true => "release, quarantine".to_owned(),
                false => "release".to_owned(),
            }
        }
        Effect::Close => "close".to_owned(),
    };
    // Held by a brake, its words say so already; held all the same, people find it by this word.
    let held = decision.held.filter(|_| decision.stage == Stage::Held);
    let held = held.map_or_else(String::new, |reason| format!("/{reason}"));
    format!(
        "    -> {does:<22} {}{held}: {}",
        decision.stage, decision.message
    )
}

/// The value of the claim that a patch writes.
fn under(operations: &serde_json::Value) -> String {
    let values = operations.as_array().into_iter().flatten();
    let element = |operation: &serde_json::Value| match operation["op"].as_str() {
        Some("test") => None,
        _ => {
            let value = &operation["value"];
            let one = if value.is_array() { &value[0] } else { value };
            one["value"].as_str().map(|value| format!(" {value}"))
        }
    };
    values.filter_map(element).next().unwrap_or_default()
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').and_then(|text| text.parse().ok());
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("`{text}` is no time"))
}

/// One line of the header.
pub fn set(settings: &mut Settings, line: &str) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match (word, rest) {
        ("due", at) => {
            let early = at.strip_suffix(" unless off");
            settings.claims_off_early = early.is_some();
            settings.not_before = seconds(early.unwrap_or(at))?;
            settings.condition = Some(HeldCondition {
                type_: "Ready".to_owned(),
                status: "Unknown".to_owned(),
                since: None,
            });
        }
        ("mode", "Observe") => settings.procedure.fence.mode = FenceMode::Observe,
        ("mode", "ConfirmOnly") => settings.procedure.fence.mode = FenceMode::ConfirmOnly,
        ("mode", "PowerOff") => settings.procedure.fence.mode = FenceMode::PowerOff,
        ("power-on", text) => {
            let (delay, timeout) = text.split_once(", ").ok_or("no `, `")?;
            settings.power_on = Some(PowerOn {
                delay: seconds(delay)?,
                timeout: seconds(timeout)?,
                stop: None,
                hold: None,
            });
        }
        ("release", "AfterDetach") => settings.procedure.release.mode = ReleaseMode::AfterDetach,
        ("release", "AfterRecovery") => {
            settings.procedure.release.mode = ReleaseMode::AfterRecovery
        }
        ("release", "Manual") => settings.procedure.release.mode = ReleaseMode::Manual,
        ("pods", "PodGC") => settings.procedure.recovery.pod_deletion = PodDeletion::PodGC,
        ("recovery", "None") => settings.procedure.recovery.strategy = RecoveryStrategy::None,
        ("recovery", "DeleteNode") => {
            settings.procedure.recovery.strategy = RecoveryStrategy::DeleteNode
        }
        ("approval", "Manual") => settings.approval = Approval::Awaited,
        ("approval", "Manual, onTimeout Abort") => {
            settings.approval = Approval::Awaited;
            settings.procedure.fence.approval.on_timeout = ApprovalTimeout::Abort;
        }
        ("elsewhere", "off") => settings.record.foreign_commands.off = true,
        ("elsewhere", slow) if slow.starts_with("off within ") => {
            settings.record.foreign_commands.off = true;
            settings.record.foreign_commands.window = seconds(&slow["off within ".len()..])?;
        }
        ("elsewhere", "on") => settings.record.foreign_commands.on = true,
        ("elsewhere", "orphaned") => settings.record.foreign_commands.orphaned = true,
        ("unsupported", message) => settings.unsupported = Some(message.to_owned()),
        ("human", "") => {
            settings.human = true;
            settings.node_uid = None;
            settings.boot_id = None;
        }
        ("human", "names the uid") => {
            settings.human = true;
            settings.boot_id = None;
        }
        ("adopted", boot) => {
            settings.adopted = true;
            settings.procedure.fence.mode = FenceMode::Observe;
            settings.boot_id = (!boot.is_empty()).then(|| boot.to_owned());
            settings.levels.clear();
        }
        ("level", rest) => level(settings, rest)?,
        ("identity", rest) => identity(settings, rest)?,
        _ => return Err("unknown setting".to_owned()),
    }
    Ok(())
}

/// `level NAME: a + b` (both) or `level NAME: a | b` (either), with `, N attempts`, with `, Ns` in all.
fn level(settings: &mut Settings, text: &str) -> Result<(), String> {
    let (name, rest) = text.split_once(": ").ok_or("no `: `")?;
    let (devices, limits) = rest.split_once(", ").unwrap_or((rest, "3 attempts"));
    let (attempts, timeout) = limits.split_once(", ").unwrap_or((limits, "120s"));
    let attempts = attempts
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok());
    let require = if devices.contains(" | ") {
        Require::Any
    } else {
        Require::All
    };
    let names = devices
        .split([' ', '+', '|'])
        .filter(|name| !name.is_empty());
    let level = Level {
        name: name.to_owned(),
        require,
        attempts_max: attempts.ok_or("no number of attempts")?,
        retry_period: Duration::from_secs(5),
        timeout: seconds(timeout)?,
        devices: names.map(World::device).collect(),
    };
    if settings
        .levels
        .first()
        .is_some_and(|first| first.name == "default")
    {
        settings.levels.clear();
    }
    settings.levels.push(level);
    Ok(())
}

/// `identity DEVICE not pinned | skipped | best effort | refused: why`.
fn identity(settings: &mut Settings, text: &str) -> Result<(), String> {
    let (name, rule) = text.split_once(' ').ok_or("no rule")?;
    let rule = match rule {
        "not pinned" => IdentityRule::NotPinned,
        "skipped" => IdentityRule::Skip,
        "best effort" => IdentityRule::IsOrSilent(World::device(name).name),
        _ => {
            let why = rule.strip_prefix("refused: ").ok_or("unknown rule")?;
            IdentityRule::Refused(why.to_owned())
        }
    };
    let rule = match rule {
        IdentityRule::IsOrSilent(_) => match World::device(name).identity {
            IdentityRule::Is(uuid) => IdentityRule::IsOrSilent(uuid),
            other => other,
        },
        other => other,
    };
    let devices = settings
        .levels
        .iter_mut()
        .flat_map(|level| &mut level.devices);
    for device in devices.filter(|device: &&mut Device| device.name == name) {
        device.identity = rule.clone();
    }
    Ok(())
}

/// The brake that a story names.
fn held_by(word: &str) -> Result<HeldBy, String> {
    let named = [
        HeldBy::OwnNode,
        HeldBy::Quorum,
        HeldBy::MaxConcurrent,
        HeldBy::MinHealthy,
        HeldBy::MaxPerHour,
        HeldBy::FailureDomain,
        HeldBy::ClusterCap,
        HeldBy::Paused,
        HeldBy::InvalidWindow,
        HeldBy::Maintenance,
        HeldBy::Excluded,
        HeldBy::OtherNodeFence,
    ];
    let named = named.into_iter().find(|it| it.as_str() == word);
    named.ok_or_else(|| format!("no brake is called {word}"))
}

/// What a human answers to the incident.
fn says(world: &mut World, word: &str, rest: &str) -> Result<(), String> {
    match word {
        "approved" => world.settings.approval = Approval::Approved(rest.replace("by ", "")),
        "denied" => {
            let (user, why) = rest.split_once(": ").ok_or("no reason")?;
            let user = user.replace("by ", "");
            world.settings.approval = Approval::Denied(user, why.to_owned());
        }
        _ => {
            let who = rest.strip_prefix("by ").ok_or("nobody")?;
            let is_ahead = who.ends_with(", dated ahead");
            let who = who.trim_end_matches(", dated ahead");
            let (user, node_uid) = who.split_once(" of ").unwrap_or((who, "uid-1"));
            world.confirmed(user, node_uid, is_ahead);
        }
    }
    Ok(())
}

/// One thing that happens.
pub fn happen(world: &mut World, event: &str) -> Result<(), String> {
    let (word, rest) = event.split_once(' ').unwrap_or((event, ""));
    match word {
        "time" => {}
        "node" => world.node_event(rest)?,
        "taint" => world.taint_by_somebody(rest)?,
        "untaint" => world.untaint(rest)?,
        "lease" => world.lease_event(rest)?,
        "pod" => world.pod_event(rest)?,
        "fence" => world.fence_unreadable = rest.strip_prefix("cannot be read: ").map(str::to_owned),
        "volumes" => world.volumes_unreadable = rest == "cannot be listed",
        "pods" => {
            world.pods_unreadable = rest == "unreadable";
            world.pods_late = rest == "take long to list";
        }
        "volume" => world.volume_event(rest)?,
        "cache" => world.cache_is_empty = rest == "forgets the volumes",
        "kubelet" => world.kubelet_answers = rest == "answers",
        "write" => world.next_write(rest)?,
        "late" => world.land_late_write(),
        "operator" => world.restart(),
        "cluster" => world.frozen = (rest == "goes back").then(|| {
            "resourceVersion 90 was read after 120: the cluster was restored from an older snapshot; restart the operator to acknowledge it".to_owned()
        }),
        "rival" => world.rival = rest != "ends",
        "cleared" => world.cleared_by = Some(rest.replace("by ", "")),
        "admitted" => world.hold = None,
        "held" => {
            let (reason, message) = rest.split_once(": ").ok_or("no words")?;
            let reason = held_by(reason)?;
            let message = message.to_owned();
            world.hold = Some(Hold { reason, message });
        }
        "approved" | "denied" | "confirmed" => says(world, word, rest)?,
        "elsewhere" if rest == "off shows" => world.settings.record.foreign_commands.off = true,
        "elsewhere" if rest.starts_with("off within ") => {
            let slow = rest["off within ".len()..].trim_end_matches(" shows");
            world.settings.record.foreign_commands.window = seconds(slow)?;
        }
        "released" => world.settings.released = true,
        "rights" => world.settings.unsupported = rest.strip_prefix("missing: ").map(str::to_owned),
        "policy" => world.settings.stop = Some(format!("NodeFencingPolicy prod {rest}")),
        "power-on" => {
            let wanted = world.settings.power_on.as_mut().ok_or("it is never turned on")?;
            match rest.split_once(": ") {
                Some(("stopped", why)) => wanted.stop = Some(why.to_owned()),
                Some(("held", why)) => wanted.hold = Some(why.to_owned()),
                _ => wanted.hold = None,
            }
        }
        "devices" => {
            let level = world.settings.levels.first_mut().ok_or("no level")?;
            let names = rest.split(", ").filter(|name| *name != "none");
            level.devices = names.map(World::device).collect();
        }
        "corrected" => {
            let levels = &mut world.settings.levels;
            let mut devices = levels.iter_mut().flat_map(|level| &mut level.devices);
            let device = devices.find(|device| device.name == rest);
            device.ok_or("no such device")?.version = "uid/2".to_owned();
        }
        "successor" => world.successor_taints()?,
        device if world.knows(device) => world.answer(device, Answer::parse(rest)?)?,
        _ => return Err(format!("unknown event `{event}`")),
    }
    Ok(())
}
