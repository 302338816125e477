//! The way to the API server: two clients over one configuration, and one way to ask.
//!
//! [`Clients::reads`] is for everything that may be asked again. [`Clients::writes`] is for the guarded writes and for watches: it sends
//! a request at most once (kube's default re-sends a PATCH up to 15 times, by when the facts that justified it are long gone, and waits
//! for as long as the API server says).
//! Whoever asks something asks through [`ask`], which gives up after [`REQUEST_TIMEOUT`], because a proof is fresh for seconds
//! only, and which tells a refusal from an outcome that is not known.

mod bounded;
mod connection;
mod observed;

pub use self::connection::problem;
pub use self::observed::{Asked, Observer};

use self::bounded::Bounded;
use self::observed::Observing;
use crate::text;
use kube::api::PatchParams;
use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;
use tower::layer::layer_fn;

/// Field manager of our writes, as the audit log and managedFields show it.
pub const MANAGER: &str = "node-fencing-operator";
/// How the API server's audit log names the operator.
const AGENT: &str = concat!("node-fencing-operator/", env!("CARGO_PKG_VERSION"));
/// Hard limit of one request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nothing may come over a connection for guarded writes, which is asked for something every 30 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// What is kept of the words of a refusal.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// How long a connection may take to open: an API server that lost its power does not refuse, it is silent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The two clients.
#[derive(Clone)]
pub struct Clients {
    /// Repeats a request by itself when the API server says 429, 503 or 504.
    pub reads: Client,
    /// Sends a request once and gives up soon: for every write that an incident depends on, and for what is begun anew anyway.
    pub writes: Client,
    /// URL of the API server, without what may be a secret.
    pub server: String,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing says where the API server is.
    #[error(
        "no cluster config: give --kubeconfig FILE or set KUBECONFIG, or run in a pod with a service account"
    )]
    NoConfig,
    /// The kubeconfig cannot be used.
    #[error(
        "failed to read the kubeconfig {origin}: {problem}; name one with which `kubectl --kubeconfig FILE get nodes` works, or none in a pod"
    )]
    Kubeconfig {
        /// Where it comes from.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The service account of the pod cannot be used.
    #[error("failed to read the pod's service account (is automountServiceAccountToken on?)")]
    ServiceAccount(#[source] InClusterError),
    /// The configuration makes no client.
    #[error("failed to prepare the connection to the API server")]
    Client(#[source] kube::Error),
}

impl Clients {
    /// Builds both clients from the flag, the environment or the pod's service account. Nothing is sent yet.
    ///
    /// `~/.kube/config` is not looked at: whatever cluster it happens to point to, nobody asked for its nodes to be fenced.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn new(kubeconfig: Option<&Path>) -> Result<Self, Error> {
        Self::from_config(config(kubeconfig).await?)
    }

    /// The same of an operator that reports its requests.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn observed(kubeconfig: Option<&Path>, observer: Observer) -> Result<Self, Error> {
        Self::of_agent(config(kubeconfig).await?, AGENT, Some(observer))
    }

    /// Builds both clients, of the operator.
    ///
    /// # Errors
    /// [`Error::Client`].
    pub fn from_config(config: Config) -> Result<Self, Error> {
        Self::of_agent(config, AGENT, None)
    }

    /// The same of a program that the API server's audit log shall know by this name, and that may report its requests.
    ///
    /// # Errors
    /// [`Error::Client`].
    pub fn of_agent(
        mut config: Config,
        agent: &'static str,
        observer: Option<Observer>,
    ) -> Result<Self, Error> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let agent = http::HeaderValue::from_static(agent);
        config.headers.push((http::header::USER_AGENT, agent));
        let guarded = guarded(config.clone());
        let server = shown(&config.cluster_url);
        Ok(Self {
            reads: client(config, observer.clone())?,
            writes: client(guarded, observer)?,
            server,
        })
    }
}

/// What the flag, the environment or the pod's service account says of the API server.
async fn config(kubeconfig: Option<&Path>) -> Result<Config, Error> {
    match source(kubeconfig, |name| std::env::var(name).ok()) {
        Some(Source::File(path)) => from_file(path).await,
        Some(Source::Environment(paths)) => from_environment(paths).await,
        Some(Source::ServiceAccount) => Config::incluster().map_err(Error::ServiceAccount),
        None => Err(Error::NoConfig),
    }
}

/// A client that takes no answer beyond all measure, see [`bounded`], and reports its requests.
fn client(config: Config, observer: Option<Observer>) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(Error::Client)?;
    let builder = builder.with_layer(&layer_fn(Bounded));
    Ok(builder.with_layer(&Observing(observer)).build())
}

/// A URL for people, without user information and query.
pub fn shown(url: &http::Uri) -> String {
    let scheme = url.scheme_str().unwrap_or("https");
    let host = url.host().unwrap_or_default();
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    format!(
        "{scheme}://{host}{port}{}",
        url.path().trim_end_matches('/')
    )
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The API server refused (4xx): nothing was written.
    #[error("{message} ({code})")]
    Refused {
        /// HTTP status.
        code: u16,
        /// `reason` of the API server's Status: `NotFound`.
        reason: String,
        /// Its message.
        message: String,
    },
    /// No connection was made, or none that is trusted: nothing was sent.
    #[error("{0}")]
    NoConnection(String),
    /// It failed (5xx), the connection did, or the answer is not what was asked for: a write may have been done.
    #[error("{0}")]
    Unknown(String),
    /// No answer within the limit: a write may have been done, or may still be.
    #[error("{}", no_answer(*.0))]
    Timeout(Duration),
}

/// That there was no answer within the limit, in the words of every log and record.
pub fn no_answer(limit: Duration) -> String {
    format!("the API server did not answer within {} s", limit.as_secs())
}

/// One request to the API server, with the limit of [`REQUEST_TIMEOUT`].
///
/// # Errors
/// [`AskError`].
pub async fn ask<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, AskError> {
    ask_within(REQUEST_TIMEOUT, request).await
}

/// One request to the API server, with a limit of its own.
///
/// # Errors
/// [`AskError`].
pub async fn ask_within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, AskError> {
    match timeout(limit, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(AskError::Timeout(limit)),
    }
}

/// In words without the value of Rust that kube prints.
impl From<kube::Error> for AskError {
    fn from(error: kube::Error) -> Self {
        match error {
            // What is no Status gets a reason in words from kube: a 4xx of a proxy says nothing about what the API server has done.
            kube::Error::Api(status)
                if (400..500).contains(&status.code) && !status.reason.contains(' ') =>
            {
                Self::Refused {
                    code: status.code,
                    reason: status.reason,
                    message: text::shortened(&status.message, MESSAGE_BYTES_MAX),
                }
            }
            kube::Error::Api(status) => {
                let message = text::shortened(&status.message, MESSAGE_BYTES_MAX);
                Self::Unknown(format!("{message} ({})", status.code))
            }
            // serde quotes what it cannot read, and that may be a Secret.
            kube::Error::SerdeError(_) => Self::Unknown("its answer cannot be decoded".to_owned()),
            error => connection::failure(&error),
        }
    }
}

/// The parameters of a patch of ours.
pub fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// The configuration of the client for guarded writes.
fn guarded(mut config: Config) -> Config {
    config.default_retry = false;
    // The limit of a whole call is [`ask`]'s. This one also counts while a connection lies idle in the pool: with a few seconds
    // no connection would ever be open already when it is needed.
    config.read_timeout = Some(IDLE_TIMEOUT);
    config.write_timeout = Some(REQUEST_TIMEOUT);
    // Otherwise the time that a connection lay idle in the pool would count.
    config.reset_reader_on_write = true;
    config
}

/// Where the configuration comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// `--kubeconfig`.
    File(PathBuf),
    /// `KUBECONFIG`: one or more files.
    Environment(String),
    /// The pod's.
    ServiceAccount,
}

fn source(kubeconfig: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Option<Source> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = kubeconfig {
        return Some(Source::File(path.to_owned()));
    }
    set("KUBECONFIG")
        .map(Source::Environment)
        .or_else(|| set("KUBERNETES_SERVICE_HOST").map(|_| Source::ServiceAccount))
}

async fn from_file(path: PathBuf) -> Result<Config, Error> {
    let failed = |error| Error::Kubeconfig {
        origin: format!("{} (--kubeconfig)", path.display()),
        problem: problem(&error),
    };
    let kubeconfig = Kubeconfig::read_from(&path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

async fn from_environment(paths: String) -> Result<Config, Error> {
    Config::from_kubeconfig(&KubeConfigOptions::default())
        .await
        .map_err(|error| Error::Kubeconfig {
            origin: format!("{paths} (KUBECONFIG)"),
            problem: problem(&error),
        })
}

#[cfg(test)]
mod tests;
