//! The tokens of requests to Compute Engine: signed by ourselves with the key in the Secret, or what the metadata service gives the operator's own pod.
//!
//! A key signs a token that Compute Engine takes as it is, for itself alone and for an hour. So nothing is asked of a token service, whatever address
//! the key names, and the key leaves this process in no form. Google's own client of Compute Engine does the same.

use super::super::account::Grant;
use super::super::io::Io;
use super::answers::METADATA;
use super::facts::Given;
use super::{Gcp, KEYS};
use crate::DeviceError;
use crate::address::Address;
use crate::credentials::{Credentials, CredentialsError};
use crate::http::Call;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use serde::Deserialize;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// For whom a token of ours is, wherever the requests go: it opens nothing else.
const AUDIENCE: &str = "https://compute.googleapis.com/";
/// The life of a token, which is the longest one that Google takes.
const LIFE: Duration = Duration::from_hours(1);
/// So long ago it was signed, by our clock: that may be ahead of Google's.
const CLOCK_MARGIN: Duration = Duration::from_mins(1);
/// Where the metadata service has the token of the pod.
const TOKEN: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// Asks for it, and marks an answer of Google's.
const FLAVOR: &str = "metadata-flavor";
/// What hosts of Google's APIs end with.
const GOOGLE: &str = ".googleapis.com";

/// A key of a service account, as Google writes it. Its `token_uri` and all other addresses in it are not read.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    client_email: String,
    private_key_id: String,
    private_key: String,
}

/// What signs tokens.
pub(super) struct Signer {
    email: String,
    key_id: String,
    key: Arc<dyn SigningKey>,
}

impl Signer {
    /// Reads the key of the Secret.
    ///
    /// # Errors
    /// What is wrong with it, without any of it.
    pub(super) fn of(credentials: &Credentials) -> Result<Self, CredentialsError> {
        let refuse = |problem: &str| credentials.refuse(KEYS[0], problem);
        let file = serde_json::from_str(credentials.value(KEYS[0]));
        let file: KeyFile =
            file.map_err(|_| refuse("it is not the JSON file of a service account's key"))?;
        let pem = Zeroizing::new(file.private_key);
        if file.kind != "service_account" {
            return Err(refuse(
                "its `type` is not service_account, and no other kind is supported",
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok();
        let key = key.and_then(|key| any_supported_type(&key).ok());
        let key = key.filter(|key| key.choose_scheme(&[SCHEME]).is_some());
        Ok(Self {
            email: file.client_email,
            key_id: file.private_key_id,
            key: key.ok_or_else(|| refuse("its `private_key` is no RSA key in PEM"))?,
        })
    }

    /// A token from now on (RFC 7519, RS256).
    fn token(&self, now: Timestamp) -> Option<Zeroizing<String>> {
        let since = now
            .as_second()
            .saturating_sub_unsigned(CLOCK_MARGIN.as_secs());
        let until = since.saturating_add_unsigned(LIFE.as_secs());
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.key_id});
        let claims = json!({
            "iss": self.email, "sub": self.email, "aud": AUDIENCE, "iat": since, "exp": until,
        });
        let [header, claims] = [header, claims].map(|it| URL_SAFE_NO_PAD.encode(it.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = self
            .key
            .choose_scheme(&[SCHEME])?
            .sign(signed.as_bytes())
            .ok()?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        Some(Zeroizing::new(format!("{signed}.{signature}")))
    }
}

/// RS256.
const SCHEME: SignatureScheme = SignatureScheme::RSA_PKCS1_SHA256;

/// The same call with this token.
pub(super) fn authorised(io: &Io, call: Call, grant: &Grant) -> Result<Call, DeviceError> {
    let header = Zeroizing::new(format!("Bearer {}", grant.token.as_str()));
    let mut header = HeaderValue::from_str(&header)
        .map_err(|_| io.protocol(&io.main(), "its token cannot be put into a header"))?;
    header.set_sensitive(true);
    Ok(call.with_header(AUTHORIZATION, header))
}

/// The token that the account has, without asking anybody.
///
/// # Errors
/// It must not be sent there.
pub(super) fn known(gcp: &Gcp, io: &Io) -> Result<Option<Grant>, DeviceError> {
    // Another device with the same address may have fetched it, and have checked who answers.
    if io.credentials().is_nobody() {
        judge(gcp, &io.main())?;
    }
    Ok(io.account.grant())
}

/// The token that the account has, or another.
pub(super) async fn grant(gcp: &Gcp, io: &mut Io) -> Result<Grant, DeviceError> {
    let account = Arc::clone(&io.account);
    let _turn = account.login().await;
    if let Some(grant) = known(gcp, io)? {
        return Ok(grant);
    }
    let (credentials, since) = (io.credentials(), io.now());
    let (token, life) = match credentials.is_nobody() {
        true => of_pod(gcp, io).await?,
        false => {
            let token = Signer::of(&credentials)?.token(io.wall());
            let token = token.ok_or_else(|| credentials.refuse(KEYS[0], "it signs nothing"))?;
            (token, LIFE - CLOCK_MARGIN)
        }
    };
    let grant = Grant {
        token,
        since,
        until: since + life,
        endpoints: Vec::new(),
    };
    account.keep(grant.clone());
    Ok(grant)
}

/// May this address be sent the token of the operator's own pod? It opens all that its service account may, so it goes to Google alone.
pub(super) fn judge(gcp: &Gcp, at: &Address) -> Result<(), DeviceError> {
    let is_loopback = at.literal().is_some_and(|ip| ip.is_loopback());
    let is_google = gcp.is_checked && !at.plaintext && at.host.ends_with(GOOGLE);
    match is_google || is_loopback {
        true => Ok(()),
        false => Err(unset(format!(
            "{at} is no host below googleapis.com with a certificate that is checked (`tls.verification: Full` without `caRef`), so no token of the pod goes there; name a Secret"
        ))),
    }
}

fn unset(problem: String) -> DeviceError {
    let field = "credentialsRef";
    DeviceError::Settings { field, problem }
}

/// The token of the operator's own pod, and how long it holds.
async fn of_pod(gcp: &Gcp, io: &mut Io) -> Result<(Zeroizing<String>, Duration), DeviceError> {
    let Some(host) = &gcp.surroundings.google else {
        let problem = "it is not set, and this process asks no metadata service for a token; name a Secret there with the key `key.json`";
        return Err(unset(problem.to_owned()));
    };
    let at = Address::parse(&format!("http://{host}"))?;
    let ip = at.literal().filter(|ip| is_metadata(*ip));
    let ip = ip.ok_or_else(|| {
        unset(format!(
            "GCE_METADATA_HOST of the operator's pod leads to {at}, which is no address of Google's metadata service"
        ))
    })?;
    io.trust_local(&at, ip);
    let name = HeaderName::from_static(FLAVOR);
    let call = Call::new(Method::GET, TOKEN);
    let call = call.with_header(name, HeaderValue::from_static("Google"));
    let reply = io.read(&at, &call, StatusCode::OK, &METADATA).await?;
    // Other clouds have their own service there.
    if reply.headers.get(FLAVOR).is_none_or(|it| it != "Google") {
        return Err(io.protocol(&at, "it is no metadata service of Google's"));
    }
    let body = reply.body?;
    let given: Option<Given> = serde_json::from_slice(&body).ok();
    let given = given.filter(|it| it.token_type == "Bearer" && !it.access_token.is_empty());
    let given = given.ok_or_else(|| io.protocol(&at, "it gives no token"))?;
    let life = Duration::from_secs(given.expires_in).min(LIFE);
    Ok((Zeroizing::new(given.access_token), life))
}

/// IPv4 and IPv6 of the metadata service, and loopback, for one beside the operator.
fn is_metadata(ip: IpAddr) -> bool {
    const V4: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
    const V6: Ipv6Addr = Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254);
    ip == IpAddr::V4(V4) || ip == IpAddr::V6(V6) || ip.is_loopback()
}
