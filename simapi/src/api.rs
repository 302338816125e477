//! The server: who may ask what, and where a request is answered.
//!
//! [`Api::answer`] is what comes over the network. The other methods are for whoever plays the rest of the cluster: they do the same to the
//! same objects, at once and without the detour over JSON.

use crate::answer::{Answer, Refusal};
use crate::kinds::{self, Kind, Place};
use crate::request::Request;
use crate::schema::Schema;
use crate::store::{Key, Listener, Snapshot, Store};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says what an admission policy has against a write, by whom it is, the object before and the object after.
pub type Admission = Box<dyn Fn(&str, &Kind, Option<&Value>, &Value) -> Result<(), Refusal> + Send>;

/// What `/version` says.
const VERSION: (&str, &str, &str) = ("1", "34", "v1.34.0+simulated");

/// The server. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Api(Arc<Mutex<Inner>>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) schemas: BTreeMap<&'static str, Schema>,
    pub(crate) now: fn() -> Timestamp,
    /// Lists that go on, by their token.
    pub(crate) lists: BTreeMap<String, Vec<crate::store::Stored>>,
    pub(crate) page_max: usize,
    denied: BTreeSet<(String, String)>,
    pub(crate) admission: Option<Admission>,
}

impl Api {
    /// One that knows these CustomResourceDefinitions (plural name and YAML) and takes the time from `now`.
    #[must_use]
    pub fn new(crds: &[(&'static str, &str)], now: fn() -> Timestamp) -> Self {
        let schemas = crds
            .iter()
            .map(|(plural, yaml)| (*plural, Schema::of_crd(yaml)));
        Self(Arc::new(Mutex::new(Inner {
            store: Store::default(),
            schemas: schemas.collect(),
            now,
            lists: BTreeMap::new(),
            page_max: usize::MAX,
            denied: BTreeSet::new(),
            admission: None,
        })))
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request. A watch goes on for as long as its answer is listened to.
    #[must_use]
    pub fn answer(&self, request: &Request) -> Answer {
        match self.try_answer(request) {
            Ok(answer) => answer,
            Err(refusal) => refusal.into(),
        }
    }

    fn try_answer(&self, request: &Request) -> Result<Answer, Refusal> {
        if let Some(answer) = self.general(request) {
            return Ok(answer);
        }
        let unknown = || {
            Refusal::new(
                404,
                "NotFound",
                "the server could not find the requested resource",
            )
        };
        let place = kinds::place(&request.path).ok_or_else(unknown)?;
        self.inner().authorize(request, &place)?;
        match (&request.method, &place.name) {
            (&Method::GET, Some(name)) => self.inner().read(&place, name),
            (&Method::GET, None) if request.is_watch() => self.watch(request, &place),
            (&Method::GET, None) => self.inner().list(request, &place),
            (&Method::POST, None) => self.inner().create(request, &place),
            (&Method::PUT, Some(name)) => self.inner().put(request, &place, name),
            (&Method::PATCH, Some(name)) => self.inner().patch(request, &place, name),
            (&Method::DELETE, Some(name)) => self.inner().remove(request, &place, name),
            _ => Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )),
        }
    }

    /// What is no object.
    fn general(&self, request: &Request) -> Option<Answer> {
        let (major, minor, git) = VERSION;
        match request.path.as_str() {
            "/version" => Some(Answer::object(
                200,
                &json!({
                    "major": major, "minor": minor, "gitVersion": git, "gitCommit": "", "gitTreeState": "clean",
                    "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
                }),
            )),
            "/apis" => Some(Answer::object(200, &self.inner().groups())),
            "/apis/nodefencing.io/v1alpha1" => Some(Answer::object(200, &resources())),
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                let mut review: Value = serde_json::from_slice(&request.body).ok()?;
                let asked = &review["spec"]["resourceAttributes"];
                let word = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
                let right = (word("verb"), word("resource"));
                review["status"] = json!({"allowed": !self.inner().denied.contains(&right)});
                Some(Answer::object(201, &review))
            }
            _ => None,
        }
    }

    /// Takes a right from everybody who comes over the network: `("patch", "nodes")`.
    pub fn deny(&self, verb: &str, resource: &str) {
        let right = (verb.to_owned(), resource.to_owned());
        self.inner().denied.insert(right);
    }

    /// Gives all rights back.
    pub fn allow_everything(&self) {
        self.inner().denied.clear();
    }

    /// Lists are cut into pages of so many at most, where the request has a limit.
    pub fn limit_pages(&self, max: usize) {
        self.inner().page_max = max;
    }

    /// From now on `admission` is asked before every create and every change.
    pub fn admit(&self, admission: Admission) {
        self.inner().admission = Some(admission);
    }

    /// From now on `listener` hears of every write. It may not ask the server anything.
    pub fn listen(&self, listener: Listener) {
        self.inner().store.listen(listener);
    }

    /// Forgets what happened: no watch and no list may go on from before now.
    pub fn compact(&self) {
        let mut inner = self.inner();
        inner.lists.clear();
        inner.store.compact();
    }

    /// A server that hears of nothing from now on: what is asked of it gets answers from the past. Only for reading.
    #[must_use]
    pub fn left_behind(&self) -> Self {
        let inner = self.inner();
        let mut store = Store::default();
        store.restore(inner.store.snapshot());
        store.remember_from(0);
        Self(Arc::new(Mutex::new(Inner {
            store,
            schemas: BTreeMap::new(),
            now: inner.now,
            lists: BTreeMap::new(),
            page_max: usize::MAX,
            denied: BTreeSet::new(),
            admission: None,
        })))
    }

    /// Ends all watches, as a restart of the server does.
    pub fn end_watches(&self) {
        self.inner().store.end_watches();
    }

    /// The cluster as it is.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inner().store.snapshot()
    }

    /// Puts an older state back, its resourceVersion included.
    pub fn restore(&self, snapshot: Snapshot) {
        let mut inner = self.inner();
        inner.lists.clear();
        inner.store.restore(snapshot);
    }

    /// The newest resourceVersion.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.inner().store.version()
    }

    /// How often something was written, but for Leases and Events, which are written without end.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.inner().store.moves()
    }

    /// An object; the namespace is empty for what lives in none.
    #[must_use]
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let found = self.inner();
        let found = found.store.get(kind, &key(namespace, name))?;
        Some(Arc::clone(&found.value))
    }

    /// All objects of a kind, in the order of their names.
    #[must_use]
    pub fn all(&self, kind: &Kind) -> Vec<Arc<Value>> {
        let inner = self.inner();
        let all = inner.store.all(kind);
        all.map(|(_, stored)| Arc::clone(&stored.value)).collect()
    }

    /// Creates an object, status included.
    ///
    /// # Errors
    /// What the server has against it.
    pub fn add(
        &self,
        actor: &str,
        kind: &'static Kind,
        object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let stored = self
            .inner()
            .insert(&actor.into(), kind, &namespace, object)?;
        Ok(stored.value)
    }

    /// Changes an object, status included. `false`: there is none, or nothing to change.
    ///
    /// # Errors
    /// What the server has against it.
    pub fn change(
        &self,
        actor: &str,
        kind: &'static Kind,
        (namespace, name): (&str, &str),
        change: impl FnOnce(&mut Value),
    ) -> Result<bool, Refusal> {
        let mut inner = self.inner();
        let key = key(namespace, name);
        let Some(old) = inner.store.get(kind, &key).cloned() else {
            return Ok(false);
        };
        let mut new = Value::clone(&old.value);
        change(&mut new);
        let written = inner.replace(&actor.into(), kind, key, &old, new)?;
        Ok(!Arc::ptr_eq(&written.value, &old.value))
    }

    /// Deletes an object, with these DeleteOptions (null: none). `false`: there is none.
    ///
    /// # Errors
    /// What the server has against it.
    pub fn delete(
        &self,
        actor: &str,
        kind: &'static Kind,
        (namespace, name): (&str, &str),
        options: &Value,
    ) -> Result<bool, Refusal> {
        let key = key(namespace, name);
        match self.inner().delete(&actor.into(), kind, key, options) {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.code == 404 => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }
}

impl Inner {
    /// The discovery document of all groups, but for the core.
    fn groups(&self) -> Value {
        let known = kinds::KINDS.iter().filter(|kind| !kind.group.is_empty());
        let groups: BTreeMap<_, _> = known.map(|kind| (kind.group, kind.version)).collect();
        let group = |(name, version): (&str, &str)| {
            let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
            json!({"name": name, "versions": [version], "preferredVersion": version})
        };
        let groups: Vec<Value> = groups.into_iter().map(group).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    fn authorize(&self, request: &Request, place: &Place) -> Result<(), Refusal> {
        let verb = match (&request.method, &place.name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) if request.is_watch() => "watch",
            (&Method::GET, None) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            _ => "delete",
        };
        let sub = if place.is_status { "/status" } else { "" };
        let resource = format!("{}{sub}", place.kind.plural);
        let right = (verb.to_owned(), resource);
        if !self.denied.contains(&right) {
            return Ok(());
        }
        let (verb, resource) = right;
        let name = place.name.as_deref().unwrap_or_default();
        Err(Refusal::new(
            403,
            "Forbidden",
            format!(
                "{} \"{name}\" is forbidden: User \"{}\" cannot {verb} resource \"{resource}\" in API group \"{}\" at the cluster scope",
                place.kind.resource(),
                request.actor,
                place.kind.group
            ),
        ))
    }
}

pub(crate) fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

/// The discovery document of the custom resources.
fn resources() -> Value {
    let custom = kinds::KINDS.iter().filter(|kind| kind.custom);
    let resources = custom.flat_map(|kind| {
        ["", "/status"].map(|sub| {
            json!({
                "name": format!("{}{sub}", kind.plural), "singularName": "", "namespaced": false, "kind": kind.kind,
                "verbs": ["get", "patch"],
            })
        })
    });
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "nodefencing.io/v1alpha1",
        "resources": resources.collect::<Vec<_>>(),
    })
}
