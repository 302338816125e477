//! A control plane that one test has finished with is as good as new for the next, or is not used again.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    audit::OPERATOR,
    control_plane::{Component, ControlPlane, Options, pool},
    csi::EventKind,
    lab::{LIMIT, Lab, Setup},
    workload::{Template, node_of},
};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Namespace, Node, PersistentVolume, Pod, Secret},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::power_cut::power_cut;

/// A time that no other test has, so that none takes the control plane in between.
fn options(test: &str) -> Options {
    Options {
        node_startup_grace: Duration::from_millis(10_001),
        ..Options::named(test)
    }
}

async fn lab(test: &str) -> Result<Lab> {
    let setup = Setup {
        control_plane: options(test),
        ..Setup::new(test, 2)
    };
    Lab::start(setup).await
}

/// Where this API server, and no other, has its certificates.
fn server(plane: &ControlPlane) -> PathBuf {
    plane.files().pki("")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_control_plane_is_as_good_as_new_or_not_used_again() -> Result<()> {
    let worst = lab("reuse-worst").await?;
    let first = server(&worst.control_plane);
    leave_the_worst(&worst).await?;
    worst.verdict().await?;
    drop(worst);

    let plane = pool::take(options("reuse-empty")).await?;
    ensure!(server(&plane) == first, "it is another one");
    is_empty(&plane).await?;
    plane.give_back_at_end();
    drop(plane);

    let again = lab("reuse-again").await?;
    ensure!(server(&again.control_plane) == first, "it is another one");
    power_cut(&again).await?;
    // Something that was there from the beginning, and is not as it was.
    let label = ["label", "namespace", "default", "lab.nodefencing.io/used="];
    again.control_plane.kubectl_text(&label).await?;
    drop(again);

    let plane = pool::take(options("reuse-changed")).await?;
    let second = server(&plane);
    ensure!(second != first, "it was changed, and is used again");
    plane.give_back_at_end();
    plane.stop_component(Component::Scheduler)?;
    drop(plane);

    let plane = pool::take(options("reuse-stopped")).await?;
    ensure!(
        server(&plane) != second,
        "its scheduler was killed, and it is used again"
    );
    Ok(())
}

/// A fence whose detach fails, with objects that nobody can delete any more: each has a finalizer, and its kubelet is dead.
async fn leave_the_worst(lab: &Lab) -> Result<()> {
    let client = lab.control_plane.admin();
    let _operator = lab.operator().await?;
    lab.wait_protected().await?;
    lab.policy("ConfirmOnly", json!({})).await?;
    lab.workloads
        .stateful_set("db", &Template::default())
        .await?;
    let pod = lab.workloads.wait_running("db-0", LIMIT).await?;
    let node = node_of(&pod);
    let array = lab.control_plane.array();
    array.fail_detach("the array is on fire").await?;
    lab.rig_of(node)?.machine.set_power(false);
    let fence = lab.wait_stage(node, "Detaching").await?;
    eventually("a detach fails", LIMIT, async || {
        let events = array.events().await?;
        let mut kinds = events.iter().map(|event| event.kind);
        ensure!(
            kinds.any(|kind| kind == EventKind::DetachFailed),
            "{events:?}"
        );
        Ok(())
    })
    .await?;

    let stay = Patch::Merge(json!({"metadata": {"finalizers": ["lab.nodefencing.io/stay"]}}));
    let params = PatchParams::default();
    let fences = lab.api("NodeFence");
    fences.patch(&fence.name_any(), &params, &stay).await?;
    fences
        .delete(&fence.name_any(), &Default::default())
        .await?;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(node, &params, &stay).await?;
    nodes.delete(node, &Default::default()).await?;
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete("work", &Default::default()).await?;
    Ok(())
}

async fn is_empty(plane: &ControlPlane) -> Result<()> {
    let client = plane.admin();
    none::<Node>(&client).await?;
    none::<Pod>(&client).await?;
    none::<PersistentVolume>(&client).await?;
    none::<VolumeAttachment>(&client).await?;
    none::<Secret>(&client).await?;
    none::<Event>(&client).await?;
    for kind in ["nodefences", "nodefencingpolicies", "fencedevices"] {
        let found = plane.kubectl_text(&["get", kind, "--output=name"]).await?;
        ensure!(found.is_empty(), "there are {found}");
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let leases = leases.list(&Default::default()).await?.items;
    ensure!(leases.is_empty(), "there are {leases:#?}");
    let namespaces: Api<Namespace> = Api::all(client);
    let work = namespaces.get_opt("work").await?;
    ensure!(work.is_none(), "there is {work:#?}");

    let state = plane.array().state().await?;
    ensure!(
        state.attached.is_empty() && state.events.is_empty(),
        "{state:?}"
    );
    let audit = plane.audit();
    audit.settled().await?;
    let requests = audit.requests_of(OPERATOR)?;
    ensure!(requests.is_empty(), "{requests:#?}");
    Ok(())
}

async fn none<K>(client: &Client) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = Api::<K>::all(client.clone())
        .list(&Default::default())
        .await?;
    let names: Vec<_> = found.items.iter().map(ResourceExt::name_any).collect();
    ensure!(names.is_empty(), "there are {}: {names:?}", K::plural(&()));
    Ok(())
}
