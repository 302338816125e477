//! Which numbered datagrams of a session were received already (§6.12.13).

/// How far behind the newest one a datagram may arrive, in datagrams.
const BEHIND_MAX: u32 = 31;

/// The numbers that were received. A new one may be ahead by any distance: whoever numbers a datagram has authenticated it,
/// and a gap only means that others were lost.
#[derive(Debug, Default)]
pub struct Window {
    newest: u32,
    /// Bit `n`: the one that is `n` behind the newest was received.
    received: u32,
}

impl Window {
    /// Notes a datagram whose authentication code was found right. False if it is a replay, or too old to tell.
    pub fn accept(&mut self, sequence: u32) -> bool {
        if sequence == 0 {
            return false;
        }
        if let Some(ahead) = sequence.checked_sub(self.newest).filter(|ahead| *ahead > 0) {
            self.received = self.received.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = sequence;
            return true;
        }
        let behind = self.newest.saturating_sub(sequence);
        let bit = 1_u32.checked_shl(behind).unwrap_or(0);
        let is_new = behind <= BEHIND_MAX && self.received & bit == 0;
        self.received |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_replay_and_what_is_too_old_are_refused() {
        let mut window = Window::default();
        for (sequence, expected) in [
            (0, false),
            (1, true),
            (1, false),
            (3, true),
            (2, true),
            (2, false),
            (40, true),
            (9, true),
            (8, false),
            (u32::MAX, true),
            (40, false),
            (u32::MAX, false),
        ] {
            assert_eq!(window.accept(sequence), expected, "{sequence}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_accepted_twice_and_nothing_recent_is_lost(
            sequences in prop::collection::vec(prop_oneof![0_u32..100, any::<u32>()], 0..200),
        ) {
            let mut window = Window::default();
            let (mut accepted, mut newest) = (BTreeSet::new(), 0);
            for sequence in sequences {
                let recent = sequence > 0 && newest.max(sequence) - sequence <= BEHIND_MAX;
                let expected = recent && !accepted.contains(&sequence);
                prop_assert_eq!(window.accept(sequence), expected);
                if expected {
                    accepted.insert(sequence);
                    newest = newest.max(sequence);
                }
            }
        }
    }
}
