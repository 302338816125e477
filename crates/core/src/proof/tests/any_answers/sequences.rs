//! What is tried: answers of any devices, one after the other, and everything else that a proof is judged on.

use super::*;
use crate::identity_rule::IdentityRule;

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
fn said(answers: std::ops::Range<usize>) -> impl Strategy<Value = PowerHistory> {
    let answer = (
        state(),
        prop::bool::weighted(0.03),
        names(),
        0..5_i64,
        0..3_i64,
    );
    let answers = prop::collection::vec(answer, answers);
    let falls_silent = prop::bool::weighted(0.1);
    let said = (rule(), QUIESCED - 4..QUIESCED + 6, answers, falls_silent);
    said.prop_map(|(rule, begun, mut answers, falls_silent)| {
        if let ([.., on, silence], true) = (answers.as_mut_slice(), falls_silent) {
            (on.0, silence.0) = (PowerState::On, PowerState::Unknown);
        }
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
        PowerHistory { rule, answers }
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

pub fn sequence() -> impl Strategy<Value = Sequence> {
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
                    confirmed_until: word.map(|lasts| last + lasts),
                }
            },
        )
}
