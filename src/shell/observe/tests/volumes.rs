//! Which volumes a round sees: those that may stay, and those that are attached, each with its storage.

use super::*;

#[tokio::test]
async fn only_the_volumes_of_pods_that_tolerate_out_of_service_may_stay() {
    let tolerates = json!([{"operator": "Exists"}]);
    let is_evicted = json!([{"key": "node.kubernetes.io/out-of-service", "operator": "Exists"}]);
    let mut deleted = pod("deleted", tolerates.clone());
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let table = [
        (pod("plain", json!([])), None),
        (pod("evicted by the claim", is_evicted), None),
        (deleted, None),
        (pod("tolerates", tolerates), Some("pv-1")),
    ];
    for (pod, stays) in table {
        let cluster = cluster().await;
        cluster.put(PODS, 200, fake::list("Pod", "7", &[pod]));
        let volumes = observed(&cluster, EVERYTHING).await.tolerated_volumes;
        assert_eq!(volumes.first().map(String::as_str), stays);
    }
}

/// S1 S12: a volume is in the storage that its PersistentVolume names. Where one could not be read, nothing is known of any.
#[tokio::test]
async fn each_attached_volume_is_read_with_its_storage() {
    const VOLUME: &str = "GET /api/v1/persistentvolumes/pv-1";
    let volume = |attributes: Value| {
        let csi = json!({"driver": "lab.csi", "volumeHandle": "h", "volumeAttributes": attributes});
        json!({"metadata": {"name": "pv-1", "uid": "uid-pv"}, "spec": {"csi": csi}})
    };
    let gone = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
    let table = [
        (200, volume(json!({"clusterID": "a"})), Some(vec!["a"])),
        (200, volume(json!({"pool": "a"})), Some(vec![""])),
        (404, gone, Some(vec![])),
        (503, json!({}), None),
    ];
    for (status, body, expected) in table {
        let cluster = cluster().await;
        cluster.put(VOLUME, status, body);
        let pods = observed(&cluster, EVERYTHING).await.pods;
        let wanted = Needs {
            volumes_of: pods.present().cloned(),
            ..EVERYTHING
        };
        let volumes = observed(&cluster, wanted).await.volumes;
        let clusters = volumes.present().map(|it| {
            assert_eq!(it.claims, [("default/data".to_owned(), "pv-1".to_owned())]);
            let named = it.clusters.values();
            named.map(String::as_str).collect::<Vec<_>>()
        });
        assert_eq!(clusters, expected, "{status}");
    }
}

/// S14: anybody may write a claim that names the volume of somebody else, and a pod that uses it. It stays Pending.
#[tokio::test]
async fn a_claim_that_is_not_bound_lets_no_volume_stay() {
    let tolerates = json!([{"operator": "Exists"}]);
    let stays = async |claim: Value| {
        let cluster = cluster().await;
        let pod = pod("tolerates", tolerates.clone());
        cluster.put(PODS, 200, fake::list("Pod", "7", &[pod]));
        cluster.put(CLAIM, 200, claim);
        let observed = observed(&cluster, EVERYTHING).await;
        !observed.tolerated_volumes.is_empty()
    };
    let claim = |phase: &str| json!({"metadata": {"name": "data", "uid": "uid-data"}, "spec": {"volumeName": "pv-1"}, "status": {"phase": phase}});
    assert!(stays(claim("Bound")).await);
    for phase in ["Pending", "Lost"] {
        assert!(!stays(claim(phase)).await, "{phase}");
    }
    let mut leaving = claim("Bound");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!stays(leaving).await);
}

/// Its claim is named by the pod and the volume: a pod that tolerates everything would else keep the taint for ever.
#[tokio::test]
async fn a_generic_ephemeral_volume_of_a_pod_that_tolerates_may_stay() {
    let cluster = cluster().await;
    let mut pod = pod("tolerates", json!([{"operator": "Exists"}]));
    pod["spec"]["volumes"] = json!([{"name": "scratch", "ephemeral": {}}]);
    cluster.put(PODS, 200, fake::list("Pod", "7", &[pod]));
    let claim = json!({"metadata": {"name": "tolerates-scratch", "uid": "uid-scratch"}, "spec": {"volumeName": "pv-2"}, "status": {"phase": "Bound"}});
    cluster.put(&CLAIM.replace("data", "tolerates-scratch"), 200, claim);
    let volumes = observed(&cluster, EVERYTHING).await.tolerated_volumes;
    assert_eq!(volumes, ["pv-2"]);
}
