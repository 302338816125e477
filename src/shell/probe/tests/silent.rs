//! Which Off of a silent node's device is told to whoever opens incidents.

use super::*;
use std::time::Duration;

/// A look at this device beside a Node that is not Ready: is the machine found off?
async fn is_found_off(bench: &Bench, told_of: Option<Value>) -> bool {
    let cluster = Cluster::new().await;
    let context = cluster.context();
    let (prober, device, node) = (prober(&context), bench.device(), fixtures::node());
    let finding = bench.looked_at(&cluster, &prober, node.clone()).await;
    let judgement = prober.judged(&device, "worker-1", &finding);
    let told_of = told_of.map(|it| serde_json::from_value(it).expect("a device"));
    prober.tell_of_off(
        told_of.as_ref().unwrap_or(&device),
        &finding,
        &judgement,
        None,
    );
    context.found_off.is_off(&node, Duration::ZERO)
}

/// A device that has read On of the running machine in this boot, whose machine has no power by now.
fn off() -> Bench {
    set_up(|it| {
        let node = fixtures::node();
        it.device["status"] = json!({
            "observedGeneration": 1,
            "systems": [{"nodeName": node.name, "nodeUID": node.uid, "uuid": fixtures::MACHINE}],
            "positiveControls": [{
                "nodeName": node.name, "nodeUID": node.uid, "bootID": node.boot_id, "powerState": "On",
                "sinceTime": "2026-01-01T00:00:00Z",
            }],
        });
        it.plug.set_power(false);
    })
}

fn off_but(change: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = off();
    change(&mut bench);
    bench
}

/// S25 and S5 hold before the wait is skipped, too.
#[tokio::test]
async fn an_off_that_would_not_count_in_a_proof_skips_no_wait() {
    assert!(is_found_off(&off(), None).await);
    for (why, bench) in [
        ("it runs", off_but(|it| it.plug.set_power(true))),
        (
            "it has never read On in this boot",
            off_but(|it| it.device["status"]["positiveControls"] = json!([])),
        ),
        (
            "another machine answers",
            off_but(|it| it.bmc.faults(|it| it.uuid = Some(OTHER.into()))),
        ),
    ] {
        assert!(!is_found_off(&bench, None).await, "{why}");
    }
    // A storage that has cut the node off.
    let storage = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "bmc"},
        "spec": {"nodeSelector": {}, "networkFence": {"provisioner": "rbd.csi.ceph.com", "networkFenceClassName": "rbd"}},
    });
    assert!(!is_found_off(&off(), Some(storage)).await);
}
