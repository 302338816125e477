//! What befalls the lab in one cycle, and when.

use std::fmt;
use std::time::Duration;

use super::dice::{Deck, Dice};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Whose machine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    /// That of a pod with a volume, by the number of the pod.
    OfPod(usize),
    /// Any, by its number from 1.
    Number(usize),
}

/// How a node dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// Its machine loses its power.
    PowerCut,
    /// Its kubelet stands still, and its containers go on.
    KubeletHung,
    /// It is cut off from the API server, and its containers go on.
    Partitioned,
}

/// What befalls a replica of the operator, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Nothing does.
    None,
    /// SIGKILL, and a new process soon after.
    Killed,
    /// SIGSTOP, then SIGCONT.
    Frozen,
    /// No byte passes between it and the API server.
    CutOff,
    /// Everything that it asks of the API server takes half a second longer.
    Slow,
    /// The API server does what it writes, and it never hears so: its connection is reset.
    AnswersLost,
    /// The API server is killed for all, and started again.
    ApiServerKilled,
    /// The API server stands still for all.
    ApiServerFrozen,
}

/// What is wrong with the BMC of the node for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ailing {
    /// Nothing is.
    Nothing,
    /// Each answer takes two seconds.
    Slow,
    /// It takes connections and never answers.
    Silent,
    /// Nothing answers at all.
    Dark,
    /// Its answer lacks the power state.
    Vague,
    /// It is too busy to answer: 503.
    Busy,
    /// It cuts every second request of a connection.
    Resets,
    /// What it accepts it does three seconds later.
    Late,
    /// What it accepts it does not do.
    Idle,
    /// It says Off, and does nothing: no guard of the operator helps if the node shows no life. Never thrown.
    Lies,
}

/// How the storage takes volumes from nodes for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detach {
    /// At once.
    Prompt,
    /// It takes three seconds.
    Slow,
    /// Not yet.
    Hangs,
}

use Ailing::{Busy, Dark, Idle, Late, Nothing, Resets, Silent, Vague};
use Death::{KubeletHung, Partitioned, PowerCut};
use Mishap::{AnswersLost, ApiServerFrozen, ApiServerKilled, CutOff, Frozen, Killed};
use Victim::{Number, OfPod};

const VICTIMS: &[Victim] = &[OfPod(0), OfPod(1), OfPod(0), OfPod(1), Number(0)];
const DEATHS: &[Death] = &[PowerCut, KubeletHung, Partitioned];
#[rustfmt::skip]
const MISHAPS: &[Mishap] = &[
    Mishap::None, Killed, Frozen, CutOff, Mishap::Slow, AnswersLost, ApiServerKilled, ApiServerFrozen,
];
#[rustfmt::skip]
const AILINGS: &[Ailing] = &[
    Nothing, Ailing::Slow, Silent, Dark, Vague, Busy, Resets, Late, Idle,
];
const DETACHES: &[Detach] = &[Detach::Prompt, Detach::Prompt, Detach::Slow, Detach::Hangs];

/// What befalls the lab in one cycle, and when, counted from the death.
#[derive(Debug, Clone)]
pub(super) struct Fate {
    pub(super) victim: Victim,
    pub(super) death: Death,
    /// When the kubelet goes on, or the network is whole again.
    pub(super) cured_at: Duration,
    /// When somebody turns the machine on, if it is off by then.
    pub(super) power_on_at: Duration,
    pub(super) ailing: Ailing,
    /// When the BMC is well again.
    pub(super) well_at: Duration,
    pub(super) mishap: Mishap,
    /// Which replica; none: the one that leads.
    pub(super) replica: Option<usize>,
    pub(super) mishap_at: Duration,
    pub(super) mishap_for: Duration,
    pub(super) detach: Detach,
    /// When the storage is prompt again.
    pub(super) prompt_at: Duration,
}

/// The fates that a seed throws, without end.
#[derive(Debug)]
pub(super) struct Fates {
    dice: Dice,
    machines: usize,
    victims: Deck<Victim>,
    deaths: Deck<Death>,
    ailings: Deck<Ailing>,
    mishaps: Deck<Mishap>,
    detaches: Deck<Detach>,
}

impl Fates {
    pub(super) fn of(seed: u64, machines: usize) -> Self {
        Self {
            dice: Dice::new(seed),
            machines,
            victims: Deck::of(VICTIMS),
            deaths: Deck::of(DEATHS),
            ailings: Deck::of(AILINGS),
            mishaps: Deck::of(MISHAPS),
            detaches: Deck::of(DETACHES),
        }
    }
}

impl Iterator for Fates {
    type Item = Fate;

    fn next(&mut self) -> Option<Fate> {
        let dice = &mut self.dice;
        let victim = match self.victims.deal(dice) {
            Number(_) => Number(dice.below(self.machines) + 1),
            of_pod @ OfPod(_) => of_pod,
        };
        let mishap = self.mishaps.deal(dice);
        // Nobody but a frozen process is kept for long: a lease is over in six seconds, and the API server starts anew in a few.
        let most = match mishap {
            Frozen => seconds(60),
            ApiServerKilled | ApiServerFrozen | Killed => seconds(12),
            _ => seconds(30),
        };
        Some(Fate {
            victim,
            death: self.deaths.deal(dice),
            cured_at: dice.between(seconds(14), seconds(55)),
            power_on_at: dice.between(seconds(14), seconds(55)),
            ailing: self.ailings.deal(dice),
            well_at: dice.between(seconds(10), seconds(35)),
            mishap,
            replica: (dice.below(4) == 0).then(|| dice.below(2)),
            // A fence that nothing holds up begins some 17 s after the death and is over at 25.
            mishap_at: dice.between(seconds(12), seconds(26)),
            mishap_for: dice.between(seconds(1), most),
            detach: self.detaches.deal(dice),
            prompt_at: dice.between(seconds(20), seconds(40)),
        })
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        match self.victim {
            OfPod(number) => write!(f, "the machine of pod {number}")?,
            Number(number) => write!(f, "machine {number}")?,
        }
        write!(f, " {:?}", self.death)?;
        if self.death != PowerCut {
            write!(f, " until {}", at(self.cured_at))?;
        }
        write!(f, ", turned on at {}", at(self.power_on_at))?;
        if self.ailing != Nothing {
            write!(f, "; BMC {:?} until {}", self.ailing, at(self.well_at))?;
        }
        if self.detach != Detach::Prompt {
            write!(f, "; detach {:?} until {}", self.detach, at(self.prompt_at))?;
        }
        if self.mishap != Mishap::None {
            let whose = match (self.mishap, self.replica) {
                (ApiServerKilled | ApiServerFrozen, _) => String::new(),
                (_, Some(number)) => format!("replica {} ", number + 1),
                (_, None) => "the leader ".to_owned(),
            };
            let (from, long) = (at(self.mishap_at), at(self.mishap_for));
            write!(f, "; {whose}{:?} at {from} for {long}", self.mishap)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thrown(seed: u64) -> Vec<String> {
        let fates = Fates::of(seed, 3).take(20);
        fates.map(|fate| fate.to_string()).collect()
    }

    #[test]
    fn a_seed_always_throws_the_same_fates() {
        assert_eq!(thrown(7), thrown(7));
        assert_ne!(thrown(7), thrown(8));
    }

    #[test]
    fn nine_cycles_see_everything_that_may_be_thrown_and_no_lie() {
        let fates: Vec<Fate> = Fates::of(7, 3).take(9).collect();
        assert!(
            DEATHS
                .iter()
                .all(|it| fates.iter().any(|one| one.death == *it))
        );
        assert!(
            MISHAPS
                .iter()
                .all(|it| fates.iter().any(|one| one.mishap == *it))
        );
        assert!(
            AILINGS
                .iter()
                .all(|it| fates.iter().any(|one| one.ailing == *it))
        );
        assert!(
            DETACHES
                .iter()
                .all(|it| fates.iter().any(|one| one.detach == *it))
        );
        assert!(!AILINGS.contains(&Ailing::Lies));
    }
}
