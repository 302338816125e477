//! The column of smart plugs: a switch of Home Assistant, with a meter.

use super::super::cell::Cell;
use super::super::rows::Fault;
use super::{Column, Odd, settings};
use fencing_api::device::HttpOutletDriver;
use fencing_drivers::DriverKind;
use fencing_testbed::cloud::Beside;
use fencing_testbed::cloud::http_outlet::{HttpOutlet, TOKEN};
use serde_json::{Value, json};

/// An outlet at this URL.
fn outlet(mut value: Value) -> Box<dyn DriverKind> {
    let switch = |action: &str| {
        let body = "{\"entity_id\": \"switch.${outlet}\"}";
        json!({"path": format!("/api/services/switch/{action}"), "body": body})
    };
    let all = json!({
        "outlet": "worker_3", "authentication": "Bearer", "powerOff": switch("turn_off"), "powerOn": switch("turn_on"),
        "status": {
            "path": "/api/states/switch.${outlet}", "pointer": "/state", "offValue": "off", "onValue": "on",
            "unless": ["/attributes/assumed_state"],
        },
        "watts": {"path": "/api/states/sensor.${outlet}_power", "pointer": "/state"},
    });
    json_patch::merge(&mut value, &all);
    settings::<HttpOutletDriver>(value)
}

pub fn http_outlet(fault: Fault) -> Cell {
    const NO_MACHINE: &str = "an outlet knows of no machine: `identityCheck` is Skip";
    const COLUMN: Column<HttpOutlet> = Column {
        page: HttpOutlet::default,
        kind: outlet,
        url: "url",
        secret: &[("token", TOKEN)],
        provider_id: |_| String::new(),
        tells_uuid: false,
        tells_already: false,
        odd: |fault| match fault {
            Fault::PowerFaultBit => Odd::Beside(Beside::OldReport),
            Fault::ControlFaultBit => Odd::Beside(Beside::AtWork),
            Fault::InterlockBit => Odd::Beside(Beside::CutOff),
            Fault::Sleeping => Odd::Never("an outlet keeps no memory"),
            Fault::WrongSystem | Fault::ZeroUuid => Odd::Never(NO_MACHINE),
            _ => Odd::Never("its paths are in the settings, and no link is followed"),
        },
    };
    COLUMN.provoke(fault)
}
