//! The token for Azure Resource Manager: for the Secret or the operator's own pod from Entra ID, or for its node from the metadata service.
//!
//! It is asked for the address that it goes to, so that Azure's own token goes to Azure alone, whatever the settings say.

use super::super::account::Grant;
use super::super::errors::Answers;
use super::super::form::form;
use super::super::io::Io;
use super::super::surroundings::{AzureIdentity, AzureNode};
use super::answers::{NODE, POD, SECRET};
use super::{Azure, KEYS, facts, places};
use crate::DeviceError;
use crate::address::Address;
use crate::http::Call;
use crate::resolve::unreachable;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// What Entra ID calls the token of a pod that stands in for a secret.
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Where tokens of a managed identity come from, on every machine of Azure, and on some machines elsewhere something else.
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// It answers at once, or is not there.
const METADATA_TIME: Duration = Duration::from_secs(5);
/// Longest token of a pod in bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Where Entra ID is for an address of Azure Resource Manager.
const CLOUDS: [(&str, &str); 3] = [
    ("management.azure.com", "https://login.microsoftonline.com"),
    (
        "management.usgovcloudapi.net",
        "https://login.microsoftonline.us",
    ),
    (
        "management.chinacloudapi.cn",
        "https://login.chinacloudapi.cn",
    ),
];

/// The token that the account has, without asking anybody.
///
/// # Errors
/// It must not be sent there.
pub(super) fn known(azure: &Azure, io: &Io) -> Result<Option<Grant>, DeviceError> {
    // Another device with the same address may have fetched it, and have checked who answers. What shows who the pod is goes by that check, too.
    if io.credentials().is_nobody() && !azure.is_checked {
        return Err(DeviceError::Settings {
            field: "azure.tls.verification",
            problem: "it must be Full, without `caRef`, for an identity of the operator's pod; set that, or name a Secret in `credentialsRef`"
                .to_owned(),
        });
    }
    Ok(io.account.grant())
}

/// The same, or another one.
pub(super) async fn grant(azure: &Azure, io: &mut Io) -> Result<Grant, DeviceError> {
    let account = Arc::clone(&io.account);
    let _turn = account.login().await;
    if let Some(grant) = known(azure, io)? {
        return Ok(grant);
    }
    let since = io.now();
    let (token, life) = given(azure, io).await?;
    let grant = Grant {
        token: Zeroizing::new(token),
        since,
        until: since + life,
        endpoints: Vec::new(),
    };
    account.keep(grant.clone());
    Ok(grant)
}

/// The same as a header.
pub(super) fn header(io: &Io, grant: &Grant) -> Result<HeaderValue, DeviceError> {
    let text = Zeroizing::new(format!("Bearer {}", grant.token.as_str()));
    let value = HeaderValue::from_str(&text);
    let mut value =
        value.map_err(|_| io.protocol(&io.main(), "its token cannot be put into a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn given(azure: &Azure, io: &mut Io) -> Result<(String, Duration), DeviceError> {
    let credentials = io.credentials();
    if !credentials.is_nobody() {
        let [tenant, client, secret] = KEYS.map(|key| credentials.value(key));
        let at = match &azure.login {
            Some(url) => Address::parse(url)?,
            None => usual(io)?,
        };
        let fields = [("client_id", client), ("client_secret", secret)];
        return exchanged(io, &at, tenant, &fields, &SECRET).await;
    }
    match &azure.surroundings.azure {
        Some(identity) => of_pod(io, identity).await,
        None => of_node(io, &azure.surroundings.azure_node).await,
    }
}

/// For the token of the pod, which goes where its own environment says, and never where a device does.
async fn of_pod(io: &mut Io, identity: &AzureIdentity) -> Result<(String, Duration), DeviceError> {
    let at = match &identity.authority {
        Some(url) => Address::parse(url)?,
        None => usual(io)?,
    };
    if !places::is_name(&identity.tenant) {
        return Err(DeviceError::Settings {
            field: "credentialsRef",
            problem: "AZURE_TENANT_ID of the operator's pod is no tenant ID".to_owned(),
        });
    }
    let token = token(&identity.token_file).await?;
    let fields = [
        ("client_id", identity.client.as_str()),
        ("client_assertion_type", ASSERTION),
        ("client_assertion", &token),
    ];
    exchanged(io, &at, &identity.tenant, &fields, &POD).await
}

/// Entra ID's own address for the cloud of the settings.
fn usual(io: &Io) -> Result<Address, DeviceError> {
    let host = io.main().host;
    let known = CLOUDS.iter().find(|(management, _)| *management == host);
    let (_, url) = known.ok_or_else(|| DeviceError::Settings {
        field: "azure.loginAddress",
        problem: format!("it must be set for {host}, which is none of Azure's own addresses"),
    })?;
    Ok(Address::parse(url)?)
}

async fn exchanged(
    io: &mut Io,
    at: &Address,
    tenant: &str,
    fields: &[(&str, &str)],
    answers: &Answers,
) -> Result<(String, Duration), DeviceError> {
    io.trust(at.clone());
    let scope = format!("{}/.default", audience(&io.main()));
    let asked = [
        ("grant_type", "client_credentials"),
        ("scope", scope.as_str()),
    ];
    let form = Zeroizing::new(form(&[fields, &asked].concat()));
    let call = Call::new(Method::POST, &format!("/{tenant}/oauth2/v2.0/token"))
        .with_form(form.as_bytes().to_vec());
    let reply = io.read(at, &call, StatusCode::OK, answers).await?;
    let answer = io.document(at, reply)?;
    facts::token(&answer).map_err(|problem| io.protocol(at, &problem))
}

/// The managed identity of the node. The service gets no secret, and what it gives is of use at the address of the settings alone.
async fn of_node(io: &mut Io, node: &AzureNode) -> Result<(String, Duration), DeviceError> {
    let usual = format!("http://{METADATA}");
    let url = node.metadata.as_deref().unwrap_or(&usual);
    let at = Address::parse(url)?;
    let ip = at.literal().filter(|ip| at.plaintext && is_metadata(*ip));
    let ip = ip.ok_or_else(|| DeviceError::Settings {
        field: "credentialsRef",
        problem: format!(
            "AZURE_POD_IDENTITY_AUTHORITY_HOST of the operator's pod leads to {at}, which is no metadata service of Azure"
        ),
    })?;
    io.trust_local(&at, ip);
    let resource = format!("{}/", audience(&io.main()));
    let mut asked = vec![("api-version", "2018-02-01"), ("resource", &resource)];
    asked.extend(node.client.as_deref().map(|client| ("client_id", client)));
    let path = format!("/metadata/identity/oauth2/token?{}", form(&asked));
    let metadata = HeaderName::from_static("metadata");
    let call =
        Call::new(Method::GET, &path).with_header(metadata, HeaderValue::from_static("true"));
    let reply = timeout(METADATA_TIME, io.read(&at, &call, StatusCode::OK, &NODE)).await;
    let reply = match reply {
        Ok(Err(error)) if error.is_silence() => Err(absent(&at)),
        Ok(reply) => reply,
        Err(_) => Err(absent(&at)),
    }?;
    let answer = io.document(&at, reply)?;
    facts::token(&answer).map_err(|problem| io.protocol(&at, &problem))
}

fn absent(at: &Address) -> DeviceError {
    let problem = "no metadata service of Azure answers, and the operator's pod has no workload identity (AZURE_FEDERATED_TOKEN_FILE); name a Secret in `credentialsRef`";
    unreachable(at, problem.to_owned())
}

/// The service's own address, and loopback, for one beside the operator.
fn is_metadata(ip: IpAddr) -> bool {
    ip == IpAddr::V4(METADATA) || ip.is_loopback()
}

/// For whom a token is: the address that it goes to.
fn audience(at: &Address) -> String {
    let scheme = if at.plaintext { "http" } else { "https" };
    format!("{scheme}://{}", at.authority())
}

/// `authorization` of a request.
pub(super) fn authorised(io: &Io, call: Call, grant: &Grant) -> Result<Call, DeviceError> {
    Ok(call.with_header(AUTHORIZATION, header(io, grant)?))
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
