//! The storage array and the real external-attacher in front of it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Options},
    csi::{self, EventKind, Fault, Faults},
};
use fencing_testbed::eventually::eventually;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

const VOLUME: &str = "data";
/// Long enough for anything on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn attaches_to_one_node_and_refuses_the_second() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("csi-attach")).await?;
    let array = control_plane.array();
    make_nodes_and_volume(&control_plane).await?;
    let attachments: Api<VolumeAttachment> = Api::all(control_plane.admin());

    attach(&attachments, "one").await?;
    wait(&attachments, "one", |it| {
        it.status.as_ref().is_some_and(|status| status.attached)
    })
    .await?;
    assert_eq!(array.attached().await?[VOLUME], ["one"]);

    attach(&attachments, "two").await?;
    let refused = wait(&attachments, "two", |it| attach_error(it).is_some()).await?;
    assert!(attach_error(&refused).is_some_and(|error| error.contains("attached to node one")));

    attachments.delete("one", &DeleteParams::default()).await?;
    wait_until_gone(&attachments, "one").await?;
    wait(&attachments, "two", |it| {
        it.status.as_ref().is_some_and(|status| status.attached)
    })
    .await?;
    assert_eq!(array.attached().await?[VOLUME], ["two"]);

    let events = array.events().await?;
    let kinds: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.node.as_str()))
        .collect();
    assert_eq!(kinds.first(), Some(&(EventKind::Attached, "one")));
    assert_eq!(kinds.last(), Some(&(EventKind::Attached, "two")));
    assert!(
        kinds.contains(&(EventKind::AttachRefused, "two"))
            && kinds.contains(&(EventKind::Detached, "one"))
    );
    assert!(events.is_sorted_by_key(|event| event.at));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fails_hangs_and_dawdles_on_demand() -> Result<()> {
    let control_plane = ControlPlane::start(Options::named("csi-faults")).await?;
    let array = control_plane.array();
    make_nodes_and_volume(&control_plane).await?;
    let attachments: Api<VolumeAttachment> = Api::all(control_plane.admin());
    let attached = |it: &VolumeAttachment| it.status.as_ref().is_some_and(|status| status.attached);
    attach(&attachments, "one").await?;
    wait(&attachments, "one", attached).await?;

    array.fail_detach("the array is on fire").await?;
    attachments.delete("one", &DeleteParams::default()).await?;
    let failed = wait(&attachments, "one", |it| detach_error(it).is_some()).await?;
    assert!(detach_error(&failed).is_some_and(|error| error.contains("the array is on fire")));
    array.clear_faults().await?;
    wait_until_gone(&attachments, "one").await?;

    // A fault of another volume is none of this one.
    let elsewhere = Faults {
        attach: Fault::failure("not here").of_volume("another"),
        ..Faults::default()
    };
    array.set_faults(&elsewhere).await?;
    attach(&attachments, "two").await?;
    wait(&attachments, "two", attached).await?;

    array.hang_detach().await?;
    attachments.delete("two", &DeleteParams::default()).await?;
    eventually("the detach hangs", LIMIT, async || {
        let mut events = array.events().await?.into_iter();
        ensure!(events.any(|event| event.kind == EventKind::DetachHangs));
        Ok(())
    })
    .await?;
    assert_eq!(array.attached().await?[VOLUME], ["two"]);
    array.delay_detach(Duration::from_secs(1)).await?;
    let begin = Instant::now();
    wait_until_gone(&attachments, "two").await?;
    assert!(
        begin.elapsed() >= Duration::from_millis(900),
        "no delay: {:?}",
        begin.elapsed()
    );
    let kinds: Vec<_> = array
        .events()
        .await?
        .iter()
        .map(|event| event.kind)
        .collect();
    assert!(
        [
            EventKind::DetachFailed,
            EventKind::DetachHangs,
            EventKind::DetachDelayed
        ]
        .iter()
        .all(|it| kinds.contains(it))
    );
    Ok(())
}

async fn make_nodes_and_volume(control_plane: &ControlPlane) -> Result<()> {
    for node in ["one", "two"] {
        create(
            control_plane,
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}),
        )
        .await?;
        let drivers = json!([{"name": csi::DRIVER, "nodeID": node, "topologyKeys": null}]);
        let info = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node},
            "spec": {"drivers": drivers}});
        create(control_plane, info).await?;
    }
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": VOLUME}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": csi::DRIVER, "volumeHandle": VOLUME}}});
    create(control_plane, volume).await
}

async fn create(control_plane: &ControlPlane, object: Value) -> Result<()> {
    let path = control_plane.files().directory().join("object.json");
    std::fs::write(&path, object.to_string())?;
    control_plane
        .kubectl_text(&["create", "-f", path.to_str().unwrap_or_default()])
        .await
        .map(|_| ())
}

/// A VolumeAttachment that is called like its node.
async fn attach(attachments: &Api<VolumeAttachment>, node: &str) -> Result<()> {
    let attachment = serde_json::from_value(json!({"metadata": {"name": node},
        "spec": {"attacher": csi::DRIVER, "nodeName": node, "source": {"persistentVolumeName": VOLUME}}}))?;
    attachments
        .create(&PostParams::default(), &attachment)
        .await?;
    Ok(())
}

fn attach_error(attachment: &VolumeAttachment) -> Option<&str> {
    attachment
        .status
        .as_ref()?
        .attach_error
        .as_ref()?
        .message
        .as_deref()
}

fn detach_error(attachment: &VolumeAttachment) -> Option<&str> {
    attachment
        .status
        .as_ref()?
        .detach_error
        .as_ref()?
        .message
        .as_deref()
}

async fn wait(
    attachments: &Api<VolumeAttachment>,
    name: &str,
    is_so: impl Fn(&VolumeAttachment) -> bool,
) -> Result<VolumeAttachment> {
    eventually(
        "the VolumeAttachment is as it should be",
        LIMIT,
        async || {
            let attachment = attachments.get(name).await?;
            ensure!(is_so(&attachment), "{name} is {:?}", attachment.status);
            Ok(attachment)
        },
    )
    .await
}

async fn wait_until_gone(attachments: &Api<VolumeAttachment>, name: &str) -> Result<()> {
    eventually("the VolumeAttachment is gone", LIMIT, async || {
        let attachment = attachments.get_opt(name).await?;
        ensure!(attachment.is_none(), "{name} is {attachment:?}");
        Ok(())
    })
    .await
}
