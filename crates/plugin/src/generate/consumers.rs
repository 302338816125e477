//! Who uses a BareMetalHost: from its `consumerRef` by the Cluster API's objects to the name of a Node.
//!
//! With Metal3 the consumer is a Metal3Machine, whose owner is a Machine with `status.nodeRef`
//! (cluster-api-provider-metal3, docs/architecture.md); with OpenShift it is that Machine itself (machine.openshift.io, `status.nodeRef`).
//! Each kind is listed once, in the version that whoever refers to it names, however many hosts there are. Where the Machines live in another
//! cluster, or may not be read, that is said.

use super::super::cluster::Cluster;
use fencing_cluster::client::{AskError, ask_within};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Objects on a page of a list.
const PAGE: u32 = 500;
/// Kinds that are known to lead to a Node.
const KINDS: [(&str, &str); 3] = [
    ("infrastructure.cluster.x-k8s.io", "Metal3Machine"),
    ("cluster.x-k8s.io", "Machine"),
    ("machine.openshift.io", "Machine"),
];

/// A reference to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Reference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace; empty: that of whoever refers to it.
    pub namespace: String,
}

impl Reference {
    fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Its namespace, if an object in this one refers to it.
    fn namespace_from<'a>(&'a self, namespace: &'a str) -> &'a str {
        match self.namespace.as_str() {
            "" => namespace,
            own => own,
        }
    }

    fn is_known(&self) -> bool {
        KINDS.contains(&(self.group(), &self.kind))
    }
}

/// Namespace and name, and the object.
type Objects = BTreeMap<(String, String), Value>;

/// What could be read of them, or why not, by group, version and kind.
#[derive(Debug, Default)]
pub struct Consumers(BTreeMap<(String, String), Result<Objects, String>>);

impl Consumers {
    /// Lists what these refer to, and the Machines that own it.
    pub async fn of(cluster: &Cluster, references: &[Reference]) -> Self {
        let mut this = Self::default();
        let known = references.iter().filter(|it| it.is_known());
        for reference in known {
            this.read(cluster, reference).await;
        }
        let owners: Vec<Reference> = this.all().flat_map(owners).collect();
        for owner in owners.iter().filter(|it| it.is_known()) {
            this.read(cluster, owner).await;
        }
        this
    }

    async fn read(&mut self, cluster: &Cluster, reference: &Reference) {
        let key = (reference.api_version.clone(), reference.kind.clone());
        if self.0.contains_key(&key) {
            return;
        }
        let listed = list(cluster, &key.0, &key.1, None).await;
        let objects = listed.map(by_name).map_err(|it| it.to_string());
        self.0.insert(key, objects);
    }

    fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.values().flatten().flat_map(BTreeMap::values)
    }

    /// The Node of what is referred to from an object in this namespace.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn node(&self, reference: &Reference, namespace: &str) -> Result<String, String> {
        let object = self.find(reference, namespace)?;
        if let Some(node) = node_ref(object) {
            return Ok(node);
        }
        let namespace = reference.namespace_from(namespace);
        let owner = owners(object).into_iter().find(Reference::is_known);
        let of_owner = match &owner {
            Some(owner) => node_ref(self.find(owner, namespace)?),
            None => None,
        };
        let last = owner.as_ref().unwrap_or(reference);
        of_owner.ok_or_else(|| {
            format!(
                "{} {namespace}/{} has no `status.nodeRef`",
                last.kind, last.name
            )
        })
    }

    fn find(&self, reference: &Reference, namespace: &str) -> Result<&Value, String> {
        let Reference {
            api_version,
            kind,
            name,
            ..
        } = reference;
        let namespace = reference.namespace_from(namespace);
        let key = (api_version.clone(), kind.clone());
        let Some(listed) = self.0.get(&key) else {
            return Err(format!("{kind} ({api_version}) leads to no known Node"));
        };
        let objects = listed
            .as_ref()
            .map_err(|words| format!("{kind} {namespace}/{name} could not be read: {words}"))?;
        let found = objects.get(&(namespace.to_owned(), name.clone()));
        found.ok_or_else(|| format!("{kind} {namespace}/{name} does not exist in this cluster"))
    }
}

fn by_name(objects: Vec<Value>) -> Objects {
    let named = objects.into_iter().map(|it| {
        let text = |place: &str| {
            let text = it.pointer(place).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        ((text("/metadata/namespace"), text("/metadata/name")), it)
    });
    named.collect()
}

fn node_ref(object: &Value) -> Option<String> {
    let named = object.pointer("/status/nodeRef/name")?;
    named.as_str().map(str::to_owned)
}

fn owners(object: &Value) -> Vec<Reference> {
    let owners = object.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array);
    let owners = owners.into_iter().flatten();
    owners
        .filter_map(|it| Reference::deserialize(it).ok())
        .collect()
}

/// All objects of a kind that this program does not know, everywhere or in one namespace.
///
/// # Errors
/// [`AskError`].
pub async fn list(
    cluster: &Cluster,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Result<Vec<Value>, AskError> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // Its plural: in lower case, with an s.
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let client = cluster.clients.reads.clone();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut all = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = ask_within(cluster.limits.read, api.list(&page)).await?;
        let values = listed.items.into_iter().map(serde_json::to_value);
        all.extend(values.filter_map(Result::ok));
        match listed.metadata.continue_.filter(|it| !it.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all),
        }
    }
}

#[cfg(test)]
impl Consumers {
    /// As if these had been listed.
    pub fn listed(api_version: &str, kind: &str, objects: Result<Vec<Value>, String>) -> Self {
        let objects = objects.map(by_name);
        Self([((api_version.to_owned(), kind.to_owned()), objects)].into())
    }

    /// With those of another.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Limits;
    use fencing_cluster::client::Clients;
    use std::time::Duration;
    use tokio::net::TcpListener;

    /// It accepts, and that is all. `--request-timeout` is the limit of these questions too, of kinds that the plugin does not know.
    #[tokio::test]
    async fn a_silent_api_server_is_given_up_after_the_limit_of_a_request() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let config = kube::Config::new(server.parse().expect("a URL"));
        let limit = Duration::from_secs(1);
        let cluster = Cluster {
            clients: Clients::from_config(config).expect("clients"),
            namespace: "node-fencing-system".to_owned(),
            limits: Limits {
                read: limit,
                ..Limits::of(None)
            },
        };
        let listed = list(&cluster, "metal3.io/v1alpha1", "BareMetalHost", None).await;
        assert_eq!(listed.expect_err("silent"), AskError::Timeout(limit));
        let machine = Reference {
            api_version: "cluster.x-k8s.io/v1beta1".to_owned(),
            kind: "Machine".to_owned(),
            name: "m-1".to_owned(),
            namespace: String::new(),
        };
        let consumers = Consumers::of(&cluster, std::slice::from_ref(&machine)).await;
        let unknown = consumers.node(&machine, "metal3").expect_err("silent");
        assert!(unknown.contains("within 1 s"), "{unknown}");
    }
}
