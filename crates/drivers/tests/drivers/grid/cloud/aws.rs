//! The column of EC2.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::AwsDriver;
use fencing_drivers::DriverKind;
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::aws::{self, Aws};
use serde_json::{Value, json};

/// An API of EC2 that is not at the address of its region.
fn in_region(mut value: Value) -> Box<dyn DriverKind> {
    value["region"] = json!(aws::REGION);
    settings::<AwsDriver>(value)
}

pub fn aws(fault: Fault) -> Cell {
    const CALLS: &str = "crates/drivers/src/cloud/aws/tests/calls.rs";
    const COLUMN: Column<Aws> = Column {
        page: || Aws,
        kind: in_region,
        url: "endpoint",
        secret: &[
            ("accessKeyID", aws::KEY[0]),
            ("secretAccessKey", aws::KEY[1]),
        ],
        provider_id: |_| format!("aws:///{}a/{}", aws::REGION, aws::INSTANCE),
        tells_uuid: false,
        tells_already: true,
        odd: |fault| match fault {
            Fault::Sleeping => Odd::Beside(Beside::Memory),
            Fault::PowerFaultBit | Fault::ControlFaultBit | Fault::InterlockBit => {
                Odd::Never("EC2 answers for all of its hosts alike")
            }
            Fault::WrongSystem => {
                Odd::Elsewhere(CALLS, "another_machine_is_no_reading_and_is_sent_nothing")
            }
            Fault::ZeroUuid => Odd::Never("it tells no UUID"),
            Fault::EndlessNextLink => Odd::Elsewhere(CALLS, "a_list_of_many_pages_ends"),
            _ => Odd::Never("it gives no links"),
        },
    };
    COLUMN.provoke(fault)
}
