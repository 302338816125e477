//! The resources of the Redfish service (DSP0266, schemas of DSP2046), as far as a fencing client meets them.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::faults::{Advertise, BmcFaults};
use crate::power::Power;

/// Every reset type of the service. The soft ones are accepted, and a machine without an operating system that listens
/// does nothing about them.
pub(super) const RESET_TYPES: [&str; 9] = [
    "On",
    "ForceOff",
    "ForceOn",
    "ForceRestart",
    "GracefulRestart",
    "GracefulShutdown",
    "Nmi",
    "PowerCycle",
    "PushPowerButton",
];

/// The machine's own system; decoys count on from 2.
pub(super) const OWN_SYSTEM: &str = "1";

/// Path of a system.
pub(super) fn system_path(id: &str) -> String {
    format!("/redfish/v1/Systems/{id}")
}

/// Path of the reset action of a system.
pub(super) fn reset_path(id: &str) -> String {
    format!("/redfish/v1/Systems/{id}/Actions/ComputerSystem.Reset")
}

/// Ids of the systems in the order in which the collection lists them.
pub(super) fn system_ids(faults: &BmcFaults) -> Vec<String> {
    if faults.no_systems {
        return Vec::new();
    }
    let before = (0..faults.decoys_before).map(|number| (number + 2).to_string());
    let after =
        (0..faults.decoys_after).map(|number| (faults.decoys_before + number + 2).to_string());
    before.chain([OWN_SYSTEM.to_owned()]).chain(after).collect()
}

/// The reset types that the service takes.
pub(super) fn reset_types(faults: &BmcFaults) -> Vec<String> {
    faults
        .reset_types
        .clone()
        .unwrap_or_else(|| RESET_TYPES.map(str::to_owned).to_vec())
}

/// Serial number of a machine, made of its UUID.
pub(super) fn serial_number(system_uuid: &str) -> String {
    let digest = Sha256::digest(system_uuid.to_lowercase());
    digest
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

/// The Manager, with a clock.
pub(super) fn manager(faults: &BmcFaults) -> Value {
    let mut manager = fixed("/redfish/v1/Managers/BMC").unwrap_or_default();
    manager["DateTime"] = json!(faults.manager_time);
    manager
}

/// The resources that never change, found by path (without a slash at the end).
pub(super) fn fixed(path: &str) -> Option<Value> {
    let link = |path: &str| json!({"@odata.id": path});
    Some(match path {
        "/redfish" => json!({"v1": "/redfish/v1/"}),
        "/redfish/v1" => json!({
            "@odata.id": "/redfish/v1/",
            "@odata.type": "#ServiceRoot.v1_16_1.ServiceRoot",
            "Id": "RootService",
            "Name": "Root Service",
            "RedfishVersion": "1.20.0",
            "UUID": "5b4e2a0c-6d3f-4a8e-9b1d-0f2e3d4c5b6a",
            "Systems": link("/redfish/v1/Systems"),
            "Chassis": link("/redfish/v1/Chassis"),
            "Managers": link("/redfish/v1/Managers"),
            "Tasks": link("/redfish/v1/TaskService"),
            "Links": {"Sessions": link("/redfish/v1/SessionService/Sessions")},
        }),
        "/redfish/v1/odata" => json!({
            "@odata.context": "/redfish/v1/$metadata",
            "value": [{"name": "Systems", "kind": "Singleton", "url": "/redfish/v1/Systems"}],
        }),
        "/redfish/v1/Managers" => collection(
            path,
            "ManagerCollection",
            &["/redfish/v1/Managers/BMC".to_owned()],
        ),
        "/redfish/v1/Managers/BMC" => json!({
            "@odata.id": path,
            "@odata.type": "#Manager.v1_19_1.Manager",
            "Id": "BMC",
            "Name": "Manager",
            "ManagerType": "BMC",
            "FirmwareVersion": env!("CARGO_PKG_VERSION"),
            "PowerState": "On",
            "Status": {"State": "Enabled", "Health": "OK"},
            "Links": {"ManagerForServers": [link("/redfish/v1/Systems/1")]},
        }),
        "/redfish/v1/Chassis" => collection(
            path,
            "ChassisCollection",
            &["/redfish/v1/Chassis/1".to_owned()],
        ),
        "/redfish/v1/Chassis/1" => json!({
            "@odata.id": path,
            "@odata.type": "#Chassis.v1_25_0.Chassis",
            "Id": "1",
            "Name": "Chassis",
            "ChassisType": "RackMount",
            // A trap: a chassis that is Off says nothing of the system in it.
            "PowerState": "Off",
            "Status": {"State": "Enabled", "Health": "OK"},
            "Links": {"ComputerSystems": [link("/redfish/v1/Systems/1")]},
        }),
        "/redfish/v1/TaskService" => json!({
            "@odata.id": path,
            "@odata.type": "#TaskService.v1_2_1.TaskService",
            "Id": "TaskService",
            "Name": "Task Service",
            "Tasks": link("/redfish/v1/TaskService/Tasks"),
        }),
        _ => return None,
    })
}

/// The collection of systems, or one page of it.
pub(super) fn systems(faults: &BmcFaults, page: Option<usize>) -> Value {
    let paths: Vec<_> = system_ids(faults)
        .iter()
        .map(|id| match &faults.member_link {
            Some(link) if id == OWN_SYSTEM => link.clone(),
            _ => system_path(id),
        })
        .collect();
    let shown = if page.is_some() {
        &[]
    } else {
        paths.as_slice()
    };
    let mut resource = collection("/redfish/v1/Systems", "ComputerSystemCollection", shown);
    resource["Members@odata.count"] = json!(paths.len());
    if faults.endless_next_link {
        let next = page.unwrap_or(0) + 1;
        resource["Members@odata.nextLink"] = json!(format!("/redfish/v1/Systems?$skip={next}"));
    }
    resource
}

pub(super) fn collection(path: &str, kind: &str, members: &[String]) -> Value {
    let links: Vec<_> = members
        .iter()
        .map(|path| json!({"@odata.id": path}))
        .collect();
    json!({
        "@odata.id": path,
        "@odata.type": format!("#{kind}.{kind}"),
        "Name": kind.trim_end_matches("Collection"),
        "Members": links,
        "Members@odata.count": members.len(),
    })
}

/// A ComputerSystem. `power_state` is left out if there is none.
pub(super) fn system(
    id: &str,
    machine: &dyn Power,
    power_state: Option<Value>,
    faults: &BmcFaults,
) -> Value {
    let is_own = id == OWN_SYSTEM;
    let uuid = match &faults.uuid {
        Some(uuid) if is_own => uuid.clone(),
        _ => json!(machine.system_uuid()),
    };
    let path = system_path(id);
    let mut resource = json!({
        "@odata.id": path,
        "@odata.type": "#ComputerSystem.v1_22_1.ComputerSystem",
        "@odata.etag": "W/\"1\"",
        "Id": id,
        "Name": "System",
        "SystemType": "Physical",
        "Manufacturer": "Lab",
        "Model": "Machine",
        "SKU": "LAB-1",
        "SerialNumber": serial_number(machine.system_uuid()),
        "UUID": uuid,
        "HostName": machine.name(),
        "PowerRestorePolicy": faults.power_restore_policy.as_deref().unwrap_or("AlwaysOff"),
        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
        "Links": {
            "Chassis": [{"@odata.id": "/redfish/v1/Chassis/1"}],
            "ManagedBy": [{"@odata.id": "/redfish/v1/Managers/BMC"}],
        },
    });
    if let Some(power_state) = power_state {
        resource["PowerState"] = power_state;
    }
    if faults.advertise != Advertise::NoAction {
        resource["Actions"] = json!({"#ComputerSystem.Reset": reset_action(id, faults)});
    }
    resource
}

fn reset_action(id: &str, faults: &BmcFaults) -> Value {
    let mut action = Map::new();
    let target = match &faults.action_target {
        Some(target) if id == OWN_SYSTEM => target.clone(),
        _ => reset_path(id),
    };
    action.insert("target".to_owned(), json!(target));
    match faults.advertise {
        Advertise::AllowableValues => {
            action.insert(
                "ResetType@Redfish.AllowableValues".to_owned(),
                json!(reset_types(faults)),
            );
        }
        Advertise::ActionInfo => {
            let path = format!("{}/ResetActionInfo", system_path(id));
            action.insert("@Redfish.ActionInfo".to_owned(), json!(path));
        }
        Advertise::Nothing | Advertise::NoAction => {}
    }
    Value::Object(action)
}

/// The ActionInfo of the reset action of a system.
pub(super) fn action_info(id: &str, faults: &BmcFaults) -> Value {
    json!({
        "@odata.id": format!("{}/ResetActionInfo", system_path(id)),
        "@odata.type": "#ActionInfo.v1_4_2.ActionInfo",
        "Id": "ResetActionInfo",
        "Name": "Reset Action Info",
        "Parameters": [{
            "Name": "ResetType",
            "Required": true,
            "DataType": "String",
            "AllowableValues": reset_types(faults),
        }],
    })
}
