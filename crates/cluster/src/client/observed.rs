//! Reports each request to the API server to an observer, so that refusals, throttling and slow answers show in metrics before an incident suffers
//! from them.
//!
//! A request is reported when its answer begins, or when it is given up. The repeats of the read client are within one request: the last
//! answer counts.

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri};
use kube::client::Body as Sent;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service};

/// Resources that are reported by name. All others are [`OTHER`], so that no path adds a value of its own.
const RESOURCES: [&str; 19] = [
    "configmaps",
    "csiaddonsnodes",
    "customresourcedefinitions",
    "events",
    "fencedevices",
    "leases",
    "machines",
    "networkfenceclasses",
    "networkfences",
    "nodefenceremediations",
    "nodefences",
    "nodefencingpolicies",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "secrets",
    "selfsubjectaccessreviews",
    "volumeattachments",
];
/// What is no resource, or none of these.
const OTHER: &str = "other";

/// A request that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// HTTP status of the answer; none: there was no answer in time.
    pub code: Option<StatusCode>,
}

impl Asked {
    /// The verb as roles name it, and the resource without its subresource, such as `nodes`; `other` for all that is not listed here.
    pub fn verb_and_resource(&self) -> (&'static str, &'static str) {
        let parts = self.uri.path().split('/').filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.collect();
        let rest: &[&str] = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let (resource, has_name) = match rest {
            ["namespaces", _, resource, name @ ..] | [resource, name @ ..] => {
                (*resource, !name.is_empty())
            }
            [] => (OTHER, true),
        };
        let query = self.uri.query().unwrap_or_default();
        let verb = match self.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if query.split('&').any(|it| it == "watch=true") => "watch",
            _ if has_name => "get",
            _ => "list",
        };
        let resource = RESOURCES.into_iter().find(|it| *it == resource);
        (verb, resource.unwrap_or(OTHER))
    }
}

/// Is called with a request, and how long it took until its answer began.
type Observe = dyn Fn(&Asked, Duration) + Send + Sync;

/// Receives a report of each request.
#[derive(Clone)]
pub struct Observer {
    /// Time since boot.
    pub since_boot: fn() -> Duration,
    /// Is called with each request, and how long it took until its answer began. It must be quick.
    pub observe: Arc<Observe>,
}

/// Makes a way to the API server one that reports to this observer, if there is one.
pub(super) struct Observing(pub(super) Option<Observer>);

impl<S> Layer<S> for Observing {
    type Service = Observed<S>;

    fn layer(&self, service: S) -> Observed<S> {
        let observer = self.0.clone();
        Observed { service, observer }
    }
}

/// A way to the API server that reports.
pub(super) struct Observed<S> {
    service: S,
    observer: Option<Observer>,
}

impl<S, B> Service<Request<Sent>> for Observed<S>
where
    S: Service<Request<Sent>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(task)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let pending = self.observer.clone().map(|observer| Pending {
            asked: Asked {
                method: request.method().clone(),
                uri: request.uri().clone(),
                code: None,
            },
            begun: (observer.since_boot)(),
            observer,
        });
        let answer = self.service.call(request);
        async move {
            let mut pending = pending;
            let answer = answer.await;
            if let (Some(pending), Ok(answer)) = (&mut pending, &answer) {
                pending.asked.code = Some(answer.status());
            }
            answer
        }
        .boxed()
    }
}

/// A request under way. It is reported when it is dropped: whoever gives up waiting drops it, too.
struct Pending {
    asked: Asked,
    begun: Duration,
    observer: Observer,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let took = (self.observer.since_boot)().saturating_sub(self.begun);
        (self.observer.observe)(&self.asked, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Clients, ask_within};
    use crate::fake::{self, Fake};
    use crate::preflight::{DELETION_RIGHTS, RIGHTS};
    use k8s_openapi::api::core::v1::Node;
    use kube::{Api, Config};
    use std::sync::Mutex;

    #[test]
    fn a_path_is_a_verb_and_a_resource_of_the_list() {
        for (method, uri, verb, resource) in [
            (Method::GET, "/api/v1/nodes/worker-1", "get", "nodes"),
            (Method::GET, "/api/v1/nodes?limit=500", "list", "nodes"),
            (Method::GET, "/api/v1/nodes?watch=true", "watch", "nodes"),
            (Method::PATCH, "/api/v1/nodes/worker-1", "patch", "nodes"),
            (
                Method::GET,
                "/api/v1/namespaces/a/secrets/b",
                "get",
                "secrets",
            ),
            (Method::GET, "/api/v1/namespaces/a/pods", "list", "pods"),
            (Method::GET, "/api/v1/namespaces/a", "get", OTHER),
            (
                Method::PATCH,
                "/apis/nodefencing.io/v1alpha1/nodefences/a/status",
                "patch",
                "nodefences",
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                "update",
                "leases",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/a/events",
                "create",
                "events",
            ),
            (Method::DELETE, "/api/v1/nodes/worker-1", "delete", "nodes"),
            (Method::GET, "/version", "get", OTHER),
            (Method::GET, "/apis/nodefencing.io/v1alpha1", "get", OTHER),
            (Method::GET, "/api/v1/unheard/of", "get", OTHER),
        ] {
            let uri: Uri = uri.parse().expect("a URI");
            let code = None;
            let asked = Asked { method, uri, code };
            assert_eq!(asked.verb_and_resource(), (verb, resource), "{asked:?}");
        }
    }

    #[test]
    fn what_the_operator_has_rights_for_is_in_the_list() {
        for right in RIGHTS.iter().chain(DELETION_RIGHTS) {
            let resource = right.resource.split('/').next().expect("a resource");
            assert!(RESOURCES.contains(&resource), "{resource}");
        }
    }

    #[tokio::test]
    async fn each_request_is_reported_with_its_answer_or_without_one() {
        let refuses = Fake::start(|_| fake::failure(403, "no")).await;
        // It takes connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let seen = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&seen);
        let observe =
            move |asked: &Asked, _: Duration| log.lock().expect("lock").push(asked.clone());
        let observer = Observer {
            since_boot: || Duration::ZERO,
            observe: Arc::new(observe),
        };
        for address in [refuses.address, silent.local_addr().expect("an address")] {
            let uri = format!("http://{address}").parse().expect("a URI");
            let clients = Clients::of_agent(Config::new(uri), "test", Some(observer.clone()));
            let nodes: Api<Node> = Api::all(clients.expect("clients").writes);
            let answer = ask_within(Duration::from_secs(1), nodes.get("worker-1")).await;
            assert!(answer.is_err());
        }
        // The client's own task may drop what was given up a moment later.
        let both = async {
            while seen.lock().expect("lock").len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        both.expect("two reports");
        let seen = seen.lock().expect("lock").clone();
        let codes: Vec<_> = seen.iter().map(|it| it.code).collect();
        assert_eq!(codes, [Some(StatusCode::FORBIDDEN), None]);
        assert!(
            seen.iter().all(|it| it.uri == "/api/v1/nodes/worker-1"),
            "{seen:?}"
        );
    }
}
