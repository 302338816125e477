//! A write of the operator is denied in the middle of a fence: by somebody's admission policy (F23), or because a right was taken
//! from it (F24).
//!
//! The kubelet hangs and the machine runs on, so a power command without a claim would hit a database that writes. What is denied is
//! decided again after a look at the Node and sent in no other form (S20); people are told what denies it; and when nothing does any
//! more, the fence goes on by itself.

use anyhow::{Context, Result, ensure};
use e2e::audit::OPERATOR;
use e2e::lab::{LIMIT, Lab, Setup, escalation};
use e2e::point::Point;
use e2e::proxy::writes::{self, CLAIM, OUT_OF_SERVICE};
use e2e::proxy::{Matcher, Record, Seen};
use e2e::rights::LAB_DENIES;
use fencing_testbed::eventually::eventually;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::failed_writes::{each_after_a_look, each_in_its_form};
use crate::outage::{Outage, POD};
use crate::verdict::{Body, call, must};

/// So many tries in vain show what the operator does about a denial.
const TRIES: usize = 6;
/// Why, as somebody has written it into their admission policy.
const FREEZE: &str = "no changes to machines before the end of the quarter";
/// A taint by which a test finds out whether the policy is in force.
const PROBE: &str = "lab/probe";
const POLICY: &[(&str, &str)] = &[
    (
        "ValidatingAdmissionPolicy",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    ),
];
const WEBHOOK: &[(&str, &str)] = &[(
    "ValidatingWebhookConfiguration",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
)];
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/node-fencing-operator";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What lets the operator write no Node, or no taint of a key.
struct Obstacle<'a> {
    lab: &'a Lab,
    name: String,
    /// The kinds and paths of its parts.
    parts: &'static [(&'static str, &'static str)],
    /// How people find it.
    words: Vec<String>,
}

impl<'a> Obstacle<'a> {
    /// An admission policy that denies taints of this key. Without a reason it answers 422, as a failed test of a JSON Patch does.
    async fn policy(lab: &'a Lab, name: &str, key: &str, reason: Option<&str>) -> Result<Self> {
        let name = format!("{LAB_DENIES}{name}");
        let refused = format!("t.key in ['{key}', '{PROBE}']");
        let spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule()]},
            "matchConditions": [condition(&name)],
            "validations": [{
                "expression": format!("!has(object.spec.taints) || !object.spec.taints.exists(t, {refused})"),
                "message": FREEZE,
                "reason": reason,
            }],
        });
        let binding = json!({"policyName": name, "validationActions": ["Deny"]});
        let this = Self {
            lab,
            parts: POLICY,
            words: vec![
                format!("ValidatingAdmissionPolicy '{name}'"),
                FREEZE.to_owned(),
            ],
            name,
        };
        this.create([json!({"spec": spec}), json!({"spec": binding})])
            .await?;
        Ok(this)
    }

    /// A webhook that nobody answers.
    async fn webhook(lab: &'a Lab) -> Result<Self> {
        let name = format!("{LAB_DENIES}webhook.example.com");
        let webhook = json!({
            "name": name, "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule()],
            "matchConditions": [condition(&name)],
        });
        let this = Self {
            lab,
            parts: WEBHOOK,
            words: vec![format!("failed calling webhook \"{name}\"")],
            name,
        };
        this.create([json!({"webhooks": [webhook]})]).await?;
        Ok(this)
    }

    /// Returns when it is in force.
    async fn create(&self, parts: impl IntoIterator<Item = Value>) -> Result<()> {
        let admin = self.lab.control_plane.admin();
        for ((kind, path), mut object) in self.parts.iter().zip(parts) {
            object["apiVersion"] = json!("admissionregistration.k8s.io/v1");
            object["kind"] = json!(kind);
            object["metadata"] = json!({"name": self.name});
            must(&admin, Method::POST, path, Some((Body::Object, &object))).await?;
        }
        let probe = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name},
            "spec": {"taints": [{"key": PROBE, "effect": "NoSchedule"}]},
        });
        eventually("it is in force", LIMIT, async || {
            let body = Some((Body::Object, &probe));
            let verdict = call(&admin, Method::POST, "/api/v1/nodes?dryRun=All", body).await?;
            let denied = verdict.err().context("it denies nothing")?;
            ensure!(has_all(&denied.message, &self.words), "{}", denied.message);
            Ok(())
        })
        .await
    }

    async fn remove(self) -> Result<()> {
        let admin = self.lab.control_plane.admin();
        for (_, path) in self.parts {
            let path = format!("{path}/{}", self.name);
            must(&admin, Method::DELETE, &path, None).await?;
        }
        Ok(())
    }
}

fn rule() -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["nodes"]})
}

fn condition(name: &str) -> Value {
    let of =
        format!("request.userInfo.username == '{OPERATOR}' || object.metadata.name == '{name}'");
    json!({"name": "operator-or-probe", "expression": of})
}

fn has_all(text: &str, words: &[String]) -> bool {
    words.iter().all(|words| text.contains(words))
}

/// The operator's ClusterRole, of which verbs are taken away and given back.
struct Role<'a> {
    lab: &'a Lab,
    rules: Vec<Value>,
}

impl<'a> Role<'a> {
    async fn read(lab: &'a Lab) -> Result<Self> {
        let role = must(&lab.control_plane.admin(), Method::GET, ROLE, None).await?;
        let rules = role["rules"].as_array().context("it has no rules")?;
        Ok(Self {
            lab,
            rules: rules.clone(),
        })
    }

    /// Grants all but this verb on this resource, in one write, and returns when that is in force.
    async fn without(&self, verb: &str, resource: &str) -> Result<()> {
        let mut rules = self.rules.clone();
        let of_it = |rule: &&mut Value| rule["resources"] == json!([resource]);
        let rule = rules.iter_mut().find(of_it).context("no such rule")?;
        let verbs = rule["verbs"].as_array_mut().context("it has no verbs")?;
        let before = verbs.len();
        verbs.retain(|one| one != verb);
        ensure!(verbs.len() + 1 == before, "it did not grant {verb}");
        self.write(rules).await?;
        let admin = self.lab.control_plane.admin();
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": OPERATOR, "resourceAttributes": {"verb": verb, "resource": resource}},
        });
        eventually("the right is gone", LIMIT, async || {
            let body = Some((Body::Object, &review));
            let answer = must(&admin, Method::POST, REVIEWS, body).await?;
            ensure!(answer["status"]["allowed"] == false, "{answer}");
            Ok(())
        })
        .await
    }

    async fn give_back(&self) -> Result<()> {
        self.write(self.rules.clone()).await
    }

    async fn write(&self, rules: Vec<Value>) -> Result<()> {
        let admin = self.lab.control_plane.admin();
        let body = json!({"rules": rules});
        must(&admin, Method::PATCH, ROLE, Some((Body::Merge, &body))).await?;
        Ok(())
    }
}

/// On a control plane that nobody uses afterwards: its rules change.
async fn prepare(name: &str) -> Result<Outage> {
    let lab = Lab::start(Setup::new(name, 2).alone()).await?;
    Outage::of(lab, "PowerOff", json!({})).await
}

fn is_of_node_or_pod(seen: &Seen) -> bool {
    let segments = seen.segments();
    writes::any_write().matches(seen) && (segments.contains(&"nodes") || segments.contains(&"pods"))
}

/// Waits until a human is called with these words, and the write was tried in vain again and again: it and no other, after a look.
async fn denied(outage: &Outage, write: Matcher, code: u16, words: &[String]) -> Result<()> {
    let Outage {
        lab, node, proxy, ..
    } = outage;
    let says = |fence: &DynamicObject| {
        escalation(fence)
            .is_some_and(|(reason, says)| reason == "AdmissionDenied" && has_all(says, words))
    };
    let fence = lab
        .wait_fence(node, says)
        .await
        .with_context(|| format!("nobody is called with {words:?}"))?;
    lab.wait_told(&fence, "AdmissionDenied").await?;
    let tries = |log: &[Record]| -> Vec<usize> {
        let is_try = |index: &usize| {
            write.matches(&log[*index].seen) && log[*index].upstream_status.is_some()
        };
        (0..log.len()).filter(is_try).collect()
    };
    let (log, tries) = eventually("it is tried again", LIMIT, async || {
        let log = proxy.log();
        let tries = tries(&log);
        ensure!(tries.len() >= TRIES, "{} tries", tries.len());
        Ok((log, tries))
    })
    .await?;
    let codes: Vec<_> = tries
        .iter()
        .filter_map(|index| log[*index].upstream_status)
        .collect();
    ensure!(codes.iter().all(|it| *it == code), "answered {codes:?}");
    each_after_a_look(&log, &tries, node)?;
    let since = tries.first().copied().unwrap_or_default();
    let others = log[since..]
        .iter()
        .map(|record| &record.seen)
        .find(|seen| is_of_node_or_pod(seen) && !write.matches(seen));
    if let Some(other) = others {
        anyhow::bail!(
            "in its place: {} {} {}",
            other.method,
            other.path,
            other.body
        );
    }
    each_in_its_form(&log)
}

/// The operator has changed neither the Node nor its pods, and commanded nothing.
async fn untouched(outage: &Outage) -> Result<()> {
    let node_writes = outage.node_writes().await?;
    ensure!(node_writes.is_empty(), "{node_writes:#?}");
    ensure!(outage.lab.writes_to("pods").await?.is_empty());
    let rig = outage.rig()?;
    ensure!(rig.bmc.power_commands().is_empty() && rig.machine.is_on());
    Ok(())
}

/// The machine is off, and the node is not out of service.
async fn only_off(outage: &Outage) -> Result<()> {
    let rig = outage.rig()?;
    let commands = rig.bmc.power_commands();
    ensure!(commands.len() == 1 && !rig.machine.is_on(), "{commands:#?}");
    let history = outage.lab.history(&outage.node).await?;
    let tainted = history.iter().find(|state| state.out_of_service);
    ensure!(tainted.is_none(), "{tainted:#?}");
    Ok(())
}

/// Nobody does anything more, and the fence ends as if nothing had been in its way.
async fn goes_on(outage: &Outage) -> Result<()> {
    let Outage {
        lab, node, proxy, ..
    } = outage;
    lab.workloads
        .wait_running_elsewhere(POD, node, LIMIT)
        .await?;
    let recovered = lab.wait_stage(node, "Recovered").await?;
    ensure!(escalation(&recovered).is_none(), "{:#}", recovered.data);
    let fences = lab.api("NodeFence").list(&ListParams::default()).await?;
    ensure!(fences.items.len() == 1, "one outage is one NodeFence");
    ensure!(lab.times_tainted(node).await? == 1);
    let commands = outage.rig()?.bmc.power_commands();
    ensure!(commands.len() == 1, "{commands:#?}");
    each_in_its_form(&proxy.log())?;
    lab.silent_after_proof(&recovered).await?;
    outage.verdict().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_admission_policy_denies_is_told_and_done_in_no_other_way() -> Result<()> {
    let outage = prepare("policy-denies").await?;
    let Outage { lab, node, .. } = &outage;
    let freeze = Obstacle::policy(lab, "claim", CLAIM, None).await?;
    Point::OffSent.strike(outage.rig()?);
    denied(&outage, writes::claim().of(node), 422, &freeze.words).await?;
    untouched(&outage).await?;

    let taint = Obstacle::policy(lab, "taint", OUT_OF_SERVICE, Some("Forbidden")).await?;
    freeze.remove().await?;
    denied(&outage, writes::taint().of(node), 403, &taint.words).await?;
    only_off(&outage).await?;

    taint.remove().await?;
    goes_on(&outage).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_down_is_named_and_no_write_takes_another_form() -> Result<()> {
    let outage = prepare("webhook-down").await?;
    let Outage { lab, node, .. } = &outage;
    let webhook = Obstacle::webhook(lab).await?;
    Point::OffSent.strike(outage.rig()?);
    denied(&outage, writes::claim().of(node), 500, &webhook.words).await?;
    untouched(&outage).await?;

    webhook.remove().await?;
    goes_on(&outage).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_taken_away_is_named_and_done_in_no_other_way() -> Result<()> {
    let outage = prepare("right-revoked").await?;
    let Outage { lab, node, pod, .. } = &outage;
    let role = Role::read(lab).await?;
    let missing = |verb: &str, resource: &str| {
        let words = format!("{OPERATOR}\" cannot {verb} resource \"{resource}\"");
        [words, "grant it".to_owned()]
    };
    role.without("patch", "nodes").await?;
    Point::OffSent.strike(outage.rig()?);
    let words = missing("patch", "nodes");
    denied(&outage, writes::claim().of(node), 403, &words).await?;
    untouched(&outage).await?;

    // The one is given back in the write that takes the other.
    role.without("delete", "pods").await?;
    let words = missing("delete", "pods");
    denied(&outage, writes::delete_pod().of(POD), 403, &words).await?;
    only_off(&outage).await?;
    let stuck = lab.workloads.api::<Pod>().get(POD).await?;
    ensure!(stuck.metadata.uid == pod.metadata.uid, "it is gone");

    role.without("patch", "nodes").await?;
    let words = missing("patch", "nodes");
    denied(&outage, writes::taint().of(node), 403, &words).await?;
    only_off(&outage).await?;

    role.give_back().await?;
    goes_on(&outage).await
}
