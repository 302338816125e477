//! Who is at the other end of a TLS connection to a BMC.
//!
//! Three ways to know, chosen per device: `Full` checks the certificate's chain, name and dates; `Pinned` knows the one
//! certificate by its SHA-256 fingerprint, which suits the self-signed certificates of BMCs; `None` knows nothing and must
//! be asked for by name. In all three the peer proves in the handshake that it holds the certificate's key, and no session is
//! ever resumed, because a resumed one proves nothing anew.

use std::fmt;
use std::str::FromStr;

/// How the device's certificate is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    /// Chain, name and dates, against the certificates in `ca_bundle_pem`, or the system's where there is none.
    Full {
        /// Certificates in PEM, the only ones that are trusted then.
        ca_bundle_pem: Option<Vec<u8>>,
    },
    /// The certificate is exactly this one; chain, name and dates do not matter.
    Pinned(Fingerprint),
    /// Nothing is checked: whoever answers gets the password.
    None,
}

/// SHA-256 of a certificate in DER, as browsers and openssl print it: `AA:BB:…`, 32 pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fingerprint must be 32 pairs of hexadecimal digits with colons between them, as `openssl x509 -noout -fingerprint -sha256` prints it"
)]
pub struct FingerprintError;

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs
                .next()
                .filter(|pair| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(pair.ok_or(FingerprintError)?, 16)
                .map_err(|_| FingerprintError)?;
        }
        pairs
            .next()
            .is_none()
            .then_some(Self(bytes))
            .ok_or(FingerprintError)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
