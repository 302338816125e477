//! The keys that requests to EC2 are signed with: those of the Secret, or those that STS or an agent gives for the role of the operator's own pod.

use super::super::account::Grant;
use super::super::errors::{ANY_STATUS, Answers, Meaning, row};
use super::super::io::Io;
use super::super::kind::split;
use super::super::surroundings::{AwsAgent, AwsRole};
use super::sign::{self, Keys};
use super::{Aws, KEYS, body, facts, region, understood, words};
use crate::DeviceError;
use crate::address::Address;
use crate::http::Call;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, StatusCode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The life of the keys that is asked for, which every role allows.
const LIFE: Duration = Duration::from_hours(1);
/// The keys of an agent are asked for again so soon, since it renews them by itself.
const LIFE_OF_AGENTS: Duration = Duration::from_mins(10);
/// Longest token of a pod in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// By whom the keys are used, for CloudTrail.
const SESSION_NAME: &str = "node-fencing-operator";

/// What STS answers other than with keys.
const ANSWERS: Answers = Answers {
    table: &[
        row(ANY_STATUS, "AccessDenied", "", Meaning::Denied),
        // A hiccup of AWS's own. No account is locked by any of these, so none counts as a wrong password (F53).
        row(
            ANY_STATUS,
            "InvalidIdentityToken",
            "retrieve verification key",
            Meaning::Busy,
        ),
        row(ANY_STATUS, "InvalidIdentityToken", "", Meaning::Denied),
        row(ANY_STATUS, "IDPRejectedClaim", "", Meaning::Denied),
        row(ANY_STATUS, "ExpiredTokenException", "", Meaning::Denied),
        row(ANY_STATUS, "IDPCommunicationError", "", Meaning::Busy),
        row(ANY_STATUS, "RegionDisabledException", "", Meaning::Refused),
        row(ANY_STATUS, "Throttling", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words,
    right: "a trust policy of the role in AWS_ROLE_ARN that lets the operator's service account take it",
};

/// What an agent answers other than with keys.
const AGENT: Answers = Answers {
    table: &[
        row(400, "", "", Meaning::Denied),
        row(401, "", "", Meaning::Denied),
        row(403, "", "", Meaning::Denied),
        row(404, "", "", Meaning::Denied),
        row(429, "", "", Meaning::Busy),
    ],
    words,
    right: "an EKS Pod Identity association of the operator's service account",
};

/// Keys, and the grant that they came with; none: they are those of the Secret.
pub(super) struct Signer {
    pub(super) keys: Keys,
    pub(super) grant: Option<Grant>,
}

/// The keys as they are known now, without asking anybody.
pub(super) fn known(io: &Io) -> Option<Signer> {
    let credentials = io.credentials();
    if !credentials.is_nobody() {
        let [id, secret, session] = KEYS.map(|key| credentials.value(key).to_owned());
        let keys = Keys {
            id,
            secret: Zeroizing::new(secret),
            session: Zeroizing::new(session),
        };
        return Some(Signer { keys, grant: None });
    }
    let grant = io.account.grant()?;
    let mut lines = grant.token.lines().map(str::to_owned);
    let (id, secret, session) = (lines.next()?, lines.next()?, lines.next()?);
    let keys = Keys {
        id,
        secret: Zeroizing::new(secret),
        session: Zeroizing::new(session),
    };
    let grant = Some(grant);
    Some(Signer { keys, grant })
}

/// The keys that are known, or others.
pub(super) async fn signer(aws: &Aws, io: &mut Io) -> Result<Signer, DeviceError> {
    let account = Arc::clone(&io.account);
    let _turn = account.login().await;
    if let Some(known) = known(io) {
        return Ok(known);
    }
    // The token of the pod goes to STS by the same check as every request.
    if !aws.is_checked {
        return Err(DeviceError::Settings {
            field: "aws.tls.verification",
            problem: "it must be Full, without `caRef`, for the role of the operator's pod; set that, or name a Secret in `credentialsRef`"
                .to_owned(),
        });
    }
    let since = io.now();
    let (keys, life) = match (&aws.surroundings.role, &aws.surroundings.agent) {
        (Some(role), _) => (role_keys(aws, io, role).await?, LIFE),
        (None, Some(agent)) => (agent_keys(io, agent).await?, LIFE_OF_AGENTS),
        (None, None) => {
            return Err(DeviceError::Settings {
                field: "credentialsRef",
                problem: "it is not set, and the operator's pod has no role of AWS (AWS_ROLE_ARN); give its service account one, or name a Secret"
                    .to_owned(),
            });
        }
    };
    let token = [&keys.id, keys.secret.as_str(), keys.session.as_str()].join("\n");
    let grant = Grant {
        token: Zeroizing::new(token),
        since,
        until: since + life,
        endpoints: Vec::new(),
    };
    account.keep(grant.clone());
    let grant = Some(grant);
    Ok(Signer { keys, grant })
}

/// The keys of the role, for the token of the pod: not signed, because that is what shows who asks.
async fn role_keys(aws: &Aws, io: &mut Io, role: &AwsRole) -> Result<Keys, DeviceError> {
    let at = match &role.sts {
        Some(url) => Address::parse(url)?,
        None => Address::parse(&region::url("sts", &aws.region))?,
    };
    io.trust(at.clone());
    let token = token(&role.token_file).await?;
    let seconds = LIFE.as_secs().to_string();
    let form = Zeroizing::new(sign::form(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("DurationSeconds", &seconds),
        ("RoleArn", &role.arn),
        ("RoleSessionName", SESSION_NAME),
        ("Version", "2011-06-15"),
        ("WebIdentityToken", &token),
    ]));
    // STS answers in JSON to whoever prefers that.
    let call = Call::new(Method::POST, "/")
        .with_form(form.as_bytes().to_vec())
        .for_answer_of("text/xml");
    let reply = io.read(&at, &call, StatusCode::OK, &ANSWERS).await?;
    let answer = Zeroizing::new(body(io, &at, reply)?);
    understood(io, &at, facts::keys(&answer))
}

/// The keys that the agent of EKS Pod Identity has, who renews them in time. It is asked at the addresses of such agents alone.
async fn agent_keys(io: &mut Io, agent: &AwsAgent) -> Result<Keys, DeviceError> {
    let (origin, path) = split(&agent.url);
    let at = Address::parse(origin)?;
    let ip = at.literal().filter(|ip| at.plaintext && is_agents(*ip));
    let ip = ip.ok_or_else(|| DeviceError::Settings {
        field: "credentialsRef",
        problem: format!(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI of the operator's pod leads to {at}, which is no address of EKS Pod Identity"
        ),
    })?;
    io.trust_local(&at, ip);
    let token = token(&agent.token_file).await?;
    let mut token = HeaderValue::from_str(&token)
        .map_err(|_| io.protocol(&at, "its token cannot be put into a header"))?;
    token.set_sensitive(true);
    let call = Call::new(Method::GET, path).with_header(AUTHORIZATION, token);
    let reply = io.read(&at, &call, StatusCode::OK, &AGENT).await?;
    let answer = Zeroizing::new(body(io, &at, reply)?);
    understood(io, &at, facts::agents_keys(&answer))
}

/// IPv4 and IPv6 of the agent on a node of EKS, and loopback, for one beside the operator.
fn is_agents(ip: IpAddr) -> bool {
    const V4: Ipv4Addr = Ipv4Addr::new(169, 254, 170, 23);
    const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x23);
    ip == IpAddr::V4(V4) || ip == IpAddr::V6(V6) || ip.is_loopback()
}

async fn token(file: &Path) -> Result<Zeroizing<String>, DeviceError> {
    let invalid = |problem: String| DeviceError::Settings {
        field: "credentialsRef",
        problem: format!(
            "the token of the operator's pod in {} cannot be used ({problem})",
            file.display()
        ),
    };
    let read = tokio::fs::read_to_string(file).await;
    let token = Zeroizing::new(read.map_err(|error| invalid(error.to_string()))?);
    match token.len() {
        0 => Err(invalid("it is empty".to_owned())),
        1..=TOKEN_BYTES_MAX => Ok(Zeroizing::new(token.trim().to_owned())),
        bytes => Err(invalid(format!("it has {bytes} bytes"))),
    }
}
