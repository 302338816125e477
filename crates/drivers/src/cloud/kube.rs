//! How the API server of another Kubernetes cluster is asked, for drivers whose machines are objects there.
//!
//! No request names a `resourceVersion`, so each answer is as new as the store behind the API server. That an object is not there is believed only
//! of an answer that names it: an API server answers 404 too for a group that it does not serve now.

mod kept;
mod lists;

use super::errors::{Answers, Meaning, Row, row};
use super::io::Io;
use super::kind::split;
use crate::DeviceError;
use crate::address::Address;
use crate::credentials::{Credentials, KUBECONFIG, KUBECONFIG_TOKEN};
use crate::error::printable;
use crate::http::{Call, Reply};
use crate::json::Few;
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use kept::{FEW, Review, Status, short};
pub(super) use lists::{List, heads, list};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeMap;

/// The key of the Secret.
pub(super) const KEYS: [&str; 1] = KUBECONFIG;
/// Longest object in bytes: a Node with all of its annotations takes some 300,000.
const OBJECT_BYTES_MAX: usize = 512 << 10;
/// Deepest nesting of a document: what is not asked for in it is skipped, and a reader that skips has no limit of its own.
const DEPTH_MAX: usize = 64;
/// Longest name of an object (RFC 1123).
const NAME_BYTES_MAX: usize = 253;

/// What an answer other than a success means to one who reads. The reasons are those of a `Status`: what a proxy answers on the way has none.
const TABLE: [Row; 9] = [
    row(401, "", "", Meaning::Login),
    row(403, "Forbidden", "", Meaning::Denied),
    row(404, "NotFound", "", Meaning::Missing),
    row(409, "Conflict", "", Meaning::Busy),
    row(422, "Invalid", "", Meaning::Refused),
    row(429, "", "", Meaning::Busy),
    row(503, "ServiceUnavailable", "", Meaning::Busy),
    row(504, "Timeout", "", Meaning::Busy),
    row(403, "", "", Meaning::Denied),
];

/// The same of a command: only a `Status` says that it was not carried out, and that of a server which could not reach the next one does not.
pub(super) const COMMANDED: [Row; 6] = [
    row(401, "Unauthorized", "", Meaning::Login),
    row(403, "Forbidden", "", Meaning::Denied),
    row(404, "NotFound", "", Meaning::Missing),
    row(409, "Conflict", "", Meaning::Busy),
    row(422, "Invalid", "", Meaning::Refused),
    row(429, "TooManyRequests", "", Meaning::Busy),
];

/// What an answer to a request that only reads means.
pub(super) const fn answers(right: &'static str) -> Answers {
    Answers {
        table: &TABLE,
        words,
        right,
    }
}

/// What every object has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    #[serde(default, deserialize_with = "kept::used")]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    pub(super) owner_references: Option<Few<Owner, FEW>>,
}

/// Whose an object is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
}

/// An object, as far as a page needs it.
pub(super) trait Object: DeserializeOwned {
    /// Its kind.
    const KIND: &'static str;

    /// The kind that its document has; none: it is an item of a list.
    fn kind(&self) -> Option<&str>;

    /// Its metadata.
    fn meta(&self) -> &Meta;
}

/// Which object a path leads to, as a `Status` names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) name: &'a str,
}

/// What the account needs to be allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Right<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) namespace: &'a str,
}

/// Is this the API server that the kubeconfig is for? Its token goes nowhere else.
///
/// # Errors
/// It is another one, in words.
pub(super) fn check_server(server: &str, address: &Address) -> Result<(), String> {
    let (origin, path) = split(server);
    let is_it = Address::parse(origin).is_ok_and(|it| it == *address);
    match is_it && matches!(path, "" | "/") {
        true => Ok(()),
        false => Err(format!(
            "it is {address}, and the kubeconfig in the Secret is for {}; correct one of them",
            printable(server, 120)
        )),
    }
}

/// Can what the kubeconfig holds be sent?
pub(super) fn check(credentials: &Credentials) -> Result<(), DeviceError> {
    Ok(credentials.check_kubeconfig()?)
}

/// Can the text stand in a path as the name of an object or a namespace?
pub(super) fn is_name(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= NAME_BYTES_MAX
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || b".-".contains(it))
}

/// An object.
///
/// # Errors
/// There is none, or none was understood.
pub(super) async fn get<T: Object>(
    io: &mut Io,
    path: &str,
    answers: &Answers,
) -> Result<T, DeviceError> {
    let (at, call) = (io.main(), read(io, path)?);
    let reply = io.read(&at, &call, StatusCode::OK, answers).await?;
    object(io, path, reply)
}

/// The same where it may not be there.
///
/// # Errors
/// Whether it is there is not known.
pub(super) async fn find<T: Object>(
    io: &mut Io,
    path: &str,
    named: Named<'_>,
    answers: &Answers,
) -> Result<Option<T>, DeviceError> {
    let (at, call) = (io.main(), read(io, path)?);
    let reply = io.ask(&at, &call).await?;
    if reply.status == StatusCode::OK {
        return object(io, path, reply).map(Some);
    }
    if is_absent(&reply, named) {
        return Ok(None);
    }
    let failed = io.failed(&at, &call, &reply, answers);
    Err(failed.of_read(answers.table))
}

/// Does the answer say of this very object that it is not there?
fn is_absent(reply: &Reply, named: Named<'_>) -> bool {
    let status: Status = short(reply);
    let details = status.details.unwrap_or_default();
    reply.status == StatusCode::NOT_FOUND
        && status.kind.as_deref() == Some("Status")
        && status.reason.as_deref() == Some("NotFound")
        && details.group.unwrap_or_default() == named.group
        && details.kind.as_deref() == Some(named.resource)
        && details.name.as_deref() == Some(named.name)
}

/// The document of an object, if it is the one that was asked for.
fn object<T: Object>(io: &Io, path: &str, reply: Reply) -> Result<T, DeviceError> {
    let at = io.main();
    let object: T = parsed(io, reply)?;
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_it = object.kind() == Some(T::KIND) && object.meta().name == name;
    match is_it {
        true => Ok(object),
        false => Err(io.protocol(&at, &format!("{path} is not {} `{name}`", T::KIND))),
    }
}

/// The document in this form. The rest of it is skipped.
pub(super) fn parsed<T: DeserializeOwned>(io: &Io, reply: Reply) -> Result<T, DeviceError> {
    let at = io.main();
    if reply.body.as_deref().is_ok_and(|it| depth(it) > DEPTH_MAX) {
        return Err(io.protocol(&at, &format!("its body is nested deeper than {DEPTH_MAX}")));
    }
    io.listed(&at, reply)
}

/// How deep the document is nested, as far as its brackets tell.
fn depth(document: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in document {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// What of these the account is not allowed, as the API server itself says. Where it does not say, nothing stands in the way.
pub(super) async fn denied(
    io: &mut Io,
    rights: &[Right<'_>],
    answers: &Answers,
) -> Option<DeviceError> {
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let at = io.main();
    for right in rights {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": right.verb, "group": right.group, "resource": right.resource, "subresource": right.subresource,
                "namespace": right.namespace,
            }},
        });
        let call = Call::new(Method::POST, REVIEWS).with_json(review.to_string());
        let call = authorised(io, call).ok()?;
        let reply = io
            .read(&at, &call, StatusCode::CREATED, answers)
            .await
            .ok()?;
        let review: Review = short(&reply);
        if review.denies() {
            let resource = [right.resource, right.subresource];
            let resource: Vec<&str> = resource.into_iter().filter(|it| !it.is_empty()).collect();
            return Some(DeviceError::PermissionDenied {
                endpoint: at.to_string(),
                request: format!("{} of {}", right.verb, resource.join("/")),
                said: "that it is not allowed".to_owned(),
                right: answers.right,
            });
        }
    }
    None
}

/// A request that only reads.
fn read(io: &Io, path: &str) -> Result<Call, DeviceError> {
    let call = Call::new(Method::GET, path).with_body_of_at_most(OBJECT_BYTES_MAX);
    authorised(io, call)
}

/// With the token, where the kubeconfig has one: its certificate is shown in the handshake.
pub(super) fn authorised(io: &Io, call: Call) -> Result<Call, DeviceError> {
    let credentials = io.credentials();
    match credentials.has_token() {
        true => Ok(call.with_header(AUTHORIZATION, credentials.bearer(KUBECONFIG_TOKEN)?)),
        false => Ok(call),
    }
}

/// Reason and message of a `Status`; of anything else neither.
pub(super) fn words(reply: &Reply) -> (String, String) {
    let status: Status = short(reply);
    if status.kind.as_deref() != Some("Status") {
        return (String::new(), String::new());
    }
    (
        status.reason.unwrap_or_default(),
        status.message.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests;
