//! Somebody takes the node after its release, before the machine is turned on or after it.

use super::*;
use crate::observed::{CLAIM, DETACHING, OUT_OF_SERVICE};

/// S11, S23: whoever has taken the node has its machine, and keeps it when their taint has gone again.
#[test]
fn it_ends_when_somebody_has_taken_the_node() {
    for (key, word) in [
        (CLAIM, "NodeFence another has claimed the node since"),
        (
            OUT_OF_SERVICE,
            "tainted by others since (`node.kubernetes.io/out-of-service`)",
        ),
        (
            DETACHING,
            "tainted by others since (`nodefencing.io/detaching`)",
        ),
    ] {
        let theirs = taint(key, "another-n1", "NoExecute");
        let mut process = Process::of(wanted());
        process.node.taints.push(theirs.clone());
        let end = process.at(30);
        is_closed(&end, word);
        assert!(end.message.contains("not turned on"), "{}", end.message);
        // It was sent, and the machine boots when it is taken.
        let mut process = Process::of(wanted());
        process.at(60);
        process.reads(PowerState::Off, 60);
        process.hears(Asked::RecordOn, Reply::Done, 60);
        process.commanded(OnResult::Accepted, 61);
        "boot-2".clone_into(&mut process.node.boot_id);
        process.node.taints.push(theirs);
        let end = process.at(90);
        is_closed(&end, word);
        assert!(
            end.message.contains("not turned on again"),
            "{}",
            end.message
        );
    }
}
