//! The AccountService: who may do what.

use serde_json::{Value, json};

use super::answer::{Answer, error_for};
use super::faults::BmcFaults;
use super::model::collection;

const SERVICE: &str = "/redfish/v1/AccountService";

/// The answer to a path below the service, for this user.
pub(super) fn answer(path: &str, user: &str, faults: &BmcFaults) -> Answer {
    if faults.no_account_service {
        return error_for(404);
    }
    let link = |end: &str| json!({"@odata.id": format!("{SERVICE}{end}")});
    let resource = match path.strip_prefix(SERVICE).unwrap_or_default() {
        "" => json!({
            "@odata.id": path,
            "@odata.type": "#AccountService.v1_15_1.AccountService",
            "Id": "AccountService",
            "Name": "Account Service",
            "Accounts": link("/Accounts"),
            "Roles": link("/Roles"),
        }),
        "/Accounts" => {
            let members = [format!("{SERVICE}/Accounts/1")];
            collection(path, "ManagerAccountCollection", &members)
        }
        "/Accounts/1" => {
            let role = match faults.read_only_account {
                true => "ReadOnly",
                false => "Operator",
            };
            json!({
                "@odata.id": path,
                "@odata.type": "#ManagerAccount.v1_12_1.ManagerAccount",
                "Id": "1",
                "Name": "User Account",
                "UserName": user,
                "RoleId": role,
                "Links": {"Role": link(&format!("/Roles/{role}"))},
            })
        }
        "/Roles/ReadOnly" => role(path, &["Login", "ConfigureSelf"]),
        "/Roles/Operator" => role(path, &["Login", "ConfigureComponents", "ConfigureSelf"]),
        _ => return error_for(404),
    };
    Answer::resource(&resource)
}

fn role(path: &str, privileges: &[&str]) -> Value {
    json!({
        "@odata.id": path,
        "@odata.type": "#Role.v1_3_3.Role",
        "Id": path.rsplit('/').next(),
        "Name": "User Role",
        "RoleId": path.rsplit('/').next(),
        "IsPredefined": true,
        "AssignedPrivileges": privileges,
        "OemPrivileges": [],
    })
}
