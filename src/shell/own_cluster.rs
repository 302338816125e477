//! The operator's own API server, for the driver whose objects are there (`networkFence`).

use super::foreign_text::is_of_rbac;
use super::observe::is_whole;
use fencing_cluster::client::{AskError, Clients, MANAGER, ask};
use fencing_cluster::slim::SlimNode;
use fencing_core::observed::NodeView;
use fencing_drivers::network_fence::{NotCreated, NotRead, OwnCluster};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request};
use kube::{Api, Client};
use serde_json::Value;
use std::fmt;

/// The API server, by the operator's two clients.
pub struct OwnApiServer {
    reads: Client,
    writes: Client,
    server: String,
}

impl OwnApiServer {
    /// By these clients.
    pub fn new(clients: &Clients) -> Self {
        Self {
            reads: clients.reads.clone(),
            writes: clients.writes.clone(),
            server: clients.server.clone(),
        }
    }

    async fn read(&self, path: &str) -> Result<Value, AskError> {
        send(&self.reads, Method::GET, path, None).await
    }
}

/// One request, and its answer. A body is a JSON Patch where the request is one, and else an object.
pub(super) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Value, AskError> {
    let content = match method {
        Method::PATCH => "application/json-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content)
        .body(body.map_or_else(Vec::new, |it| it.to_string().into_bytes()));
    let request = request.map_err(|error| AskError::Unknown(error.to_string()))?;
    ask(client.request(request)).await
}

impl fmt::Debug for OwnApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnApiServer").field(&self.server).finish()
    }
}

impl OwnCluster for OwnApiServer {
    fn node<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<NodeView>, NotRead>> {
        async move {
            let api = Api::<SlimNode>::all(self.reads.clone());
            // The right to read Nodes is none of this driver's.
            let failed = |error: AskError| NotRead::Failed(error.to_string());
            match absent(ask(api.get(name)).await).map_err(failed)? {
                Some(node) if is_whole(&node, name) => Ok(Some(node.view())),
                Some(_) => Err(NotRead::Failed(format!("the answer is not {name}"))),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<Value>, NotRead>> {
        async move {
            let object = absent(self.read(path).await).map_err(|it| unread("get", path, &it))?;
            let name = path.rsplit('/').next();
            let is_it = |it: &Value| it.pointer("/metadata/name").and_then(Value::as_str) == name;
            match object.as_ref().is_none_or(is_it) {
                true => Ok(object),
                false => Err(NotRead::Failed(format!("the answer is not {path}"))),
            }
        }
        .boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<Value>, NotRead>> {
        async move {
            let list = self.read(path).await;
            let list = list.map_err(|it| unread("list", path, &it))?;
            items(list).ok_or_else(|| NotRead::Failed("the list is not complete".to_owned()))
        }
        .boxed()
    }

    fn create<'a>(&'a self, path: &'a str, object: Value) -> BoxFuture<'a, Result<(), NotCreated>> {
        async move {
            let at = format!("{path}?fieldManager={MANAGER}");
            let made = send(&self.writes, Method::POST, &at, Some(object)).await;
            made.map(drop).map_err(|error| match error {
                AskError::Refused { .. } if lacks_right(&error) => {
                    NotCreated::NotGranted(request("create", path))
                }
                AskError::Refused { .. } => NotCreated::Refused(error.to_string()),
                AskError::NoConnection(_) | AskError::Unknown(_) | AskError::Timeout(_) => {
                    NotCreated::Unknown(error.to_string())
                }
            })
        }
        .boxed()
    }
}

/// The items of a list that is whole: it has a version, and goes on nowhere else (F22).
pub(super) fn items(list: Value) -> Option<Vec<Value>> {
    let text = |name: &str| {
        let found = list.pointer(&format!("/metadata/{name}"));
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let is_whole = !text("resourceVersion").is_empty() && text("continue").is_empty();
    match list {
        Value::Object(mut list) if is_whole => match list.remove("items") {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        },
        _ => None,
    }
}

/// Verb and resource of a request to a path below `/apis/GROUP/VERSION`.
fn request(verb: &str, path: &str) -> String {
    let mut parts = path.split('/').skip(2);
    let (group, _, resource) = (parts.next(), parts.next(), parts.next());
    let [group, resource] = [group, resource].map(Option::unwrap_or_default);
    format!("{verb} {resource}.{group}")
}

/// Does RBAC refuse it? An admission policy or a proxy may, too, and no role helps there.
pub(super) fn lacks_right(error: &AskError) -> bool {
    matches!(error, AskError::Refused { code: 403, message, .. } if is_of_rbac(message))
}

fn unread(verb: &str, path: &str, error: &AskError) -> NotRead {
    match lacks_right(error) {
        true => NotRead::NotGranted(request(verb, path)),
        false => NotRead::Failed(error.to_string()),
    }
}

/// An object that the API server says is not there.
pub(super) fn absent<T>(answer: Result<T, AskError>) -> Result<Option<T>, AskError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        // A proxy's 404 is no answer of the API server.
        Err(AskError::Refused {
            code: 404, reason, ..
        }) if reason == "NotFound" => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
