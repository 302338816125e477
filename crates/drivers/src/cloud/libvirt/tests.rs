//! What libvirt's numbers and packets mean, by numbers and packets of our own.

mod packets;

use super::facts::is_paused_by_migration;
use super::*;
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;

const UUID: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";

fn node(uuid: &str) -> NodeFacts {
    NodeFacts {
        system_uuid: uuid.to_owned(),
        ..NodeFacts::named("worker-1")
    }
}

fn driver(uri: &str) -> LibvirtDriver {
    serde_json::from_value(serde_json::json!({ "uri": uri })).expect("settings")
}

#[test]
fn a_domain_is_off_by_three_reasons_alone() {
    for (reason, word) in [(1, "shutdown"), (2, "destroyed"), (6, "failed")] {
        let off = said(SHUTOFF, reason, false);
        assert!(off.is_off(), "{word}");
        assert_eq!(off.raw, format!("SHUTOFF, {word}"));
    }
    for (reason, fault) in [
        (0, "unknown"),
        (3, "crashed"),
        (4, "migrated"),
        (5, "saved"),
        (7, "from snapshot"),
        (8, "daemon"),
        (9, "reason 9"),
        (-1, "reason -1"),
    ] {
        let no_off = said(SHUTOFF, reason, false);
        assert_eq!(no_off.faults, [fault]);
        // A running machine refutes it all the same (S25).
        assert_eq!(no_off.state, PowerState::Off);
    }
    let saved = said(SHUTOFF, 2, true);
    assert_eq!(saved.faults, ["a managed save image"]);
}

#[test]
fn no_other_state_is_off() {
    let state = |number| said(number, 0, false).state;
    assert_eq!([1, 2].map(state), [PowerState::On; 2]);
    assert_eq!(state(4), PowerState::Transitional);
    for unknown in [0, 3, 6, 7, 8, -1, i32::MAX, i32::MIN] {
        assert_eq!(state(unknown), PowerState::Unknown, "{unknown}");
    }
    assert_eq!(said(3, 1, false).raw, "PAUSED, reason 1");
    assert_eq!(said(7, 0, false).raw, "PMSUSPENDED, reason 0");
    assert_eq!(said(9, 4, false).raw, "state 9, reason 4");
}

#[test]
fn a_domain_that_is_paused_by_a_migration_may_run_at_the_destination() {
    for reason in [2, 12, 13] {
        assert!(is_paused_by_migration((3, reason)), "{reason}");
    }
    // By a human, by a full disk; or it runs.
    for other in [(3, 1), (3, 5), (1, 2), (5, 4)] {
        assert!(!is_paused_by_migration(other), "{other:?}");
    }
}

#[test]
fn the_uuid_of_the_node_names_the_domain() {
    let libvirt = driver("qemu+tls://hv-1/system").provider();
    let named = |uuid: &str| libvirt.machine(&node(uuid)).map(|id| id.id);
    for written in [UUID, &UUID.to_uppercase(), &UUID.replace('-', "")] {
        assert_eq!(named(written).as_deref(), Ok(UUID));
    }
    for unusable in ["", "00000000-0000-0000-0000-000000000000", "Not Specified"] {
        let error = named(unusable).expect_err("no name");
        assert_eq!(error.reason(), "SettingsInvalid");
    }
}

#[test]
fn a_uri_leads_to_a_host_and_a_hypervisor() {
    let of = |uri: &str| {
        let driver = driver(uri);
        let address = driver.address().map(|address| address.to_string());
        (address.ok(), driver.provider().name)
    };
    for (uri, address, name) in [
        (
            "qemu+tls://HV-1.example.com/system",
            "hv-1.example.com:16514",
            "qemu:///system",
        ),
        (
            "test+tls://127.0.0.1:16999/default",
            "127.0.0.1:16999",
            "test:///default",
        ),
        ("xen+tls://[2001:db8::1]/", "[2001:db8::1]:16514", "xen:///"),
        ("qemu+tls://hv-1:443/system", "hv-1:443", "qemu:///system"),
    ] {
        assert_eq!(
            of(uri),
            (Some(address.to_owned()), name.to_owned()),
            "{uri}"
        );
    }
    for uri in [
        "qemu+tcp://hv-1/system",
        "qemu:///system",
        "qemu+tls://hv-1",
        "qemu+tls://root:secret@hv-1/system",
        "qemu+tls:///system",
    ] {
        let error = driver(uri).address().expect_err("no address");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn only_these_numbers_are_off(state in -2..12_i32, reason in -2..14_i32, is_saved: bool) {
        let off = said(state, reason, is_saved).is_off();
        prop_assert_eq!(off, state == 5 && [1, 2, 6].contains(&reason) && !is_saved);
    }

    #[test]
    fn a_uuid_is_read_as_it_is_written(uuid in proptest::array::uniform16(1..200_u8)) {
        prop_assert_eq!(usable_uuid(&text_of(uuid)), Some(uuid));
    }
}
