//! Deletions on their way when etcd is put back.

use super::*;

/// A process that has read no claim, though it has read the power.
const OTHER: &str = "operator-1.1";

/// The pods' deletion, the claim, the mark and the evidence are forgotten, and the VolumeAttachment is the same as before. What was on its way then lands
/// on it, and harms nobody, for the machine was just read off.
#[test]
fn a_deletion_that_was_on_its_way_when_etcd_was_put_back_rests_on_the_power_alone() {
    simulated(async {
        for (seconds, sender, is_off, is_written, expected) in [
            (0, OPERATOR, true, false, &[][..]),
            (0, OTHER, true, false, &["L4", "S9"]),
            (0, OPERATOR, false, false, &["S2"]),
            (0, OPERATOR, true, true, &["S1"]),
            (2, OPERATOR, true, false, &["S9"]),
        ] {
            let scene = Scene::new();
            let it = &scene;
            let held = attachment("pv-data-db-0", "a");
            let attached = it.world.api.add("csi", &ATTACHMENT, held);
            attached.expect("attached");
            let uid = it.bound(true);
            let (snapshot, past) = (it.world.api.snapshot(), it.judge.past());
            it.taints(OPERATOR, &[OWN]);
            it.looks();
            it.proves().await;
            pass(1).await;
            it.evict();
            it.taints(OPERATOR, &[OWN, "mark"]);
            it.reads(sender, is_off);
            if is_written {
                writes_without_power(it, &uid);
            }
            it.world.api.restore(snapshot);
            it.judge.restored(past);
            pass(seconds).await;
            detaches(it, sender);
            let found = it.world.broken();
            assert_eq!(
                ids(&found),
                expected,
                "{seconds} s, {sender}, {is_off}, {is_written}: {found:?}"
            );
        }
    });
}
