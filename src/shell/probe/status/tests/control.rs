//! S25: a device is ready once it has read On of the running machine, and not when it reads Off of it.

use super::*;
use fencing_api::device::PositiveControl;

fn says(state: PowerState) -> Result<Probe, DeviceError> {
    let mut answer = answer(OURS).expect("an answer");
    answer.reading.state = state;
    answer.reading.raw = format!("{state:?}");
    Ok(answer)
}

fn finding(ready: &str, state: PowerState, renewed: bool) -> Finding {
    let finding = found(node("w1", OURS, ready), says(state));
    Finding { renewed, ..finding }
}

/// What stands in the status after these findings of one process, and its Ready.
fn course(
    device: &mut FenceDevice,
    findings: &[Finding],
) -> Vec<(Option<PositiveControl>, String)> {
    let mut control = None;
    let mut seen = Vec::new();
    for finding in findings {
        let mut finding = finding.clone();
        finding.control = control;
        control = judge(device, &finding, None).control;
        let status = after(device, &finding);
        let row = status.positive_controls.first().cloned();
        seen.push((row, shown(&status, READY)));
        device.status = Some(status);
    }
    seen
}

fn states(seen: &[(Option<PositiveControl>, String)]) -> Vec<(Option<PowerState>, &str)> {
    let seen = seen.iter();
    seen.map(|(row, ready)| (row.as_ref().map(|it| it.power_state), ready.as_str()))
        .collect()
}

#[test]
fn an_off_that_a_living_kubelet_refutes_is_no_off_until_the_device_reads_on() {
    use PowerState::{Off, On};
    let findings = [
        finding("True", On, false),
        // It may have died just now.
        finding("True", Off, false),
        finding("True", Off, true),
        finding("True", Off, false),
        finding("Unknown", Off, false),
        finding("Unknown", On, false),
        finding("True", On, false),
    ];
    let seen = course(&mut of_w1(), &findings);
    let expected = [
        (Some(On), "True/Probed"),
        (Some(On), "True/Probed"),
        (Some(Off), "False/OffWhileRunning"),
        (Some(Off), "False/OffWhileRunning"),
        (Some(Off), "False/OffWhileRunning"),
        (Some(Off), "False/OffWhileRunning"),
        (Some(On), "True/Probed"),
    ];
    assert_eq!(states(&seen), expected);
}

#[test]
fn a_device_that_has_not_read_on_in_this_boot_is_not_ready() {
    use PowerState::{Off, On};
    let findings = [
        finding("True", Off, false),
        finding("Unknown", On, false),
        finding("True", On, false),
    ];
    let mut device = of_w1();
    let seen = course(&mut device, &findings);
    let expected = [
        (None, "False/NoPositiveControl"),
        (None, "False/NoPositiveControl"),
        (Some(On), "True/Probed"),
    ];
    assert_eq!(states(&seen), expected);
    let mut booted = finding("Unknown", On, false);
    booted.node.boot_id = "b2".to_owned();
    let seen = course(&mut device, &[booted]);
    assert_eq!(states(&seen), [(Some(On), "False/NoPositiveControl")]);
}

/// That it answers while its machine is off shows only beside a Node that is not Ready.
#[test]
fn an_off_beside_a_ready_node_is_no_merit() {
    let off = |ready: &str| {
        let mut device = of_w1();
        course(&mut device, &[finding(ready, PowerState::Off, false)]);
        device.status.and_then(|it| it.last_off_time)
    };
    assert_eq!(off("True"), None);
    assert_eq!(off("Unknown"), Some(wall(100)));
}

/// Nothing is written while the device says the same, by whichever process it is asked.
#[test]
fn the_row_keeps_the_time_when_it_was_read_first() {
    let mut device = of_w1();
    let mut later = finding("True", PowerState::On, false);
    later.at = wall(900);
    let seen = course(&mut device, &[finding("True", PowerState::On, false)]);
    assert_eq!(course(&mut device, &[later])[0].0, seen[0].0);
}

/// Another address may be another machine, and a Node of the same name is another one.
#[test]
fn what_was_read_by_other_settings_or_of_another_node_is_forgotten() {
    let mut device = of_w1();
    course(&mut device, &[finding("True", PowerState::On, false)]);
    device.metadata.generation = Some(2);
    let silent = found(node("w1", OURS, "True"), Err(silence()));
    assert!(after(&device, &silent).positive_controls.is_empty());
    let mut device = of_w1();
    course(&mut device, &[finding("True", PowerState::On, false)]);
    assert_eq!(after(&device, &silent).positive_controls.len(), 1);
    let status = render(&device, &[], |_, _| false, wall(100));
    assert!(status.positive_controls.is_empty());
}

#[test]
fn another_machine_teaches_nothing() {
    let theirs = "99999999-2222-4333-8444-555555555555";
    let other = found(node("w1", OURS, "True"), answer(theirs));
    assert!(after(&of_w1(), &other).positive_controls.is_empty());
}

#[test]
fn a_device_that_is_on_its_way_is_ready_if_it_has_read_on_before() {
    let findings = [
        finding("True", PowerState::On, false),
        finding("True", PowerState::Transitional, false),
    ];
    let seen = course(&mut of_w1(), &findings);
    assert_eq!(states(&seen)[1], (Some(PowerState::On), "True/Probed"));
}
