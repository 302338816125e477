//! A device that will be lost on a day that is known.

use super::*;

#[test]
fn a_certificate_that_expires_within_30_days_is_warned_of() {
    let day = jiff::SignedDuration::from_hours(24);
    let after_days = |days: i32| {
        let mut probe = answer(OURS).expect("an answer");
        probe.certificate_expiry = Some(wall(100) + day * days);
        after(&of_w1(), &found(node("w1", OURS, "True"), Ok(probe)))
    };
    assert_eq!(shown(&after_days(31), READY), "True/Probed");
    let warned = after_days(29);
    assert_eq!(shown(&warned, READY), "True/CertificateExpires");
    assert!(message(&warned, READY).contains("1970-01-30"));
}
