//! Peace time: devices are probed and machines recognised, and a policy says who is protected and why it does not act.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::lab::{LIMIT, Lab, SECRET, Setup, condition, resource};
use e2e::operator::NAMESPACE;
use e2e::workload::wait_node_ready;
use fencing_testbed::bmc::Auth;
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

const OTHER: &str = "11111111-2222-3333-4444-555555555555";
/// A pause between two probes that is longer than any test.
const A_DAY: u32 = 86_400;

/// `status/reason` of a condition.
pub fn shown(object: &DynamicObject, kind: &str) -> String {
    let word =
        |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    condition(object, kind).map_or_else(
        || "none".to_owned(),
        |condition| {
            format!(
                "{}/{}",
                word(condition, "status"),
                word(condition, "reason")
            )
        },
    )
}

pub fn message(object: &DynamicObject, kind: &str) -> String {
    let message = condition(object, kind).and_then(|condition| condition["message"].as_str());
    message.unwrap_or_default().to_owned()
}

/// Waits until a condition of an object of ours shows this, for the generation it has now.
pub async fn wait(
    lab: &Lab,
    kind: &str,
    name: &str,
    of: &str,
    wanted: &str,
) -> Result<DynamicObject> {
    let what = format!("{of} of {kind} {name} is {wanted}");
    eventually(&what, LIMIT, async || {
        let object = lab.api(kind).get(name).await?;
        let observed = object.data["status"]["observedGeneration"].as_i64();
        ensure!(
            shown(&object, of) == wanted && observed == object.metadata.generation,
            "its status is {:#}",
            object.data["status"]
        );
        Ok(object)
    })
    .await
}

pub async fn change(lab: &Lab, kind: &str, name: &str, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    let changed = lab
        .api(kind)
        .patch(name, &PatchParams::default(), &patch)
        .await;
    changed
        .map(drop)
        .with_context(|| format!("failed to change {kind} {name}"))
}

/// Another time limit is another generation, and that is probed at once.
pub async fn probe_again(lab: &Lab, device: &str, timeout_seconds: u32) -> Result<()> {
    change(
        lab,
        "FenceDevice",
        device,
        json!({"probe": {"timeoutSeconds": timeout_seconds}}),
    )
    .await
}

/// Asks for a probe as a human does.
pub async fn request_probe(lab: &Lab, device: &str, at: jiff::Timestamp) -> Result<()> {
    let request = json!({"nodefencing.io/probe-requested-at": at.to_string()});
    let patch = Patch::Merge(json!({"metadata": {"annotations": request}}));
    let devices = lab.api("FenceDevice");
    devices
        .patch(device, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn set_password(lab: &Lab, password: &str) -> Result<()> {
    write_secret(lab, json!({"password": password})).await
}

/// Writes these values into the Secret of the BMCs, as a human does.
pub async fn write_secret(lab: &Lab, values: Value) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(lab.control_plane.admin(), NAMESPACE);
    let patch = Patch::Merge(json!({"stringData": values}));
    secrets
        .patch(SECRET, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Successful writes of the operator to each device's status.
async fn device_writes(lab: &Lab) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let writes = lab.writes().await?;
    for write in writes
        .iter()
        .filter(|write| resource(write) == "fencedevices" && write.succeeded())
    {
        *counts.entry(write.object_ref.name.clone()).or_default() += 1;
    }
    Ok(counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_probed_and_its_machine_recognised() -> Result<()> {
    let lab = Lab::start(Setup::new("devices", 2)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let uuid = lab.rig(1).machine.system_uuid().to_owned();

    let device = wait(&lab, "FenceDevice", "node-1-bmc", "Ready", "True/Probed").await?;
    for kind in ["Reachable", "CredentialsValid", "IdentityVerified"] {
        ensure!(
            shown(&device, kind).starts_with("True/"),
            "{kind}: {}",
            shown(&device, kind)
        );
    }
    let status = &device.data["status"];
    ensure!(
        status["powerState"] == "On" && status["driver"] == "redfish",
        "{status}"
    );
    ensure!(
        status["systems"][0]["uuid"]
            .as_str()
            .is_some_and(|pinned| pinned.eq_ignore_ascii_case(&uuid)),
        "{status}"
    );
    ensure!(
        status["nodes"] == json!({"total": 1, "ready": 1}),
        "{status}"
    );
    let writes = device_writes(&lab).await?;
    ensure!(
        writes.values().all(|count| *count <= 2),
        "a new device is written once or twice: {writes:?}"
    );

    another_machine_answers(&lab, &uuid).await?;
    the_password_is_wrong(&lab).await?;
    two_nodes_share_a_system(&lab).await?;
    a_successor_writes_nothing(&lab, &operator).await?;
    operator.check()?;
    lab.verdict().await
}

/// The UUIDs are named, and what was pinned stays.
async fn another_machine_answers(lab: &Lab, uuid: &str) -> Result<()> {
    lab.rig(1)
        .bmc
        .faults(|faults| faults.uuid = Some(json!(OTHER)));
    probe_again(lab, "node-1-bmc", 11).await?;
    let device = wait(
        lab,
        "FenceDevice",
        "node-1-bmc",
        "Ready",
        "False/IdentityMismatch",
    )
    .await?;
    ensure!(shown(&device, "IdentityVerified") == "False/IdentityMismatch");
    let words = message(&device, "IdentityVerified").to_lowercase();
    ensure!(
        words.contains(OTHER) && words.contains(&uuid.to_lowercase()),
        "{words}"
    );
    let pinned = device.data["status"]["systems"][0]["uuid"]
        .as_str()
        .unwrap_or_default();
    ensure!(pinned.eq_ignore_ascii_case(uuid), "the pin is {pinned}");
    lab.rig(1).bmc.faults(|faults| faults.uuid = None);
    probe_again(lab, "node-1-bmc", 12).await?;
    wait(lab, "FenceDevice", "node-1-bmc", "Ready", "True/Probed").await?;
    Ok(())
}

/// Three tries at most, until the Secret says something else.
async fn the_password_is_wrong(lab: &Lab) -> Result<()> {
    set_password(lab, "wrong").await?;
    for timeout_seconds in 21..27 {
        probe_again(lab, "node-1-bmc", timeout_seconds).await?;
        let device = wait(
            lab,
            "FenceDevice",
            "node-1-bmc",
            "Ready",
            "False/AuthFailed",
        )
        .await?;
        ensure!(shown(&device, "CredentialsValid") == "False/AuthFailed");
        ensure!(shown(&device, "Reachable").starts_with("True/"));
    }
    let log = lab.rig(1).bmc.log();
    let wrong = log.iter().filter(|entry| entry.auth == Auth::Wrong).count();
    ensure!(wrong == 3, "{wrong} logins with the wrong password");
    set_password(lab, &fencing_testbed::bmc::Credentials::default().password).await?;
    probe_again(lab, "node-1-bmc", 27).await?;
    wait(lab, "FenceDevice", "node-1-bmc", "Ready", "True/Probed").await?;
    Ok(())
}

/// Both are blocked, and both are free again once it is corrected. From then on one of them is probed once a day.
async fn two_nodes_share_a_system(lab: &Lab) -> Result<()> {
    let point_at = |number: usize| json!({"redfish": {"address": lab.rig(number).bmc.url()}});
    change(lab, "FenceDevice", "node-2-bmc", point_at(1)).await?;
    for (device, other) in [("node-1-bmc", "node-2"), ("node-2-bmc", "node-1")] {
        let device = wait(lab, "FenceDevice", device, "Ready", "False/DuplicateTarget").await?;
        ensure!(
            message(&device, "Ready").contains(other),
            "{}",
            message(&device, "Ready")
        );
    }
    let mut seldom = point_at(2);
    seldom["probe"] = json!({"periodSeconds": A_DAY});
    change(lab, "FenceDevice", "node-2-bmc", seldom).await?;
    for device in ["node-1-bmc", "node-2-bmc"] {
        wait(lab, "FenceDevice", device, "Ready", "True/Probed").await?;
    }
    Ok(())
}

/// What the process before has found and written is not written again, but for the times of a new probe.
async fn a_successor_writes_nothing(lab: &Lab, operator: &e2e::operator::Operator) -> Result<()> {
    operator.kill()?;
    let before = lab.writes().await?.len();
    operator.start_again().await?;
    operator.ready(LIMIT).await?;
    // The times of its own probes tell that it has looked at each device and has written what it had to: at one because its turn came,
    // at the other because it was asked to.
    let begun = jiff::Timestamp::now();
    request_probe(lab, "node-2-bmc", begun).await?;
    for device in ["node-1-bmc", "node-2-bmc"] {
        eventually("the successor has probed", LIMIT, async || {
            let status = lab.api("FenceDevice").get(device).await?.data["status"].take();
            let probed: jiff::Timestamp = serde_json::from_value(status["lastProbeTime"].clone())?;
            ensure!(probed > begun, "{device}: {status:#}");
            Ok(())
        })
        .await?;
    }
    for write in lab.writes().await?.iter().skip(before) {
        let status = write.request_object["status"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let news: Vec<_> = status
            .keys()
            .filter(|key| {
                !matches!(
                    key.as_str(),
                    "lastProbeTime" | "lastSuccessTime" | "lastOnTime"
                )
            })
            .collect();
        ensure!(news.is_empty(), "{}: {news:?}", write.summary());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_says_who_is_protected_and_why_it_does_not_act() -> Result<()> {
    let lab = Lab::start(Setup::new("policies", 2)).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    let is = async |name: &str, wanted: &str| {
        wait(&lab, "NodeFencingPolicy", name, "Ready", wanted).await
    };

    lab.policy("PowerOff", json!({})).await?;
    let policy = is("lab", "True/Active").await?;
    let nodes =
        json!({"selected": 2, "healthy": 2, "unhealthy": 0, "protected": 2, "unprotected": 0});
    ensure!(
        policy.data["status"]["nodes"] == nodes,
        "{}",
        policy.data["status"]
    );
    ensure!(policy.data["status"]["budgetRemaining"] == 1);

    lab.api("FenceDevice")
        .delete("node-2-bmc", &Default::default())
        .await?;
    let policy = is("lab", "True/UnprotectedNodes").await?;
    ensure!(
        policy.data["status"]["unprotectedNodes"] == json!(["node-2"]),
        "{}",
        policy.data["status"]
    );

    let rival = json!({"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "node-1"}}});
    lab.apply("NodeFencingPolicy", "rival", rival).await?;
    for name in ["lab", "rival"] {
        let words = message(&is(name, "False/Conflict").await?, "Ready");
        ensure!(
            words.contains("lab, rival") && words.contains("node-1"),
            "{words}"
        );
    }
    change(&lab, "NodeFencingPolicy", "rival", json!({"priority": 1})).await?;
    is("rival", "True/Observing").await?;
    lab.api("NodeFencingPolicy")
        .delete("rival", &Default::default())
        .await?;

    change(
        &lab,
        "NodeFencingPolicy",
        "lab",
        json!({"recovery": {"strategy": "DeleteNode"}}),
    )
    .await?;
    let words = message(&is("lab", "False/Unsupported").await?, "Ready");
    ensure!(
        words.contains("`recovery.strategy: DeleteNode`") && words.contains("OutOfServiceTaint"),
        "{words}"
    );
    // A policy that is not supported opens no incident, while another one does, of an outage that came later.
    let other = json!({
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "node-2"}},
        "priority": 1,
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "durationSeconds": 10}],
        "exclusions": {"minUptimeSeconds": 0},
    });
    lab.apply("NodeFencingPolicy", "other", other).await?;
    for number in [1, 2] {
        let machine = &lab.rig(number).machine;
        machine.set_power(false);
        wait_node_ready(lab.control_plane.admin(), machine.name(), "Unknown", LIMIT).await?;
    }
    lab.wait_fence("node-2", |_| true).await?;
    ensure!(
        lab.fence_of("node-1").await?.is_none(),
        "an incident was opened"
    );
    operator.check()?;
    lab.verdict().await
}
