//! What the admission policies let the operator delete beside Nodes: stuck pods and VolumeAttachments, each by its uid.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use crate::admission::Guarded;
use crate::verdict::{Body, Expect, Tally, call, must};

/// The operator deletes only pods that Kubernetes deletes already, and each by its uid.
pub async fn pods(guarded: &Guarded, tally: &mut Tally) -> Result<()> {
    let collection = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stuck"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]},
    });
    let path = format!("{collection}/stuck");
    let created = must(
        &guarded.admin,
        Method::POST,
        collection,
        Some((Body::Object, &pod)),
    )
    .await?;
    let by_uid =
        json!({"gracePeriodSeconds": 0, "preconditions": {"uid": created["metadata"]["uid"]}});
    let by_name = json!({"gracePeriodSeconds": 0});
    let delete = async |options| {
        call(
            &guarded.operator,
            Method::DELETE,
            &path,
            Some((Body::Object, options)),
        )
        .await
    };

    let message = Some("S2: the operator may only delete a pod that is being deleted already");
    tally.judge(
        "delete a running pod",
        Expect::Deny,
        message,
        &delete(&by_uid).await?,
    );
    must(&guarded.admin, Method::DELETE, &path, None).await?;
    let message = Some("S10: the operator may delete a pod only by its uid");
    tally.judge(
        "delete by name",
        Expect::Deny,
        message,
        &delete(&by_name).await?,
    );
    let other = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "other"}});
    tally.judge(
        "delete by another uid",
        Expect::Deny,
        None,
        &delete(&other).await?,
    );
    let message = Some("the operator may only delete pods");
    for (name, action) in [
        ("run a command in a pod", "exec?command=sh"),
        ("evict a pod", "eviction"),
    ] {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "stuck"}});
        let body = (action == "eviction").then_some((Body::Object, &eviction));
        let path = format!("{path}/{action}");
        let verdict = call(&guarded.operator, Method::POST, &path, body).await?;
        tally.judge(name, Expect::Deny, message, &verdict);
    }
    let body = Some((Body::Object, &by_name));
    let all = call(&guarded.operator, Method::DELETE, collection, body).await?;
    let by_uid_only = Some("S10: the operator may delete a pod only by its uid");
    tally.judge("delete all pods", Expect::Deny, by_uid_only, &all);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let verdict = call(
        &guarded.operator,
        Method::PATCH,
        &path,
        Some((Body::Merge, &label)),
    );
    tally.judge("label a pod", Expect::Deny, message, &verdict.await?);
    tally.judge(
        "delete a stuck pod by its uid",
        Expect::Allow,
        None,
        &delete(&by_uid).await?,
    );
    let gone = call(&guarded.admin, Method::GET, &path, None).await?;
    ensure!(gone.is_err(), "the pod is still there");
    Ok(())
}

/// The operator deletes a VolumeAttachment only by its uid, and does nothing else to one.
pub async fn attachments(guarded: &Guarded, tally: &mut Tally) -> Result<()> {
    let collection = "/apis/storage.k8s.io/v1/volumeattachments";
    let object = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1"},
        "spec": {"attacher": "lab.csi", "nodeName": "node-0", "source": {"persistentVolumeName": "pv-1"}},
    });
    let body = Some((Body::Object, &object));
    let created = must(&guarded.admin, Method::POST, collection, body).await?;
    let path = format!("{collection}/csi-1");
    let by_uid = json!({"preconditions": {"uid": created["metadata"]["uid"]}});
    let only = Some("the operator may only delete VolumeAttachments");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    for (name, method, body) in [
        (
            "label a VolumeAttachment",
            Method::PATCH,
            (Body::Merge, &label),
        ),
        (
            "create a VolumeAttachment",
            Method::POST,
            (Body::Object, &object),
        ),
    ] {
        let path = if method == Method::POST {
            collection
        } else {
            &path
        };
        let verdict = call(&guarded.operator, method, path, Some(body)).await?;
        tally.judge(name, Expect::Deny, only, &verdict);
    }
    let message = Some("S10: the operator may delete a VolumeAttachment only by its uid");
    let other = json!({"preconditions": {"uid": "other"}});
    for (name, expect, message, options) in [
        (
            "delete a VolumeAttachment by name",
            Expect::Deny,
            message,
            None,
        ),
        (
            "delete another VolumeAttachment",
            Expect::Deny,
            None,
            Some((Body::Object, &other)),
        ),
        (
            "delete a VolumeAttachment by its uid",
            Expect::Allow,
            None,
            Some((Body::Object, &by_uid)),
        ),
    ] {
        let verdict = call(&guarded.operator, Method::DELETE, &path, options).await?;
        tally.judge(name, expect, message, &verdict);
    }
    Ok(())
}
