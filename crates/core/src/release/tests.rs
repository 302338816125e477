//! The release gate, one hindrance at a time.

use super::*;
use crate::fixtures::{self, drained, pod};
use crate::observed::{ConditionView, Read};

fn node(boot_id: &str, ready: &str) -> NodeView {
    NodeView {
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: boot_id.to_owned(),
        ..fixtures::node()
    }
}

fn attachment(volume: &str) -> AttachmentView {
    AttachmentView {
        name: format!("csi-{volume}"),
        uid: String::new(),
        attacher: "lab.csi".to_owned(),
        volume: volume.to_owned(),
        deleting: true,
        detach_error: None,
    }
}

#[test]
fn only_another_boot_id_is_another_boot() {
    // (boot ID now, Ready, fenced boot ID) -> (booted anew, never went down)
    let table = [
        (("boot-1", "Unknown", Some("boot-1")), (false, false)),
        (("boot-1", "True", Some("boot-1")), (false, true)),
        (("boot-2", "Unknown", Some("boot-1")), (true, false)),
        (("boot-2", "True", Some("boot-1")), (true, false)),
        // A kubelet that reports no boot has not told of a new one.
        (("", "True", Some("boot-1")), (false, false)),
        // An adopted taint: only Ready says that the machine runs again.
        (("boot-1", "Unknown", None), (false, false)),
        (("boot-1", "True", None), (true, false)),
    ];
    for ((boot, ready, fenced), (anew, never)) in table {
        let node = node(boot, ready);
        assert_eq!(booted_anew(&node, fenced), anew, "{boot} {ready}");
        assert_eq!(never_went_down(&node, fenced), never, "{boot} {ready}");
    }
}

#[test]
fn a_drained_node_is_hindered_by_nothing() {
    assert_eq!(
        hindrance(Some(&node("boot-1", "Unknown")), &drained()),
        None
    );
    assert_eq!(attachments_left(&drained()), Ok(()));
}

#[test]
fn a_list_that_was_not_read_is_never_an_empty_one() {
    let node = node("boot-1", "Unknown");
    for unread in [Read::NotRead, Read::Failed("HTTP 503".to_owned())] {
        let observed = Observed {
            pods: unread,
            ..drained()
        };
        let hindrance = hindrance(Some(&node), &observed);
        assert!(matches!(hindrance, Some(Hindrance::NotRead(_))));
    }
    let failed = Read::Failed("HTTP 503".to_owned());
    let why = "the node's VolumeAttachments: HTTP 503".to_owned();
    for (unread, hindrance) in [
        (Read::NotRead, Hindrance::LastList),
        (failed, Hindrance::NotRead(why)),
    ] {
        let observed = Observed {
            attachments: unread,
            ..drained()
        };
        assert_eq!(attachments_left(&observed), Err(hindrance));
    }
}

#[test]
fn pods_hinder_before_volumes_do() {
    let observed = Observed {
        pods: Read::Present(vec![pod("db-0")]),
        attachments_cached: vec![attachment("pv-1")],
        ..drained()
    };
    let expected = Hindrance::Pods(vec![pod("db-0")]);
    assert_eq!(
        hindrance(Some(&node("boot-1", "Unknown")), &observed),
        Some(expected)
    );
}

#[test]
fn only_pods_that_nobody_waits_for_may_stay() {
    let kept = [
        PodView {
            mirror: true,
            ..pod("static")
        },
        PodView {
            deleting: false,
            tolerates_out_of_service: true,
            ..pod("tolerates")
        },
        PodView {
            finished: true,
            finalizers: true,
            ..pod("finished, held by its finalizers")
        },
    ];
    let hindering = [
        PodView {
            deleting: false,
            ..pod("bound")
        },
        PodView {
            tolerates_out_of_service: true,
            ..pod("tolerates, deleted")
        },
        PodView {
            finalizers: true,
            ..pod("runs, held by its finalizers")
        },
        PodView {
            finished: true,
            ..pod("finished")
        },
    ];
    let hinders = |pod: PodView| {
        let observed = Observed {
            pods: Read::Present(vec![pod]),
            ..drained()
        };
        hindrance(Some(&node("boot-1", "Unknown")), &observed).is_some()
    };
    for pod in kept {
        assert!(!hinders(pod.clone()), "{}", pod.name);
    }
    for pod in hindering {
        assert!(hinders(pod.clone()), "{}", pod.name);
    }
}

#[test]
fn volumes_hinder_but_for_those_of_tolerating_pods() {
    let both = || vec![attachment("pv-1"), attachment("pv-kept")];
    let observed = Observed {
        attachments: Read::Present(both()),
        attachments_cached: both(),
        tolerated_volumes: vec!["pv-kept".to_owned()],
        ..drained()
    };
    let left = Hindrance::Attachments(vec![attachment("pv-1")]);
    let node = node("boot-1", "Unknown");
    assert_eq!(hindrance(Some(&node), &observed), Some(left.clone()));
    assert_eq!(attachments_left(&observed), Err(left));
}

#[test]
fn the_last_check_does_not_believe_the_cache() {
    let observed = Observed {
        attachments: Read::Present(vec![attachment("pv-1")]),
        ..drained()
    };
    assert_eq!(hindrance(Some(&node("boot-1", "Unknown")), &observed), None);
    assert!(attachments_left(&observed).is_err());
}

#[test]
fn volumes_attached_has_to_be_empty_but_for_those_of_tolerating_pods() {
    let hindered = |attached: usize, tolerated: usize| {
        let node = NodeView {
            provider_id: String::new(),
            addresses: Vec::new(),
            volumes_attached: attached,
            ..node("boot-1", "Unknown")
        };
        let observed = Observed {
            attachments_cached: vec![attachment("pv-kept"); tolerated],
            tolerated_volumes: vec!["pv-kept".to_owned()],
            ..drained()
        };
        hindrance(Some(&node), &observed)
    };
    assert_eq!(hindered(2, 0), Some(Hindrance::VolumesAttached(2)));
    assert_eq!(hindered(2, 1), Some(Hindrance::VolumesAttached(1)));
    assert_eq!(hindered(1, 1), None);
    assert_eq!(hindered(0, 1), None);
}

#[test]
fn the_words_name_what_is_left_and_why() {
    let held = PodView {
        finalizers: true,
        ..pod("db-0")
    };
    let stuck = AttachmentView {
        detach_error: Some("timed out".to_owned()),
        ..attachment("pv-1")
    };
    let table = [
        (
            Hindrance::Pods(vec![held]),
            "waiting for 1 pod to be deleted: default/db-0 (held by its finalizers)",
        ),
        (
            Hindrance::Attachments(vec![stuck, attachment("pv-2")]),
            "waiting for 2 VolumeAttachments to detach: csi-pv-1 (lab.csi: timed out), csi-pv-2 (lab.csi)",
        ),
        (
            Hindrance::VolumesAttached(3),
            "waiting for `status.volumesAttached` of the Node to empty: 3 left",
        ),
    ];
    for (hindrance, message) in table {
        assert_eq!(hindrance.message(), message);
    }
}
