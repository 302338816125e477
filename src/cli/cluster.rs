//! The way to the cluster: the kubeconfig, the context and the rights of whoever asks.
//!
//! What is refused is told with the right that is missing and the role that has it. What a command can do without (a Lease that the user may not
//! read) it asks for with [`seen`], and says what it could not see.

use super::output::visible;
use super::reach::Reach;
use crate::shell::client::{AskError, Clients, ask_within};
use crate::{clock, words};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::time::Duration;

/// Objects on a page of a list: as many as kubectl asks for.
const PAGE: u32 = 500;
/// Limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// What the API server answers to a path of a group that it does not know, in plain text.
const NO_SUCH_GROUP: &str = "404 page not found";
/// As the API server's audit log knows this program: it is not the operator.
const AGENT: &str = concat!("kubectl-fence/", env!("CARGO_PKG_VERSION"));
/// Field manager of what a user writes, as managedFields show it.
const MANAGER: &str = "kubectl-fence";

/// Why the cluster has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to it.
    #[error("{0}; name a file and a context with which `kubectl get nodes` works")]
    Config(String),
    /// The user lacks a right.
    #[error(
        "{message}; whoever runs the cluster can give you the right: kubectl create clusterrolebinding NAME --clusterrole={role} --user=YOU"
    )]
    Forbidden {
        /// The API server's words.
        message: String,
        /// A ClusterRole of the operator's that has the right.
        role: &'static str,
    },
    /// There is no object of this name.
    #[error("{kind} `{name}` does not exist; {way_out}")]
    Absent {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What shows those that there are.
        way_out: String,
    },
    /// The operator's custom resources are not there.
    #[error(
        "the cluster {0} does not know `nodefencing.io`: the operator is not installed there, or --context names another cluster than you mean"
    )]
    NotInstalled(String),
    /// It does not take whoever asks for anybody.
    #[error(
        "the cluster {0} does not know you (Unauthorized): log in again, or name another context with --context; `kubectl auth whoami` says who you are"
    )]
    Unauthorized(String),
    /// The API server, or a policy of its, says no.
    #[error("{0}")]
    Refused(String),
    /// There was no answer, or none that says what was done.
    #[error("{what}: {source}; see whether `kubectl get --raw /readyz` answers, then try again")]
    Unanswered {
        /// What was asked for.
        what: String,
        /// Why there is no answer.
        source: AskError,
    },
}

/// The cluster, as the user sees it.
pub struct Cluster {
    /// Reads are repeated, writes are sent once.
    pub clients: Clients,
    /// The operator's namespace.
    pub namespace: String,
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub async fn of(reach: &Reach) -> Result<Self, Error> {
        let config = reach.config().await.map_err(Error::Config)?;
        let clients = Clients::of_agent(config, AGENT);
        Ok(Self {
            clients: clients.map_err(|it| Error::Config(words::chain(&it)))?,
            namespace: reach.operator_namespace.clone(),
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
            let listed = ask_within(REQUEST_TIMEOUT, api.list(&page)).await;
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
        let api = Api::<DeserializeGuard<K>>::all(self.clients.reads.clone());
        let all = self.list(&api, &ListParams::default()).await?;
        let read = all.into_iter().filter_map(|it| match it.0 {
            Ok(object) => Some(object),
            Err(invalid) => {
                eprintln!(
                    "{} {} is left out, for this plugin cannot read it: {}; see `kubectl fence version`",
                    K::kind(&()),
                    invalid.metadata.name.unwrap_or_default(),
                    visible(&invalid.error)
                );
                None
            }
        });
        Ok(read.collect())
    }

    /// The object of this name, if there is one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn find<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let found = ask_within(REQUEST_TIMEOUT, api.get_opt(name)).await;
        let what = || format!("get {} {name}", K::kind(&()));
        found.map_err(|it| self.error::<K>(it, what(), VIEWER))
    }

    /// Who asks, as the API server knows them, and when by its clock.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn asker(&self) -> Result<Asker, Error> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.clients.reads.clone());
        let (params, asked) = (PostParams::default(), SelfSubjectReview::default());
        let review = ask_within(REQUEST_TIMEOUT, reviews.create(&params, &asked)).await;
        let what = || "ask who you are".to_owned();
        let review = review.map_err(|it| self.error::<SelfSubjectReview>(it, what(), VIEWER))?;
        let at = review.metadata.creation_timestamp.map(|it| it.0);
        let name = review.status.and_then(|it| it.user_info?.username);
        let name = name.filter(|it| !it.is_empty());
        Ok(Asker {
            name: name.ok_or_else(|| {
                Error::Config("the API server does not say who you are".to_owned())
            })?,
            at: at.unwrap_or_else(clock::wall),
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
        let answer = ask_within(REQUEST_TIMEOUT, self.clients.reads.request(request)).await;
        answer.map_err(|it| match it {
            AskError::Refused { message, .. } => Error::Refused(message),
            source => Error::Unanswered {
                what: what(),
                source,
            },
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
        let review = ask_within(REQUEST_TIMEOUT, reviews.create(&params, &asked)).await;
        let what = || format!("ask whether you may {verb} {resource}");
        let review =
            review.map_err(|it| self.error::<SelfSubjectAccessReview>(it, what(), VIEWER))?;
        Ok(review.status.is_some_and(|it| it.allowed))
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn patch<K>(&self, name: &str, patch: &Value, write: &Write) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let params = PatchParams {
            dry_run: write.dry_run,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<K> = Api::all(self.clients.writes.clone());
        let patch = Patch::Merge(patch);
        let patched = ask_within(REQUEST_TIMEOUT, api.patch(name, &params, &patch)).await;
        let what = || format!("patch {} {name}", K::kind(&()));
        patched.map_err(|it| self.error::<K>(it, what(), write.role))
    }

    /// Makes an object.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn create<K>(&self, object: &K, write: &Write) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let params = PostParams {
            dry_run: write.dry_run,
            field_manager: Some(MANAGER.to_owned()),
        };
        let api: Api<K> = Api::all(self.clients.writes.clone());
        let created = ask_within(REQUEST_TIMEOUT, api.create(&params, object)).await;
        let what = || format!("create {}", K::kind(&()));
        created.map_err(|it| self.error::<K>(it, what(), write.role))
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
            } if reason == "Forbidden" && !message.contains("ValidatingAdmissionPolicy") => {
                Error::Forbidden { message, role }
            }
            AskError::Refused { code: 401, .. } => Error::Unauthorized(self.clients.server.clone()),
            AskError::Refused { code: 404, .. } if is_ours => {
                Error::NotInstalled(self.clients.server.clone())
            }
            // To a group that it does not know the API server has no Status.
            AskError::Unknown(words) if is_ours && words.starts_with(NO_SUCH_GROUP) => {
                Error::NotInstalled(self.clients.server.clone())
            }
            AskError::Refused { message, .. } => Error::Refused(message),
            source => Error::Unanswered {
                what: format!("{what} of {}", self.clients.server),
                source,
            },
        }
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The name that the API server has authenticated.
    pub name: String,
    /// When it did that, by its own clock (whole seconds): what is compared with what the operator writes is dated by this, since the clock of
    /// a laptop may be minutes off.
    pub at: Timestamp,
}

/// How something is written.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// The API server looks at it and keeps nothing.
    pub dry_run: bool,
    /// A ClusterRole of the operator's that may do it.
    pub role: &'static str,
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
