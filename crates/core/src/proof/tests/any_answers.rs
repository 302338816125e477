//! For any answers of any devices, a proof exists if and only if they hold what S2 and S4 demand. The demands stand here once more,
//! taken from the protocol's text and not from the rule, over times in quarters of a second, so that every edge is met often.

mod sequences;

use super::*;
use crate::fixtures::cases;
use crate::identity_rule::IdentityRule;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sequences::sequence;
use std::collections::BTreeSet;

/// Everything happens at whole numbers of these.
const TICK: Duration = Duration::from_millis(250);
/// The life of a proof, 15 s.
const LIFE: i64 = 60;
/// How far apart two devices may be that tell of one machine going off, 3 s.
const TOGETHER: i64 = 12;
/// When the node was quiesced; devices may have been asked before.
const QUIESCED: i64 = 20;

fn ticks(number: i64) -> Duration {
    TICK * u32::try_from(number).expect("nothing here is before the boot")
}

/// Which machine an answer names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Names {
    Right,
    /// The right one in SMBIOS' order of bytes.
    RightSwapped,
    Another,
    /// A UUID that many machines share.
    Shared,
    Nobody,
}

impl Names {
    fn uuid(self) -> Option<String> {
        let uuid = match self {
            Self::Right => MACHINE,
            Self::RightSwapped => "11111111-2222-3343-8444-555555555555",
            Self::Another => "99999999-2222-4333-8444-555555555555",
            Self::Shared => "00000000-0000-0000-0000-000000000000",
            Self::Nobody => return None,
        };
        Some(uuid.to_owned())
    }
}

#[derive(Debug, Clone)]
struct Answer {
    state: PowerState,
    has_fault: bool,
    names: Names,
    asked: i64,
    answered: i64,
}

#[derive(Debug, Clone)]
struct PowerHistory {
    rule: IdentityRule,
    answers: Vec<Answer>,
}

/// A sign of life, or none.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Life {
    None,
    AnotherUid,
    AnotherBoot,
    ClaimOfAnother,
    NoClaim,
    Ready,
    NoReady,
    LeaseMoved,
    KubeletAnswers,
}

/// Everything that a proof is judged on.
#[derive(Debug, Clone)]
struct Sequence {
    devices: Vec<PowerHistory>,
    others: Vec<PowerHistory>,
    require: Require,
    /// The machine was turned off before.
    commanded: bool,
    reads: usize,
    window: i64,
    now: i64,
    life: Life,
    /// Until when a human's word counts, where there is one.
    confirmed_until: Option<i64>,
}

/// What the protocol demands.
impl PowerHistory {
    /// Of one device: off at least twice, one after the other up to the last answer, each asked for after the quiesce, without a
    /// fault, by the right machine; over the window, from the first answer to the last question, which is at most 15 s old. Then
    /// this is from when to when it was off.
    fn was_off(&self, demands: &Sequence) -> Option<(i64, i64)> {
        let breaks = |answer: &Answer| {
            answer.state != PowerState::Off || answer.has_fault || answer.asked < QUIESCED
        };
        let unbroken = match self.answers.iter().rposition(breaks) {
            Some(at) => &self.answers[at + 1..],
            None => &self.answers[..],
        };
        let [first, .., last] = unbroken else {
            return None;
        };
        let age = demands.now - last.asked;
        let met = unbroken.len() >= demands.reads
            && last.asked - first.answered >= demands.window
            && (0..=LIFE).contains(&age)
            && unbroken.iter().all(|answer| self.recognises(answer.names));
        met.then_some((first.answered, last.asked))
    }

    fn recognises(&self, names: Names) -> bool {
        match &self.rule {
            IdentityRule::Is(_) => matches!(names, Names::Right | Names::RightSwapped),
            IdentityRule::IsOrSilent(_) => !matches!(names, Names::Another | Names::Shared),
            IdentityRule::Skip => true,
            // None of these devices reads an instance.
            IdentityRule::Instance(..) | IdentityRule::NotPinned | IdentityRule::Refused(_) => {
                false
            }
        }
    }

    /// It says at last that some machine has power, or is on its way, and not of another machine than this.
    fn says_on(&self) -> bool {
        let (last, word) = (self.answers.last(), self.message().next_back());
        let is_last = last
            .zip(word)
            .is_some_and(|(last, word)| std::ptr::eq(last, word));
        is_last && self.said_on().is_some()
    }

    /// What it said of power, and not of another machine than this: of Off, such as a proof takes.
    fn message(&self) -> impl DoubleEndedIterator<Item = &Answer> {
        let knows_whom = matches!(self.rule, IdentityRule::Is(_) | IdentityRule::IsOrSilent(_));
        self.answers.iter().filter(move |answer| {
            let is_believed = !answer.has_fault && self.recognises(answer.names);
            answer.state != PowerState::Unknown
                && !(knows_whom && answer.names == Names::Another)
                && (answer.state != PowerState::Off || is_believed)
        })
    }

    /// When it said off first, if it has said nothing else since.
    fn off_since(&self, commanded: bool) -> Option<i64> {
        let offs = self
            .message()
            .rev()
            .take_while(|it| it.state == PowerState::Off);
        let first = offs.last()?;
        Some(if commanded {
            first.answered
        } else {
            first.asked
        })
    }

    /// When it was asked for its last word, if that is not off.
    fn said_on(&self) -> Option<i64> {
        let last = self.message().next_back()?;
        (last.state != PowerState::Off).then_some(last.asked)
    }
}

impl Sequence {
    /// A device said On when the machine had been read off, or, where nobody turned it off, not long before that was seen first.
    fn is_contradicted(&self) -> bool {
        let since = self.devices.iter().map(|it| it.off_since(self.commanded));
        let since = match self.require {
            Require::All => since
                .collect::<Option<Vec<_>>>()
                .unwrap_or_default()
                .into_iter()
                .max(),
            Require::Any => since.flatten().min(),
        };
        let Some(since) = since.filter(|_| self.confirmed_until.is_none()) else {
            return false;
        };
        let off = if self.commanded {
            since + TOGETHER
        } else {
            (since - TOGETHER).max(0)
        };
        let ways = self.devices.iter().filter(|_| self.require == Require::Any);
        let mut said_on = ways.chain(&self.others).filter_map(PowerHistory::said_on);
        said_on.any(|asked| asked > off)
    }

    /// When the proof that has to exist dies; none where there must not be one.
    fn dies(&self) -> Option<i64> {
        let off: Vec<_> = self.devices.iter().map(|one| one.was_off(self)).collect();
        let until = match self.require {
            Require::All => {
                let off = off.into_iter().collect::<Option<Vec<_>>>()?;
                let since = off.iter().map(|(since, _)| *since).max()?;
                let until = off.iter().map(|(_, until)| *until).min()?;
                (until - since >= self.window).then_some(until)?
            }
            Require::Any if self.devices.iter().any(PowerHistory::says_on) => return None,
            Require::Any => off.into_iter().flatten().map(|(_, until)| until).max()?,
        };
        let nothing_speaks_against = self.life == Life::None
            && !self.is_contradicted()
            && !self.others.iter().any(PowerHistory::says_on);
        let dies = self.confirmed_until.unwrap_or(i64::MAX).min(until + LIFE);
        nothing_speaks_against.then_some(dies)
    }
}

/// The same for the rule.
impl Sequence {
    fn judged(&self) -> Result<Proof, NotProven> {
        let readings =
            |said: &[PowerHistory]| said.iter().enumerate().map(readings).collect::<Vec<_>>();
        let (devices, mut others) = (readings(&self.devices), readings(&self.others));
        for other in &mut others {
            other.device.insert_str(0, "other-");
        }
        let mut node = good().node;
        let mut lease_now = good().lease_now;
        match self.life {
            Life::AnotherUid => node.uid = "uid-2".to_owned(),
            Life::AnotherBoot => node.boot_id = "boot-2".to_owned(),
            Life::ClaimOfAnother => node.taints[0].value = Some("fence-n2".to_owned()),
            Life::NoClaim => node.taints.clear(),
            Life::Ready => node.conditions[0].status = "True".to_owned(),
            Life::NoReady => node.conditions.clear(),
            Life::LeaseMoved => lease_now.renew_time = "renewal-2".to_owned(),
            Life::None | Life::KubeletAnswers => {}
        }
        let case = Case {
            claim: "fence-n1",
            node_uid: "uid-1",
            boot_id: "boot-1",
            node: &node,
            lease_before: &good().lease_now,
            lease_now: &lease_now,
            written: None,
            quiesced: ticks(QUIESCED),
            devices: &devices,
            others: &others,
            require: self.require,
            power_history: &super::said(devices.iter().chain(&others), self.commanded),
            verification: &Verification {
                off_reads_min: self.reads,
                window: ticks(self.window),
            },
            commanded: false,
            kubelet_answers: self.life == Life::KubeletAnswers,
            confirmed_until: self.confirmed_until.map(ticks),
        };
        judge(&case, ticks(self.now))
    }
}

fn readings((number, said): (usize, &PowerHistory)) -> DeviceReadings {
    let reading = |answer: &Answer| Reading {
        state: answer.state,
        raw: format!("{:?}", answer.state),
        identity: Identity {
            system_uuid: answer.names.uuid(),
            serial_number: None,
        },
        faults: match answer.has_fault {
            true => vec!["interlock".to_owned()],
            false => Vec::new(),
        },
        off_parts: Vec::new(),
        asked: ticks(answer.asked),
        answered: ticks(answer.answered),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    DeviceReadings {
        identity: said.rule.clone(),
        readings: said.answers.iter().map(reading).collect(),
        ..device(&format!("bmc-{number}"))
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_proof_exists_if_and_only_if_the_answers_hold_what_is_demanded(sequence in sequence()) {
        let found = sequence.judged();
        let dies = found.as_ref().ok().map(Proof::valid_until);
        prop_assert_eq!(dies, sequence.dies().map(ticks), "{:?}", found);
        if let Ok(proof) = found {
            prop_assert_eq!(proof.claim(), "fence-n1");
        }
    }
}

/// What is generated above is worth judging: a good part of it proves, and each refusal is among the rest.
#[test]
fn the_answers_that_are_tried_hold_proofs_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let (mut proofs, mut refusals) = (0, BTreeSet::new());
    for _ in 0..4_000 {
        let sequence = sequence().new_tree(&mut runner).expect("a sequence");
        match sequence.current().judged() {
            Ok(_) => proofs += 1,
            Err(refusal) => {
                let message = format!("{refusal:?}");
                let name = message.split(|sign: char| !sign.is_alphanumeric()).next();
                refusals.insert(name.unwrap_or_default().to_owned());
            }
        }
    }
    assert!((400..3_600).contains(&proofs), "{proofs} of 4000 prove");
    let all = [
        "Alive",
        "IdentityNotPinned",
        "IdentityRefused",
        "KubeletAnswers",
        "LeaseMoved",
        "NoDevice",
        "NotOffLongEnough",
        "NotOffTogether",
        "OnWhileOff",
        "OtherReadsOn",
        "Stale",
        "WrongMachine",
    ];
    assert!(refusals.iter().eq(all.iter()), "{refusals:?}");
}
