//! The column of Compute Engine.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::GcpDriver;
use fencing_drivers::DriverKind;
use fencing_testbed::cloud::gcp::{self, Gcp};
use serde_json::{Value, json};

/// An API of Compute Engine that is not Google's.
fn in_project(mut value: Value) -> Box<dyn DriverKind> {
    value["project"] = json!(gcp::PROJECT);
    settings::<GcpDriver>(value)
}

pub fn gcp(fault: Fault) -> Cell {
    const TESTS: &str = "crates/drivers/src/cloud/gcp/tests.rs";
    const CALLS: &str = "crates/drivers/src/cloud/gcp/tests/calls.rs";
    const LISTS: &str = "crates/drivers/src/cloud/gcp/tests/lists.rs";
    const COLUMN: Column<Gcp> = Column {
        page: Gcp::default,
        kind: in_project,
        url: "endpoint",
        secret: &[("key.json", gcp::KEY)],
        provider_id: |_| format!("gce://{}/{}/node-1", gcp::PROJECT, gcp::ZONE),
        tells_uuid: false,
        tells_already: false,
        odd: |fault| match fault {
            // Whatever sleeps, is repaired or goes off has a word that is not TERMINATED.
            Fault::Sleeping | Fault::PowerFaultBit | Fault::ControlFaultBit => {
                Odd::Elsewhere(TESTS, "only_terminated_is_off")
            }
            Fault::InterlockBit => Odd::Never("Compute Engine answers for all of its hosts alike"),
            Fault::WrongSystem => {
                Odd::Elsewhere(CALLS, "another_machine_is_no_reading_and_is_sent_nothing")
            }
            Fault::ZeroUuid => Odd::Never("it tells no UUID"),
            Fault::EndlessNextLink => Odd::Elsewhere(LISTS, "a_list_of_many_pages_ends"),
            _ => Odd::Never("its paths are built, and none is followed"),
        },
    };
    COLUMN.provoke(fault)
}
