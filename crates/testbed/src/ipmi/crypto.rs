//! Cipher suites: their numbers, and what they compute (IPMI 2.0, sections 13.28 to 13.32 and 22.15.2).

use aes::{
    Aes128,
    cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit},
};
use anyhow::{Result, ensure};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::Sha256;

/// Length of a block and of a key of AES-CBC-128.
const BLOCK: usize = 16;
/// The constants of which the keys are made are this long, whatever the suite.
const CONSTANT: usize = 20;

/// A cipher suite that the emulator knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// 0: no authentication, no integrity, no confidentiality. Whoever knows a user's name is that user.
    Zero,
    /// 3: RAKP-HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128.
    Three,
    /// 17: RAKP-HMAC-SHA256, HMAC-SHA256-128, AES-CBC-128.
    Seventeen,
}

impl Suite {
    /// Its number.
    pub fn id(self) -> u8 {
        match self {
            Self::Zero => 0,
            Self::Three => 3,
            Self::Seventeen => 17,
        }
    }

    /// The numbers of its algorithms for authentication, integrity and confidentiality.
    pub(super) fn algorithms(self) -> [u8; 3] {
        match self {
            Self::Zero => [0, 0, 0],
            Self::Three => [1, 1, 1],
            Self::Seventeen => [3, 4, 1],
        }
    }

    /// Key exchange authentication code over these parts. Empty with suite 0.
    pub(super) fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Zero => Vec::new(),
            Self::Three => mac::<Hmac<Sha1>>(key, parts),
            Self::Seventeen => mac::<Hmac<Sha256>>(key, parts),
        }
    }

    /// Bytes of an authentication code that are sent with RAKP message 4 and with each packet.
    pub(super) fn integrity_bytes(self) -> usize {
        match self {
            Self::Zero => 0,
            Self::Three => 12,
            Self::Seventeen => 16,
        }
    }

    /// The same, cut to what RAKP message 4 and each packet carry.
    pub(super) fn short_hmac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut code = self.hmac(key, parts);
        code.truncate(self.integrity_bytes());
        code
    }
}

fn mac<M: Mac + hmac::KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mac = <M as hmac::KeyInit>::new_from_slice(key).expect("a key of any length will do");
    let mac = parts.iter().fold(mac, |mac, part| mac.chain_update(part));
    mac.finalize().into_bytes().to_vec()
}

/// What protects the packets of a session.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) suite: Suite,
    k1: Vec<u8>,
    k2: [u8; BLOCK],
}

impl Keys {
    /// From the session integrity key.
    pub(super) fn new(suite: Suite, sik: &[u8]) -> Self {
        let mut k2 = [0; BLOCK];
        for (to, from) in k2.iter_mut().zip(suite.hmac(sik, &[&[2; CONSTANT]])) {
            *to = from;
        }
        Self {
            suite,
            k1: suite.hmac(sik, &[&[1; CONSTANT]]),
            k2,
        }
    }

    pub(super) fn encrypts(&self) -> bool {
        self.suite != Suite::Zero
    }

    /// The authentication code of a packet.
    pub(super) fn sign(&self, signed: &[u8]) -> Vec<u8> {
        self.suite.short_hmac(&self.k1, &[signed])
    }

    /// Initialization vector and ciphertext. With bad padding, the padding's bytes are not those of the specification.
    pub(super) fn encrypt(&self, iv: [u8; BLOCK], data: &[u8], bad_padding: bool) -> Vec<u8> {
        let mut plain = data.to_vec();
        let mut pad = 0;
        while !(plain.len() + 1).is_multiple_of(BLOCK) {
            pad += 1;
            plain.push(if bad_padding { 0xA5 } else { pad });
        }
        plain.push(pad);

        let cipher = Aes128::new(&self.k2.into());
        let mut before = iv;
        let mut out = iv.to_vec();
        for block in plain.chunks_exact(BLOCK) {
            for (byte, plain) in before.iter_mut().zip(block) {
                *byte ^= plain;
            }
            let mut block = before.into();
            cipher.encrypt_block(&mut block);
            before = block.into();
            out.extend(before);
        }
        out
    }

    pub(super) fn decrypt(&self, payload: &[u8]) -> Result<Vec<u8>> {
        ensure!(
            payload.len() >= 2 * BLOCK && payload.len().is_multiple_of(BLOCK),
            "{} encrypted bytes are not whole blocks",
            payload.len()
        );
        let cipher = Aes128::new(&self.k2.into());
        let mut plain = Vec::with_capacity(payload.len());
        let blocks = payload.chunks_exact(BLOCK);
        for (before, block) in blocks.clone().zip(blocks.skip(1)) {
            let block: [u8; BLOCK] = block.try_into()?;
            let mut block = block.into();
            cipher.decrypt_block(&mut block);
            plain.extend(block.iter().zip(before).map(|(one, other)| one ^ other));
        }
        let pad = plain.pop().map_or(0, usize::from);
        ensure!(pad < BLOCK && pad <= plain.len(), "{pad} bytes of padding");
        let padding = plain.split_off(plain.len() - pad);
        let is_counted = padding
            .iter()
            .zip(1..)
            .all(|(byte, number)| *byte == number);
        ensure!(is_counted, "the padding does not count up from 1");
        Ok(plain)
    }
}
