//! The node's volumes in the record, as kubectl shows them.

use super::*;

fn attachment(name: &str, deleting: bool, detach_error: Option<&str>) -> AttachmentView {
    AttachmentView {
        name: name.to_owned(),
        attacher: "driver".to_owned(),
        volume: format!("pv-{name}"),
        deleting,
        detach_error: detach_error.map(str::to_owned),
    }
}

fn states(status: &NodeFenceStatus) -> Vec<(&str, VolumeState)> {
    let volumes = status.volumes.iter();
    volumes
        .map(|volume| (volume.volume_attachment.as_str(), volume.state))
        .collect()
}

#[test]
fn a_volume_is_followed_until_its_attachment_is_gone() {
    let mut status = NodeFenceStatus::default();
    let second = |second| Timestamp::from_second(second).expect("a second");
    let both = [attachment("a", false, None), attachment("b", false, None)];
    volumes(&mut status, &both, second(1));
    let (attached, detached) = (VolumeState::Attached, VolumeState::Detached);
    assert_eq!(states(&status), [("a", attached), ("b", attached)]);
    assert_eq!(
        (status.volume_count, status.volumes_detached),
        (Some(2), Some(0))
    );

    let stuck = [
        attachment("a", true, None),
        attachment("b", true, Some("busy")),
    ];
    volumes(&mut status, &stuck, second(2));
    let (detaching, failed) = (VolumeState::Detaching, VolumeState::DetachError);
    assert_eq!(states(&status), [("a", detaching), ("b", failed)]);
    assert_eq!(status.volumes[1].message.as_deref(), Some("busy"));

    for at in [3, 4] {
        volumes(&mut status, &stuck[..1], second(at));
        assert_eq!(states(&status), [("a", detaching), ("b", detached)]);
        let gone = &status.volumes[1];
        assert_eq!(
            (gone.detached_time, &gone.message),
            (Some(second(3)), &None)
        );
    }
    assert_eq!(
        (status.volume_count, status.volumes_detached),
        (Some(2), Some(1))
    );
}

/// The list has a limit in the CRD. An inline volume has no PersistentVolume.
#[test]
fn as_many_volumes_are_kept_as_the_list_may_hold() {
    let mut status = NodeFenceStatus::default();
    let mut many: Vec<_> = (0..VOLUMES_KEPT + 2)
        .map(|number| attachment(&number.to_string(), false, None))
        .collect();
    many[1].volume.clear();
    volumes(&mut status, &many, Timestamp::UNIX_EPOCH);
    assert_eq!(status.volumes.len(), VOLUMES_KEPT);
    let named = |index: usize| status.volumes[index].persistent_volume.as_deref();
    assert_eq!((named(0), named(1)), (Some("pv-0"), None));
}
