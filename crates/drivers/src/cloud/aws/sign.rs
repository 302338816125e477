//! Signature Version 4: a request to AWS shows that its sender has the secret key, and never holds it.

pub(super) use super::super::form::form;

use hmac::{Hmac, KeyInit, Mac};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write;
use zeroize::Zeroizing;

/// Type of the body, which is signed too: [`crate::http::Call::with_form`].
const CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

/// What a request is signed with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// The access key ID, which AWS and its logs show.
    pub(super) id: String,
    /// The secret access key.
    pub(super) secret: Zeroizing<String>,
    /// The session token that goes with temporary keys; empty: they have no end.
    pub(super) session: Zeroizing<String>,
}

/// Shows the ID alone.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Where and when a signature holds: for this service of this region, some minutes around this time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) time: Timestamp,
}

/// The headers that sign a POST of this form to the root of a host; none: a key cannot stand in a header.
pub(super) fn headers(
    keys: &Keys,
    scope: Scope<'_>,
    host: &str,
    form: &str,
) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let time = scope.time.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = time.get(..8)?;
    let mut canonical =
        format!("POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{host}\nx-amz-date:{time}\n");
    let mut signed = "content-type;host;x-amz-date".to_owned();
    let mut headers = vec![(
        HeaderName::from_static("x-amz-date"),
        HeaderValue::from_str(&time).ok()?,
    )];
    if !keys.session.is_empty() {
        canonical.push_str(&format!("x-amz-security-token:{}\n", *keys.session));
        signed.push_str(";x-amz-security-token");
        let mut token = HeaderValue::from_str(&keys.session).ok()?;
        token.set_sensitive(true);
        headers.push((HeaderName::from_static("x-amz-security-token"), token));
    }
    let canonical = Zeroizing::new(format!("{canonical}\n{signed}\n{}", hash(form)));
    let Scope {
        region, service, ..
    } = scope;
    let within = format!("{date}/{region}/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{within}\n{}", hash(&canonical));
    let signature = hex(&*mac(&*signing_key(&keys.secret, date, scope)?, &text)?);
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={}/{within}, SignedHeaders={signed}, Signature={signature}",
        keys.id
    );
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    headers.push((AUTHORIZATION, value));
    Some(headers)
}

/// The key of a day, a region and a service.
fn signing_key(secret: &str, date: &str, scope: Scope<'_>) -> Option<Zeroizing<[u8; 32]>> {
    let secret = Zeroizing::new(format!("AWS4{secret}"));
    let mut key = mac(secret.as_bytes(), date)?;
    for part in [scope.region, scope.service, "aws4_request"] {
        key = mac(&*key, part)?;
    }
    Some(key)
}

fn mac(key: &[u8], text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text.as_bytes());
    Some(Zeroizing::new(mac.finalize().into_bytes().into()))
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of AWS's own examples.
    fn keys(session: &str) -> Keys {
        Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: Zeroizing::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
            session: Zeroizing::new(session.to_owned()),
        }
    }

    fn scope(service: &'static str) -> Scope<'static> {
        Scope {
            region: "us-east-1",
            service,
            time: "2015-08-30T12:36:00Z".parse().expect("a time"),
        }
    }

    fn signature(session: &str, form: &str) -> String {
        let host = "example.amazonaws.com";
        let headers = headers(&keys(session), scope("service"), host, form).expect("headers");
        let (_, value) = headers.last().expect("a signature");
        value.to_str().expect("text").to_owned()
    }

    /// Figures of AWS's test suite for Signature Version 4 (`post-x-www-form-urlencoded`) and of its example of a derived key (IAM User Guide).
    #[test]
    fn it_signs_as_the_examples_of_aws_do() {
        let of_iam = signing_key(&keys("").secret, "20150830", scope("iam")).expect("a key");
        assert_eq!(
            hex(&*of_iam),
            "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
        );
        assert_eq!(
            signature("", "Param1=value1"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        );
    }

    #[test]
    fn a_session_token_is_signed_and_no_secret_is_shown() {
        let with = signature("a-token", "Param1=value1");
        assert!(with.contains(";x-amz-security-token,"), "{with}");
        assert_ne!(with, signature("another", "Param1=value1"));
        let keys = keys("a-token");
        let shown = format!("{keys:?} {with}");
        assert!(
            !shown.contains("wJalr") && !shown.contains("a-token"),
            "{shown}"
        );
        let headers = headers(&keys, scope("ec2"), "h", "").expect("headers");
        assert!(!format!("{headers:?}").contains("a-token"), "{headers:?}");
        let broken = Keys {
            session: Zeroizing::new("a\nb".to_owned()),
            ..keys
        };
        assert!(super::headers(&broken, scope("ec2"), "h", "").is_none());
    }
}
