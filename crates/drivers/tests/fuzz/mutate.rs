//! Inputs that are almost good: those of a corpus, changed here and there.

use fencing_testbed::splitmix64;

/// Longest input in bytes.
const BYTES_MAX: usize = 4096;
/// At the edges of lengths and numbers, and what ends or quotes a text.
const BYTES: [u8; 16] = [
    0, 1, 2, 6, 0x10, 0x20, 0x7f, 0x80, 0x81, 0x82, 0xfe, 0xff, b'"', b'\n', b'{', b'@',
];

/// Makes one input after the other.
pub struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Mutator<'a> {
    pub fn new(seed: u64, corpus: &'a [Vec<u8>]) -> Self {
        Self {
            corpus,
            state: seed,
        }
    }

    fn random(&mut self) -> u64 {
        splitmix64::next(&mut self.state)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("a small number");
        usize::try_from(self.random() % bound).expect("a small number")
    }

    fn byte(&mut self) -> u8 {
        match self.below(2) {
            0 => BYTES[self.below(BYTES.len())],
            _ => self.random().to_le_bytes()[0],
        }
    }

    fn noise(&mut self, bytes_max: usize) -> Vec<u8> {
        let length = self.below(bytes_max + 1);
        (0..length).map(|_| self.byte()).collect()
    }

    fn seed(&mut self) -> &'a [u8] {
        &self.corpus[self.below(self.corpus.len())]
    }

    /// From somewhere to somewhere behind it.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.below(length + 1);
        from..from + self.below((length - from).min(64) + 1)
    }

    pub fn next_input(&mut self) -> Vec<u8> {
        if self.below(16) == 0 {
            return self.noise(200);
        }
        let mut input = self.seed().to_vec();
        for _ in 0..=self.below(6) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len());
        match self.below(8) {
            0 if !input.is_empty() => input[at] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[at] = self.byte(),
            2 => {
                let noise = self.noise(8);
                input.splice(at..at, noise);
            }
            3 => {
                let range = self.range(input.len());
                input.drain(range);
            }
            4 => {
                let range = self.range(input.len());
                let again = input[range].to_vec();
                input.splice(at..at, again);
            }
            5 => {
                let other = self.seed();
                let part = &other[self.range(other.len())];
                let range = self.range(input.len());
                input.splice(range, part.to_vec());
            }
            6 => input.truncate(at),
            // Many of one, for what counts.
            _ => {
                let many = vec![self.byte(); self.below(300)];
                input.splice(at..at, many);
            }
        }
    }
}
