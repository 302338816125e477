//! S21: a device that denies an off still says what the power is; one that was not reached says nothing.

use super::*;

#[tokio::test]
async fn a_device_that_denies_the_off_is_told_from_one_that_was_not_reached() {
    let mut only_soft = system("On", MACHINE);
    only_soft["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] =
        json!(["On", "GracefulShutdown"]);
    let denied = failure(403, "InsufficientPrivilege");
    let table = [
        ("no hard off", SYSTEM, (200, only_soft), true),
        ("not implemented", RESET, failure(501, "no"), true),
        ("no right", RESET, denied, true),
        ("broken", SYSTEM, failure(500, "no"), false),
        ("no such system", SYSTEM, failure(404, "no"), false),
    ];
    for (what, path, (status, body), is_denied) in table {
        let lab = Lab::new().await;
        lab.cluster.put(path, status, body);
        let result = lab.off(Some("fence-n1")).await;
        let is = match is_denied {
            true => matches!(result, OffResult::NotSent(_)),
            false => matches!(result, OffResult::Unreached(_)),
        };
        assert!(is, "{what}: {result:?}");
    }
}
