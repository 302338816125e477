//! What a service says beside a PowerState of Off, in other places, of the same machine.

use super::timestamp;
use jiff::SignedDuration;
use serde_json::Value;
use std::time::Duration;

/// Does the system say that its machine runs, and by which word? `BootProgress.LastState` where its operating system does, or a `Status.State`
/// of a system that is under way (Resource.State). Any other word of these says that it does not, and none of both says nothing. Enabled is no sign
/// of life, many services say it of a machine that is off; `Health` says nothing of power.
pub(super) fn runs(document: &Value) -> Option<Option<&'static str>> {
    let word = |path| document.pointer(path).and_then(Value::as_str);
    let (boot, state) = (word("/BootProgress/LastState"), word("/Status/State"));
    let running = match (boot, state) {
        (Some("OSRunning"), _) => Some("BootProgress OSRunning"),
        (_, Some("Starting")) => Some("Status.State Starting"),
        (_, Some("Quiesced")) => Some("Status.State Quiesced"),
        (_, Some("InTest")) => Some("Status.State InTest"),
        _ => None,
    };
    boot.or(state).map(|_| running)
}

/// Does this chassis read On, or Off, and is it the machine's own? That of an enclosure, or of several systems, has power while a system in it
/// has none.
#[must_use]
pub fn machine_reads_on(chassis: &Value) -> Option<bool> {
    let word = |name| chassis.get(name).and_then(Value::as_str);
    let is_own = matches!(
        word("ChassisType"),
        Some("Blade" | "RackMount" | "Sled" | "StandAlone")
    );
    let systems = chassis.pointer("/Links/ComputerSystems");
    let several = systems
        .and_then(Value::as_array)
        .is_some_and(|all| all.len() > 1);
    match word("PowerState") {
        Some("On") if is_own && !several => Some(true),
        Some("Off") => Some(false),
        _ => None,
    }
}

/// When a Manager began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// So long before its answer.
    pub age: Duration,
}

/// `LastResetTime` of a Manager by its own `DateTime`, because its clock may be wrong. None where one of them is missing, or the reset lies
/// in the future.
#[must_use]
pub fn restart(manager: &Value) -> Option<Restart> {
    let now = timestamp(manager, "DateTime")?;
    let age: SignedDuration = now.duration_since(timestamp(manager, "LastResetTime")?);
    let age = Duration::try_from(age).ok()?;
    Some(Restart { age })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_machine_s_own_chassis_speaks_of_its_power() {
        let of = |kind: &str, power: &str, systems: usize| {
            let systems = vec![json!({"@odata.id": "/redfish/v1/Systems/1"}); systems];
            machine_reads_on(
                &json!({"ChassisType": kind, "PowerState": power, "Links": {"ComputerSystems": systems}}),
            )
        };
        for kind in ["Blade", "RackMount", "Sled", "StandAlone"] {
            assert_eq!(of(kind, "On", 1), Some(true), "{kind}");
            assert_eq!(of(kind, "On", 0), Some(true), "{kind}");
            assert_eq!(of(kind, "Off", 1), Some(false), "{kind}");
            assert_eq!(of(kind, "On", 4), None, "{kind}");
            assert_eq!(of(kind, "PoweringOff", 1), None, "{kind}");
        }
        for kind in ["Enclosure", "Rack", "Shelf", "Module", "Other", ""] {
            assert_eq!(of(kind, "On", 1), None, "{kind}");
        }
        for absent in [json!({}), json!([]), json!({"PowerState": "On"})] {
            assert_eq!(machine_reads_on(&absent), None, "{absent}");
        }
    }

    #[test]
    fn a_restart_is_as_old_as_the_manager_s_own_clock_says() {
        let of = |reset: &str, now: &str| {
            restart(&json!({"LastResetTime": reset, "DateTime": now})).map(|it| it.age)
        };
        let (at, later) = ("1970-01-01T00:01:00+00:00", "1970-01-01T02:05:00+02:00");
        assert_eq!(of(at, later), Some(Duration::from_mins(4)));
        assert_eq!(of(later, at), None, "it lies in the future");
        assert_eq!(of("", later), None);
        for absent in [
            json!({}),
            json!({"LastResetTime": at}),
            json!({"DateTime": at}),
        ] {
            assert_eq!(restart(&absent), None, "{absent}");
        }
    }

    #[test]
    fn a_machine_runs_where_its_boot_has_come_to_the_system_or_its_state_is_under_way() {
        for (state, says) in [
            ("OSRunning", Some(Some("BootProgress OSRunning"))),
            ("OSBootStarted", Some(None)),
            ("None", Some(None)),
        ] {
            assert_eq!(runs(&json!({"BootProgress": {"LastState": state}})), says);
        }
        for (state, says) in [
            ("Starting", Some(Some("Status.State Starting"))),
            ("Quiesced", Some(Some("Status.State Quiesced"))),
            ("InTest", Some(Some("Status.State InTest"))),
            ("Enabled", Some(None)),
            ("Disabled", Some(None)),
            ("StandbyOffline", Some(None)),
            ("Updating", Some(None)),
        ] {
            let status = json!({"Status": {"State": state, "Health": "Critical"}});
            assert_eq!(runs(&status), says, "{state}");
        }
        for absent in [
            json!({}),
            json!({"BootProgress": {"LastState": null}}),
            json!({"Status": "Starting"}),
        ] {
            assert_eq!(runs(&absent), None, "{absent}");
        }
    }
}
