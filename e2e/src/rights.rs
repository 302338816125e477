//! Which of its rights the operator used while the tests ran, and whether those are the ones that `deploy/rbac.yaml` grants.
//!
//! A right that nobody uses is one that only a thief needs; a request that is denied is one that the operator should not make, or a
//! right that it lacks. What it did is taken from the audit log of each control plane at the end of each use, and known by its user
//! agent: tests use its account, too.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::audit::{ObjectRef, ResponseStatus};
use crate::control_plane::ControlPlane;
use fencing_testbed::paths::{lab_directory, workspace};

/// Below the lab's directory. `make e2e` empties it, and compares it at its end.
const RECORD: &str = "rights";
/// How the operator's requests are known.
const USER_AGENT: &str = "\"userAgent\":\"node-fencing-operator/";
/// Who one is, and what one may do, everybody may ask.
const REVIEWS: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];
/// Beginning of the names of the admission policies by which a test denies the operator what it may do.
pub const LAB_DENIES: &str = "lab-denies-";

/// What the operator does where CSI-Addons is (driver `networkFence`), which only `make peers` has.
const FENCES_BY_STORAGE: &str = "used create csiaddons.openshift.io networkfences";
/// What it does where a test has another controller ask for a fence (`--callers`).
const ANSWERS_CALLERS: &str = "used patch nodefencing.io nodefenceremediations/status";
/// What it does where a test has it take early what is off (`earlyDetection: Enabled`).
const TURNS_READY: &str = "used patch core nodes/status";
/// What it does where a test has it look for headroom, and where a storage fences.
const READS_VOLUMES: &str = "used get core persistentvolumes";

/// A verb on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    verb: String,
    /// `core` for that without a name.
    group: String,
    /// With its subresource: `nodefences/status`.
    resource: String,
    /// `*`: any, or none for what is cluster-scoped.
    namespace: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            group,
            resource,
            namespace,
        } = self;
        write!(f, "{verb} {group} {resource} {namespace}")
    }
}

impl Right {
    fn parse(text: &str) -> Result<Self> {
        let [verb, group, resource, namespace] = text.split(' ').collect::<Vec<_>>()[..] else {
            bail!("no right: {text}")
        };
        Ok(Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    fn covers(&self, used: &Self) -> bool {
        let same = (&self.verb, &self.group, &self.resource);
        same == (&used.verb, &used.group, &used.resource)
            && (self.namespace == "*" || self.namespace == used.namespace)
    }
}

/// An event of the audit log, as far as it tells of rights.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    object_ref: Option<ObjectRef>,
    #[serde(default)]
    response_status: ResponseStatus,
}

impl Event {
    /// `used RIGHT`, or `denied RIGHT: WORDS`. Nothing for what is no resource, for reviews, and for the look at the admission
    /// policies: a dry run that has to be denied.
    fn line(&self) -> Option<String> {
        let of = self.object_ref.as_ref()?;
        if REVIEWS.contains(&of.api_group.as_str()) || self.uri.contains("dryRun=") {
            return None;
        }
        let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
        let resource = match of.subresource.as_str() {
            "" => of.resource.clone(),
            subresource => format!("{}/{subresource}", of.resource),
        };
        let right = Right {
            verb: self.verb.clone(),
            group: or(&of.api_group, "core"),
            resource,
            namespace: or(&of.namespace, "*"),
        };
        match &self.response_status {
            status if matches!(status.code, 401 | 403) => {
                let words = status.message.replace('\n', " ");
                Some(format!("denied {right}: {words}"))
            }
            _ => Some(format!("used {right}")),
        }
    }
}

/// Notes what the operator did in this use of a control plane. It is called where nobody waits for a result.
pub(crate) fn record(plane: &ControlPlane) {
    let done = lines(plane).and_then(|lines| {
        let path = lab_directory().join(RECORD);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.with_context(|| format!("failed to open {}", path.display()))?;
        // One write, for other processes write here, too.
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Ok(file.write_all(text.as_bytes())?)
    });
    if let Err(error) = done {
        eprintln!("lab: the operator's rights are not recorded: {error:#}");
    }
}

/// What the operator did in this use of a control plane, each once.
pub fn lines(plane: &ControlPlane) -> Result<BTreeSet<String>> {
    let log = plane.audit();
    let events = log
        .lines_with(USER_AGENT)?
        .filter_map(|line| serde_json::from_str::<Event>(&line).ok());
    Ok(events.filter_map(|event| event.line()).collect())
}

/// Compares what was recorded with `deploy/rbac.yaml`, and says that they agree.
pub fn compare() -> Result<String> {
    let path = lab_directory().join(RECORD);
    let recorded = std::fs::read_to_string(&path)
        .with_context(|| format!("no e2e test has run: {}", path.display()))?;
    let read = |name: &str| std::fs::read_to_string(workspace().join(name));
    // The tests of `recovery.strategy: DeleteNode` grant what it takes.
    let mut granted = granted(&read("deploy/rbac.yaml")?)?;
    granted.extend(self::granted(&read("deploy/delete-node/rbac.yaml")?)?);
    if recorded.contains(FENCES_BY_STORAGE) {
        granted.extend(self::granted(&read("deploy/network-fence/rbac.yaml")?)?);
    }
    if recorded.contains(ANSWERS_CALLERS) {
        granted.extend(self::granted(&read("deploy/callers/rbac.yaml")?)?);
    }
    if recorded.contains(TURNS_READY) {
        granted.extend(self::granted(&read("deploy/early-detection/rbac.yaml")?)?);
    }
    if recorded.contains(READS_VOLUMES) {
        granted.extend(self::granted(&read("deploy/headroom/rbac.yaml")?)?);
    }
    let faults = faults(&granted, &recorded)?;
    ensure!(
        faults.is_empty(),
        "deploy/rbac.yaml, with its components, does not grant just what the operator used in this run:\n  {}",
        faults.into_iter().collect::<Vec<_>>().join("\n  ")
    );
    Ok(format!(
        "rights: the operator used each of the {} that deploy/rbac.yaml and its components grant, and was denied nothing",
        granted.len()
    ))
}

/// What is wrong, each once.
fn faults(granted: &BTreeSet<Right>, recorded: &str) -> Result<BTreeSet<String>> {
    let (mut faults, mut used) = (BTreeSet::new(), BTreeSet::new());
    for line in recorded.lines() {
        match line.split_once(' ') {
            Some(("used", right)) => {
                used.insert(Right::parse(right)?);
            }
            Some(("denied", denied))
                if is_of_rbac(granted, denied)? || is_race(denied) || is_of_lab(denied) => {}
            Some(("denied", _)) => {
                faults.insert(line.to_owned());
            }
            _ => bail!("what is {line:?}?"),
        }
    }
    for right in granted {
        if !used.iter().any(|used| right.covers(used)) {
            faults.insert(format!("unused {right}"));
        }
    }
    for right in &used {
        if !granted.iter().any(|granted| granted.covers(right)) {
            faults.insert(format!("not granted, and yet used {right}"));
        }
    }
    Ok(faults)
}

/// Is a right denied by RBAC that the roles grant? An API server that has just been started has not read them all yet, and some tests
/// kill theirs; one takes rights away. (A right that is never allowed is one that was not used.)
fn is_of_rbac(granted: &BTreeSet<Right>, denied: &str) -> Result<bool> {
    let (right, words) = denied.split_once(": ").context("a denial without words")?;
    let right = Right::parse(right)?;
    let is_of_role = words.contains(&format!(" cannot {} resource ", right.verb));
    Ok(is_of_role && granted.iter().any(|granted| granted.covers(&right)))
}

/// Was a Node refused because it had become Ready since it was read? The API server is asked for S6 because nobody else can know that.
fn is_race(denied: &str) -> bool {
    denied.starts_with("patch core nodes ") && denied.contains(" denied request: S6: a Ready node")
}

/// Did a test deny it, by a policy of its own?
fn is_of_lab(denied: &str) -> bool {
    let words = format!(" is forbidden: ValidatingAdmissionPolicy '{LAB_DENIES}");
    denied
        .split_once(": ")
        .is_some_and(|(_, denial)| denial.contains(&words))
}

/// Every right of the roles in a manifest.
fn granted(manifest: &str) -> Result<BTreeSet<Right>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest)?;
    let mut rights = BTreeSet::new();
    for document in documents {
        let namespace = match document["kind"].as_str() {
            Some("ClusterRole") => "*",
            Some("Role") => document["metadata"]["namespace"]
                .as_str()
                .context("a Role without a namespace")?,
            _ => continue,
        };
        let rules: Vec<Rule> = serde_json::from_value(document["rules"].clone())?;
        for rule in rules {
            for (group, resource, verb) in rule.each() {
                let group = if group.is_empty() { "core" } else { group };
                rights.insert(Right::parse(&format!(
                    "{verb} {group} {resource} {namespace}"
                ))?);
            }
        }
    }
    Ok(rights)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Rule {
    fn each(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                let verbs = self.verbs.iter();
                verbs.map(move |verb| (group.as_str(), resource.as_str(), verb.as_str()))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: &str = "\
kind: ServiceAccount
---
kind: ClusterRole
rules:
- {apiGroups: [\"\"], resources: [pods], verbs: [get, list]}
- {apiGroups: [nodefencing.io], resources: [nodefences/status], verbs: [patch]}
---
kind: Role
metadata: {namespace: own}
rules:
- {apiGroups: [\"\"], resources: [secrets], verbs: [get]}
";
    const USED: [&str; 4] = [
        "used get core pods work",
        "used list core pods *",
        "used patch nodefencing.io nodefences/status *",
        "used get core secrets own",
    ];

    fn found(lines: &[&str]) -> Vec<String> {
        let granted = granted(ROLES).unwrap();
        assert_eq!(granted.len(), 4);
        let faults = faults(&granted, &lines.join("\n")).unwrap();
        faults.into_iter().collect()
    }

    #[test]
    fn a_right_that_nobody_used_is_named_and_one_that_was_denied_too() {
        assert!(found(&USED).is_empty());
        for (index, expected) in [
            "unused get core pods *",
            "unused list core pods *",
            "unused patch nodefencing.io nodefences/status *",
            "unused get core secrets own",
        ]
        .iter()
        .enumerate()
        {
            let mut lines = USED.to_vec();
            lines.remove(index);
            assert_eq!(found(&lines), [*expected]);
        }
        let denied = "denied delete core pods work: cannot delete resource \"pods\"";
        assert_eq!(found(&[&USED[..], &[denied]].concat()), [denied]);
        let by_policy = "denied get core pods work: ValidatingAdmissionPolicy 'a' denied request";
        assert_eq!(found(&[&USED[..], &[by_policy]].concat()), [by_policy]);
        let race = "denied patch core nodes *: ValidatingAdmissionPolicy 'a' denied request: S6: a Ready node may not be claimed";
        assert!(found(&[&USED[..], &[race]].concat()).is_empty());
        let by_lab = "denied patch core nodes *: nodes \"w\" is forbidden: ValidatingAdmissionPolicy 'lab-denies-taint' with binding 'b' denied request: no";
        assert!(found(&[&USED[..], &[by_lab]].concat()).is_empty());
        let quoted = by_lab.replace("Policy 'lab-", "Policy 'other-lab-");
        assert_eq!(found(&[&USED[..], &[&*quoted]].concat()), [quoted]);
        let of_rbac =
            "denied get core pods work: pods is forbidden: User \"o\" cannot get resource \"pods\"";
        assert!(found(&[&USED[..], &[of_rbac]].concat()).is_empty());
        assert_eq!(
            found(&[&USED[1..], &[of_rbac]].concat()),
            ["unused get core pods *"]
        );
        let elsewhere = "used get core secrets kube-system";
        assert_eq!(
            found(&[&USED[..], &[elsewhere]].concat()),
            ["not granted, and yet used get core secrets kube-system"]
        );
    }

    #[test]
    fn an_event_tells_its_right_and_whether_it_was_denied() {
        let line = |uri: &str, of: Value, code: u16| {
            let event = serde_json::json!({
                "verb": "patch", "requestURI": uri, "objectRef": of,
                "responseStatus": {"code": code, "message": "no"},
            });
            serde_json::from_value::<Event>(event).unwrap().line()
        };
        let node = serde_json::json!({"resource": "nodes", "apiVersion": "v1", "name": "w"});
        let of_node = |uri: &str, code| line(uri, node.clone(), code);
        let used = Some("used patch core nodes *".to_owned());
        assert_eq!(of_node("/api/v1/nodes/w", 200), used);
        assert_eq!(of_node("/api/v1/nodes/w", 422), used);
        let denied = Some("denied patch core nodes *: no".to_owned());
        assert_eq!(of_node("/api/v1/nodes/w", 403), denied);
        assert_eq!(of_node("/api/v1/nodes/w?dryRun=All", 403), None);
        let review = |group: &str, resource: &str| {
            line(
                "/apis",
                serde_json::json!({"apiGroup": group, "resource": resource}),
                201,
            )
        };
        assert_eq!(
            review("authorization.k8s.io", "selfsubjectaccessreviews"),
            None
        );
        assert_eq!(review("authentication.k8s.io", "selfsubjectreviews"), None);
        assert_eq!(line("/version", Value::Null, 200), None);
        let status = serde_json::json!({
            "apiGroup": "nodefencing.io", "resource": "nodefences", "subresource": "status", "namespace": "a",
        });
        let used = Some("used patch nodefencing.io nodefences/status a".to_owned());
        assert_eq!(line("/apis", status, 200), used);
    }
}
