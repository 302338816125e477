//! What kube-state-metrics tells of Nodes, as far as the rules ask for it.

use std::{fmt::Write, net::Ipv4Addr, sync::Arc};

use anyhow::Result;
use futures::{FutureExt, future::BoxFuture};
use http::Response;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt};
use rustls::ServerConfig;

use fencing_testbed::https::{Body, Call, Cut, Server, Site, body_of};

/// The series of [kube-state-metrics](https://github.com/kubernetes/kube-state-metrics) about the conditions and taints of the Nodes that
/// the API server has at each scrape.
pub struct Exporter(Server);

struct Page(Client);

impl Exporter {
    /// Serves `/metrics` on a free port of 127.0.0.1.
    pub fn start(client: Client) -> Result<Self> {
        let page = Arc::new(Page(client));
        let server = Server::start(Ipv4Addr::LOCALHOST.into(), None, page)?;
        Ok(Self(server))
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.0.address().port()
    }
}

impl Site for Page {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }

    fn answer(self: Arc<Self>, _: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        async move {
            let nodes: Api<Node> = Api::all(self.0.clone());
            // As when kube-state-metrics itself cannot be reached.
            let nodes = nodes.list(&Default::default()).await;
            let nodes = nodes.map_err(|_| Cut::Close)?.items;
            Ok(Response::new(body_of(told(&nodes))))
        }
        .boxed()
    }
}

fn told(nodes: &[Node]) -> String {
    let mut text = String::from("# TYPE kube_node_status_condition gauge\n");
    let all = nodes.iter().map(|node| (node.name_any(), node));
    for (name, node) in all.clone() {
        let status = node.status.as_ref();
        for condition in status
            .into_iter()
            .flat_map(|it| it.conditions.iter().flatten())
        {
            for status in ["true", "false", "unknown"] {
                let is_it = u8::from(condition.status.to_lowercase() == status);
                let kind = &condition.type_;
                let _ = writeln!(
                    text,
                    r#"kube_node_status_condition{{node="{name}",condition="{kind}",status="{status}"}} {is_it}"#
                );
            }
        }
    }
    text.push_str("# TYPE kube_node_spec_taint gauge\n");
    for (name, node) in all {
        let spec = node.spec.as_ref();
        for taint in spec.into_iter().flat_map(|it| it.taints.iter().flatten()) {
            let (key, effect) = (&taint.key, &taint.effect);
            let value = taint.value.as_deref().unwrap_or_default();
            let _ = writeln!(
                text,
                r#"kube_node_spec_taint{{node="{name}",key="{key}",value="{value}",effect="{effect}"}} 1"#
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_has_one_status_of_three_and_a_taint_is_there_or_not() {
        let node = json!({
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        });
        let node: Node = serde_json::from_value(node).expect("a Node");
        let expected = r#"# TYPE kube_node_status_condition gauge
kube_node_status_condition{node="n",condition="Ready",status="true"} 0
kube_node_status_condition{node="n",condition="Ready",status="false"} 0
kube_node_status_condition{node="n",condition="Ready",status="unknown"} 1
# TYPE kube_node_spec_taint gauge
kube_node_spec_taint{node="n",key="k",value="v",effect="NoExecute"} 1
"#;
        assert_eq!(told(&[node]), expected);
    }
}
