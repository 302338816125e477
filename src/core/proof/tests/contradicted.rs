//! What a device said before it fell silent.

use super::*;

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
            good.word_until = word.map(seconds);
        })
    };
    assert!(with_word(Some(60.0)).is_ok());
    let refused = with_word(None).expect_err("it said On");
    assert!(
        matches!(refused, NotProven::OnWhileOff { .. }),
        "{refused:?}"
    );
}
