//! What speaks against a device that reads Off: what another one said before it fell silent, and a Lease that was renewed.

use super::*;
use crate::identity_rule::IdentityRule;

/// S4: a machine that nobody has turned off has not gone off because one of its devices fell silent. One that was turned off may have
/// taken its device with it, and one that reads On to the end has not.
#[test]
fn a_device_that_falls_silent_takes_nothing_back_unless_the_machine_was_turned_off() {
    let after_on = |commanded, then| {
        judged(move |good| {
            good.devices.push(device("pdu"));
            good.devices[1].readings[0].state = PowerState::On;
            good.devices[1].readings[1].state = then;
            good.require = Require::Any;
            good.commanded = commanded;
        })
    };
    let refused = after_on(false, PowerState::Unknown).expect_err("it said On");
    assert!(refused.is_contradiction(), "{refused:?}");
    assert!(after_on(true, PowerState::Unknown).is_ok());
    let refused = after_on(true, PowerState::On).expect_err("it says On");
    assert!(
        matches!(refused, NotProven::NotOffLongEnough { .. }),
        "{refused:?}"
    );
}

/// S21: whoever gave the word has seen more than what a device said before it fell silent.
#[test]
fn a_human_s_word_counts_whatever_was_said_before_it() {
    let with_word = |word: Option<f64>| {
        judged(move |good| {
            let mut other = device("bmc-2");
            other.readings[0].state = PowerState::On;
            other.readings[1].state = PowerState::Unknown;
            good.others.push(other);
            good.confirmed_until = word.map(seconds);
        })
    };
    assert!(with_word(Some(60.0)).is_ok());
    let refused = with_word(None).expect_err("it said On");
    assert!(
        matches!(refused, NotProven::OnWhileOff { .. }),
        "{refused:?}"
    );
}

#[test]
fn a_renewed_lease_contradicts_only_a_device_that_reads_off() {
    let renew = |good: &mut Good| good.lease_now.renew_time = "renewal-2".to_owned();
    let outcome = judged(renew).expect_err("no proof");
    assert!(outcome.is_contradiction(), "{outcome}");
    let outcome = judged(|good| {
        renew(good);
        good.devices[0].readings[1].state = PowerState::On;
    });
    assert!(!outcome.expect_err("no proof").is_contradiction());
}

/// S22: with the network cut off at its Lease alone, or between two renewals, a living kubelet still writes of the pods that are evicted.
#[test]
fn a_pod_of_which_the_kubelet_writes_contradicts_only_a_device_that_reads_off() {
    let write = |good: &mut Good| good.written = Some("default/db-0");
    let outcome = judged(write).expect_err("no proof");
    assert!(outcome.is_contradiction(), "{outcome}");
    assert!(outcome.to_string().contains("default/db-0"), "{outcome}");
    let outcome = judged(|good| {
        write(good);
        good.devices[0].readings[1].state = PowerState::On;
    });
    assert!(!outcome.expect_err("no proof").is_contradiction());
}

/// S22: one that has read Off too short or too long ago would be read again, or told off again, and the Lease count anew.
#[test]
fn a_renewed_lease_contradicts_an_off_that_is_no_proof() {
    let is_contradicted = |change: fn(&mut Good)| {
        let renewed = judged(move |good| {
            good.lease_now.renew_time = "renewal-2".to_owned();
            change(good);
        });
        let unmoved = judged(change).expect_err("no proof");
        assert!(!unmoved.is_contradiction(), "{unmoved}");
        renewed.expect_err("no proof").is_contradiction()
    };
    assert!(is_contradicted(|good| good.devices[0].readings.truncate(1)));
    assert!(is_contradicted(|good| good.now += PROOF_LIFE * 2));
    // It falls silent.
    assert!(is_contradicted(
        |good| good.devices[0].readings[1].state = PowerState::Unknown
    ));
    assert!(!is_contradicted(|good| good.devices[0].readings.clear()));
    assert!(!is_contradicted(
        |good| good.devices[0].readings[1].state = PowerState::On
    ));
    // Before the node was quiet, or of another machine.
    assert!(!is_contradicted(|good| {
        good.devices[0].readings.truncate(1);
        good.devices[0].readings[0].asked = Duration::ZERO;
    }));
    assert!(!is_contradicted(
        |good| good.devices[0].identity = IdentityRule::Is("another".to_owned())
    ));
}

/// S22: of two devices that are needed each has to say so, for the kubelet lives by the other one; where one is enough, one that says so lies, in
/// whatever order they stand.
#[test]
fn a_renewed_lease_contradicts_those_that_say_off_together() {
    for (require, others, contradicts) in [
        (Require::All, PowerState::Off, true),
        (Require::All, PowerState::Unknown, false),
        (Require::All, PowerState::On, false),
        (Require::Any, PowerState::Unknown, true),
    ] {
        for other in [0, 1] {
            let outcome = judged(move |good| {
                good.lease_now.renew_time = "renewal-2".to_owned();
                good.require = require;
                good.devices.push(device("pdu"));
                for device in &mut good.devices {
                    device.readings.truncate(1);
                }
                good.devices[other].readings[0].state = others;
            });
            let outcome = outcome.expect_err("no proof");
            let is_moved = matches!(outcome, NotProven::LeaseMoved { .. });
            assert_eq!(
                is_moved, contradicts,
                "{require:?} {other} {others:?}: {outcome}"
            );
        }
    }
}

/// L1: a storage that lets the node in says nothing of its machine, in the level of a BMC that reads Off or beside it.
#[test]
fn a_storage_that_lets_the_node_in_contradicts_no_device_that_reads_off() {
    let with_storage = |covers: Option<Storage>, beside: bool| {
        judged(move |good| {
            let mut storage = device("storage");
            storage.outlets = true;
            storage.covers = covers;
            storage.readings.remove(0);
            storage.readings[0].state = PowerState::On;
            good.require = Require::Any;
            match beside {
                true => good.others.push(storage),
                false => good.devices.push(storage),
            }
        })
    };
    let rbd = Storage {
        driver: "rbd.csi".to_owned(),
        cluster: String::new(),
    };
    for beside in [false, true] {
        assert_eq!(with_storage(Some(rbd.clone()), beside).err(), None);
        assert!(with_storage(None, beside).is_err(), "outlets");
    }
}
