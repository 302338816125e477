//! The way to the cluster: the kubeconfig, the context and the rights of whoever asks.
//!
//! What is refused is told with the right that is missing and the role that has it. What a command can do without (a Lease that the user may not
//! read) it asks for with [`seen`], and says what it could not see.

mod asker;
mod error;
mod now;
mod write;

pub use asker::Asker;
pub use error::Error;
pub use now::wall;
pub use write::Write;

use super::foreign_text::{Sign, mentions};
use super::output::complain;
use super::reach::Reach;
use fencing_cluster::client::{AskError, Asked, Clients, Observer, ask_within, shown};
use fencing_cluster::preflight;
use fencing_cluster::text;
use fencing_drivers::clock;
use jiff::SignedDuration;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{ListParams, PostParams};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Objects on a page of a list: as many as kubectl asks for.
const PAGE: u32 = 500;
/// Limit of one request that reads.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of one that writes: the API server may wait for a webhook before it answers, for 30 s at most (upstream's
/// pkg/apis/admissionregistration/validation).
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The level of kubectl's log from which it prints its requests.
const REQUESTS: u8 = 6;
/// As the API server's audit log knows this program: it is not the operator.
const AGENT: &str = concat!("kubectl-fence/", env!("CARGO_PKG_VERSION"));
/// Field manager of what a user writes, as managedFields show it. Flux takes away what a manager has written whose name begins with `kubectl`.
pub(super) const MANAGER: &str = "nodefencing-cli";

/// The cluster, as the user sees it.
pub struct Cluster {
    /// Reads are repeated, writes are sent once.
    pub clients: Clients,
    /// The operator's namespace.
    pub namespace: String,
    /// The limits of a request.
    pub limits: Limits,
}

/// How long a request may take. A watch has no such limit.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// One that reads.
    pub read: Duration,
    /// One that writes.
    pub write: Duration,
}

impl Limits {
    /// As the user has it, of whom 0 takes any time; without a word of theirs as this program has it.
    pub fn of(asked: Option<SignedDuration>) -> Self {
        let asked = asked.map(|it| match it.unsigned_abs() {
            Duration::ZERO => Duration::MAX,
            limit => limit,
        });
        Self {
            read: asked.unwrap_or(READ_TIMEOUT),
            write: asked.unwrap_or(WRITE_TIMEOUT),
        }
    }
}

/// Prints each request to the API server of this URL, and how it ended, to standard error.
fn printer(server: String) -> Observer {
    let print = move |asked: &Asked, _: Duration| {
        let end = asked.code.map(|code| code.to_string());
        let end = end.unwrap_or_else(|| "no answer".to_owned());
        complain(&format!("{} {server}{} {end}", asked.method, asked.uri));
    };
    Observer {
        since_boot: clock::since_boot,
        observe: Arc::new(print),
    }
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub async fn of(reach: &Reach) -> Result<Self, Error> {
        let config = reach.config().await.map_err(Error::Config)?;
        let server = shown(&config.cluster_url);
        let printer = (reach.verbosity >= REQUESTS).then(|| printer(server));
        let clients = Clients::of_agent(config, AGENT, printer);
        Ok(Self {
            clients: clients.map_err(|it| Error::Config(text::chain(&it)))?,
            namespace: reach.operator_namespace.clone(),
            limits: Limits::of(reach.request_timeout),
        })
    }

    /// Objects of a kind, everywhere.
    pub fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.clients.reads.clone())
    }

    /// Objects of a kind in the operator's namespace.
    pub fn own<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.clients.reads.clone(), &self.namespace)
    }

    /// All of a kind, page by page.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn list<K>(&self, api: &Api<K>, by: &ListParams) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let mut all = Vec::new();
        let mut page = by.clone().limit(PAGE);
        loop {
            let what = || format!("list {}", K::plural(&()));
            let listed = ask_within(self.limits.read, api.list(&page)).await;
            let listed = listed.map_err(|it| self.error::<K>(it, what(), VIEWER))?;
            all.extend(listed.items);
            match listed.metadata.continue_.filter(|it| !it.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// All objects of a kind of ours. One that a newer operator has written, and this plugin cannot read, is told of and passed over.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn ours<K>(&self) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let (read, left_out) = self.readable().await?;
        for words in left_out {
            complain(&words);
        }
        Ok(read)
    }

    /// The same for whoever concludes from what is not there: what is left out, and why, each in a sentence.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn readable<K>(&self) -> Result<(Vec<K>, Vec<String>), Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = Api::<DeserializeGuard<K>>::all(self.clients.reads.clone());
        let all = self.list(&api, &ListParams::default()).await?;
        let (mut read, mut left_out) = (Vec::new(), Vec::new());
        for object in all {
            match object.0 {
                Ok(object) => read.push(object),
                Err(invalid) => left_out.push(unreadable::<K>(
                    invalid.metadata.name.as_deref(),
                    &invalid.error,
                )),
            }
        }
        Ok((read, left_out))
    }

    /// The object of this name, if there is one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn find<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let found = ask_within(self.limits.read, api.get_opt(name)).await;
        let what = || format!("get {} {name}", K::kind(&()));
        found.map_err(|it| self.error::<K>(it, what(), VIEWER))
    }

    /// The object of ours of this name, if there is one.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; [`Error`].
    pub async fn find_ours<K>(&self, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = Api::<DeserializeGuard<K>>::all(self.clients.reads.clone());
        let Some(found) = self.find(&api, name).await? else {
            return Ok(None);
        };
        let read = found.0.map(Some);
        read.map_err(|it| Error::unreadable::<K>(name, it.error))
    }

    /// What the operator asks at its start too, within the limit of a request.
    ///
    /// # Errors
    /// [`preflight::Error`].
    pub async fn preflight<T>(
        &self,
        asked: impl Future<Output = Result<T, preflight::Error>>,
    ) -> Result<T, preflight::Error> {
        let limit = self.limits.read;
        timeout(limit, asked).await.unwrap_or_else(|_| {
            let source = AskError::Timeout(limit);
            let what = "for its version and for what it serves";
            Err(preflight::unanswered(&self.clients, what, source))
        })
    }

    /// What the API server answers to a path, of kinds that this program does not know.
    ///
    /// # Errors
    /// [`Error::Refused`] for whatever it refuses, a missing right and a kind that it does not know included; [`Error`].
    pub async fn raw(&self, path: &str) -> Result<Value, Error> {
        let what = || format!("get {path}");
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|it| Error::Config(it.to_string()))?;
        let answer = ask_within(self.limits.read, self.clients.reads.request(request)).await;
        answer.map_err(|it| match it {
            AskError::Refused { message, .. } => Error::Refused(message),
            source => self.unanswered(&what(), source),
        })
    }

    /// May the user do this?
    ///
    /// # Errors
    /// [`Error`].
    pub async fn may(&self, verb: &str, group: &str, resource: &str) -> Result<bool, Error> {
        let asked = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.clients.reads.clone());
        let params = PostParams::default();
        let review = ask_within(self.limits.read, reviews.create(&params, &asked)).await;
        let what = || format!("ask whether you may {verb} {resource}");
        let review =
            review.map_err(|it| self.error::<SelfSubjectAccessReview>(it, what(), VIEWER))?;
        Ok(review.status.is_some_and(|it| it.allowed))
    }

    fn error<K: Resource<DynamicType = ()>>(
        &self,
        error: AskError,
        what: String,
        role: &'static str,
    ) -> Error {
        let is_ours = K::group(&()) == "nodefencing.io";
        match error {
            // What an admission policy refuses is 403 too, but with reason Invalid or its own words.
            AskError::Refused {
                code: 403,
                reason,
                message,
            } if reason == "Forbidden" && !Sign::AdmissionPolicy.is_in(&message) => {
                Error::Forbidden { message, role }
            }
            AskError::Refused { code: 401, .. } => Error::Unauthorized(self.clients.server.clone()),
            AskError::Refused { code: 404, .. } if is_ours => {
                Error::NotInstalled(self.clients.server.clone())
            }
            // To a group that it does not know the API server has no Status.
            AskError::Unknown(words) if is_ours && Sign::NoSuchGroup.is_in(&words) => {
                Error::NotInstalled(self.clients.server.clone())
            }
            AskError::Refused { message, .. } => Error::Refused(message),
            source => self.unanswered(&what, source),
        }
    }

    fn unanswered(&self, what: &str, source: AskError) -> Error {
        let server = self.clients.server.clone();
        match source {
            AskError::NoConnection(why) => Error::NoConnection { server, why },
            source => Error::Unanswered {
                what: format!("{what} of {server}"),
                source,
            },
        }
    }
}

/// Is there no object of this name? Not because nobody knows the kind.
fn is_absent(error: &AskError, name: &str) -> bool {
    matches!(error, AskError::Refused { code: 404, message, .. } if mentions(message, &format!("\"{name}\"")))
}

/// Why an object of ours is left out.
pub fn unreadable<K: Resource<DynamicType = ()>>(name: Option<&str>, why: &str) -> String {
    format!(
        "{} {} is left out, as this plugin cannot read it: {why}; see `kubectl fence version`",
        K::kind(&()),
        name.unwrap_or_default()
    )
}

/// Reads everything that the commands look at.
pub const VIEWER: &str = "node-fencing-cluster-viewer";

/// What could be read, or why it could not, in words.
///
/// # Errors
/// Those that more questions would not help.
pub fn seen<T>(answer: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match answer {
        Ok(seen) => Ok(Ok(seen)),
        Err(error @ (Error::Forbidden { .. } | Error::Refused(_))) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}
