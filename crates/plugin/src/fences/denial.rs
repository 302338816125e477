//! Somebody has said no to a fence of a node: whoever turns its machine off hears of them first.

use super::{boot, is_denied, is_of_boot, uid};
use fencing_api::fence::NodeFence;
use fencing_core::observed::NodeView;
use kube::ResourceExt;

/// A denial that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The NodeFence that was denied.
    pub fence: String,
    /// Of which node and boot, by whom and why.
    pub words: String,
    /// Does it end with this boot? One that names none stands until its NodeFence is deleted.
    pub ends_with_boot: bool,
}

/// Whoever has denied a fence of the node as it runs, or does not run, may have their hands in the machine, whatever has become of that fence, and of the
/// condition that it was for.
pub fn denied(node: &NodeView, all: &[NodeFence]) -> Option<Denial> {
    let mut denied = all.iter().filter(|it| is_denied(it));
    let fence = denied.find(|it| is_of_boot(it, node))?;
    Some(denial_of(fence, boot(fence).is_some()))
}

/// The same of the node and the boot that this one is of, by another one.
pub fn denied_beside(fence: &NodeFence, all: &[NodeFence]) -> Option<Denial> {
    let is_same = |a: Option<&String>, b: Option<&String>| a.is_none() || b.is_none() || a == b;
    let is_beside = |it: &&NodeFence| {
        it.name_any() != fence.name_any()
            && it.spec.node_name == fence.spec.node_name
            && is_same(uid(it), uid(fence))
            && is_same(boot(it), boot(fence))
    };
    let mut denied = all.iter().filter(|it| is_denied(it));
    let denied = denied.find(is_beside)?;
    let is_of_boot = boot(denied).is_some() && boot(fence).is_some();
    Some(denial_of(denied, is_of_boot))
}

/// `ends_with_boot`: it was given in the boot that is meant, for sure.
fn denial_of(fence: &NodeFence, ends_with_boot: bool) -> Denial {
    let denial = fence.spec.approval.as_ref();
    let by = denial.map(|it| format!(" by {} at {}: {}", it.user, it.time, it.reason));
    let of = match ends_with_boot {
        true => "in this boot",
        false => "in an unknown boot",
    };
    let name = fence.name_any();
    Denial {
        words: format!(
            "NodeFence {name} of Node {}, {of}, was denied{}",
            fence.spec.node_name,
            by.unwrap_or_default()
        ),
        fence: name,
        ends_with_boot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_cluster::slim::SlimNode;
    use serde_json::{Value, json};

    const SINCE: &str = "2027-01-02T18:00:00Z";

    fn fence(name: &str, spec: &Value) -> NodeFence {
        let mut fence = json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
            "spec": {"nodeName": "w-1", "nodeUID": "uid-1", "bootID": "boot-1", "trigger": {"type": "Manual"}},
        });
        json_patch::merge(&mut fence["spec"], spec);
        serde_json::from_value(fence).expect("a NodeFence")
    }

    /// Who has denied a fence of the node, by these NodeFences, whatever its kubelet says.
    fn said(fences: &[NodeFence]) -> Option<Denial> {
        let node: SlimNode = serde_json::from_value(json!({
            "metadata": {"name": "w-1", "uid": "uid-1"},
            "status": {
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}],
                "nodeInfo": {"bootID": "boot-1"},
            },
        }))
        .expect("a Node");
        denied(&node.view(), fences)
    }

    #[test]
    fn a_denial_stands_for_the_boot_of_the_node_that_it_was_given_for() {
        let answer = |decision: &str| json!({"approval": {"decision": decision, "user": "ann", "reason": "we work on it", "time": SINCE}});
        let denial = |of: Value| {
            let mut denial = answer("Denied");
            for (key, value) in of.as_object().into_iter().flatten() {
                denial[key] = value.clone();
            }
            fence("w-1-5c0ffee5", &denial)
        };
        for (of, boot) in [
            (json!({}), "in this boot"),
            (json!({"bootID": null}), "in an unknown boot"),
            (json!({"nodeUID": null}), "in this boot"),
        ] {
            // What came of it, and what somebody else has let go of since, takes that back for nobody.
            let fences = [fence("w-1-later", &json!({})), denial(of)];
            let said = said(&fences).expect("somebody is at it");
            let told = format!(
                "NodeFence w-1-5c0ffee5 of Node w-1, {boot}, was denied by ann at 2027-01-02T18:00:00Z: we work on it"
            );
            assert_eq!(said.words, told);
            assert_eq!(said.ends_with_boot, boot == "in this boot");
        }
        for of in [
            json!({"bootID": "boot-0"}),
            json!({"nodeUID": "uid-0"}),
            json!({"nodeName": "w-2"}),
        ] {
            assert_eq!(said(&[denial(of.clone())]), None, "{of}");
        }
        assert_eq!(said(&[fence("w-1", &answer("Approved"))]), None);
        // The same beside another one of that node and boot.
        let open = fence("w-1-now", &json!({}));
        let beside = |it: NodeFence| denied_beside(&open, &[open.clone(), it]).is_some();
        assert!(beside(denial(json!({}))));
        assert!(beside(denial(json!({"bootID": null}))));
        for of in [
            json!({"bootID": "boot-0"}),
            json!({"nodeUID": "uid-0"}),
            json!({"nodeName": "w-2"}),
        ] {
            assert!(!beside(denial(of.clone())), "{of}");
        }
        let mut unbound = fence("w-1-now", &json!({}));
        unbound.spec.boot_id = None;
        let words = denied_beside(&unbound, &[denial(json!({}))])
            .expect("in some boot")
            .words;
        assert!(words.contains("in an unknown boot"), "{words}");
        let own = denial(json!({}));
        assert_eq!(denied_beside(&own, std::slice::from_ref(&own)), None);
        // One that a human has made names no boot; its record does.
        let mut bound = denial(json!({"bootID": null}));
        let status = json!({"bootID": "boot-0"});
        bound.status = Some(serde_json::from_value(status).expect("a status"));
        assert_eq!(said(&[bound]), None);
    }
}
