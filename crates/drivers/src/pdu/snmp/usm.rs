//! The user-based security model of SNMPv3: keys out of passwords, signatures, encryption (RFC 3414, 3826 and 7860).
//!
//! MD5 and DES are not here: both are broken, and a password that opens outlets deserves better. Keys of AES with more than 128
//! bits are not here either: no standard says how they are made, and vendors do it in two ways.

use aes::Aes128;
use cfb_mode::cipher::KeyIvInit;
use cfb_mode::{Decryptor, Encryptor};
use fencing_api::pdu::{SnmpAuthentication, SnmpPrivacy};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Digest;
use zeroize::Zeroizing;

/// How much of the repeated password is hashed, in bytes (RFC 3414, A.2).
const STRETCHED_BYTES: usize = 1 << 20;
/// Shortest password in bytes (RFC 3414, section 11.2).
pub const PASSWORD_BYTES_MIN: usize = 8;
/// Longest name of a user in bytes (RFC 3414, `usmUserName`).
pub const USER_BYTES_MAX: usize = 32;
/// Length of a key of AES-128 in bytes.
const AES_KEY_BYTES: usize = 16;

/// Does something with the hash function of a protocol.
macro_rules! with_hash {
    ($authentication:expr, $hash:ident => $do:expr) => {
        match $authentication {
            SnmpAuthentication::SHA1 => {
                type $hash = sha1::Sha1;
                $do
            }
            SnmpAuthentication::SHA224 => {
                type $hash = sha2::Sha224;
                $do
            }
            SnmpAuthentication::SHA256 => {
                type $hash = sha2::Sha256;
                $do
            }
            SnmpAuthentication::SHA384 => {
                type $hash = sha2::Sha384;
                $do
            }
            SnmpAuthentication::SHA512 => {
                type $hash = sha2::Sha512;
                $do
            }
        }
    };
}

/// Octets of the signature: a part of the hash (RFC 3414, section 6; RFC 7860, section 4.2).
pub fn signature_bytes(authentication: SnmpAuthentication) -> usize {
    match authentication {
        SnmpAuthentication::SHA1 => 12,
        SnmpAuthentication::SHA224 => 16,
        SnmpAuthentication::SHA256 => 24,
        SnmpAuthentication::SHA384 => 32,
        SnmpAuthentication::SHA512 => 48,
    }
}

/// A user of an agent, with the keys that the passwords make, before they are bound to one engine.
pub struct User {
    /// Its name.
    pub name: String,
    authentication: SnmpAuthentication,
    authentication_key: Zeroizing<Vec<u8>>,
    privacy_key: Option<Zeroizing<Vec<u8>>>,
}

/// The keys of a user for one engine.
pub struct Keys {
    authentication: SnmpAuthentication,
    authentication_key: Zeroizing<Vec<u8>>,
    privacy_key: Option<Zeroizing<[u8; AES_KEY_BYTES]>>,
}

impl User {
    /// Makes the keys, which takes some milliseconds: it is what slows down whoever guesses.
    pub fn new(
        name: &str,
        authentication: SnmpAuthentication,
        authentication_password: &str,
        privacy: SnmpPrivacy,
        privacy_password: &str,
    ) -> Self {
        let privacy_key = match privacy {
            SnmpPrivacy::AES128 => Some(stretch(authentication, privacy_password)),
            SnmpPrivacy::None => None,
        };
        Self {
            name: name.to_owned(),
            authentication,
            authentication_key: stretch(authentication, authentication_password),
            privacy_key,
        }
    }

    /// How its messages are signed.
    pub fn authentication(&self) -> SnmpAuthentication {
        self.authentication
    }

    /// Are its messages encrypted?
    pub fn is_private(&self) -> bool {
        self.privacy_key.is_some()
    }

    /// The keys for one engine (RFC 3414, section 2.6): what one agent gives away opens no other.
    pub fn keys(&self, engine_id: &[u8]) -> Keys {
        let localize = |key: &[u8]| {
            with_hash!(self.authentication, Hash => {
                Zeroizing::new(Hash::new().chain_update(key).chain_update(engine_id).chain_update(key).finalize().to_vec())
            })
        };
        let privacy_key = self.privacy_key.as_ref().map(|key| {
            let localized = localize(key);
            let mut key = Zeroizing::new([0; AES_KEY_BYTES]);
            // Every hash has more octets than the key.
            for (to, from) in key.iter_mut().zip(localized.iter()) {
                *to = *from;
            }
            key
        });
        Keys {
            authentication: self.authentication,
            authentication_key: localize(&self.authentication_key),
            privacy_key,
        }
    }
}

/// A key out of a password (RFC 3414, A.2).
fn stretch(authentication: SnmpAuthentication, password: &str) -> Zeroizing<Vec<u8>> {
    // Many at a time; the password is at least one byte long, and at most 4 KiB.
    let block = Zeroizing::new(password.repeat(64));
    with_hash!(authentication, Hash => {
        let mut hash = Hash::new();
        let mut left = STRETCHED_BYTES;
        while let (1.., Some(part)) = (left, block.as_bytes().get(..left.min(block.len()))) {
            if part.is_empty() {
                break;
            }
            hash.update(part);
            left -= part.len();
        }
        Zeroizing::new(hash.finalize().to_vec())
    })
}

impl Keys {
    /// The signature of a message in which the place of the signature is filled with zeros.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut signature = with_hash!(self.authentication, Hash => {
            // HMAC takes keys of any length.
            Hmac::<Hash>::new_from_slice(&self.authentication_key)
                .map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec())
                .unwrap_or_default()
        });
        signature.truncate(signature_bytes(self.authentication));
        signature
    }

    /// Is this the signature of the message, in which it stands at `offset`? Compared in constant time.
    pub fn is_signed(&self, message: &[u8], signature: &[u8], offset: usize) -> bool {
        if signature.len() != signature_bytes(self.authentication) {
            return false;
        }
        let Some((before, rest)) = message.split_at_checked(offset) else {
            return false;
        };
        let Some((_, after)) = rest.split_at_checked(signature.len()) else {
            return false;
        };
        let zeros = vec![0; signature.len()];
        with_hash!(self.authentication, Hash => {
            Hmac::<Hash>::new_from_slice(&self.authentication_key).is_ok_and(|mac| {
                mac.chain_update(before)
                    .chain_update(&zeros)
                    .chain_update(after)
                    .verify_truncated_left(signature)
                    .is_ok()
            })
        })
    }

    /// Encrypts in place (RFC 3826, section 3.1). The salt is never used twice with one key.
    pub fn encrypt(&self, boots: i32, time_seconds: i32, salt: [u8; 8], data: &mut [u8]) {
        if let Some(key) = &self.privacy_key {
            let start = start(boots, time_seconds, salt);
            Encryptor::<Aes128>::new((&**key).into(), &start.into()).encrypt(data);
        }
    }

    /// Decrypts in place. Call it only for what [`Keys::is_signed`].
    pub fn decrypt(&self, boots: i32, time_seconds: i32, salt: [u8; 8], data: &mut [u8]) {
        if let Some(key) = &self.privacy_key {
            let start = start(boots, time_seconds, salt);
            Decryptor::<Aes128>::new((&**key).into(), &start.into()).decrypt(data);
        }
    }
}

/// The initialization vector (RFC 3826, section 3.1.2.1).
fn start(boots: i32, time_seconds: i32, salt: [u8; 8]) -> [u8; 16] {
    let [a, b, c, d] = boots.to_be_bytes();
    let [e, f, g, h] = time_seconds.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = salt;
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn user(authentication: SnmpAuthentication) -> User {
        User::new(
            "fencer",
            authentication,
            "maplesyrup",
            SnmpPrivacy::AES128,
            "maplesyrup",
        )
    }

    /// The example of RFC 3414, A.3.2.
    #[test]
    fn a_password_makes_the_keys_of_the_standard() {
        let user = user(SnmpAuthentication::SHA1);
        assert_eq!(
            hex(&user.authentication_key),
            "9fb5cc0381497b3793528939ff788d5d79145211"
        );
        let keys = user.keys(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(
            hex(&keys.authentication_key),
            "6695febc9288e36282235fc7151f128497b38f3f"
        );
        let privacy = keys.privacy_key.expect("a key");
        assert_eq!(hex(&*privacy), "6695febc9288e36282235fc7151f1284");
    }

    #[test]
    fn a_user_says_how_its_messages_are_protected() {
        let signed = User::new(
            "fencer",
            SnmpAuthentication::SHA512,
            "maplesyrup",
            SnmpPrivacy::None,
            "",
        );
        assert_eq!(signed.authentication(), SnmpAuthentication::SHA512);
        assert!(!signed.is_private());
        assert!(user(SnmpAuthentication::SHA1).is_private());
    }

    /// RFC 3826, 3.1.2.1: no two messages of an engine are encrypted from the same beginning.
    #[test]
    fn encryption_begins_with_the_engine_s_time_and_the_salt() {
        let expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let salt = [9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!(start(0x0102_0304, 0x0506_0708, salt), expected);
    }

    #[test]
    fn every_protocol_signs_and_takes_only_its_own_signature() {
        for authentication in [
            SnmpAuthentication::SHA1,
            SnmpAuthentication::SHA224,
            SnmpAuthentication::SHA256,
            SnmpAuthentication::SHA384,
            SnmpAuthentication::SHA512,
        ] {
            let keys = user(authentication).keys(b"engine");
            let length = signature_bytes(authentication);
            let mut message = [&b"before"[..], &vec![0; length], b"after"].concat();
            let signature = keys.sign(&message);
            assert_eq!(signature.len(), length, "{authentication:?}");
            message[6..6 + length].copy_from_slice(&signature);
            assert!(keys.is_signed(&message, &signature, 6));
            // A part of it, nothing, another engine's, a changed message.
            assert!(!keys.is_signed(&message, &signature[..length - 1], 6));
            assert!(!keys.is_signed(&message, &[], 6));
            assert!(!keys.is_signed(&message, &signature, message.len()));
            assert!(
                !user(authentication)
                    .keys(b"another")
                    .is_signed(&message, &signature, 6)
            );
            message[0] ^= 1;
            assert!(!keys.is_signed(&message, &signature, 6));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_is_encrypted_is_decrypted(mut data: Vec<u8>, boots in 0..i32::MAX, time in 0..i32::MAX, salt: [u8; 8]) {
            let keys = user(SnmpAuthentication::SHA256).keys(b"engine");
            let plain = data.clone();
            keys.encrypt(boots, time, salt, &mut data);
            prop_assert!(plain.len() < 8 || plain != data);
            keys.decrypt(boots, time, salt, &mut data);
            prop_assert_eq!(plain, data);
        }
    }
}
