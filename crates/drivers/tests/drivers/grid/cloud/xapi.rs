//! The column of a pool of XCP-ng.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::XapiDriver;
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::xapi::{self as pool, Xapi};

pub fn xapi(fault: Fault) -> Cell {
    const TESTS: &str = "crates/drivers/src/cloud/xapi/tests.rs";
    const SLEEPING: &str = "halted_is_off_of_a_vm_that_is_nowhere_and_with_which_nothing_is_done";
    const CALLS: &str = "crates/drivers/src/cloud/xapi/tests/calls.rs";
    const MEMBER: &str = "another_member_leads_to_no_address_that_is_not_allowed";
    const COLUMN: Column<Xapi> = Column {
        page: Xapi::default,
        kind: settings::<XapiDriver>,
        url: "address",
        secret: &[("username", pool::LOGIN[0]), ("password", pool::LOGIN[1])],
        provider_id: |uuid| format!("xenorchestra://3679fe1a-d058-4055-b800-d30e1bd2af48/{uuid}"),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => Odd::Elsewhere(TESTS, SLEEPING),
            // Halted by `power_state_reset`, in the database alone.
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Never("the master answers for all of its hosts alike"),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            Fault::LinkElsewhere => Odd::Elsewhere(CALLS, MEMBER),
            _ => Odd::Never("a list has no pages"),
        },
    };
    match fault {
        Fault::OneSession | Fault::SessionsExhausted => {
            Cell::Never("it drops the oldest session of a client that opens too many")
        }
        _ => COLUMN.provoke(fault),
    }
}
