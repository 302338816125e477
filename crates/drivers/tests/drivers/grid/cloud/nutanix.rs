//! The column of a Prism Central.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::NutanixDriver;
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::nutanix::{self as prism, Nutanix};

pub fn nutanix(fault: Fault) -> Cell {
    const TESTS: &str = "crates/drivers/src/cloud/nutanix/tests.rs";
    const CALLS: &str = "crates/drivers/src/cloud/nutanix/tests/calls.rs";
    const COLUMN: Column<Nutanix> = Column {
        page: Nutanix::default,
        kind: settings::<NutanixDriver>,
        url: "address",
        secret: &[("apiKey", prism::KEY)],
        provider_id: |uuid| format!("nutanix://{uuid}"),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => Odd::Elsewhere(TESTS, "only_off_is_off_and_not_while_the_vm_moves"),
            // The VM was recovered at another site, and this is the one that was left behind.
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Never("it answers for all of its clusters alike"),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            Fault::EndlessNextLink => Odd::Elsewhere(CALLS, "a_list_of_many_pages_ends"),
            _ => Odd::Never("its paths are built, and none is followed"),
        },
    };
    match fault {
        Fault::NoForceOff => Cell::Never("no refusal of it is known that is certain"),
        _ => COLUMN.provoke(fault),
    }
}
