//! The columns of the drivers whose machines are objects of another cluster.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::{BareMetalHostDriver, KubevirtDriver};
use fencing_drivers::DriverKind;
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::kube::KUBECONFIG;
use fencing_testbed::cloud::kubevirt::{self as tenant, Kubevirt};
use fencing_testbed::cloud::metal3::{Metal3, PROVIDER_ID};
use serde_json::{Value, json};

const NO_LINKS: &str = "its paths are built, and none is followed";
const SECRET: &[(&str, &str)] = &[("kubeconfig", KUBECONFIG)];

fn in_namespace(mut value: Value) -> Box<dyn DriverKind> {
    value["namespace"] = json!(tenant::NAMESPACE);
    settings::<KubevirtDriver>(value)
}

pub fn kubevirt(fault: Fault) -> Cell {
    const CALLS: &str = "crates/drivers/src/cloud/kubevirt/tests/calls.rs";
    const TESTS: &str = "crates/drivers/src/cloud/kubevirt/tests.rs";
    const COLUMN: Column<Kubevirt> = Column {
        page: Kubevirt::default,
        kind: in_namespace,
        url: "address",
        secret: SECRET,
        provider_id: |_| "kubevirt://node-1".to_owned(),
        tells_uuid: true,
        tells_already: true,
        odd: |fault| match fault {
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Beside(Beside::CutOff),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Beside(Beside::Nothing),
            Fault::Sleeping => Odd::Elsewhere(TESTS, "only_stopped_without_an_instance_may_be_off"),
            Fault::EndlessNextLink => Odd::Elsewhere(
                CALLS,
                "a_list_that_is_not_whole_or_of_another_kind_is_no_reading",
            ),
            _ => Odd::Never(NO_LINKS),
        },
    };
    COLUMN.provoke(fault)
}

pub fn bare_metal_host(fault: Fault) -> Cell {
    const CALLS: &str = "crates/drivers/src/cloud/metal3/tests/calls.rs";
    const COLUMN: Column<Metal3> = Column {
        page: Metal3::default,
        kind: settings::<BareMetalHostDriver>,
        url: "address",
        secret: SECRET,
        provider_id: |_| PROVIDER_ID.to_owned(),
        tells_uuid: false,
        tells_already: false,
        odd: |fault| match fault {
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Beside(Beside::CutOff),
            Fault::Sleeping => Odd::Never("Ironic has no word for sleep"),
            Fault::WrongSystem => {
                Odd::Elsewhere(CALLS, "another_machine_is_no_reading_and_is_sent_nothing")
            }
            Fault::ZeroUuid => Odd::Never("it tells no UUID"),
            Fault::EndlessNextLink => Odd::Elsewhere(
                "crates/drivers/src/cloud/kubevirt/tests/calls.rs",
                "a_list_that_is_not_whole_or_of_another_kind_is_no_reading",
            ),
            _ => Odd::Never(NO_LINKS),
        },
    };
    COLUMN.provoke(fault)
}
