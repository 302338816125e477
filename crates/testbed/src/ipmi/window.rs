//! Which sequence numbers of a session have been used up (IPMI 2.0, section 6.12.14).

/// How far a sequence number may be ahead of the highest one so far.
const AHEAD: u32 = 15;
/// How far behind one may be that has not been seen yet.
const BEHIND: u32 = 16;

/// The sequence numbers that a session has seen. The first of a session is 1.
#[derive(Debug, Default)]
pub(super) struct Window {
    highest: u32,
    /// Bit n stands for `highest - n`.
    seen: u32,
}

impl Window {
    /// Uses up this number. `false`: it was used before, or is too far away.
    pub(super) fn take(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.highest);
        let behind = self.highest.wrapping_sub(number);
        match (ahead, behind) {
            _ if number == 0 => false,
            (1..=AHEAD, _) => {
                self.seen = self.seen << ahead | 1;
                self.highest = number;
                true
            }
            (_, 0..=BEHIND) => {
                let bit = 1 << behind;
                let is_new = self.seen & bit == 0;
                self.seen |= bit;
                is_new
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Window;

    #[test]
    fn each_number_counts_once_and_none_from_far_away() {
        let mut window = Window::default();
        let taken = [1, 1, 3, 2, 2, 18, 34, 20, 2, 17, 0, 33].map(|number| window.take(number));
        let wanted = [
            true, false, true, true, false, true, false, true, false, true, false, true,
        ];
        assert_eq!(taken, wanted);
        // 33 is the highest now: 17 is the last that is near enough, and was used above.
        assert_eq!(
            [17, 18, 19].map(|number| window.take(number)),
            [false, false, true]
        );
    }
}
