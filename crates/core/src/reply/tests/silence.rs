//! Who has not answered all along.

use super::*;

/// A3: whoever was silent, or reported a fault, may have been restarted, whatever it says next and whoever's turn it was.
#[test]
fn who_was_silent_or_reported_a_fault_is_remembered() {
    let looked = |readings: Vec<Result<Reading, String>>| {
        let answer = |reading| DeviceAnswer {
            device: bmc(),
            reading,
        };
        DeviceReply::PowerRead {
            answers: readings.into_iter().map(answer).collect(),
            pods: None,
        }
    };
    let off = || says(&bmc(), PowerState::Off, 99).readings.remove(0);
    let faulty = || Reading {
        faults: vec!["a BMC that restarted".to_owned()],
        ..off()
    };
    let silent = || Err("no answer".to_owned());
    let unknown = || says(&bmc(), PowerState::Unknown, 99).readings.remove(0);
    let read = |readings| confirmed(vec![DeviceReadings::of(&bmc(), readings)], Vec::new());
    for (number, reply, expected) in [
        (1, looked(vec![Ok(off())]), false),
        (1, looked(vec![silent()]), true),
        (1, looked(vec![Ok(faulty())]), true),
        // Of two looks one has an answer.
        (1, looked(vec![silent(), Ok(off())]), false),
        // Ordered for another claim.
        (7, looked(vec![silent()]), true),
        (
            1,
            confirmed(vec![DeviceReadings::of(&bmc(), Vec::new())], Vec::new()),
            true,
        ),
        (1, read(vec![off(), off()]), false),
        // Its connection was lost between two readings.
        (1, read(vec![off(), unknown(), off()]), true),
        (1, read(vec![faulty(), off(), off()]), true),
    ] {
        let message = format!("{number} {reply:?}");
        let mut memory = answered(number, reply);
        assert_eq!(memory.trust.silent.contains("bmc"), expected, "{message}");
        memory.commands.begin(false);
        let order = memory.commands.orders;
        let reply = Reply::Device(order, looked(vec![Ok(off())]));
        learn(&settings(), &mut memory, Asked::Device, reply, NOW);
        assert_eq!(memory.trust.silent.contains("bmc"), expected, "{message}");
    }
}
