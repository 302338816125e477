//! A BMC that has just restarted: each job makes a driver of its own, and the next one's knows what the device took before.

use super::*;
use fencing_core::reading::Reading;

const MANAGER: &str = "GET /redfish/v1/Managers/bmc";
const SECRET: &str = "GET /api/v1/namespaces/ns/secrets/bmc";

/// Its Manager began four minutes ago, and its system reads this.
fn restarted(lab: &Lab, state: &str) {
    let mut system = system(state, MACHINE);
    system["Links"] = json!({"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/bmc"}]});
    lab.cluster.put(SYSTEM, 200, system);
    let manager =
        json!({"LastResetTime": "2026-11-28T09:00:00Z", "DateTime": "2026-11-28T09:04:00Z"});
    lab.cluster.put(MANAGER, 200, manager);
}

async fn looked(lab: &Lab) -> Result<Reading, String> {
    match lab.run(DeviceOrder::ReadPower, None).await {
        DeviceReply::PowerRead { mut answers, .. } => answers.remove(0).reading,
        other => panic!("{other:?}"),
    }
}

/// A3: in mode PowerOff nobody waits until the five minutes are over.
#[tokio::test]
async fn an_off_that_it_took_in_another_job_makes_its_off_count() {
    let lab = Lab::new().await;
    restarted(&lab, "Off");
    let faults = async || looked(&lab).await.expect("a reading").faults;
    let just = ["a BMC that restarted in the last 5 minutes"];
    assert_eq!(faults().await, just);
    restarted(&lab, "On");
    assert_eq!(lab.off(Some("fence-n1")).await, OffResult::Accepted);
    restarted(&lab, "Off");
    assert_eq!(faults().await, [""; 0]);

    // It is forgotten with its FenceDevice.
    let device = lab.context.caches.device("bmc").expect("the device");
    lab.context.devices.survey(&[&device], &[]);
    assert_eq!(faults().await, [""; 0]);
    lab.context.devices.survey(&[], &[]);
    assert_eq!(faults().await, just);
}

/// BMCs refuse a right login now and then after they have restarted.
#[tokio::test]
async fn a_login_that_it_took_in_another_job_is_sent_once_more_when_it_is_refused() {
    let lab = Lab::new().await;
    let asked = async || {
        let before = lab.requests().len();
        let is_read = looked(&lab).await.is_ok();
        (is_read, lab.requests().len() - before)
    };
    assert_eq!(asked().await, (true, 1));
    let refuses = || lab.cluster.put(SYSTEM, 401, json!({}));
    refuses();
    assert_eq!(asked().await, (false, 2));
    assert_eq!(asked().await, (false, 1), "nothing was taken since");

    // Another login has not been taken yet, and more refusals could lock its account.
    lab.cluster.put(SYSTEM, 200, system("On", MACHINE));
    assert_eq!(asked().await, (true, 1));
    refuses();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc", "resourceVersion": "2"},
        "data": {"username": "cm9vdA==", "password": "b3RoZXI="},
    });
    lab.cluster.put(SECRET, 200, secret);
    assert_eq!(asked().await, (false, 1));
}
