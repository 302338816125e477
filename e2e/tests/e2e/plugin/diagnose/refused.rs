//! What Kubernetes says of a pod in Events of its own: the scheduler of a volume that no node reaches (D15), attach/detach of an error of the driver
//! in words that no list has (D17).

use anyhow::Result;
use e2e::csi::{Fault, Faults};
use e2e::lab::{Lab, Setup};
use serde_json::json;

use super::found;
use crate::plugin::scene::{NAMESPACE, bound, kubectl, make, of_array, on, pod, spec, volume};
use crate::plugin::session::Session;

/// In words of no other driver.
const WORDS: &str = "SvcError :: NoOnlineReplicas: 0 of 2 replicas are online";

/// D15: the disk is in a machine whose Node is no more.
async fn lost(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    let mut source = of_array("lost");
    let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-9"]});
    source["nodeAffinity"] =
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}});
    make(lab, &volume("lost", "ReadWriteOnce", source)).await?;
    let bound = format!("wait -n {NAMESPACE} pvc/lost --for=jsonpath={{.status.phase}}=Bound");
    kubectl(lab, &bound).await?;
    make(lab, &[pod("lost", &spec(Some("lost"), json!({})))]).await?;
    let refused = "wait -n work pod/lost --for=condition=PodScheduled=false --timeout=60s";
    kubectl(lab, refused).await?;
    found(lab, session, "pod/lost", &["D15"]).await
}

/// D17: the array refuses to attach.
async fn refused(lab: &Lab, session: &mut Session<'_>) -> Result<()> {
    bound(lab, "refused", "ReadWriteOnce").await?;
    let faults = Faults {
        attach: Fault::failure(WORDS).of_volume("refused"),
        ..Faults::default()
    };
    lab.control_plane.array().set_faults(&faults).await?;
    make(
        lab,
        &[pod("refused", &spec(Some("refused"), on(&["node-2"])))],
    )
    .await?;
    found(lab, session, "pod/refused", &["D17"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kubernetes_says_of_a_pod_is_a_finding_in_its_own_words() -> Result<()> {
    let lab = Lab::start(Setup::new("diagnose-refused", 2)).await?;
    let lab = &lab;
    let mut session = Session::new(
        lab,
        "node-1",
        "Every node is Ready, and Kubernetes says why pods wait",
    );
    lost(lab, &mut session).await?;
    refused(lab, &mut session).await?;
    session.hold("diagnose/refused")?;
    lab.control_plane.array().clear_faults().await?;
    lab.volumes_are_whole().await
}
