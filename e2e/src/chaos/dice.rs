//! Dice with a seed: the same seed throws the same. (When what happens is up to the machine; a run does not repeat itself.)

use std::time::Duration;

use fencing_testbed::splitmix64;

/// A sequence of throws.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        splitmix64::next(&mut self.0)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// A time between these, in whole tenths of a second.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let range = most.saturating_sub(least).as_millis() / 100;
        let range = usize::try_from(range).unwrap_or(0) + 1;
        least + Duration::from_millis(self.below(range) as u64 * 100)
    }
}

/// Cards that are shuffled when all have been dealt: a few cycles see as many different fates as they can.
#[derive(Debug)]
pub(super) struct Deck<T: 'static> {
    all: &'static [T],
    left: Vec<T>,
}

impl<T: Copy> Deck<T> {
    pub(super) fn of(all: &'static [T]) -> Self {
        Self { all, left: vec![] }
    }

    pub(super) fn deal(&mut self, dice: &mut Dice) -> T {
        if self.left.is_empty() {
            self.left = self.all.to_vec();
        }
        self.left.swap_remove(dice.below(self.left.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_and_every_side_comes_up() {
        let throws = |seed| -> Vec<usize> {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.below(6)).collect()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
        assert!((0..6).all(|side| throws(7).contains(&side)));
    }

    #[test]
    fn each_card_is_dealt_once_before_any_comes_again() {
        let (mut dice, mut deck) = (Dice::new(7), Deck::of(&[1, 2, 3, 4]));
        for _ in 0..3 {
            let mut dealt: Vec<_> = (0..4).map(|_| deck.deal(&mut dice)).collect();
            dealt.sort_unstable();
            assert_eq!(dealt, [1, 2, 3, 4]);
        }
    }

    #[test]
    fn times_lie_between_both_ends() {
        let mut dice = Dice::new(7);
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(2));
        let times: Vec<_> = (0..200).map(|_| dice.between(least, most)).collect();
        assert_eq!(times.iter().min(), Some(&least));
        assert_eq!(times.iter().max(), Some(&most));
    }
}
