//! Numbers that look like chance and follow from a seed: `SplitMix64`, by Sebastiano Vigna <https://prng.di.unimi.it/splitmix64.c>.

/// What the state grows by with each number.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The next number. The first state is the seed.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As that of the author begins with this seed.
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut state = 1_234_567;
        assert_eq!(next(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(next(&mut state), 3_203_168_211_198_807_973);
    }
}
