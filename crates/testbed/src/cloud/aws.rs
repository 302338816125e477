//! A region of EC2 with one instance, as its Query API answers, to requests that are signed with one key.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest, Sha256};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// ID and secret of the key.
pub const KEY: [&str; 2] = ["AKIAexample", "s3cret/ec2+key"];
/// The region.
pub const REGION: &str = "eu-central-1";
/// The instance.
pub const INSTANCE: &str = "i-0a1b2c3d4e5f60718";
/// Its private address.
pub const ADDRESS: &str = "10.0.0.17";

/// The region.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aws;

impl Page for Aws {
    const STATE: [&'static str; 2] = [
        "<code>16</code><name>running</name>",
        "<code>80</code><name>stopped</name>",
    ];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let body = std::str::from_utf8(&call.body).ok()?;
        let field = |name: &str| {
            let mut fields = body.split('&').filter_map(|it| it.split_once('='));
            fields.find_map(|(key, value)| (key == name).then_some(value))
        };
        match field("Action")? {
            "DescribeInstances" => Some(Wants::State),
            "StopInstances" if field("DryRun") == Some("true") => Some(Wants::Other),
            "StopInstances" if field("SkipOsShutdown") == Some("true") => {
                Some(Wants::Switch(false))
            }
            "StartInstances" => Some(Wants::Switch(true)),
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        let given = call.head.headers.get(AUTHORIZATION);
        let given = given.and_then(|it| it.to_str().ok());
        given.is_some() && given.map(str::to_owned) == signature(&call.head.headers, &call.body)
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        match (wants, view.taken) {
            (Wants::Switch(on), Taken::Done) => switched(on, None),
            (Wants::Switch(on), Taken::Already) => switched(on, Some(on)),
            (Wants::Switch(_), _) => error(
                400,
                "OperationNotPermitted",
                "The instance may not be stopped. Modify its 'disableApiStop' instance attribute and try again.",
            ),
            (Wants::Other, _) => error(
                412,
                "DryRunOperation",
                "Request would have succeeded, but DryRun flag is set.",
            ),
            (Wants::Login | Wants::State, _) => Answer::text(200, described(view)),
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let code = match status {
            401 => "AuthFailure",
            403 => "UnauthorizedOperation",
            _ => "InternalError",
        };
        error(status, code, words)
    }
}

fn error(status: u16, code: &str, words: &str) -> Answer {
    Answer::text(
        status,
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code><Message>{words}</Message></Error></Errors><RequestID>1</RequestID></Response>"
        ),
    )
}

fn response(action: &str, within: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>1</requestId>{within}</{action}Response>"
    )
}

/// The answer to a command; the instance may have been so already.
fn switched(on: bool, was: Option<bool>) -> Answer {
    let (action, [before, now]) = match (on, was) {
        (true, None) => ("StartInstances", ["stopped", "pending"]),
        (true, Some(_)) => ("StartInstances", ["running", "running"]),
        (false, None) => ("StopInstances", ["running", "stopping"]),
        (false, Some(_)) => ("StopInstances", ["stopped", "stopped"]),
    };
    let within = format!(
        "<instancesSet><item><instanceId>{INSTANCE}</instanceId><currentState><name>{now}</name></currentState>\
         <previousState><name>{before}</name></previousState></item></instancesSet>"
    );
    Answer::text(200, response(action, &within))
}

fn described(view: &View<'_>) -> String {
    let state = Aws::STATE[usize::from(!view.is_on)];
    let reason = match (view.is_on, view.beside) {
        (true, _) => "",
        (false, Beside::Memory) => {
            "<stateReason><code>Client.UserInitiatedHibernate</code></stateReason>"
        }
        (false, _) => "<stateReason><code>Client.UserInitiatedShutdown</code></stateReason>",
    };
    let within = format!(
        "<reservationSet><item><reservationId>r-1</reservationId><instancesSet><item><instanceId>{INSTANCE}</instanceId>\
         <instanceState>{state}</instanceState><instanceType>m5.large</instanceType><privateIpAddress>{ADDRESS}</privateIpAddress>{reason}\
         <hibernationOptions><configured>false</configured></hibernationOptions></item></instancesSet></item></reservationSet>"
    );
    response("DescribeInstances", &within)
}

/// What the header has to be for this request, by Signature Version 4.
fn signature(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let of = |name: &str| headers.get(name)?.to_str().ok();
    let time = of("x-amz-date")?;
    let scope = format!("{}/{REGION}/ec2/aws4_request", time.get(..8)?);
    let signed = ["content-type", "host", "x-amz-date"];
    let mut canonical = "POST\n/\n\n".to_owned();
    for name in signed {
        writeln!(canonical, "{name}:{}", of(name)?).ok()?;
    }
    let signed = signed.join(";");
    write!(canonical, "\n{signed}\n{}", hash(body)).ok()?;
    let text = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        hash(canonical.as_bytes())
    );
    let mut key = format!("AWS4{}", KEY[1]).into_bytes();
    for part in scope.split('/') {
        key = mac(&key, part);
    }
    let signature = hex(&mac(&key, &text));
    Some(format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
        KEY[0]
    ))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
