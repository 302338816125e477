//! The column of Azure.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::AzureDriver;
use fencing_drivers::DriverKind;
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::azure::{self, Azure};
use serde_json::Value;

/// A cloud with both of its services at one address.
fn at_one_address(mut value: Value) -> Box<dyn DriverKind> {
    value["loginAddress"] = value["address"].clone();
    settings::<AzureDriver>(value)
}

pub fn azure(fault: Fault) -> Cell {
    const CALLS: &str = "crates/drivers/src/cloud/azure/tests/calls.rs";
    const LISTS: &str = "crates/drivers/src/cloud/azure/tests/lists.rs";
    const COLUMN: Column<Azure> = Column {
        page: Azure::default,
        kind: at_one_address,
        url: "address",
        secret: &[
            ("tenantID", azure::APP[0]),
            ("clientID", azure::APP[1]),
            ("clientSecret", azure::APP[2]),
        ],
        provider_id: |_| Azure::default().provider_id(),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => Odd::Beside(Beside::Memory),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::PowerFaultBit | Fault::InterlockBit => {
                Odd::Never("Azure answers for all of its hosts alike")
            }
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            Fault::EndlessNextLink => Odd::Elsewhere(LISTS, "a_list_of_many_pages_ends"),
            _ => Odd::Elsewhere(CALLS, "a_token_goes_to_no_other_host"),
        },
    };
    COLUMN.provoke(fault)
}
