//! The admission policies of `deploy/`, judged without an API server: every row of the tables that e2e/tests/e2e/admission.rs,
//! words.rs, notes.rs and turned_ready.rs try on a real one, and those about the deletion of pods.
//!
//! What is not here: the API server's own checks, RBAC, and the tries with a stolen token, which are made on a real one only.

mod notes;
mod policy;
mod statuses;

use fencing_api::fence::NodeFenceSpec;
use notes::{NoteRow, judge_note};
use policy::{Policy, Request, Verdict};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use statuses::{StatusTable, judge_status};

const MANIFEST: &str = include_str!("../../deploy/admission.yaml");
const PEOPLE: &str = include_str!("../../deploy/people.yaml");
const NODES: &str = include_str!("../data/api/admission.yaml");
const WORDS: &str = include_str!("../data/api/words.yaml");
const NOTES: &str = include_str!("../data/api/notes.yaml");
const DELETIONS: &str = include_str!("../data/api/deletions.yaml");
const STATUSES: &str = include_str!("../data/api/early-detection.yaml");
const OPERATOR: &str = "system:serviceaccount:node-fencing-system:node-fencing-operator";

/// A row of `admission.yaml`.
#[derive(Deserialize)]
struct NodeRow {
    name: String,
    user: String,
    expect: String,
    message: Option<String>,
    warns: Option<String>,
    #[serde(default)]
    taints: Vec<Value>,
    ready: Option<String>,
    #[serde(default, rename = "bootID")]
    boot_id: String,
    patch: Option<Value>,
    subresource: Option<String>,
    #[serde(default)]
    delete: bool,
    #[serde(default, rename = "asRead")]
    as_read: bool,
    #[serde(default)]
    create: bool,
    #[serde(default)]
    connect: bool,
}

/// A row of `words.yaml`.
#[derive(Deserialize)]
struct WordRow {
    name: String,
    user: String,
    fence: Value,
    #[serde(default)]
    notes: Map<String, Value>,
    then: Option<Value>,
    #[serde(default, rename = "thenNotes")]
    then_notes: Map<String, Value>,
    delete: Option<Delete>,
    expect: String,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Delete {
    ended: bool,
    #[serde(rename = "byUID")]
    by_uid: bool,
}

/// A row of `deletions.yaml`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeletionRow {
    name: String,
    #[serde(default)]
    attachment: bool,
    user: String,
    operation: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    deleting: bool,
    ready: Option<String>,
    reason: Option<String>,
    disrupted: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    expect: String,
    message: Option<String>,
}

/// The rows of all tables.
struct Tables {
    nodes: Vec<NodeRow>,
    words: Vec<WordRow>,
    notes: Vec<NoteRow>,
    deletions: Vec<DeletionRow>,
    statuses: StatusTable,
}

impl Tables {
    fn read() -> Self {
        Self {
            nodes: serde_saphyr::from_str(NODES).expect("admission.yaml"),
            words: serde_saphyr::from_str(WORDS).expect("words.yaml"),
            notes: serde_saphyr::from_str(NOTES).expect("notes.yaml"),
            deletions: serde_saphyr::from_str(DELETIONS).expect("deletions.yaml"),
            statuses: serde_saphyr::from_str(STATUSES).expect("early-detection.yaml"),
        }
    }

    fn len(&self) -> usize {
        let about_people = self.words.len() + self.notes.len();
        self.nodes.len() + about_people + self.deletions.len() + self.statuses.rows.len()
    }

    /// What is wrong with the verdict of each row, looked for as it is asked for.
    fn faults(&self, policies: &[Policy]) -> impl Iterator<Item = String> {
        let nodes = self.nodes.iter().flat_map(move |row| {
            let verdict = judge_node(policies, row);
            let fault = fault(&verdict, &row.expect, row.message.as_deref());
            let warned = verdict.warnings.join("; ");
            let is_right = match &row.warns {
                Some(words) => warned.contains(words),
                None => warned.is_empty(),
            };
            let warned = (!is_right).then(|| format!("warned {warned:?}"));
            fault.into_iter().chain(warned).map(|it| (&row.name, it))
        });
        let words = self.words.iter().filter_map(move |row| {
            let verdict = judge_word(policies, row);
            let fault = fault(&verdict, &row.expect, row.message.as_deref());
            Some((&row.name, fault?))
        });
        let deletions = self.deletions.iter().filter_map(move |row| {
            let verdict = judge_deletion(policies, row);
            let fault = fault(&verdict, &row.expect, row.message.as_deref());
            Some((&row.name, fault?))
        });
        let notes = self.notes.iter().filter_map(move |row| {
            let verdict = judge_note(policies, row);
            let fault = fault(&verdict, &row.expect, row.message.as_deref());
            Some((&row.name, fault?))
        });
        let statuses = self.statuses.rows.iter().filter_map(move |row| {
            let verdict = judge_status(policies, &self.statuses, row);
            let fault = fault(&verdict, &row.expect, row.message.as_deref());
            Some((&row.name, fault?))
        });
        let all = deletions.chain(nodes).chain(words).chain(notes);
        let all = all.chain(statuses);
        all.map(|(name, fault)| format!("{name}: {fault}"))
    }
}

/// The verbs on these that this user of the tables has.
fn verbs(user: &str, resource: &str) -> Vec<String> {
    let role = match user {
        "ann" => "node-fencing-approver",
        "conrad" => "node-fencing-confirmer",
        "fred" => "node-fencing-fencer",
        "olga" => "node-fencing-editor",
        "paula" => "node-fencing-pauser",
        "petra" => "node-fencing-prober",
        "eve" => return vec![],
        // They are bound to cluster-admin.
        _ => {
            let all = ["approve", "confirm", "fence", "pause", "probe", "create"];
            return all.map(str::to_owned).to_vec();
        }
    };
    let roles: Vec<Value> = serde_saphyr::from_multiple(PEOPLE).expect("YAML");
    let role = roles.iter().find(|it| it["metadata"]["name"] == role);
    let rules = role.expect("a role")["rules"].as_array().expect("rules");
    let is_of = |rule: &&Value| {
        let resources = rule["resources"].as_array();
        resources.is_some_and(|it| it.contains(&json!(resource)))
    };
    rules.iter().find(is_of).map_or_else(Vec::new, |rule| {
        serde_json::from_value(rule["verbs"].clone()).expect("verbs")
    })
}

fn request(user: &str, resource: (&'static str, &'static str)) -> Request {
    let username = if user == "operator" { OPERATOR } else { user };
    Request {
        group: resource.0,
        resource: resource.1,
        subresource: String::new(),
        operation: "UPDATE",
        username: username.to_owned(),
        verbs: verbs(user, resource.1),
        options: json!({}),
        old: Value::Null,
        new: Value::Null,
    }
}

/// The stored object after a patch; what JSON Patch refuses is refused by the API server before any policy.
fn patched(old: &Value, patch: &Value) -> Option<Value> {
    let mut new = old.clone();
    match serde_json::from_value::<json_patch::Patch>(patch.clone()) {
        Ok(operations) => json_patch::patch(&mut new, &operations).ok()?,
        Err(_) => json_patch::merge(&mut new, patch),
    }
    if new["spec"]["taints"] == json!([]) {
        new["spec"]
            .as_object_mut()
            .expect("a spec")
            .remove("taints");
    }
    Some(new)
}

fn judge_node(policies: &[Policy], row: &NodeRow) -> Verdict {
    let mut node = json!({
        "metadata": {"name": "n", "uid": "u"}, "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": row.ready}], "nodeInfo": {"bootID": row.boot_id},
        },
    });
    if !row.taints.is_empty() {
        node["spec"]["taints"] = json!(row.taints);
    }
    let mut request = request(&row.user, ("", "nodes"));
    if row.create {
        (request.operation, request.new) = ("CREATE", node);
    } else if row.delete {
        (request.operation, request.old) = ("DELETE", node);
        if row.as_read {
            request.options = json!({"preconditions": {"uid": "u", "resourceVersion": "1"}});
        }
    } else if row.connect {
        "proxy".clone_into(&mut request.subresource);
        (request.operation, request.new) = ("CONNECT", json!({"path": "pods"}));
    } else {
        let Some(new) = patched(&node, row.patch.as_ref().expect("a patch")) else {
            return Verdict::refused(
                "the server rejected our request due to an error in our request",
            );
        };
        request.subresource = row.subresource.clone().unwrap_or_default();
        (request.new, request.old) = (new, node);
    }
    policy::judge(policies, &request)
}

fn judge_word(policies: &[Policy], row: &WordRow) -> Verdict {
    let fence = |spec: &Value| {
        let spec: NodeFenceSpec = serde_json::from_value(spec.clone()).expect("a spec");
        // With the defaults, which the API server has put in by then.
        let annotations = annotations(&row.notes);
        json!({"metadata": {"name": "f", "uid": "u", "annotations": annotations}, "spec": spec})
    };
    let mut request = request(&row.user, ("nodefencing.io", "nodefences"));
    if let Some(then) = &row.then {
        request.old = fence(&row.fence);
        let metadata = json!({"annotations": annotations(&row.then_notes)});
        let patch = json!({"metadata": metadata, "spec": then});
        request.new = patched(&request.old, &patch).expect("a merge");
    } else if let Some(delete) = &row.delete {
        (request.operation, request.old) = ("DELETE", fence(&row.fence));
        if delete.ended {
            request.old["status"] =
                json!({"conditions": [{"type": "Succeeded", "status": "True"}]});
        }
        if delete.by_uid {
            request.options["preconditions"] = json!({"uid": "u"});
        }
    } else {
        (request.operation, request.new) = ("CREATE", fence(&row.fence));
    }
    policy::judge(policies, &request)
}

/// With our prefix, which the tables leave out.
fn annotations(notes: &Map<String, Value>) -> Map<String, Value> {
    let ours = notes.iter();
    ours.map(|(key, value)| (format!("nodefencing.io/{key}"), value.clone()))
        .collect()
}

fn judge_deletion(policies: &[Policy], row: &DeletionRow) -> Verdict {
    let mut object = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {}});
    if row.deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    }
    let ready = row.ready.as_ref().map(|status| match &row.reason {
        Some(reason) => json!({"type": "Ready", "status": status, "reason": reason}),
        None => json!({"type": "Ready", "status": status}),
    });
    let disrupted = row.disrupted.as_ref();
    let disrupted = disrupted.map(|status| json!({"type": "DisruptionTarget", "status": status}));
    let conditions: Vec<Value> = ready.into_iter().chain(disrupted).collect();
    if !conditions.is_empty() {
        object["status"]["conditions"] = json!(conditions);
    }
    let resource = match row.attachment {
        true => ("storage.k8s.io", "volumeattachments"),
        false => ("", "pods"),
    };
    let mut request = request(&row.user, resource);
    request.subresource.clone_from(&row.subresource);
    request.operation = match row.operation.as_str() {
        "CREATE" => "CREATE",
        "UPDATE" => "UPDATE",
        "CONNECT" => "CONNECT",
        "DELETE" => "DELETE",
        other => panic!("no operation: {other}"),
    };
    match request.operation {
        "CREATE" => request.new = object,
        "UPDATE" => {
            request.new =
                patched(&object, &json!({"metadata": {"labels": {"a": "b"}}})).expect("a merge");
            request.old = object;
        }
        "CONNECT" => request.new = json!({"command": ["sh"]}),
        _ => request.old = object,
    }
    if let Some(uid) = &row.uid {
        request.options["preconditions"] = json!({"uid": uid});
    }
    if let Some(version) = &row.resource_version {
        request.options["preconditions"] = json!({"resourceVersion": version});
    }
    policy::judge(policies, &request)
}

/// What is wrong with a verdict.
fn fault(verdict: &Verdict, expect: &str, message: Option<&str>) -> Option<String> {
    match (expect, verdict.denials.is_empty()) {
        ("allow", true) => None,
        ("allow", false) => Some(format!("denied: {:?}", verdict.denials)),
        (_, true) => Some("allowed".to_owned()),
        (_, false) => {
            let message = message.unwrap_or_default();
            let says = verdict
                .denials
                .iter()
                .any(|denial| denial.contains(message));
            (!says).then(|| format!("denied without {message:?}: {:?}", verdict.denials))
        }
    }
}

#[test]
fn every_row_of_the_tables_gets_its_verdict() {
    let policies = policy::all(MANIFEST);
    assert_eq!(policies.len(), 12);
    let tables = Tables::read();
    let judged = tables.len();
    let wrong: Vec<String> = tables.faults(&policies).collect();
    println!("{judged} rows");
    assert!(
        wrong.is_empty(),
        "{} of {judged} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(judged >= 220, "only {judged}");
}

/// A rule whose loss no row notices guards nothing that is known.
#[test]
fn the_loss_of_any_rule_is_noticed() {
    let tables = Tables::read();
    let mut policies = policy::all(MANIFEST);
    let mut unnoticed = vec![];
    for policy in 0..policies.len() {
        for rule in 0..policies[policy].validations.len() {
            let lost = policies[policy].validations.remove(rule);
            let is_unnoticed = tables.faults(&policies).next().is_none();
            if is_unnoticed {
                unnoticed.push(format!("{}: {}", policies[policy].name, lost.message));
            }
            policies[policy].validations.insert(rule, lost);
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
