//! Off commands under the taint, as the record counts them.

use super::*;
use crate::attempt::Attempt;

/// S11: twice in an incident, whoever has sent them: off commands are counted from the taint on, each once, whatever it went to.
#[test]
fn off_commands_under_the_taint_are_counted_over_a_restart() {
    let at = |second| Timestamp::from_second(second).expect("a second");
    let mut status = NodeFenceStatus::default();
    let reoffs = |status: &NodeFenceStatus| read(status, at(100)).reoffs;
    for (second, id, level) in [
        (10, "n1-1", "bmc"),
        (20, "n2-2", "bmc"),
        (30, "n3-3", "pdus"),
    ] {
        let off = Attempt {
            id: id.to_owned(),
            level: level.to_owned(),
            devices: vec![format!("{level}-a"), format!("{level}-b")],
            ..attempt()
        };
        intent(&mut status, &off, at(second));
    }
    assert_eq!(reoffs(&status), 0);
    status.taint_applied_time = Some(at(15));
    assert_eq!(reoffs(&status), 2);
    status
        .attempts
        .retain(|it| it.id.as_deref() != Some("n3-3"));
    assert_eq!(reoffs(&status), 1);
    let mut memory = Memory::default();
    for (record, known) in [(2, 2), (1, 2)] {
        let mut s = crate::fixtures::settings();
        s.record.reoffs = record;
        memory.record_read = false;
        let moment = crate::plan::Moment {
            now: Duration::ZERO,
            nonce: "n9".to_owned(),
            date: crate::fixtures::DATE.to_owned(),
        };
        let observed = crate::fixtures::drained();
        crate::plan::step(&s, &mut memory, &observed, &moment);
        assert_eq!(memory.taint.reoffs, known);
    }
}
