//! Driver `networkFence`: the storage of a CSI driver shuts a node out, by a NetworkFence of CSI-Addons in the operator's own cluster.
//!
//! It reads no power. Off means that the storage has shut the node's clients out, On that it lets them in; what follows from that the core decides
//! (`fencing_core::plan::storage`). It makes one object for a fence, and never changes one: the operator takes it back when the node has booted again.

mod facts;
pub mod object;
mod session;

use super::address::{Address, AddressError};
use super::{DeviceError, DriverKind, FenceDriver, FenceSession, NodeFacts, Parts};
use crate::clock::Clock;
use fencing_api::device::NetworkFenceDriver;
use fencing_core::observed::NodeView;
use futures::future::BoxFuture;
use serde_json::Value;
use session::Session;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where the API server is, in messages: the operator's client knows the address.
const OWN_API_SERVER: &str = "https://kubernetes.default.svc";
/// Longest name of an object (RFC 1123).
const NAME_BYTES_MAX: usize = 253;

/// The API server of the operator's own cluster, as far as this driver asks it. Each answer is as new as the store behind it.
pub trait OwnCluster: fmt::Debug + Send + Sync {
    /// A Node; none: there is no such.
    fn node<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<NodeView>, NotRead>>;

    /// The object at this path; none: the API server says that there is no such object.
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Value>, NotRead>>;

    /// All objects of the list at this path.
    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<Value>, NotRead>>;

    /// Makes an object, by one request that is not repeated.
    fn create<'a>(&'a self, path: &'a str, object: Value) -> BoxFuture<'a, Result<(), NotCreated>>;
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRead {
    /// RBAC does not let the operator read what this driver takes, and nothing else does: verb and resource.
    NotGranted(String),
    /// Anything else, in words.
    Failed(String),
}

/// Why there is no new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCreated {
    /// RBAC does not let the operator make one: verb and resource.
    NotGranted(String),
    /// The API server refused it, in these words.
    Refused(String),
    /// Whether there is one is not known.
    Unknown(String),
}

/// The storage, for one node.
#[derive(Debug, Clone)]
pub struct StorageFence {
    settings: NetworkFenceDriver,
    node: String,
    name: String,
    cluster: Arc<dyn OwnCluster>,
    call_timeout: Duration,
    command_timeout: Duration,
    clock: Clock,
}

impl StorageFence {
    fn new(settings: &NetworkFenceDriver, parts: &Parts) -> Result<Self, DeviceError> {
        let invalid = |problem: String| DeviceError::Settings {
            field: "networkFence",
            problem,
        };
        let cluster = parts.accounts.surroundings().own_cluster.0.clone();
        let cluster = cluster.ok_or_else(|| {
            invalid("it asks the cluster that the operator runs in, and here is none".to_owned())
        })?;
        let name = object::name(&parts.node.name, &settings.network_fence_class_name);
        if name.len() > NAME_BYTES_MAX {
            let problem = format!(
                "the NetworkFence would be called {name}, with more than {NAME_BYTES_MAX} bytes"
            );
            return Err(invalid(problem));
        }
        Ok(Self {
            settings: settings.clone(),
            node: parts.node.name.clone(),
            name,
            cluster,
            call_timeout: parts.call_timeout,
            command_timeout: parts.command_timeout,
            clock: parts.clock,
        })
    }
}

/// What people see of it.
fn target(settings: &NetworkFenceDriver, node: &str) -> String {
    let name = object::name(node, &settings.network_fence_class_name);
    format!("NetworkFence {name}")
}

impl DriverKind for NetworkFenceDriver {
    fn needs_secret(&self) -> bool {
        false
    }

    /// It is written nowhere, because the operator's own client knows it.
    fn written(&self) -> &'static str {
        OWN_API_SERVER
    }

    fn expand(&self, _: &str) -> Result<Address, AddressError> {
        Address::parse(OWN_API_SERVER)
    }

    fn targets(&self, node: &NodeFacts) -> Vec<String> {
        vec![target(self, &node.name)]
    }

    fn make(&self, parts: Parts) -> Result<Arc<dyn FenceDriver>, DeviceError> {
        Ok(Arc::new(StorageFence::new(self, &parts)?))
    }
}

impl FenceDriver for StorageFence {
    fn name(&self) -> &'static str {
        "networkFence"
    }

    fn target(&self) -> String {
        target(&self.settings, &self.node)
    }

    fn open(&self) -> Box<dyn FenceSession> {
        Box::new(Session::new(self.clone()))
    }
}

#[cfg(test)]
mod tests;
