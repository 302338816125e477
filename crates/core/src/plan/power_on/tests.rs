mod devices;
mod taken;
mod wakes;

use super::*;
use crate::answer::{DeviceReply, Reply};
use crate::attempt::{OffResult, OnResult};
use crate::device::DeviceAnswer;
use crate::fixtures::{DATE, bmc, drained, level, node, settings, taint};
use crate::observed::{Observed, Read};
use crate::plan::Moment;
use crate::plan::step as plan_step;
use crate::power_on::Tries;
use crate::reading::{Identity, Reading};
use crate::reply::{Asked, learn};
use crate::settings::Record;
use crate::settings::Settings;

const RELEASED_AT: u64 = 1_000;

fn wanted() -> Settings {
    Settings {
        power_on: Some(PowerOn {
            delay: Duration::from_secs(60),
            timeout: Duration::from_secs(300),
            stop: None,
            hold: None,
        }),
        // A successor: the record is all that it knows.
        record: Record {
            tainted: true,
            evidence: true,
            released: true,
            turned_off: [("bmc".to_owned(), bmc().version)].into(),
            ..Record::default()
        },
        ..settings()
    }
}

fn released() -> NodeView {
    NodeView {
        taints: vec![taint(QUARANTINE, "boot-1", "NoSchedule")],
        ..node()
    }
}

fn seen(node: NodeView) -> Observed {
    Observed {
        node: Read::Present(node),
        ..drained()
    }
}

/// A process that has found the Node released at [`RELEASED_AT`], so many seconds later.
struct Process {
    settings: Settings,
    memory: Memory,
    node: NodeView,
}

impl Process {
    fn of(settings: Settings) -> Self {
        let mut process = Self {
            settings,
            memory: Memory::default(),
            node: released(),
        };
        process.at(0);
        process
    }

    fn at(&mut self, seconds: u64) -> Decision {
        let moment = Moment {
            now: Duration::from_secs(RELEASED_AT + seconds),
            nonce: format!("n{seconds}"),
            date: DATE.to_owned(),
        };
        let observed = seen(self.node.clone());
        plan_step(&self.settings, &mut self.memory, &observed, &moment)
    }

    /// The device answers a look at this time, and the next decision is made.
    fn reads(&mut self, state: PowerState, seconds: u64) -> Decision {
        let at = Duration::from_secs(RELEASED_AT + seconds);
        let reading = Reading {
            state,
            raw: "raw".to_owned(),
            identity: Identity {
                system_uuid: Some(crate::fixtures::MACHINE.to_owned()),
                serial_number: None,
            },
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked: at,
            answered: at,
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        let answer = DeviceAnswer {
            device: bmc(),
            reading: Ok(reading),
        };
        let reply = DeviceReply::PowerRead {
            answers: vec![answer],
            pods: None,
        };
        self.hears(
            Asked::Device,
            Reply::Device(self.memory.commands.orders, reply),
            seconds,
        )
    }

    fn hears(&mut self, asked: Asked, reply: Reply, seconds: u64) -> Decision {
        let at = Duration::from_secs(RELEASED_AT + seconds);
        learn(&self.settings, &mut self.memory, asked, reply, at);
        self.at(seconds)
    }

    fn hold(&mut self, why: Option<&str>) {
        let wanted = self.settings.power_on.as_mut().expect("wanted");
        wanted.hold = why.map(str::to_owned);
    }

    fn has_sent(&mut self, commands: u32) {
        let device = self.memory.power_on.tries.entry("bmc".to_owned());
        device.or_default().sent = commands;
    }

    fn commanded(&mut self, result: OnResult, seconds: u64) -> Decision {
        let reply = DeviceReply::TurnedOn([("bmc".to_owned(), result)].into());
        self.hears(
            Asked::Device,
            Reply::Device(self.memory.commands.orders, reply),
            seconds,
        )
    }
}

fn is_look(decision: &Decision) -> bool {
    let Effect::Device { order, .. } = &decision.effect else {
        return false;
    };
    *order == DeviceOrder::ReadPower
}

fn is_on(decision: &Decision) -> bool {
    let Effect::Device { order, .. } = &decision.effect else {
        return false;
    };
    matches!(order, DeviceOrder::On(_))
}

fn is_closed(decision: &Decision, word: &str) {
    assert_eq!(decision.effect, Effect::Close, "{decision:?}");
    assert_eq!(decision.stage, Stage::Recovered);
    assert!(decision.message.contains(word), "{}", decision.message);
}

#[test]
fn the_pause_the_look_the_intent_and_then_the_command() {
    let mut process = Process::of(wanted());
    let waits = process.at(59);
    assert_eq!(
        (waits.effect, waits.stage),
        (Effect::Wait, Stage::PoweringOn)
    );
    assert!(is_look(&process.at(60)));
    // S11: written down first.
    let intent = process.reads(PowerState::Off, 60);
    assert!(matches!(intent.effect, Effect::RecordOn(_)), "{intent:?}");
    let again = process.at(60);
    assert!(matches!(again.effect, Effect::RecordOn(_)), "{again:?}");
    assert!(is_on(&process.hears(Asked::RecordOn, Reply::Done, 60)));
    assert!(is_look(&process.commanded(OnResult::Accepted, 61)));
    let on = process.reads(PowerState::On, 62);
    assert_eq!(on.effect, Effect::Wait);
    // It was on: whoever turns it off now is not fought.
    process.memory.under_claim.answers.clear();
    for seconds in [100, 200] {
        assert_eq!(process.at(seconds).effect, Effect::Wait, "{seconds}");
    }
    process.node.boot_id = "boot-2".to_owned();
    assert_eq!(process.at(220).effect, Effect::Wait);
    process.node.conditions[0].status = "True".to_owned();
    is_closed(&process.at(221), "turned on: Node worker-1 rebooted");
}

/// The pause that the process before has waited counts.
#[test]
fn a_successor_waits_for_what_is_left_of_the_pause() {
    let mut settings = wanted();
    settings.record.released_for = Duration::from_secs(50);
    let mut process = Process::of(settings);
    assert_eq!(process.at(9).effect, Effect::Wait);
    assert!(is_look(&process.at(10)));
}

/// S23: an off that may land would make a power cycle of an on.
#[test]
fn nothing_is_turned_on_while_an_off_may_land() {
    for by_another in [false, true] {
        let mut settings = wanted();
        settings.record.unresolved = !by_another;
        settings.record.foreign_commands.off = by_another;
        let late = settings.late_effect() + order_max(&level());
        let until = Duration::from_secs(RELEASED_AT + 300) + late;
        let late = late.as_secs();
        let mut process = Process::of(settings);
        let waits = process.at(late - 1);
        assert_eq!(waits.effect, Effect::Wait, "{waits:?}");
        assert!(
            waits.message.contains("may still take effect"),
            "{}",
            waits.message
        );
        assert_eq!(waits.deadline, Some(until), "its time begins then");
        assert!(is_look(&process.at(late)));
    }
}

/// S15: whoever says no is heard, before the command and after it.
#[test]
fn a_no_ends_it() {
    let stop = |settings: &mut Settings| {
        let wanted = settings.power_on.as_mut().expect("wanted");
        wanted.stop = Some("the policy was deleted".to_owned());
    };
    for (no, word) in [
        ((|it| it.released = true) as fn(&mut Settings), "Released"),
        (stop, "deleted"),
    ] {
        let mut process = Process::of(wanted());
        no(&mut process.settings);
        is_closed(&process.at(30), word);
        let mut process = Process::of(wanted());
        process.at(60);
        process.reads(PowerState::Off, 60);
        process.hears(Asked::RecordOn, Reply::Done, 60);
        process.commanded(OnResult::Accepted, 61);
        no(&mut process.settings);
        let end = process.at(62);
        is_closed(&end, word);
        assert!(end.message.contains("on again"), "{}", end.message);
    }
    let mut process = Process::of(wanted());
    process.node.taints.clear();
    is_closed(&process.at(30), "quarantine");
}

/// Only what this incident has turned off is turned on, and only in mode PowerOff.
#[test]
fn only_what_was_turned_off_by_a_command_is_turned_on() {
    let mut settings = wanted();
    settings.record.turned_off.clear();
    is_closed(&Process::of(settings).at(1), "no off command");
    for settings in [
        crate::fixtures::asking(wanted(), |it| it.fence.mode = FenceMode::ConfirmOnly),
        Settings {
            power_on: None,
            ..wanted()
        },
    ] {
        let end = Process::of(settings).at(1);
        is_closed(&end, "out-of-service");
        assert!(!end.message.contains("turned on"), "{}", end.message);
    }
    // Of this process: what was not sent has turned nothing off.
    for (result, is_noted) in [
        (OffResult::Accepted, true),
        (OffResult::AlreadyOff, true),
        (OffResult::Unknown("words".to_owned()), true),
        (OffResult::NotSent("words".to_owned()), false),
    ] {
        let mut memory = Memory::default();
        memory.commands.begin(true);
        let reply = DeviceReply::Commanded {
            answers: Vec::new(),
            results: [("bmc".to_owned(), result.clone())].into(),
        };
        let reply = Reply::Device(memory.commands.orders, reply);
        learn(&wanted(), &mut memory, Asked::Device, reply, Duration::ZERO);
        let turned_off = &memory.power_on.turned_off;
        assert_eq!(turned_off.contains_key("bmc"), is_noted, "{result:?}");
    }
}

/// S11: twice and no more, and each time only what reads Off.
#[test]
fn no_third_command_and_none_to_what_does_not_read_off() {
    let mut process = Process::of(wanted());
    process.at(60);
    for (state, seconds) in [(PowerState::Transitional, 60), (PowerState::Unknown, 71)] {
        let waits = process.reads(state, seconds);
        assert_eq!(waits.effect, Effect::Wait, "{state:?}");
        assert!(is_look(&process.at(seconds + 10)));
    }
    for seconds in [90, 130] {
        let intent = process.reads(PowerState::Off, seconds);
        assert!(matches!(intent.effect, Effect::RecordOn(_)), "{intent:?}");
        process.hears(Asked::RecordOn, Reply::Done, seconds);
        process.commanded(OnResult::Accepted, seconds + 1);
        let waits = process.reads(PowerState::Off, seconds + 2);
        assert_eq!(waits.effect, Effect::Wait, "not at once again");
        assert!(is_look(&process.at(seconds + 40)));
    }
    let failed = process.reads(PowerState::Off, 170);
    assert_eq!(failed.effect, Effect::Wait);
    let (reason, message) = failed.escalation.expect("a call");
    assert_eq!(reason, Escalation::PowerOnFailed);
    assert!(
        message.contains("bmc") && message.contains("2 of 2 commands"),
        "{message}"
    );
    assert!(message.contains("by hand"), "{message}");
    // L3: it ends, and says why.
    assert!(is_look(&process.at(360 + CALLED_FOR.as_secs() - 1)));
    let end = process.at(360 + CALLED_FOR.as_secs());
    is_closed(&end, "did not come back");
    assert_eq!(
        end.escalation.map(|(reason, _)| reason),
        Some(Escalation::PowerOnFailed)
    );
}

/// S5: another machine that reads Off is not turned on.
#[test]
fn another_machine_is_not_turned_on() {
    let mut process = Process::of(wanted());
    process.at(60);
    let other = "99999999-2222-4333-8444-555555555555".to_owned();
    let level = process.settings.levels.first_mut().expect("a level");
    let device = level.devices.first_mut().expect("a device");
    device.identity = crate::identity_rule::IdentityRule::Is(other);
    let waits = process.reads(PowerState::Off, 60);
    assert_eq!(waits.effect, Effect::Wait);
    assert!(waits.message.contains("bmc"), "{}", waits.message);
}

/// Another process has written a command down that this one does not know: its effect is waited for, and nothing is sent beside it.
#[test]
fn what_another_process_sends_is_waited_for() {
    let mut process = Process::of(wanted());
    process.at(60);
    let intent = process.reads(PowerState::Off, 60);
    assert!(matches!(intent.effect, Effect::RecordOn(_)));
    // The write was refused for its version, and the record says this.
    let sent = Tries {
        intended: 2,
        sent: 1,
        is_on: false,
    };
    process.settings.record.turned_on = [("bmc".to_owned(), sent)].into();
    assert_eq!(process.at(61).effect, Effect::Wait);
    assert!(process.memory.power_on.attempt.is_none());
    process.at(70);
    assert_eq!(process.reads(PowerState::Off, 70).effect, Effect::Wait);
    process.at(91);
    let again = process.reads(PowerState::Off, 91);
    assert!(matches!(again.effect, Effect::RecordOn(_)), "{again:?}");
}

/// Whoever keeps the machine off is not called because it is off.
#[test]
fn who_is_at_work_is_neither_fought_nor_called() {
    let mut process = Process::of(wanted());
    process.hold(Some("Node worker-1 is cordoned"));
    let held = process.at(61);
    assert_eq!((&held.effect, held.escalation), (&Effect::Wait, None));
    process.hold(None);
    assert!(is_look(&process.at(62)));
    process.hold(Some("Node worker-1 is cordoned"));
    let end = process.at(360);
    is_closed(&end, "cordoned");
    assert!(end.escalation.is_none());
}

/// A Node that is gone, or another one of its name, ends it.
#[test]
fn a_deleted_node_ends_it() {
    let mut process = Process::of(wanted());
    process.node.uid = "uid-2".to_owned();
    is_closed(&process.at(30), "created again");
    let mut process = Process::of(wanted());
    let moment = Moment {
        now: Duration::from_secs(RELEASED_AT + 30),
        nonce: "n1".to_owned(),
        date: DATE.to_owned(),
    };
    let gone = Observed {
        node: Read::Absent,
        ..drained()
    };
    let end = plan_step(&process.settings, &mut process.memory, &gone, &moment);
    is_closed(&end, "deleted");
}
