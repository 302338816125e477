//! The aggregated API of KubeVirt by which a virtual machine is stopped and started. The API server of the cluster lets a request through to it
//! only where its own RBAC allows that, as with KubeVirt's virt-api.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use http::{Method, Response, header};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use super::LIMIT;
use super::infra::Infra;
use super::kubevirt::{ALWAYS, HALTED, set_strategy};
use fencing_testbed::eventually::eventually;
use fencing_testbed::https::{Body, Call, Cut, Leaf, Server, Site, body_of};
use fencing_testbed::pki::Authority;

/// The group of the API, and where it is served.
const GROUP: &str = "subresources.kubevirt.io";
const PATH: &str = "/apis/subresources.kubevirt.io/v1";
/// The Service behind which the API server looks for it, and the Service's namespace.
const SERVICE: &str = "virt-api";
const NAMESPACE: &str = "kubevirt";

/// A running API. It ends when dropped.
pub(super) struct VirtApi {
    _server: Server,
}

/// Serves it for the virtual machines of this namespace, and has the API server send requests there.
pub(super) async fn serve(
    infra: &Infra,
    tenant: &'static str,
    vms: Api<DynamicObject>,
    vmis: Api<DynamicObject>,
) -> Result<VirtApi> {
    let authority = Authority::new("virt-api")?;
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let names = [format!("{SERVICE}.{NAMESPACE}.svc")];
    let site = Subresources {
        leaf: Leaf::new(&authority.serving(&[here], &names)?)?,
        tenant,
        vms,
        vmis,
    };
    let server = Server::start(here, None, Arc::new(site))?;
    let create = ["create", "namespace", NAMESPACE];
    infra.plane.kubectl_text(&create).await?;
    // The one kind of Service that needs no network of the cluster.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": here.to_string()},
    });
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(infra.plane.admin(), NAMESPACE);
    let service = serde_json::from_value(service)?;
    services.create(&PostParams::default(), &service).await?;
    let name = format!("v1.{GROUP}");
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"namespace": NAMESPACE, "name": SERVICE, "port": server.address().port()},
            "caBundle": STANDARD.encode(authority.pem()),
        },
    });
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let resource = ApiResource::from_gvk(&kind);
    let api_services: Api<DynamicObject> = Api::all_with(infra.plane.admin(), &resource);
    let api_service = serde_json::from_value(api_service)?;
    api_services
        .create(&PostParams::default(), &api_service)
        .await
        .context("failed to register the API")?;
    eventually("the API is served", LIMIT, async || {
        let found = api_services.get(&name).await?;
        let conditions = found.data["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.into_iter().flatten();
        let is_available = conditions.any(|it| it["type"] == "Available" && it["status"] == "True");
        ensure!(is_available, "{}", found.data["status"]);
        Ok(())
    })
    .await?;
    Ok(VirtApi { _server: server })
}

struct Subresources {
    leaf: Leaf,
    tenant: &'static str,
    vms: Api<DynamicObject>,
    vmis: Api<DynamicObject>,
}

impl Site for Subresources {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(self.leaf.config())
    }

    fn answer(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        Box::pin(async move {
            let (status, body) = match self.respond(&call).await {
                Ok(answer) => answer,
                Err(error) => (500, json!({"message": format!("{error:#}")})),
            };
            let text = match &body {
                Value::Null => String::new(),
                body => body.to_string(),
            };
            let response = Response::builder()
                .status(status)
                .header(header::CONTENT_TYPE, "application/json");
            response.body(body_of(text)).map_err(|_| Cut::Close)
        })
    }
}

impl Subresources {
    async fn respond(&self, call: &Call) -> Result<(u16, Value)> {
        let path = call.head.uri.path();
        if path == PATH {
            let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"), "resources": []});
            return Ok((200, list));
        }
        let machines = format!("{PATH}/namespaces/{}/virtualmachines/", self.tenant);
        let command = path.strip_prefix(&machines);
        match command.and_then(|it| it.split_once('/')) {
            Some((name, command)) if call.head.method == Method::PUT => {
                self.command(name, command).await
            }
            _ => Ok((404, failure(404, "NotFound", "there is no such path"))),
        }
    }

    async fn command(&self, name: &str, command: &str) -> Result<(u16, Value)> {
        let runs = self.vmis.get_opt(name).await?.is_some();
        let (strategy, problem) = match command {
            "stop" => (HALTED, (!runs).then_some("VM is not running")),
            "start" => (ALWAYS, runs.then_some("VM is already running")),
            _ => return Ok((404, failure(404, "NotFound", "there is no such command"))),
        };
        if let Some(problem) = problem {
            return Ok((409, failure(409, "Conflict", problem)));
        }
        set_strategy(&self.vms, name, strategy).await?;
        Ok((202, Value::Null))
    }
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": code,
    })
}
