//! What Kubernetes does for a Service when a node dies: it gives the node up, and its pods leave their EndpointSlices, also one that tolerates
//! everything and is never evicted. No operator has a part in it; one that makes Ready Unknown in Kubernetes' place has to do as much.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::lab::{Kind, LIMIT, Lab, Setup};
use e2e::times::Times;
use e2e::workload::{Template, is_ready, node_of, wait_node_ready};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

const APP: &str = "web";

/// The pod, and whether its Service sends requests to it.
async fn served(lab: &Lab) -> Result<(Pod, bool)> {
    let params = ListParams::default().labels(&format!("app={APP}"));
    let pods = lab.workloads.api::<Pod>().list(&params).await?.items;
    let [pod] = <[Pod; 1]>::try_from(pods).map_err(|all| {
        let names: Vec<_> = all.iter().map(ResourceExt::name_any).collect();
        anyhow::anyhow!("one pod is expected: {names:?}")
    })?;
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={APP}"));
    let slices = lab.workloads.api::<EndpointSlice>();
    let slices = slices.list(&of_service).await?.items;
    let mut endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter());
    let is_served = endpoints.any(|endpoint| {
        let target = endpoint.target_ref.as_ref();
        let is_pod = target.is_some_and(|target| target.uid == pod.uid());
        let conditions = endpoint.conditions.as_ref();
        is_pod && conditions.is_some_and(|it| it.ready == Some(true))
    });
    Ok((pod, is_served))
}

async fn until_served(lab: &Lab, wanted: bool) -> Result<Pod> {
    let what = format!("the Service sends requests to the pod: {wanted}");
    eventually(&what, LIMIT, async || {
        let (pod, is_served) = served(lab).await?;
        ensure!(is_served == wanted, "it is {is_served}");
        Ok(pod)
    })
    .await
}

/// Returns how long Kubernetes took to give the node up.
async fn an_endpoint_goes_with_its_node(lab: &Lab) -> Result<Duration> {
    let everything = Template {
        tolerates_all: true,
        ..Template::default()
    };
    lab.workloads.deployment(APP, 1, &everything).await?;
    let service = json!({"metadata": {"name": APP}, "spec": {"selector": {"app": APP}, "ports": [{"port": 80}]}});
    let services = lab.workloads.api::<Service>();
    services
        .create(&PostParams::default(), &serde_json::from_value(service)?)
        .await?;
    let pod = until_served(lab, true).await?;
    let node = node_of(&pod).to_owned();
    let client: Client = lab.control_plane.admin();

    let cut = Instant::now();
    lab.rig_of(&node)?.machine.go_dark();
    wait_node_ready(client.clone(), &node, "Unknown", LIMIT).await?;
    let given_up = cut.elapsed();
    let dropped = until_served(lab, false).await?;
    eprintln!(
        "Unknown {:.1} s after the power cut, the endpoint gone at most {:.2} s later",
        given_up.as_secs_f64(),
        (cut.elapsed() - given_up).as_secs_f64()
    );
    let stays = dropped.metadata.deletion_timestamp.is_none() && dropped.uid() == pod.uid();
    ensure!(stays && !is_ready(&dropped), "it was evicted, or is Ready");

    lab.rig_of(&node)?.machine.set_power(true);
    wait_node_ready(client, &node, "True", LIMIT).await?;
    until_served(lab, true).await?;
    Ok(given_up)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_node_takes_its_pods_endpoint_with_it() -> Result<()> {
    let lab = Lab::start(Setup::new("endpoints", 2)).await?;
    an_endpoint_goes_with_its_node(&lab).await?;
    lab.volumes_are_whole().await
}

/// The times that users have: nothing here is faster than in their clusters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_node_with_stock_times_takes_its_pods_endpoint_with_it() -> Result<()> {
    let setup = Setup::new("stock-endpoints", 2).on(Kind::Real);
    let Some(lab) = Lab::start_if_available(setup.at(Times::Stock)).await? else {
        return Ok(());
    };
    let leases: Api<Lease> = Api::namespaced(lab.control_plane.admin(), "kube-node-lease");
    // A kubelet makes its Lease after its Node, which is Ready before.
    eventually(
        "the kubelet's Lease is Kubernetes' own",
        LIMIT,
        async || {
            let lease = leases.get("node-1").await?.spec.context("no spec")?;
            ensure!(lease.lease_duration_seconds == Some(40), "{lease:?}");
            Ok(())
        },
    )
    .await?;

    let given_up = an_endpoint_goes_with_its_node(&lab).await?;
    // The grace period counts from the last renewal, which was at most 10.4 s ago, and is looked at every 5 s.
    ensure!(
        given_up >= Duration::from_secs(50 - 11),
        "given up after {given_up:?}: these are not Kubernetes' times"
    );
    lab.volumes_are_whole().await
}
