//! Somebody has deleted the Node under its taint.

use super::*;
use crate::memory::UnderTaint;
use crate::plan::round::Round;

/// L4: what is attached once somebody has deleted the Node had not detached before.
#[test]
fn what_is_attached_to_a_node_that_was_deleted_had_not_detached() {
    let before = Some(Duration::from_secs(90));
    for (attachments, drained) in [(stuck(), None), (Vec::new(), before)] {
        let mut m = Memory {
            taint: UnderTaint {
                seen: true,
                detached_at: before,
                ..UnderTaint::default()
            },
            ..Memory::default()
        };
        let gone = Observed {
            node: Read::Absent,
            ..observed(attachments)
        };
        let (s, t) = (settings(FenceMode::ConfirmOnly), moment(100));
        node_gone(&mut Round::of(&s, &mut m, &gone, &t));
        assert_eq!(
            (m.taint.detached_at, m.taint.attached_again),
            (drained, drained.is_none())
        );
    }
}
