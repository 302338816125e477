use super::*;
use crate::shell::probe::judge::NOT_PINNED;
use fencing_api::device::PinnedSystem;
use fencing_core::observed::{ConditionView, NodeView};
use fencing_core::protection::levels::POWER_OFF_DENIED;
use fencing_core::reading::{Identity, Reading};
use fencing_drivers::address::AddressError;
use fencing_drivers::credentials::CredentialsError;
use fencing_drivers::{DeviceError, Probe};
use serde_json::{Value, json};
use std::time::Duration;

mod bmc;
mod control;
mod expiry;
mod fleet;
mod freshness;

const OURS: &str = "4c4c4544-0035-4a10-8052-b7c04f503433";
const OTHER: &str = "11111111-2222-3333-4444-555555555555";

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a second")
}

fn node(name: &str, system_uuid: &str, ready: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: ready.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: "b1".to_owned(),
        system_uuid: system_uuid.to_owned(),
        ..fencing_core::fixtures::node()
    }
}

fn answer(uuid: &str) -> Result<Probe, DeviceError> {
    Ok(Probe {
        reading: Reading {
            state: PowerState::On,
            raw: "On".to_owned(),
            identity: Identity {
                system_uuid: Some(uuid.to_owned()),
                serial_number: Some("SN1".to_owned()),
            },
            faults: Vec::new(),
            off_parts: Vec::new(),
            asked: Duration::from_secs(1),
            answered: Duration::from_secs(2),
            wall: wall(2),
        },
        vendor: Some("ACME".to_owned()),
        model: Some("R1".to_owned()),
        firmware: None,
        power_restore_policy: None,
        restarter: None,
        cipher_suites: Vec::new(),
        clock: None,
        certificate_expiry: None,
        off_denied: None,
    })
}

fn silence() -> DeviceError {
    DeviceError::Timeout {
        endpoint: "bmc:443".to_owned(),
        waited: Duration::from_secs(15),
    }
}

fn found(node: NodeView, outcome: Result<Probe, DeviceError>) -> Finding {
    Finding {
        at: wall(100),
        identity: outcome
            .as_ref()
            .ok()
            .map(|probe| probe.reading.identity.clone()),
        node,
        outcome,
        trimmed_keys: Vec::new(),
        renewed: false,
        control: None,
        on_node: None,
        asked: (None, None),
    }
}

fn row<'a>(node: &'a str, finding: Option<&'a Finding>) -> Row<'a> {
    let well = finding.is_some_and(|finding| finding.outcome.is_ok());
    Row {
        node,
        finding,
        duplicate: None,
        awaited: finding.is_none(),
        fenced: false,
        last_success: well.then(|| wall(100)),
        last_on: None,
    }
}

fn device(spec: Value) -> FenceDevice {
    let mut device = FenceDevice::new("bmc", serde_json::from_value(spec).expect("a spec"));
    device.metadata.generation = Some(1);
    device
}

fn of_w1() -> FenceDevice {
    device(json!({"nodeName": "w1", "redfish": {"address": "https://10.0.0.1"}}))
}

/// The status after one finding for w1.
fn after(device: &FenceDevice, finding: &Finding) -> FenceDeviceStatus {
    render(device, &[row("w1", Some(finding))], |_, _| true, wall(100))
}

/// `status/reason` of a condition.
fn shown(status: &FenceDeviceStatus, kind: &str) -> String {
    let condition = conditions::find(&status.conditions, kind).expect("the condition");
    format!("{}/{}", condition.status, condition.reason)
}

fn message(status: &FenceDeviceStatus, kind: &str) -> String {
    let condition = conditions::find(&status.conditions, kind).expect("the condition");
    condition.message.clone()
}

#[test]
fn a_good_probe_pins_and_shows_the_machine() {
    let status = after(&of_w1(), &found(node("w1", OURS, "True"), answer(OURS)));
    for kind in [REACHABLE, CREDENTIALS_VALID, IDENTITY_VERIFIED, READY] {
        assert!(shown(&status, kind).starts_with("True/"), "{kind}");
    }
    let pin = PinnedSystem {
        node_name: "w1".to_owned(),
        node_uid: "w1-uid".to_owned(),
        uuid: OURS.to_owned(),
        serial_number: Some("SN1".to_owned()),
    };
    assert_eq!(status.systems, [pin]);
    assert_eq!(status.power_state, Some(PowerState::On));
    assert_eq!(
        status.system.and_then(|system| system.model).as_deref(),
        Some("R1")
    );
    assert_eq!(status.driver.as_deref(), Some("redfish"));
    assert_eq!(status.nodes, Some(DeviceNodes { total: 1, ready: 1 }));
    assert_eq!(status.last_success_time, Some(wall(100)));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn a_wrong_machine_is_named_and_not_pinned() {
    let status = after(&of_w1(), &found(node("w1", OURS, "True"), answer(OTHER)));
    assert_eq!(shown(&status, IDENTITY_VERIFIED), "False/IdentityMismatch");
    assert_eq!(shown(&status, READY), "False/IdentityMismatch");
    assert_eq!(shown(&status, REACHABLE), "True/Answered");
    let words = message(&status, READY);
    assert!(words.contains(OURS) && words.contains(OTHER), "{words}");
    assert!(status.systems.is_empty());
    assert_eq!(status.not_ready_nodes, ["w1"]);
}

#[test]
fn a_pin_stays_when_another_machine_answers() {
    let mut device = of_w1();
    device.status = Some(after(
        &device,
        &found(node("w1", OURS, "True"), answer(OURS)),
    ));
    let status = after(&device, &found(node("w1", OURS, "True"), answer(OTHER)));
    assert_eq!(
        status.systems.first().map(|pin| pin.uuid.as_str()),
        Some(OURS)
    );
    assert_eq!(shown(&status, IDENTITY_VERIFIED), "False/IdentityMismatch");
}

#[test]
fn a_pin_follows_a_replaced_mainboard() {
    let mut device = of_w1();
    device.status = Some(after(
        &device,
        &found(node("w1", OURS, "True"), answer(OURS)),
    ));
    let status = after(&device, &found(node("w1", OTHER, "True"), answer(OTHER)));
    assert_eq!(status.systems.len(), 1);
    assert_eq!(
        status.systems.first().map(|pin| pin.uuid.as_str()),
        Some(OTHER)
    );
}

#[test]
fn nothing_is_pinned_while_the_node_is_not_ready() {
    let status = after(&of_w1(), &found(node("w1", OURS, "Unknown"), answer(OURS)));
    assert!(status.systems.is_empty());
    assert_eq!(
        shown(&status, IDENTITY_VERIFIED),
        format!("Unknown/{NOT_PINNED}")
    );
    assert_eq!(shown(&status, READY), format!("False/{NOT_PINNED}"));
}

#[test]
fn errors_show_in_the_condition_that_they_are_about() {
    let endpoint = || "bmc:443".to_owned();
    let secret = CredentialsError::NotFound {
        secret: "s".to_owned(),
        namespace: "ns".to_owned(),
        keys: "`username`".to_owned(),
    };
    let loopback = AddressError::NotAllowed {
        host: "localhost".to_owned(),
        address: "127.0.0.1".parse().expect("an address"),
        rule: "loopback".to_owned(),
    };
    let denied = DeviceError::PermissionDenied {
        endpoint: endpoint(),
        request: "GET /".to_owned(),
        said: "403".to_owned(),
        right: "a role that may read it",
    };
    let cluster = DeviceError::Cluster {
        object: "Secret".to_owned(),
        problem: "503".to_owned(),
    };
    let garbage = DeviceError::Protocol {
        endpoint: endpoint(),
        problem: "HTML".to_owned(),
        way_out: "check the address",
    };
    let table = [
        (silence(), "False", "Unknown", "Timeout"),
        (
            DeviceError::AuthFailed {
                endpoint: endpoint(),
                said: "401".to_owned(),
            },
            "True",
            "False",
            "AuthFailed",
        ),
        (denied, "True", "False", "PermissionDenied"),
        (secret.into(), "Unknown", "False", "CredentialsInvalid"),
        (loopback.into(), "False", "Unknown", "AddressNotAllowed"),
        (garbage, "True", "Unknown", "ProtocolError"),
        (cluster, "Unknown", "Unknown", "ClusterUnavailable"),
        (
            DeviceError::Unsupported { driver: "none" },
            "Unknown",
            "Unknown",
            "Unsupported",
        ),
    ];
    table.into_iter().for_each(assert_shown);
}

#[test]
fn errors_of_a_login_show_where_somebody_looks_for_them() {
    let (endpoint, said) = (|| "bmc:623".to_owned(), || "0x0d".to_owned());
    let user = DeviceError::UnknownUser {
        endpoint: endpoint(),
        said: said(),
    };
    let unanswered = DeviceError::LoginUnanswered {
        endpoint: endpoint(),
        waited: Duration::from_secs(15),
    };
    let unsafe_login = DeviceError::NoSecureLogin {
        endpoint: endpoint(),
        problem: said(),
    };
    let exhausted = DeviceError::SessionsExhausted {
        endpoint: endpoint(),
        said: said(),
    };
    let table = [
        (user, "True", "False", "UnknownUser"),
        (unanswered, "True", "Unknown", "LoginUnanswered"),
        (unsafe_login, "True", "Unknown", "NoSecureLogin"),
        (exhausted, "True", "Unknown", "SessionsExhausted"),
    ];
    table.into_iter().for_each(assert_shown);
}

/// An error, how `Reachable` and `CredentialsValid` begin with it, and the reason of `Ready`.
fn assert_shown((error, reachable, credentials, reason): (DeviceError, &str, &str, &str)) {
    let words = error.to_string();
    let status = after(&of_w1(), &found(node("w1", OURS, "True"), Err(error)));
    let starts = |kind: &str, expected: &str| shown(&status, kind).starts_with(expected);
    assert!(
        starts(REACHABLE, reachable),
        "{reason}: {}",
        shown(&status, REACHABLE)
    );
    assert!(starts(CREDENTIALS_VALID, credentials), "{reason}");
    assert!(starts(IDENTITY_VERIFIED, "Unknown"), "{reason}");
    assert_eq!(shown(&status, READY), format!("False/{reason}"));
    assert_eq!(message(&status, READY), words);
    assert_eq!(status.power_state, Some(PowerState::Unknown));
}

#[test]
fn silence_keeps_what_is_known_of_the_machine() {
    let mut device = of_w1();
    device.status = Some(after(
        &device,
        &found(node("w1", OURS, "True"), answer(OURS)),
    ));
    let status = after(&device, &found(node("w1", OURS, "Unknown"), Err(silence())));
    assert_eq!(shown(&status, IDENTITY_VERIFIED), "True/Verified");
    assert_eq!(shown(&status, READY), "False/Timeout");
    assert_eq!(status.systems.len(), 1);
    assert!(status.system.is_some());
    assert_eq!(status.last_success_time, Some(wall(100)));
    // Other settings may lead to another machine.
    device.metadata.generation = Some(2);
    let status = after(&device, &found(node("w1", OURS, "Unknown"), Err(silence())));
    assert_eq!(shown(&status, IDENTITY_VERIFIED), "Unknown/Pending");
}

#[test]
fn a_remembered_answer_pins_nothing() {
    let mut finding = found(node("w1", OURS, "True"), Err(silence()));
    finding.identity = answer(OURS).ok().map(|probe| probe.reading.identity);
    assert!(after(&of_w1(), &finding).systems.is_empty());
}

#[test]
fn a_shared_system_blocks_and_pins_nothing() {
    let finding = found(node("w1", OURS, "True"), answer(OURS));
    let duplicate = Row {
        duplicate: Some("10.0.0.1:443 serves Node w2 too"),
        ..row("w1", Some(&finding))
    };
    let status = render(&of_w1(), &[duplicate], |_, _| true, wall(100));
    assert_eq!(shown(&status, IDENTITY_VERIFIED), "False/DuplicateTarget");
    assert_eq!(shown(&status, READY), "False/DuplicateTarget");
    assert_eq!(shown(&status, conditions::STALLED), "True/DuplicateTarget");
    assert!(status.systems.is_empty());
}

#[test]
fn without_a_hard_off_the_device_is_for_confirm_only() {
    let mut answer = answer(OURS).expect("an answer");
    answer.off_denied = Some(DeviceError::Refused {
        endpoint: "bmc:443".to_owned(),
        problem: "no ForceOff".to_owned(),
    });
    let status = after(&of_w1(), &found(node("w1", OURS, "True"), Ok(answer)));
    assert_eq!(shown(&status, READY), format!("False/{POWER_OFF_DENIED}"));
    assert_eq!(status.systems.len(), 1);
}

/// It answers, and would never prove anything.
#[test]
fn a_device_whose_power_cannot_be_read_is_not_ready() {
    let readings: [fn(&mut Reading); 2] = [
        |reading| reading.state = PowerState::Unknown,
        |reading| reading.faults = vec!["power fault".to_owned()],
    ];
    for spoil in readings {
        let mut answer = answer(OURS).expect("an answer");
        spoil(&mut answer.reading);
        let status = after(&of_w1(), &found(node("w1", OURS, "True"), Ok(answer)));
        assert_eq!(shown(&status, READY), "False/PowerUnreadable");
    }
}

#[test]
fn a_trimmed_secret_is_said() {
    let mut finding = found(node("w1", OURS, "True"), answer(OURS));
    finding.trimmed_keys = vec!["password"];
    let said = message(&after(&of_w1(), &finding), CREDENTIALS_VALID);
    assert!(
        ["password", "newline"].iter().all(|it| said.contains(it)),
        "{said}"
    );
}

#[test]
fn a_new_device_is_pending_until_it_was_probed() {
    let status = render(&of_w1(), &[row("w1", None)], |_, _| true, wall(100));
    assert_eq!(shown(&status, READY), "Unknown/Pending");
    assert_eq!(shown(&status, conditions::RECONCILING), "True/Pending");
    assert_eq!(status.last_probe_time, None);
}
