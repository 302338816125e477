//! The cryptography of RMCP+ (§13.20 to §13.32), for the two cipher suites that authenticate and encrypt: 17 and 3.
//!
//! A session has a key SIK, made of the password and both random numbers, and two keys made of that: K1 for authentication
//! codes, K2 for AES. Codes are compared in constant time. All keys are wiped from memory when dropped and never shown.

use super::codec::Malformed;
use super::codec::packet::{self, Sealed};
use super::codec::rakp::Algorithms;
use aes::Aes128;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::digest::block_api::EagerHash;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// Length of a block of AES, of its key in suites of AES-128, and of its initialisation vector, in bytes.
const AES_BYTES: usize = 16;

/// A cipher suite (table 22-20). Suite 0 and those without encryption or integrity are none of them, nor are those with RC4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// 17: RAKP-HMAC-SHA256, HMAC-SHA256-128, AES-CBC-128.
    Sha256,
    /// 3: RAKP-HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128.
    Sha1,
}

impl Suite {
    /// The suite with this number, if it is one that may be used.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            17 => Some(Self::Sha256),
            3 => Some(Self::Sha1),
            _ => None,
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Sha256 => 17,
            Self::Sha1 => 3,
        }
    }

    /// Its algorithms.
    #[must_use]
    pub fn algorithms(self) -> Algorithms {
        let (authentication, integrity) = match self {
            Self::Sha256 => (3, 4),
            Self::Sha1 => (1, 1),
        };
        Algorithms {
            authentication,
            integrity,
            confidentiality: 1,
        }
    }

    /// Length of the code of RAKP messages 2 and 3 in bytes.
    #[must_use]
    pub fn exchange_code_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha1 => 20,
        }
    }

    /// Length of the codes of RAKP message 4 and of messages in a session, in bytes.
    #[must_use]
    pub fn integrity_code_bytes(self) -> usize {
        match self {
            Self::Sha256 => 16,
            Self::Sha1 => 12,
        }
    }

    fn code(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Sha256 => code(hmac::<Sha256>(key, parts)),
            Self::Sha1 => code(hmac::<Sha1>(key, parts)),
        }
    }

    /// Is `found` the beginning of the code, of exactly so many bytes? In constant time.
    fn verify(self, key: &[u8], parts: &[&[u8]], found: &[u8], code_bytes: usize) -> bool {
        found.len() == code_bytes
            && match self {
                Self::Sha256 => hmac::<Sha256>(key, parts).verify_truncated_left(found),
                Self::Sha1 => hmac::<Sha1>(key, parts).verify_truncated_left(found),
            }
            .is_ok()
    }
}

/// The key is at most a block of the hash long, so filling it up with zeros is what HMAC does (RFC 2104) and cannot fail.
fn hmac<H>(key: &[u8], parts: &[&[u8]]) -> Hmac<H>
where
    H: EagerHash,
    Hmac<H>: KeyInit + Mac,
{
    let mut block = Zeroizing::new(hmac::digest::Key::<Hmac<H>>::default());
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = <Hmac<H> as KeyInit>::new(&block);
    for part in parts {
        mac.update(part);
    }
    mac
}

fn code(mac: impl Mac) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(mac.finalize().into_bytes().to_vec())
}

/// What both sides know after RAKP message 2. The order and the widths of these numbers in the codes are the specification's.
pub struct Exchange {
    /// The suite that was agreed on.
    pub suite: Suite,
    /// Our number for the session.
    pub console_id: u32,
    /// The BMC's number for the session.
    pub bmc_id: u32,
    /// Our random number.
    pub console_random: [u8; 16],
    /// The BMC's random number.
    pub bmc_random: [u8; 16],
    /// Which system the BMC says it is.
    pub guid: [u8; 16],
    /// The byte of RAKP 1 that asks for a privilege.
    pub role: u8,
    /// The user's name.
    pub user: Vec<u8>,
    /// The user's password.
    pub password: Zeroizing<Vec<u8>>,
}

impl Exchange {
    /// Does the code of RAKP message 2 prove that the BMC knows the password?
    #[must_use]
    pub fn verify_rakp2(&self, found: &[u8]) -> bool {
        let parts: [&[u8]; 8] = [
            &self.console_id.to_le_bytes(),
            &self.bmc_id.to_le_bytes(),
            &self.console_random,
            &self.bmc_random,
            &self.guid,
            &[self.role],
            &[self.user_bytes()],
            &self.user,
        ];
        let code_bytes = self.suite.exchange_code_bytes();
        self.suite.verify(&self.password, &parts, found, code_bytes)
    }

    /// The code of RAKP message 3, which proves that we know the password.
    #[must_use]
    pub fn rakp3(&self) -> Zeroizing<Vec<u8>> {
        let parts: [&[u8]; 5] = [
            &self.bmc_random,
            &self.console_id.to_le_bytes(),
            &[self.role],
            &[self.user_bytes()],
            &self.user,
        ];
        self.suite.code(&self.password, &parts)
    }

    /// Does the code of RAKP message 4 prove that the BMC has the same session key?
    #[must_use]
    pub fn verify_rakp4(&self, found: &[u8]) -> bool {
        let parts: [&[u8]; 3] = [&self.console_random, &self.bmc_id.to_le_bytes(), &self.guid];
        let code_bytes = self.suite.integrity_code_bytes();
        self.suite
            .verify(&self.session_key(), &parts, found, code_bytes)
    }

    /// The keys of the session.
    #[must_use]
    pub fn keys(&self) -> Keys {
        Keys::new(self.suite, &self.session_key())
    }

    /// SIK. Without a key of the BMC's own (K_g) the user's takes its place (§13.31).
    fn session_key(&self) -> Zeroizing<Vec<u8>> {
        let parts: [&[u8]; 5] = [
            &self.console_random,
            &self.bmc_random,
            &[self.role],
            &[self.user_bytes()],
            &self.user,
        ];
        self.suite.code(&self.password, &parts)
    }

    fn user_bytes(&self) -> u8 {
        // RAKP message 1 was sent with this name, so it is at most 16 bytes long.
        u8::try_from(self.user.len()).unwrap_or(u8::MAX)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

/// The keys of a session.
pub struct Keys {
    suite: Suite,
    integrity: Zeroizing<Vec<u8>>,
    cipher: Zeroizing<[u8; AES_BYTES]>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

impl Keys {
    fn new(suite: Suite, session: &[u8]) -> Self {
        // §13.32; the constants are 20 bytes long for every hash.
        let derived = suite.code(session, &[&[2; 20]]);
        let mut cipher = Zeroizing::new([0; AES_BYTES]);
        cipher
            .iter_mut()
            .zip(derived.iter())
            .for_each(|(to, from)| *to = *from);
        Self {
            suite,
            integrity: suite.code(session, &[&[1; 20]]),
            cipher,
        }
    }

    /// The datagram that carries `message`. `None` if it would be too long.
    #[must_use]
    pub fn seal(
        &self,
        session_id: u32,
        sequence: u32,
        vector: [u8; AES_BYTES],
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let encrypted = self.encrypt(vector, message)?;
        packet::encode_sealed(session_id, sequence, &encrypted, |signed| {
            let mut code = self.suite.code(&self.integrity, &[signed]).to_vec();
            code.truncate(self.suite.integrity_code_bytes());
            code
        })
    }

    /// The message that a datagram carries. Nothing of it is looked at before its authentication code was found right.
    ///
    /// # Errors
    /// It is not authentic, or not filled up as it must be.
    pub fn open(&self, sealed: &Sealed<'_>) -> Result<Vec<u8>, Malformed> {
        let code_bytes = self.suite.integrity_code_bytes();
        let (signed, code) = sealed.signed(code_bytes)?;
        if !self
            .suite
            .verify(&self.integrity, &[signed], code, code_bytes)
        {
            return Err(Malformed("its authentication code is wrong"));
        }
        self.decrypt(sealed.payload(signed)?)
    }

    /// §13.29: the vector, then the message, then 1, 2, 3 and so on up to a whole block, whose last byte says how many.
    fn encrypt(&self, vector: [u8; AES_BYTES], message: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = message.to_vec();
        let unfilled = message.len().checked_add(1)?;
        let pad = unfilled.next_multiple_of(AES_BYTES).checked_sub(unfilled)?;
        let pad = u8::try_from(pad).ok()?;
        bytes.extend(1..=pad);
        bytes.push(pad);
        let mut cipher = cbc::Encryptor::<Aes128>::new((&*self.cipher).into(), (&vector).into());
        let (blocks, _) = bytes.as_chunks_mut::<AES_BYTES>();
        for block in blocks {
            cipher.encrypt_block(block.into());
        }
        let mut encrypted = vector.to_vec();
        encrypted.append(&mut bytes);
        Some(encrypted)
    }

    fn decrypt(&self, encrypted: &[u8]) -> Result<Vec<u8>, Malformed> {
        let (vector, bytes) = encrypted
            .split_first_chunk::<AES_BYTES>()
            .ok_or(Malformed("its payload is not encrypted"))?;
        let mut bytes = bytes.to_vec();
        let (blocks, []) = bytes.as_chunks_mut::<AES_BYTES>() else {
            return Err(Malformed("its payload is no whole number of blocks"));
        };
        let mut cipher = cbc::Decryptor::<Aes128>::new((&*self.cipher).into(), vector.into());
        for block in blocks {
            cipher.decrypt_block(block.into());
        }
        let wrong = Malformed("its payload is not filled up as it must be");
        let pad_bytes = bytes.pop().filter(|pad| usize::from(*pad) < AES_BYTES);
        let pad_bytes = usize::from(pad_bytes.ok_or(wrong)?);
        let message_bytes = bytes.len().checked_sub(pad_bytes).ok_or(wrong)?;
        // The code has proven all of them, so only their number counts.
        bytes.truncate(message_bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
