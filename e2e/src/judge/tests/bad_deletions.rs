//! Histories in which the Node is deleted at the end, each broken in one way, and the rule that must find it out.

use serde_json::json;

use super::bad_histories::{BadHistory, MOMENT, SECOND, ready};
use super::history::{Step, shift, time};
use crate::judge::replay::{fence_of, text};
use crate::judge::rules::*;
use crate::proxy::writes::{CLAIM, DETACHING};

pub const BAD_DELETIONS: &[BadHistory] = &[
    ("a Node is deleted that is not marked", &MARKED, |history| {
        history.delete_node(|taints| taints.retain(|it| it["key"] != DETACHING));
    }),
    ("a Node is deleted for another boot", &MARKED, |history| {
        history.delete_node(|taints| {
            let mark = taints.iter_mut().find(|it| it["key"] == DETACHING);
            mark.expect("the mark")["value"] = json!("boot-x");
        });
    }),
    (
        "another version of the Node is deleted",
        &MARKED,
        |history| {
            history.delete_node(|_| ());
            history.deletion()["requestObject"]["preconditions"]["resourceVersion"] = json!("1");
        },
    ),
    ("a Ready Node is deleted", &MARKED, |history| {
        history.delete_node(|_| ());
        ready(history.marked());
    }),
    (
        "a Node is deleted without evidence of its claim",
        &DELETED_PROVEN,
        |history| {
            history.delete_node(|taints| {
                let claim = taints.iter_mut().find(|it| it["key"] == CLAIM);
                let claim = &mut claim.expect("the claim")["value"];
                let fence = fence_of(text(claim)).to_owned();
                *claim = json!(format!("{fence}-00000000"));
            });
        },
    ),
    (
        "a Node is deleted when nobody has looked",
        &DELETED_OFF,
        |history| {
            history.delete_node(|_| ());
            let late = SECOND * 600;
            history.delay_deletion(late);
        },
    ),
    (
        "a Node is deleted with a volume",
        &DELETED_EMPTY,
        |history| {
            history.delete_node(|_| ());
            let after = history.when_deleted() + MOMENT;
            history.move_to(Step::Detach, after);
        },
    ),
    ("another VolumeAttachment is deleted", &MARKED, |history| {
        history.delete_node(|_| ());
        history.take_volume(Some("uid-x"));
    }),
    (
        "a VolumeAttachment is deleted of a Node that is not marked",
        &MARKED,
        |history| {
            history.take_volume(None);
        },
    ),
    (
        "a VolumeAttachment is deleted of a machine that reads On",
        &DELETED_OFF,
        |history| {
            history.delete_node(|_| ());
            let taken = time(&history.take_volume(None)["requestReceivedTimestamp"]);
            let mut on = history.reading(1).clone();
            let later = taken.duration_since(time(&on["asked"]["wall"]));
            shift(&mut on, later - MOMENT);
            on["told"] = json!("On");
            history.devices.push(on);
        },
    ),
];
