//! A brake holds an incident.

use super::*;

/// It is there for the case that many machines only seem to be dead.
#[test]
fn what_a_brake_holds_is_approved_only_by_who_knows_better() {
    let held = |reason: &str| {
        let fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": "node-1-5c0ffee5"},
            "spec": {"nodeName": "node-1", "trigger": {"type": "NodeCondition"}, "fence": {"mode": "PowerOff"}},
            "status": {"conditions": [{
                "type": "Held", "status": "True", "reason": reason, "message": "words", "lastTransitionTime": SINCE,
            }]},
        });
        incident(&serde_json::from_value(fence).expect("a NodeFence"), None)
    };
    let commands = [
        "kubectl fence approve node-1 --reason WHY",
        "kubectl fence deny node-1 --reason WHY",
    ];
    for reason in ["MinHealthy", "OfTomorrow"] {
        let incident = held(reason);
        assert_eq!(incident.commands, commands);
        assert_eq!(incident.brake.as_deref(), Some(reason));
        let only = format!(
            "Only if this machine is known to be down: an approval lifts the hold ({reason})"
        );
        let sight = of_nothing();
        let status = Status {
            incidents: vec![incident],
            ..sight.status(None, now())
        };
        let text = screen(&status, None, false, now()).replace("\n  ", " ");
        let told = format!(" {only}   {}", commands[0]);
        assert!(text.contains(&told), "{text}");
    }
    for reason in ["Paused", "Quorum", "AwaitingApproval"] {
        let incident = held(reason);
        assert!(incident.commands.is_empty(), "{reason}");
        assert_eq!(incident.brake, None);
    }
}
