//! Numbers that nobody else can guess.

use sha2::{Digest, Sha256};

/// What they are made of.
pub struct Numbers {
    seed: [u8; 32],
    drawn: u64,
}

impl Numbers {
    /// `seed` comes from the system's random numbers.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next one.
    pub fn draw(&mut self) -> [u8; 8] {
        self.drawn += 1;
        let hash: [u8; 32] = Sha256::new()
            .chain_update(self.seed)
            .chain_update(self.drawn.to_be_bytes())
            .finalize()
            .into();
        let [a, b, c, d, e, f, g, h, ..] = hash;
        [a, b, c, d, e, f, g, h]
    }

    /// From 0 to 2147483647, as message and request IDs are.
    pub fn id(&mut self) -> i32 {
        let [a, b, c, d, ..] = self.draw();
        i32::from_be_bytes([a & 0x7f, b, c, d])
    }
}
