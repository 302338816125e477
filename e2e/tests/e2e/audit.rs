//! The audit log as an oracle, and the rights of the operator's service account behind it.

use anyhow::Result;
use e2e::{
    audit::OPERATOR,
    control_plane::{ControlPlane, Options, client},
    operator::{NAMESPACE, SERVICE_ACCOUNT},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn tells_who_wrote_what_and_with_what_success() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("audit")).await?;
    control_plane.apply_deploy().await?;
    let as_admin: Api<Node> = Api::all(control_plane.admin());
    let node = serde_json::from_value(json!({"metadata": {"name": "node-1"}}))?;
    as_admin.create(&PostParams::default(), &node).await?;

    let kubeconfig = control_plane
        .kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT, None)
        .await?;
    let as_operator: Api<Node> = Api::all(client(&kubeconfig).await?);
    as_operator.get("node-1").await?;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"not": "allowed"}}}));
    as_operator
        .patch("node-1", &PatchParams::default(), &patch)
        .await
        .expect_err("the admission policy is not in force");

    let audit = control_plane.audit();
    audit.settled().await?;
    let writes = audit.writes_of(OPERATOR)?;
    let told: Vec<_> = writes.iter().map(e2e::audit::Request::summary).collect();
    assert_eq!(told, ["patch nodes node-1 -> 403"]);
    assert_eq!(
        writes[0].request_object["metadata"]["labels"]["not"],
        "allowed"
    );
    assert!(
        writes[0].response_status.message.contains("S7"),
        "{:?}",
        writes[0].response_status
    );
    assert!(writes[0].received <= writes[0].answered && !writes[0].succeeded());
    assert_eq!(audit.requests_of(OPERATOR)?.len(), 2, "one read, one write");

    let to_nodes: Vec<_> = audit
        .writes_to("nodes")?
        .into_iter()
        .filter(|it| it.user.username == "admin")
        .collect();
    assert_eq!(to_nodes.len(), 1);
    assert!(to_nodes[0].succeeded());
    Ok(())
}
