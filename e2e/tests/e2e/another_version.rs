//! The resources and the operator are of different versions (F51): what a newer one has written is read as far as it can be, and never
//! guessed.

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, Setup, has_taint, stage};
use e2e::proxy::writes::{self, CLAIM, OUT_OF_SERVICE};
use e2e::taints;
use fencing_testbed::eventually::eventually;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

/// Changes the schema of NodeFences, from `spec` and `status` on.
async fn edit(lab: &Lab, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let admin = lab.control_plane.admin();
    let crds: Api<DynamicObject> = Api::all_with(admin, &ApiResource::from_gvk(&kind));
    let name = "nodefences.nodefencing.io";
    let mut crd = crds.get(name).await?;
    let schema = &mut crd.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    change(schema)?;
    crd.metadata.managed_fields = None;
    crds.replace(name, &Default::default(), &crd).await?;
    Ok(())
}

/// The resources of a version to come: more modes, and fields that nobody has heard of.
async fn upgrade(lab: &Lab) -> Result<()> {
    edit(lab, |schema| {
        schema["status"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
        let mode = &mut schema["spec"]["properties"]["fence"]["properties"]["mode"];
        let modes = mode["enum"].as_array_mut().context("the modes")?;
        modes.push(json!("Teleport"));
        Ok(())
    })
    .await
}

async fn patch_status(lab: &Lab, fence: &str, status: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"status": status}));
    lab.api("NodeFence")
        .patch_status(fence, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_newer_operator_has_left_is_not_guessed() -> Result<()> {
    let lab = Lab::start(Setup::new("another-version", 3).alone()).await?;
    let proxy = lab.proxy()?;
    let operator = lab.operator_behind(&proxy).await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({"budget": {"maxConcurrent": 10}}))
        .await?;

    // Rolled back in the middle of a fence, whose record speaks of a stage and of fields that the older one does not know.
    let taint = proxy.hold(writes::taint());
    lab.rig(1).machine.set_power(false);
    taint.wait_arrived(LIMIT).await?;
    operator.kill()?;
    taint.drop_it();
    upgrade(&lab).await?;
    let fence = lab.fence_of("node-1").await?.context("it is open")?;
    let mut conditions = fence.data["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().context("conditions")? {
        if condition["type"] == "Succeeded" {
            condition["reason"] = json!("Teleporting");
        }
    }
    let newer = json!({"conditions": conditions, "teleport": {"to": "elsewhere"}});
    patch_status(&lab, &fence.name_any(), newer).await?;

    // And one that it cannot read at all, of a node that is claimed.
    let mut alien = fence.data["spec"].clone();
    alien["nodeName"] = json!("node-2");
    alien["fence"]["mode"] = json!("Teleport");
    // As an administrator may write it.
    alien["trigger"] = json!({"type": "Manual", "requestedBy": "admin", "reason": "smoke"});
    let alien_fields = alien.as_object_mut().context("a spec")?;
    alien_fields.remove("policyName");
    alien["nodeUID"] = json!(lab.node("node-2").await?.metadata.uid);
    lab.apply("NodeFence", "alien", alien).await?;

    operator.start_again().await?;
    let fence = lab.wait_stage("node-1", "Recovered").await?;
    let history = lab.history("node-1").await?;
    let claims = taints::claims(&history).len();
    ensure!(
        claims == 2,
        "proven anew under a claim of its own: {claims}"
    );
    ensure!(
        fence.data["status"]["teleport"]["to"] == "elsewhere",
        "what it does not know it leaves alone"
    );
    let told = lab.wait_told_of("alien", "Undecodable").await?;
    ensure!(told.contains("Teleport"), "{told}");
    let alien = lab.api("NodeFence").get("alien").await?;
    ensure!(stage(&alien).is_empty() && alien.data["status"].is_null());
    let node = lab.node("node-2").await?;
    ensure!(!has_taint(&node, CLAIM) && !has_taint(&node, OUT_OF_SERVICE));

    // All others keep working.
    lab.rig(3).machine.set_power(false);
    lab.wait_stage("node-3", "Recovered").await?;
    eventually("it lives", LIMIT, async || operator.check()).await?;
    lab.verdict().await
}

/// The other way round: an operator that is newer than the resources says what they lack and what to apply, with no right but its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_an_older_version_are_named() -> Result<()> {
    let lab = Lab::start(Setup::new("older-definitions", 1).alone()).await?;
    edit(&lab, |schema| {
        let fields = schema["status"]["properties"].as_object_mut();
        let fields = fields.context("the fields of the status")?;
        fields.remove("evidence").context("there was evidence")?;
        Ok(())
    })
    .await?;
    let published = ["get", "--raw", "/openapi/v3/apis/nodefencing.io/v1alpha1"];
    eventually("the schemas are published", LIMIT, async || {
        let schemas = lab.control_plane.kubectl_text(&published).await?;
        ensure!(schemas.contains("nodeName") && !schemas.contains("\"evidence\""));
        Ok(())
    })
    .await?;
    let operator = lab.operator().await?;
    let words = "the CustomResourceDefinitions of nodefencing.io/v1alpha1 are older, so the API server drops fields: nodefences status.evidence; apply those of this version (kubectl apply -k crds, or helm upgrade)";
    eventually("it says so", LIMIT, async || {
        let lines = operator.log_lines()?;
        ensure!(lines.iter().any(|line| line["message"] == words));
        Ok(())
    })
    .await?;
    lab.wait_protected().await?;
    operator.check()
}
