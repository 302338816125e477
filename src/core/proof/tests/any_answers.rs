//! For any answers of any devices, a proof exists if and only if they hold what S2 and S4 demand. The demands stand here once more,
//! taken from the protocol's text and not from the rule, over times in quarters of a second, so that every edge is met often.

use super::*;
use crate::core::fixtures::cases;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;

/// Everything happens at whole numbers of these.
const TICK: Duration = Duration::from_millis(250);
/// The life of a proof, 15 s.
const LIFE: i64 = 60;
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
struct Said {
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
    devices: Vec<Said>,
    others: Vec<Said>,
    require: Require,
    /// The machine was turned off before.
    commanded: bool,
    reads: usize,
    window: i64,
    now: i64,
    life: Life,
    /// Until when a human's word counts, where there is one.
    word_until: Option<i64>,
}

/// What the protocol demands.
impl Said {
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
        match self.rule {
            IdentityRule::Is(_) => matches!(names, Names::Right | Names::RightSwapped),
            IdentityRule::IsOrSilent(_) => !matches!(names, Names::Another | Names::Shared),
            IdentityRule::Skip => true,
            IdentityRule::NotPinned | IdentityRule::Refused(_) => false,
        }
    }

    /// It says at last that some machine has power, or is on its way, and not of another machine than this. What it says after an off
    /// command includes that it says nothing.
    fn speaks_against(&self, commanded: bool) -> bool {
        let knows_whom = matches!(self.rule, IdentityRule::Is(_) | IdentityRule::IsOrSilent(_));
        let says = |answer: &&Answer| answer.state != PowerState::Unknown;
        let last = match commanded {
            true => self.answers.last(),
            false => self.answers.iter().rfind(says),
        };
        last.is_some_and(|last| {
            matches!(last.state, PowerState::On | PowerState::Transitional)
                && !(knows_whom && last.names == Names::Another)
        })
    }
}

impl Sequence {
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
            Require::Any
                if self
                    .devices
                    .iter()
                    .any(|one| one.speaks_against(self.commanded)) =>
            {
                return None;
            }
            Require::Any => off.into_iter().flatten().map(|(_, until)| until).max()?,
        };
        let nothing_speaks_against =
            self.life == Life::None && !self.others.iter().any(|one| one.speaks_against(false));
        let dies = self.word_until.unwrap_or(i64::MAX).min(until + LIFE);
        nothing_speaks_against.then_some(dies)
    }
}

/// The same for the rule.
impl Sequence {
    fn judged(&self) -> Result<Proof, NotProven> {
        let readings = |said: &[Said]| said.iter().map(readings).collect::<Vec<_>>();
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
            quiesced: ticks(QUIESCED),
            devices: &readings(&self.devices),
            others: &readings(&self.others),
            require: self.require,
            commanded: self.commanded,
            verification: &Verification {
                off_reads_min: self.reads,
                window: ticks(self.window),
            },
            kubelet_answers: self.life == Life::KubeletAnswers,
            word_until: self.word_until.map(ticks),
        };
        judge(&case, ticks(self.now))
    }
}

fn readings(said: &Said) -> DeviceReadings {
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
        asked: ticks(answer.asked),
        answered: ticks(answer.answered),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    DeviceReadings {
        identity: said.rule.clone(),
        readings: said.answers.iter().map(reading).collect(),
        ..device("bmc")
    }
}

fn rule() -> impl Strategy<Value = IdentityRule> {
    prop_oneof![
        12 => Just(IdentityRule::Is(MACHINE.to_owned())),
        6 => Just(IdentityRule::IsOrSilent(MACHINE.to_owned())),
        4 => Just(IdentityRule::Skip),
        1 => Just(IdentityRule::NotPinned),
        1 => Just(IdentityRule::Refused("two nodes".to_owned())),
    ]
}

fn state() -> impl Strategy<Value = PowerState> {
    prop_oneof![
        24 => Just(PowerState::Off),
        1 => Just(PowerState::On),
        1 => Just(PowerState::Transitional),
        1 => Just(PowerState::Unknown),
    ]
}

fn names() -> impl Strategy<Value = Names> {
    prop_oneof![
        32 => Just(Names::Right),
        4 => Just(Names::RightSwapped),
        1 => Just(Names::Another),
        1 => Just(Names::Shared),
        1 => Just(Names::Nobody),
    ]
}

/// A device's answers, one after the other: each question some time after the answer before it.
fn said(answers: std::ops::Range<usize>) -> impl Strategy<Value = Said> {
    let answer = (
        state(),
        prop::bool::weighted(0.03),
        names(),
        0..5_i64,
        0..3_i64,
    );
    let answers = prop::collection::vec(answer, answers);
    (rule(), QUIESCED - 4..QUIESCED + 6, answers).prop_map(|(rule, begun, answers)| {
        let mut time = begun;
        let answer = |(state, has_fault, names, pause, takes): (_, _, _, i64, i64)| {
            let asked = time + pause;
            time = asked + takes;
            Answer {
                state,
                has_fault,
                names,
                asked,
                answered: time,
            }
        };
        let answers = answers.into_iter().map(answer).collect();
        Said { rule, answers }
    })
}

fn life() -> impl Strategy<Value = Life> {
    let signs = [
        Life::AnotherUid,
        Life::AnotherBoot,
        Life::ClaimOfAnother,
        Life::NoClaim,
        Life::Ready,
        Life::NoReady,
        Life::LeaseMoved,
        Life::KubeletAnswers,
    ];
    prop_oneof![3 => Just(Life::None), 1 => prop::sample::select(signs.to_vec())]
}

fn sequence() -> impl Strategy<Value = Sequence> {
    let others = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(said(0..3), 1..3),
    ];
    // Since the last question of all.
    let age = prop_oneof![6 => 0..8_i64, 1 => LIFE - 4..LIFE + 5, 1 => -3..0_i64];
    let window = prop_oneof![1 => Just(0), 2 => 1..8_i64];
    let devices = prop_oneof![1 => Just(0..1_usize), 12 => Just(1..4)];
    let devices = devices.prop_flat_map(|count| prop::collection::vec(said(0..7), count));
    (
        devices,
        others,
        (
            prop::sample::select(vec![Require::All, Require::Any]),
            any::<bool>(),
        ),
        0..4_usize,
        window,
        age,
        life(),
        prop::option::weighted(0.2, 0..LIFE + 5),
    )
        .prop_map(
            |(devices, others, (require, commanded), reads, window, age, life, word)| {
                let all = devices.iter().flat_map(|one| one.answers.iter());
                let last = all.map(|answer| answer.asked).max().unwrap_or(QUIESCED);
                Sequence {
                    devices,
                    others,
                    require,
                    commanded,
                    reads,
                    window,
                    now: last + age,
                    life,
                    word_until: word.map(|lasts| last + lasts),
                }
            },
        )
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
                let words = format!("{refusal:?}");
                let name = words.split(|sign: char| !sign.is_alphanumeric()).next();
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
        "OtherReadsOn",
        "Stale",
        "WrongMachine",
    ];
    assert!(refusals.iter().eq(all.iter()), "{refusals:?}");
}
