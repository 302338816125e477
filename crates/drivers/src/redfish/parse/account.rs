//! What an account may do (AccountService, ManagerAccount and Role of DSP2046).

use super::links::local_path;
use super::word;
use serde_json::Value;

/// The service that knows the accounts, where there is one.
pub const ACCOUNT_SERVICE: &str = "/redfish/v1/AccountService";
/// What a reset of a ComputerSystem needs by the Redfish Privilege Registry (DSP8011, operation POST of `ComputerSystem`).
const NEEDED: &str = "ConfigureComponents";

/// A resource that this one links to by name, outside of its `Links`.
#[must_use]
pub fn link(document: &Value, name: &str) -> Option<String> {
    local_path(document.get(name)?.get("@odata.id")?.as_str()?).ok()
}

/// The path of the role of an account, if it is the one of this user.
#[must_use]
pub fn role_of(account: &Value, user: &str) -> Option<String> {
    let is_users = account.get("UserName").and_then(Value::as_str) == Some(user);
    link(account.get("Links").filter(|_| is_users)?, "Role")
}

/// The name of a role that may not reset a system: it lists the privileges of the standard, and neither that one nor any of the maker's own, which may
/// stand for it.
#[must_use]
pub fn may_not_reset(role: &Value) -> Option<String> {
    let listed = |name: &str| role.get(name).and_then(Value::as_array);
    let assigned = listed("AssignedPrivileges").filter(|all| !all.is_empty())?;
    let has_needed = assigned.iter().any(|it| it.as_str() == Some(NEEDED));
    let has_own = listed("OemPrivileges").is_some_and(|all| !all.is_empty());
    let name = word(role, "RoleId").or_else(|| word(role, "Id"));
    name.filter(|_| !has_needed && !has_own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_role_is_that_of_the_user_and_of_nobody_else() {
        let account = json!({
            "UserName": "fence",
            "Links": {"Role": {"@odata.id": "/redfish/v1/AccountService/Roles/ReadOnly"}},
        });
        let role = "/redfish/v1/AccountService/Roles/ReadOnly";
        assert_eq!(role_of(&account, "fence").as_deref(), Some(role));
        for other in ["", "Fence", "fence2"] {
            assert_eq!(role_of(&account, other), None, "{other}");
        }
        let elsewhere =
            json!({"UserName": "fence", "Links": {"Role": {"@odata.id": "https://10.0.0.9/x"}}});
        for unusable in [json!({}), json!({"UserName": "fence"}), elsewhere] {
            assert_eq!(role_of(&unusable, "fence"), None, "{unusable}");
        }
    }

    #[test]
    fn only_a_role_that_lists_what_it_may_and_no_reset_is_said_not_to_reset() {
        let role = |assigned: Value, own: Value| json!({"RoleId": "Reader", "AssignedPrivileges": assigned, "OemPrivileges": own});
        let reader = role(json!(["Login", "ConfigureSelf"]), json!([]));
        assert_eq!(may_not_reset(&reader).as_deref(), Some("Reader"));
        let without_own = json!({"Id": "Reader", "AssignedPrivileges": ["Login"]});
        assert_eq!(may_not_reset(&without_own).as_deref(), Some("Reader"));
        for says_nothing in [
            role(json!(["Login", "ConfigureComponents"]), json!([])),
            // iLO's `VirtualPowerAndResetPriv`, and others that are not known here.
            role(json!(["Login"]), json!(["VirtualPowerAndResetPriv"])),
            role(json!([]), json!([])),
            role(json!("Login"), json!([])),
            json!({"AssignedPrivileges": ["Login"]}),
            json!([]),
        ] {
            assert_eq!(may_not_reset(&says_nothing), None, "{says_nothing}");
        }
    }
}
