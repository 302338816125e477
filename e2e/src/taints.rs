//! The operator's taints on every Node over time, and the rules that hold for them at each moment.
//!
//! The audit log has every write to a Node with the object that it left behind. Put in the order of their resource
//! versions these are all the states that the Node ever had, whoever wrote them, so "at no moment" can be checked and
//! not only "not when the test looked".

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;

use crate::audit::{OPERATOR, Request};
use crate::lab::Lab;
use crate::proxy::writes::{CLAIM, OUT_OF_SERVICE, QUARANTINE};

/// What one write left of a Node, as far as fencing goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// `metadata.resourceVersion`
    pub version: u64,
    /// When the API server got the write.
    pub at: Timestamp,
    /// Who wrote it.
    pub by: String,
    /// The values of all claims; more than one is a broken rule.
    pub claims: Vec<String>,
    /// Does `out-of-service` stand?
    pub out_of_service: bool,
    /// Does the quarantine stand?
    pub quarantine: bool,
    /// Is the condition Ready True?
    pub ready: bool,
    /// `status.nodeInfo.bootID`
    pub boot_id: String,
    /// The request's body.
    pub patch: Value,
}

/// All states of one Node, in order.
pub type History = Vec<State>;

impl State {
    fn of(write: &Request) -> Option<((String, String), Self)> {
        let node = &write.response_object;
        if !write.succeeded() || node["kind"] != "Node" {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let taints = node["spec"]["taints"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let with = |key: &'static str| taints.iter().filter(move |taint| taint["key"] == key);
        let conditions = node["status"]["conditions"].as_array();
        let is_ready =
            |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let state = Self {
            version: node["metadata"]["resourceVersion"].as_str()?.parse().ok()?,
            at: write.received,
            by: write.user.username.clone(),
            claims: with(CLAIM).map(|taint| text(&taint["value"])).collect(),
            out_of_service: with(OUT_OF_SERVICE).next().is_some(),
            quarantine: with(QUARANTINE).next().is_some(),
            ready: conditions.into_iter().flatten().any(is_ready),
            boot_id: text(&node["status"]["nodeInfo"]["bootID"]),
            patch: write.request_object.clone(),
        };
        Some((
            (
                text(&node["metadata"]["name"]),
                text(&node["metadata"]["uid"]),
            ),
            state,
        ))
    }
}

/// The histories of all Nodes, by name and UID.
pub fn histories(writes: &[Request]) -> BTreeMap<(String, String), History> {
    let mut histories: BTreeMap<_, History> = BTreeMap::new();
    for (node, state) in writes.iter().filter_map(State::of) {
        histories.entry(node).or_default().push(state);
    }
    for history in histories.values_mut() {
        history.sort_by_key(|state| state.version);
        // A write that changes nothing leaves the version as it was.
        history.dedup_by_key(|state| state.version);
    }
    histories
}

/// The rules (S6, S8, S9): never two claims; `out-of-service` of ours is added only under the claim that its patch
/// tests and that was stored before, to a Node that was not Ready and did not carry it yet.
pub fn check(histories: &BTreeMap<(String, String), History>) -> Result<()> {
    for ((node, _), history) in histories {
        for state in history {
            ensure!(
                state.claims.len() <= 1,
                "{node} carries two claims: {state:#?}"
            );
        }
        for pair in history.windows(2) {
            let [before, after] = pair else { continue };
            if after.by != OPERATOR || before.out_of_service || !after.out_of_service {
                continue;
            }
            ensure!(
                !before.ready,
                "a Ready {node} was put out of service: {after:#?}"
            );
            ensure!(
                before.claims == after.claims && before.claims == tested_claims(&after.patch),
                "{node} was put out of service by a patch that tests another claim than the stored {:?}: {after:#?}",
                before.claims
            );
        }
    }
    Ok(())
}

/// The values of the claims that a JSON Patch tests.
fn tested_claims(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten();
    let tests = operations
        .filter(|operation| operation["op"] == "test" && operation["value"]["key"] == CLAIM);
    tests
        .filter_map(|test| test["value"]["value"].as_str().map(str::to_owned))
        .collect()
}

/// The moments at which the operator set `out-of-service`.
pub fn set(history: &[State]) -> Vec<&State> {
    changes(history, |before, after| {
        !before.out_of_service && after.out_of_service
    })
}

/// The moments at which the operator took `out-of-service` away.
pub fn released(history: &[State]) -> Vec<&State> {
    changes(history, |before, after| {
        before.out_of_service && !after.out_of_service
    })
}

/// Every claim that ever stood, in order.
pub fn claims(history: &[State]) -> Vec<&str> {
    let mut claims: Vec<&str> = history
        .iter()
        .flat_map(|state| &state.claims)
        .map(String::as_str)
        .collect();
    claims.dedup();
    claims
}

fn changes(history: &[State], is_it: impl Fn(&State, &State) -> bool) -> Vec<&State> {
    let pairs = history.windows(2).filter_map(|pair| match pair {
        [before, after] if after.by == OPERATOR && is_it(before, after) => Some(after),
        _ => None,
    });
    pairs.collect()
}

impl Lab {
    /// Everything that befell the taints of this Node, up to now.
    pub async fn history(&self, node: &str) -> Result<History> {
        let audit = self.control_plane.audit();
        audit.settled().await?;
        let mut found = histories(&audit.writes_to("nodes")?)
            .into_iter()
            .filter(|((name, _), _)| name == node);
        let (_, history) = found
            .next()
            .with_context(|| format!("nobody ever wrote Node {node}"))?;
        ensure!(
            found.next().is_none(),
            "Node {node} was created more than once"
        );
        Ok(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn write(by: &str, version: u64, ready: bool, taints: Value, patch: Value) -> Request {
        let ready = if ready { "True" } else { "Unknown" };
        let request = json!({
            "verb": "patch", "requestURI": "/api/v1/nodes/a", "user": {"username": by}, "stage": "ResponseComplete",
            "responseStatus": {"code": 200}, "requestObject": patch,
            "requestReceivedTimestamp": "2026-01-01T00:00:00Z", "stageTimestamp": "2026-01-01T00:00:00Z",
            "responseObject": {
                "kind": "Node", "metadata": {"name": "a", "uid": "u", "resourceVersion": version.to_string()},
                "spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]},
            },
        });
        serde_json::from_value(request).expect("a request")
    }

    fn claim(value: &str) -> Value {
        json!({"key": CLAIM, "value": value, "effect": "NoExecute"})
    }

    fn verdict(writes: &[Request]) -> Result<()> {
        check(&histories(writes))
    }

    #[test]
    fn a_taint_under_the_claim_that_it_tests_is_fine_in_whatever_order_the_log_has_it() {
        let oos = json!({"key": OUT_OF_SERVICE, "effect": "NoExecute"});
        let patch = json!([{"op": "test", "path": "/spec/taints/0", "value": claim("x-1")}]);
        let claimed = write(OPERATOR, 9, false, json!([claim("x-1")]), json!([]));
        let tainted = write(OPERATOR, 10, false, json!([claim("x-1"), oos]), patch);
        assert!(verdict(&[tainted.clone(), claimed.clone()]).is_ok());

        let replaced = write(OPERATOR, 9, false, json!([claim("x-2")]), json!([]));
        assert!(verdict(&[replaced, tainted.clone()]).is_err());
        let ready = write("kubelet", 9, true, json!([claim("x-1")]), json!([]));
        assert!(verdict(&[ready, tainted]).is_err());
    }

    #[test]
    fn two_claims_at_once_are_never_fine() {
        let both = json!([claim("x-1"), claim("x-2")]);
        assert!(verdict(&[write("kubelet", 1, false, both, json!([]))]).is_err());
    }
}
