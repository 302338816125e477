//! FailedMount as upstream's kubelet writes it: of a local disk that is not there (D17). The words are the kubelet's, and in no list of ours.

use anyhow::Result;
use e2e::lab::{Kind, LIMIT, Lab, Setup};
use e2e::workload::WRITER_IMAGE;
use fencing_testbed::eventually::eventually;
use serde_json::json;

use super::later::Later;
use super::{asked_with, found, ids};
use crate::plugin::scene::{kubectl, make, pod, spec, volume};
use crate::plugin::session::Session;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_a_real_kubelet_cannot_mount_is_a_finding_in_its_words() -> Result<()> {
    let setup = Setup::new("diagnose-mounts", 1).on(Kind::Real);
    let Some(lab) = Lab::start_if_available(setup).await? else {
        return Ok(());
    };
    let lab = &lab;
    let later = Later::start(lab).await?;
    let mut session =
        Session::new(lab, "node-1", "A kubelet cannot mount a disk").with(&later.flags);
    let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]});
    let disk = json!({
        "local": {"path": "/not-there"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
    });
    make(lab, &volume("disk", "ReadWriteOnce", disk)).await?;
    let bound = "wait -n work pvc/disk --for=jsonpath={.status.phase}=Bound";
    kubectl(lab, bound).await?;
    // A kubelet mounts what a container has among its mounts.
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let containers = json!([{"name": "main", "image": WRITER_IMAGE, "volumeMounts": mounts}]);
    let tied = spec(Some("disk"), json!({"containers": containers}));
    make(lab, &[pod("tied", &tied)]).await?;
    // A moment after it was made it waits, and scripts are told why.
    eventually("its kubelet refuses", LIMIT, async || {
        let (code, answer) = asked_with(lab, "pod/tied -n work", session.flags()).await?;
        let error = answer["waits"][0]["error"].as_str().unwrap_or_default();
        let is_told = error.starts_with("FailedMount: ") && error.contains("/not-there");
        anyhow::ensure!(
            code == 3 && is_told && ids(&answer).is_empty(),
            "{code}: {answer:#}"
        );
        Ok(())
    })
    .await?;
    later.minutes(2);
    found(lab, &mut session, "pod/tied", &["D17"]).await?;
    session.hold("diagnose/mounts")?;
    lab.volumes_are_whole().await
}
