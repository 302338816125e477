//! What counts into a run of off.

use super::*;

#[test]
fn a_fault_bit_starts_the_run_again() {
    let error = DeviceError::Unsupported { driver: "none" };
    let off = |faults: &[&str]| Reading {
        state: PowerState::Off,
        faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        ..no_answer(&error, Duration::ZERO, Clock::SYSTEM)
    };
    let mut run = Run::default();
    for (faults, offs) in [(&[][..], 1), (&[], 2), (&["PowerFault"], 0), (&[], 1)] {
        run.count(&off(faults));
        assert_eq!(run.offs, offs);
    }
}
