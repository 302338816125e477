//! A device that will be lost on a day that is known.

use super::*;
use fencing_drivers::tls::Expiry;

#[test]
fn a_certificate_that_expires_within_two_weeks_is_warned_of() {
    let day = jiff::SignedDuration::from_hours(24);
    let after_days = |days: i32| {
        let mut probe = answer(OURS).expect("an answer");
        probe.certificate_expiry = Some(Expiry::of(None, wall(100) + day * days));
        after(&of_w1(), &found(node("w1", OURS, "True"), Ok(probe)))
    };
    assert_eq!(shown(&after_days(15), READY), "True/Probed");
    let warned = after_days(13);
    assert_eq!(shown(&warned, READY), "True/CertificateExpires");
    assert!(message(&warned, READY).contains("1970-01-14"));
}

#[test]
fn a_device_at_the_address_of_its_own_node_is_not_ready_and_at_another_one_s_is_warned_of() {
    let at = |host: &str| {
        let probe = answer(OURS).expect("an answer");
        let mut finding = found(node("w1", OURS, "True"), Ok(probe));
        finding.on_node = Some(host.to_owned());
        after(&of_w1(), &finding)
    };
    let warned = at("w2");
    assert_eq!(shown(&warned, READY), "True/DeviceOnNode");
    assert!(message(&warned, READY).contains("until Node w2 fails"));
    assert_eq!(shown(&at("w1"), READY), "False/DeviceOnNode");
}
