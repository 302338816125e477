//! What is kept of a document of an API server: what a driver reads, and no more. An entry of a few bytes takes hundreds in memory, so none of this
//! grows with what the other side likes to write (S19).

use crate::http::Reply;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// Entries of a list of which more are not kept: objects of one page, owners of an object.
pub(super) const FEW: usize = 100;
/// Longest document in bytes that says what became of a request.
pub(super) const SHORT_BYTES_MAX: usize = 64 << 10;
/// How the annotations begin that a driver reads. Who reads another one adds it here, or does not see it.
const USED: [&str; 4] = [
    "kubevirt.io/domain",
    "reboot.metal3.io",
    "baremetalhost.metal3.io/detached",
    "baremetalhost.metal3.io/paused",
];
/// So many of those has no object.
const USED_MAX: usize = 64;

/// Of the annotations of an object those that a driver reads.
///
/// # Errors
/// They are none, or there are more of them than an object has.
pub(super) fn used<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let kept: Option<Annotations> = Option::deserialize(from)?;
    Ok(kept.map(|it| it.0))
}

struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Used)
    }
}

struct Used;

impl<'de> Visitor<'de> for Used {
    type Value = Annotations;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("annotations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Annotations, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            if !USED.iter().any(|it| name.starts_with(it)) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            kept.insert(name, entries.next_value()?);
            if kept.len() > USED_MAX {
                return Err(A::Error::custom(format_args!(
                    "more than {USED_MAX} annotations for drivers"
                )));
            }
        }
        Ok(Annotations(kept))
    }
}

/// What an API server says of a request.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    pub(super) kind: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) details: Option<Details>,
}

/// Which object it says that of.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Details {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
}

/// What it says of a right.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Review {
    status: Option<Verdict>,
}

#[derive(Debug, Deserialize)]
struct Verdict {
    allowed: Option<bool>,
}

impl Review {
    /// Does it say that the account does not have it?
    pub(super) fn denies(&self) -> bool {
        let verdict = self.status.as_ref();
        verdict.and_then(|it| it.allowed) == Some(false)
    }
}

/// A short document in this form. A longer one, and one of another form, says nothing.
pub(super) fn short<T: DeserializeOwned + Default>(reply: &Reply) -> T {
    let body = reply.body.as_deref().unwrap_or_default();
    match body.len() <= SHORT_BYTES_MAX {
        true => serde_json::from_slice(body).unwrap_or_default(),
        false => T::default(),
    }
}
