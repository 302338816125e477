//! The node's volumes in the record, as kubectl shows them.

use super::*;
use crate::fixtures::{drained, node, pod};
use crate::memory::UnderTaint;
use crate::observed::{AttachmentView, Observed, Read};
use crate::record::volumes::VOLUMES_KEPT;
use fencing_api::fence_status::VolumeState;

fn volumes(status: &mut NodeFenceStatus, attachments: &[AttachmentView], wall_now: Timestamp) {
    let observed = Observed {
        attachments_cached: attachments.to_vec(),
        ..drained()
    };
    let memory = Memory::default();
    super::super::volumes(status, &memory, &observed, Duration::ZERO, wall_now);
}

fn attachment(name: &str, deleting: bool, detach_error: Option<&str>) -> AttachmentView {
    AttachmentView {
        name: name.to_owned(),
        uid: String::new(),
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

/// Under `release.mode` AfterRecovery or Manual the release comes hours later.
#[test]
fn the_last_volume_had_detached_when_it_had_and_not_when_the_taint_goes() {
    let second = |second| Timestamp::from_second(second).expect("a second");
    let mut status = NodeFenceStatus {
        taint_applied_time: Some(second(1)),
        ..NodeFenceStatus::default()
    };
    let mut memory = Memory {
        taint: UnderTaint {
            seen: true,
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    let mut told = |drained_at: Option<u64>, observed: &Observed, now: u64| {
        memory.taint.detached_at = drained_at.map(Duration::from_secs);
        let wall_now = second(1000 + i64::try_from(now).expect("seconds"));
        let now = Duration::from_secs(now);
        super::super::volumes(&mut status, &memory, observed, now, wall_now);
        status.detached_time
    };
    let attached = Observed {
        attachments_cached: vec![attachment("a", true, None)],
        ..drained()
    };
    let unread = Observed {
        pods: Read::Failed("HTTP 503".to_owned()),
        ..drained()
    };
    let gone = Observed {
        node: Read::Absent,
        pods: Read::Present(vec![pod("late")]),
        ..drained()
    };
    let came = Observed {
        node: Read::Present(node()),
        ..gone.clone()
    };
    assert_eq!(told(None, &attached, 10), None);
    assert_eq!(told(Some(20), &drained(), 21), Some(second(1020)));
    assert_eq!(told(Some(20), &drained(), 600), Some(second(1020)));
    // Its successor, which could not read the pods yet, and then found what the one before it had found.
    assert_eq!(told(None, &unread, 700), Some(second(1020)));
    assert_eq!(told(Some(710), &drained(), 710), Some(second(1020)));
    // What its Node has left behind does not take back that it was deleted when nothing was attached.
    assert_eq!(told(None, &gone, 750), Some(second(1020)));
    // A pod that came after all has to go as well.
    assert_eq!(told(None, &came, 800), None);
    assert_eq!(told(Some(900), &drained(), 905), Some(second(1900)));
    show(&mut status, &memory, Stage::Recovered, second(9000));
    assert_eq!(status.detached_time, Some(second(1900)));
    assert_eq!(status.taint_removed_time, Some(second(9000)));
}

/// What has detached before the taint stands was not waited for.
#[test]
fn nothing_has_detached_before_our_taint_stands() {
    let mut status = NodeFenceStatus::default();
    let memory = Memory {
        taint: UnderTaint {
            detached_at: Some(Duration::ZERO),
            ..UnderTaint::default()
        },
        ..Memory::default()
    };
    super::super::volumes(
        &mut status,
        &memory,
        &drained(),
        Duration::ZERO,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(status.detached_time, None);
}
