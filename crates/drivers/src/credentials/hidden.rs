//! Keeps out of sight what a device repeats of its own credentials: a BMC, or a proxy before it, may show the request that it refuses.

use super::kubeconfig::{AUTHORITY, SERVER};
use super::{CERTIFICATE, Credentials, KEY_FILE};
use crate::error::printable;
use zeroize::Zeroizing;

/// Shorter ones stand in other words by chance.
const CHARACTERS_MIN: usize = 6;
/// What stands in their place.
const HIDDEN: &str = "***";

impl Credentials {
    /// `text`, which is [`printable`] already, without the secrets in it, whole or cut off: all values but the user, and the token of Basic
    /// authentication.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets() {
            clean = clean.replace(secret.as_str(), HIDDEN);
            let ends = secret.char_indices().map(|(at, _)| at);
            let ends: Vec<usize> = ends.skip(CHARACTERS_MIN).collect();
            for start in ends.iter().rev().filter_map(|end| secret.get(..*end)) {
                if !clean.contains('…') {
                    break;
                }
                let start = Zeroizing::new(format!("{start}…"));
                clean = clean.replace(start.as_str(), HIDDEN);
            }
        }
        clean
    }

    /// As a text shows them: as they are, and inside of JSON.
    fn secrets(&self) -> Vec<Zeroizing<String>> {
        // No device sees the key of a client's certificate, nor one that signs tokens, so that none can repeat it. Where a kubeconfig leads to is
        // no secret.
        let is_open = ["username", SERVER, AUTHORITY];
        let is_kept = |key: &str| CERTIFICATE.contains(&key) || key == KEY_FILE;
        let is_sent = |key: &str| !is_open.contains(&key) && !is_kept(key);
        let values = self.values.iter().filter(|(key, _)| is_sent(key));
        let mut secrets: Vec<Zeroizing<String>> = Vec::new();
        for (_, value) in values {
            let shown = Zeroizing::new(printable(value.trim(), usize::MAX));
            let quoted = serde_json::to_string(shown.as_str()).unwrap_or_default();
            let quoted = Zeroizing::new(quoted);
            let inside = quoted
                .get(1..quoted.len().saturating_sub(1))
                .unwrap_or_default();
            secrets.extend([Zeroizing::new(inside.to_owned()), shown]);
        }
        if let Ok(header) = self.basic()
            && let Some(token) = header
                .to_str()
                .ok()
                .and_then(|value| value.split(' ').nth(1))
        {
            secrets.push(Zeroizing::new(token.to_owned()));
        }
        secrets.retain(|secret| secret.chars().count() >= CHARACTERS_MIN);
        secrets
    }
}
