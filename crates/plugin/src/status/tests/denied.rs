//! Somebody has said no to another fence of the node, and may be at its machine.

use super::*;

#[test]
fn who_has_denied_another_fence_of_the_node_is_named_before_the_commands() {
    let mut sight = sight(policy_of(&json!({}), &ready()), vec![dead()], None);
    let fence = |name: &str, node: &str, more: Value| -> NodeFence {
        let mut fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
            "spec": {
                "nodeName": node, "bootID": "boot-1", "trigger": {"type": "Manual"},
                "fence": {"mode": "PowerOff", "approval": {"mode": "Manual"}},
            },
        });
        json_patch::merge(&mut fence, &more);
        serde_json::from_value(fence).expect("a NodeFence")
    };
    let ended = |node: &str| {
        let approval =
            json!({"decision": "Denied", "user": "ann", "reason": "I am at it", "time": SINCE});
        let over = json!({"type": "Succeeded", "status": "False", "reason": "Aborted", "message": "", "lastTransitionTime": SINCE});
        let more = json!({"spec": {"approval": approval}, "status": {"conditions": [over]}});
        fence("earlier", node, more)
    };
    let ask = "Another fence was denied, ask that person first: NodeFence earlier of Node node-1, in this boot, was denied by ann";
    for (node, is_told) in [("node-1", true), ("node-2", false)] {
        sight.fences = vec![fence("node-1-5c0ffee5", "node-1", json!({})), ended(node)];
        let text = shown(&sight, None);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains(ask), is_told, "{text}");
    }
    // Nor is anybody handed the command that goes past them.
    let calls = json!({"type": "Escalated", "status": "True", "reason": "StillOn", "message": "create another", "lastTransitionTime": SINCE});
    let still_on = json!({"spec": {"fence": {"mode": "ConfirmOnly", "approval": {"mode": "Automatic"}}}, "status": {"conditions": [calls]}});
    for (node, is_offered) in [("node-1", false), ("node-2", true)] {
        let open = fence("node-1-5c0ffee5", "node-1", still_on.clone());
        sight.fences = vec![open, ended(node)];
        let text = shown(&sight, None);
        let command = "kubectl fence now node-1 --mode PowerOff --reason WHY";
        assert_eq!(text.contains(command), is_offered, "{text}");
    }
}
