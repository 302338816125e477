//! User and password of a device, or whatever else opens it, out of a Secret.
//!
//! A Secret written by hand holds surprises: a trailing newline, a missing key, a byte that no header can carry. Each is
//! found here, before a connection is opened, and named in words that hold nothing of the value. The values are wiped from
//! memory when dropped and never shown, not even by `Debug`; beyond reach are only the copies that a request needs while it
//! is being sent.

mod certificate;
mod expiry;
mod header;
mod hidden;
mod kubeconfig;
mod value;

pub use certificate::CERTIFICATE;
pub use kubeconfig::KUBECONFIG;
pub(crate) use kubeconfig::TOKEN as KUBECONFIG_TOKEN;

use super::cidr::Cidr;
use super::error::printable;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use zeroize::Zeroizing;

/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Longest user name of IPMI 2.0 in bytes (v2.0 rev 1.1, §22.28).
const IPMI_USER_BYTES_MAX: usize = 16;
/// Longest password of IPMI 2.0 in bytes (§22.30).
const IPMI_PASSWORD_BYTES_MAX: usize = 20;

/// Annotation of a Secret: the hosts that its values may be sent to, separated by commas. An entry is a host name, `*.` and
/// a domain, an IP address or a range of them.
pub const ALLOWED_HOSTS_ANNOTATION: &str = "nodefencing.io/allowed-hosts";

/// The key of a Secret with the key of an API. One that has it needs no user and no password.
pub const API_KEY: &str = "apiKey";
/// The key of a Secret with a key of a service account of Google Cloud: the file of JSON that Google gives.
pub const KEY_FILE: &str = "key.json";

/// Keys that a Secret need not have, of those that a driver asks for.
pub const OPTIONAL_KEYS: [&str; 2] = ["sessionToken", API_KEY];

/// Why a Secret cannot be used. Holds nothing of its values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// There is no such Secret.
    #[error(
        "Secret `{secret}` does not exist in namespace `{namespace}`; create it there with the keys {keys}, or correct `credentialsRef`"
    )]
    NotFound {
        /// Name of the Secret.
        secret: String,
        /// The operator's namespace.
        namespace: String,
        /// The keys that it must have.
        keys: String,
    },
    /// `probe FILE` was given no such Secret.
    #[error(
        "Secret `{secret}` is not in the files; add it after a line `---` with the keys {keys}, or name its file with --secret"
    )]
    NotInFiles {
        /// Name of the Secret.
        secret: String,
        /// The keys that it must have.
        keys: String,
    },
    /// A key is not there.
    #[error("Secret `{secret}` has no key `{key}`; add it")]
    Missing {
        /// Name of the Secret.
        secret: String,
        /// The key that is needed.
        key: &'static str,
    },
    /// A value cannot be used.
    #[error("Secret `{secret}`, key `{key}`: {problem}; write the value again")]
    Value {
        /// Name of the Secret.
        secret: String,
        /// The key.
        key: &'static str,
        /// What is wrong, without the value.
        problem: String,
    },
    /// An entry of the annotation cannot be read, so nothing is allowed.
    #[error(
        "Secret `{secret}`: annotation {ALLOWED_HOSTS_ANNOTATION} has the entry `{entry}`, which must be a host name, *.domain, an IP address or a range such as 10.20.0.0/16"
    )]
    Annotation {
        /// Name of the Secret.
        secret: String,
        /// The entry.
        entry: String,
    },
    /// The Secret may not be sent to this host. No connection was opened.
    #[error(
        "Secret `{secret}` may not be sent to {host}: its annotation {ALLOWED_HOSTS_ANNOTATION} does not list it; add the host there, or name another Secret in `credentialsRef`"
    )]
    HostNotAllowed {
        /// Name of the Secret.
        secret: String,
        /// The host that was excluded.
        host: String,
    },
}

/// The keys of a Secret with a user and a password, as a BareMetalHost has them.
pub const LOGIN: [&str; 2] = ["username", "password"];

/// What opens one device: the values of the keys that its driver asks for.
pub struct Credentials {
    secret: String,
    values: Vec<(&'static str, Zeroizing<String>)>,
    allowed_hosts: Option<Vec<HostPattern>>,
    trimmed_keys: Vec<&'static str>,
}

/// Tells credentials from others by what they say, not by the Secret that they stand in, without holding any of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(u64);

/// Shows nothing: whoever knew the key could try passwords against it.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

/// Shows the Secret's name only.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads `username` and `password` (the format of a BareMetalHost's Secret) and the annotation.
    ///
    /// # Errors
    /// [`CredentialsError`], the first problem found.
    pub fn from_secret(
        secret: &str,
        data: &BTreeMap<String, Vec<u8>>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, CredentialsError> {
        Self::with_keys(secret, &LOGIN, data, annotations)
    }

    /// Those of nobody: a request with them carries no login, and gets what a device tells everybody.
    #[must_use]
    pub fn nobody() -> Self {
        Self {
            secret: String::new(),
            values: Vec::new(),
            allowed_hosts: None,
            trimmed_keys: Vec::new(),
        }
    }

    /// Is nobody logged in with them?
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.values.is_empty()
    }

    /// Reads the keys that a driver asks for, and the annotation.
    ///
    /// # Errors
    /// [`CredentialsError`], the first problem found.
    pub fn with_keys(
        secret: &str,
        keys: &[&'static str],
        data: &BTreeMap<String, Vec<u8>>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self, CredentialsError> {
        let mut trimmed_keys = Vec::new();
        let mut values = Vec::new();
        let is_by_key = keys.contains(&API_KEY) && data.contains_key(API_KEY);
        let is_needed = |key: &str| !is_by_key && !OPTIONAL_KEYS.contains(&key);
        let is_there = |key: &&&str| data.contains_key(**key) || is_needed(key);
        for key in keys.iter().filter(is_there) {
            let value = value::read(secret, data, key, &mut trimmed_keys)?;
            if !KUBECONFIG.contains(key) {
                values.push((*key, value));
                continue;
            }
            let opened = kubeconfig::opened(&value);
            values.extend(opened.map_err(|problem| CredentialsError::Value {
                secret: secret.to_owned(),
                key,
                problem,
            })?);
        }
        let allowed_hosts = annotations.get(ALLOWED_HOSTS_ANNOTATION);
        Ok(Self {
            secret: secret.to_owned(),
            values,
            allowed_hosts: allowed_hosts
                .map(|list| read_hosts(secret, list))
                .transpose()?,
            trimmed_keys,
        })
    }

    /// The value of a key; empty for one that was not asked for.
    pub(super) fn value(&self, key: &str) -> &str {
        let found = self.values.iter().find(|(own, _)| *own == key);
        found.map_or("", |(_, value)| value)
    }

    /// The value of a key cannot be used, for a reason that holds nothing of it.
    pub(super) fn refuse(&self, key: &'static str, problem: &str) -> CredentialsError {
        CredentialsError::Value {
            secret: self.secret.clone(),
            key,
            problem: problem.to_owned(),
        }
    }

    /// Of all values, under a key that is random and never leaves the process. The annotation does not matter: no device sees it.
    #[must_use]
    pub fn digest(&self, key: &RandomState) -> Digest {
        let mut hasher = key.build_hasher();
        for (name, value) in &self.values {
            (name, value.as_str()).hash(&mut hasher);
        }
        Digest(hasher.finish())
    }

    /// Keys whose value had a trailing newline, which was dropped: worth an event, once.
    #[must_use]
    pub fn trimmed_keys(&self) -> &[&'static str] {
        &self.trimmed_keys
    }

    /// May the values be sent to this host, which stands for this address?
    ///
    /// # Errors
    /// [`CredentialsError::HostNotAllowed`].
    pub fn judge_host(&self, host: &str, address: IpAddr) -> Result<(), CredentialsError> {
        match &self.allowed_hosts {
            Some(patterns)
                if !patterns
                    .iter()
                    .any(|pattern| pattern.matches(host, address.to_canonical())) =>
            {
                Err(CredentialsError::HostNotAllowed {
                    secret: self.secret.clone(),
                    host: host.to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Does the Secret say where its values may be sent?
    #[must_use]
    pub fn names_hosts(&self) -> bool {
        self.allowed_hosts.is_some()
    }

    /// User and password for IPMI 2.0, which has room for 16 and 20 bytes. A longer value is refused and never cut: a BMC that was
    /// given a longer password keeps an unknown part of it.
    ///
    /// # Errors
    /// [`CredentialsError::Value`] when one of them is longer.
    pub fn ipmi(&self) -> Result<IpmiLogin<'_>, CredentialsError> {
        let checked = |key, bytes_max: usize| match self.value(key).as_bytes() {
            value if value.len() <= bytes_max => Ok(value),
            value => {
                let problem = format!(
                    "IPMI 2.0 allows {bytes_max} bytes, was {}: set a shorter one on the BMC",
                    value.len()
                );
                Err(self.refuse(key, &problem))
            }
        };
        Ok(IpmiLogin {
            user: checked("username", IPMI_USER_BYTES_MAX)?,
            password: checked("password", IPMI_PASSWORD_BYTES_MAX)?,
        })
    }
}

/// What IPMI authenticates a session with. Not shown by `Debug`, because it has none.
#[derive(Clone, Copy)]
pub struct IpmiLogin<'a> {
    /// The user's name.
    pub user: &'a [u8],
    /// The user's password.
    pub password: &'a [u8],
}

/// An entry of the annotation.
enum HostPattern {
    Name(String),
    Domain(String),
    Range(Cidr),
}

impl HostPattern {
    fn read(entry: &str) -> Option<Self> {
        if let Ok(address) = entry.parse::<IpAddr>() {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return format!("{address}/{bits}").parse().ok().map(Self::Range);
        }
        if entry.contains('/') {
            return entry.parse().ok().map(Self::Range);
        }
        let (domain, name) = match entry.strip_prefix("*.") {
            Some(rest) => (true, rest.to_ascii_lowercase()),
            None => (false, entry.to_ascii_lowercase()),
        };
        let valid = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
        valid.then(|| {
            if domain {
                Self::Domain(format!(".{name}"))
            } else {
                Self::Name(name)
            }
        })
    }

    fn matches(&self, host: &str, address: IpAddr) -> bool {
        match self {
            Self::Name(name) => host.eq_ignore_ascii_case(name),
            Self::Domain(suffix) => host.to_ascii_lowercase().ends_with(suffix),
            Self::Range(cidr) => cidr.contains(address),
        }
    }
}

/// The annotation's entries. An unreadable one is an error, never an entry that is skipped.
fn read_hosts(secret: &str, list: &str) -> Result<Vec<HostPattern>, CredentialsError> {
    let entries = list
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            HostPattern::read(entry).ok_or_else(|| CredentialsError::Annotation {
                secret: secret.to_owned(),
                entry: printable(entry, 64),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
