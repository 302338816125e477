//! A machine that is off is not waited for.

use super::*;
use crate::shell::found_off::Said;
use fencing_core::early::Off;

/// The policy's wait guards against breaks of the network: a machine that is off is none, unless the policy says otherwise.
#[tokio::test]
async fn nothing_is_waited_for_where_a_device_reads_off() {
    let waits = |duration_policy: &str, mode: &str| {
        let mut policy = policy();
        policy["spec"]["unhealthyConditions"][0]["durationSeconds"] = json!(60);
        policy["spec"]["durationPolicy"] = json!(duration_policy);
        policy["spec"]["fence"]["mode"] = json!(mode);
        policy
    };
    let down = || node("Unknown", false, false);
    for (policy, device_reads_off, is_opened) in [
        (waits("SkipIfOff", "PowerOff"), true, true),
        (waits("SkipIfOff", "ConfirmOnly"), true, true),
        (waits("SkipIfOff", "PowerOff"), false, false),
        (waits("Wait", "PowerOff"), true, false),
        (waits("SkipIfOff", "Observe"), true, false),
    ] {
        let mut lab = Lab::new(down(), Some(policy.clone()), vec![]).await;
        lab.cluster.put(NODE, 200, down());
        lab.cluster
            .put(&format!("POST {FENCES}"), 201, fence(false));
        let (opened, _) = lab.writes().await;
        assert_eq!(opened, 0, "it was not asked yet");
        let context = Arc::clone(&lab.detector.context);
        let silent = context
            .caches
            .node("worker-1")
            .expect("the Node")
            .view
            .clone();
        let asked = clock::since_boot();
        let off = Off {
            first: asked,
            last: asked,
            on_before: None,
        };
        let off = device_reads_off.then_some(Said::Off(off));
        context.found_off.note("bmc", &silent, off);
        let (opened, _) = lab.writes().await;
        assert_eq!(opened, usize::from(is_opened), "{policy}");
        // How much of the wait was left is for the record.
        let policies = context.caches.policies();
        let wanted = lab
            .detector
            .wanted(&silent, &policies)
            .expect("an incident");
        let early = wanted.claim_due(now()).early_seconds;
        assert_eq!(early.is_some(), is_opened);
        assert!(early.is_none_or(|it| (50..=60).contains(&it)), "{early:?}");
    }
}
