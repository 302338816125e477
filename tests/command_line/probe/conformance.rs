//! `conformance FILE`, as a team meets it that writes a service of its own.

use super::{UUID, documents, fence_device, text};
use crate::{ended, operator};
use fencing_testbed::bmc::BmcCa;
use fencing_testbed::process::Guard;
use fencing_testbed::webhook_example::{Example, TOKEN, script};
use serde_json::{Value, json};
use std::process::Output;

/// Runs it on these objects, with these flags.
async fn tried(objects: &[Value], flags: &[&str]) -> Output {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("fence.yaml");
    std::fs::write(&file, documents(objects)).expect("a file");
    let mut command = operator(&["conformance"]);
    command
        .arg(&file)
        .args(["--allow-device-cidr", "127.0.0.0/8"])
        .args(flags);
    tokio::task::spawn_blocking(|| ended(command))
        .await
        .expect("it ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_tried_rule_by_rule() {
    let (guard, logs) = (Guard::start().expect("a guard"), tempfile::tempdir());
    let (logs, ca) = (logs.expect("logs"), BmcCa::new("a service").expect("a CA"));
    let script = script().expect("the script of the page");
    let address = [127, 85, 3, 1].into();
    let node = ("worker-3", UUID);
    let example = Example::start(&script, address, node, (&ca, None), &guard, logs.path());
    let example = example.await.expect("a service");
    let device = fence_device(json!({
        "nodeSelector": {}, "webhook": {"url": example.url(), "tls": {"caRef": {"name": "fence-ca"}}},
    }));
    let with_token = |token: &str| {
        [
            device.clone(),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"}, "stringData": {"token": token}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fence-ca"}, "data": {"ca.crt": ca.pem()}}),
        ]
    };
    let flags = ["--node", "worker-3", "--node-uuid", UUID];
    let output = tried(&with_token(TOKEN), &flags).await;
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(told.lines().count(), 8, "{told}");
    assert!(
        told.lines().all(|line| line.starts_with("ok    ")),
        "{told}"
    );
    assert!(!told.contains(TOKEN), "{told}");

    let switched = [&flags[..], &["--power-cycle", "--yes"]].concat();
    let output = tried(&with_token(TOKEN), &switched).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("ok    `off` turns it off: Accepted"));

    let output = tried(&with_token("another"), &flags).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).starts_with("FAIL  `status` answers by the contract: "));
    for flags in [
        &["--node", "worker-3", "--power-cycle", "--yes"][..],
        &["--node", "worker-3", "--node-uuid", UUID, "--power-cycle"],
        &["--node", "worker-3", "--yes"],
        &[],
    ] {
        let output = tried(&with_token(TOKEN), flags).await;
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
    let other = [fence_device(
        json!({"nodeName": "worker-3", "ipmi": {"address": "127.85.3.2"}}),
    )];
    assert_eq!(tried(&other, &[]).await.status.code(), Some(2));
    assert_eq!(example.state().expect("a state"), "on");
}
