//! The condition `OtherFencers` of a policy, word for word: who else is seen, by what, what they do, what is done about them.
//!
//! `UPDATE=1` rewrites `crates/core/tests/data/other-fencers.txt`, which is to be read by whoever changes it.

use fencing_api::policy::NodeFencingPolicy;
use fencing_core::assess::others::{Attached, Served, groups};
use fencing_core::assess::{World, assess};
use fencing_core::observed::{CLAIM, NodeView, OUT_OF_SERVICE, TaintView};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const DATE: &str = "2026-01-01T00:00:00Z";

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        labels: BTreeMap::from([("name".to_owned(), name.to_owned())]),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: Vec::new(),
        boot_id: "boot-1".to_owned(),
        system_uuid: String::new(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: "1".to_owned(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn taint(key: &str, value: &str, date: Option<&str>) -> TaintView {
    TaintView {
        key: key.to_owned(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: date.map(str::to_owned),
    }
}

/// A policy in mode ConfirmOnly for all nodes whose name is not `away`, changed by `spec`.
fn policy(spec: &Value) -> NodeFencingPolicy {
    let selector =
        json!({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["away"]}]});
    let mut all = json!({
        "nodeSelector": selector, "fence": {"mode": "ConfirmOnly", "levels": [{"name": "bmc"}]},
        "release": {"mode": "AfterRecovery"},
    });
    json_patch::merge(&mut all, spec);
    NodeFencingPolicy::new("prod", serde_json::from_value(all).expect("a spec"))
}

/// A cluster with four nodes of the policy, and one that it does not select.
struct Scene {
    policy: NodeFencingPolicy,
    nodes: Vec<NodeView>,
    served: Served,
    attached: Attached,
}

impl Scene {
    fn new(spec: &Value) -> Self {
        Self {
            policy: policy(spec),
            nodes: ["w1", "w2", "w3", "w4", "away"].map(node).into(),
            served: Served::Known(BTreeSet::new()),
            attached: Attached::new(),
        }
    }

    fn serves(mut self, served: &[&'static str]) -> Self {
        self.served = Served::Known(served.iter().copied().collect());
        self
    }

    fn on(mut self, names: &[&str], change: impl Fn(&mut NodeView)) -> Self {
        let nodes = self.nodes.iter_mut();
        nodes
            .filter(|node| names.contains(&node.name.as_str()))
            .for_each(change);
        self
    }

    fn tainted(self, names: &[&str], key: &str, value: &str) -> Self {
        self.on(names, |node| node.taints.push(taint(key, value, None)))
    }

    fn annotated(self, names: &[&str], key: &str) -> Self {
        self.on(names, |node| node.annotation_keys.push(key.to_owned()))
    }

    fn provided(self, names: &[&str], id: &str) -> Self {
        self.on(names, |node| node.provider_id = id.to_owned())
    }

    fn attached(mut self, driver: &str, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.attached.insert(driver.to_owned(), names);
        self
    }

    /// The condition as it is told now, and the words of the gauge. It is kept, as the stored status keeps it.
    fn told(&mut self) -> (Option<(String, String)>, Vec<&'static str>) {
        let mut assessment = assess(&World {
            policies: std::slice::from_ref(&self.policy),
            nodes: &self.nodes.iter().collect::<Vec<_>>(),
            devices: &[],
            fences: &[],
            attached: &self.attached,
            served: &self.served,
            delays: &[],
            frozen: None,
            lacks: None,
            lacks_early: None,
            found: &|_, _| None,
            targets: &|_, _| Vec::new(),
            now: jiff::Timestamp::UNIX_EPOCH,
        });
        let status = assessment.statuses.remove("prod").expect("the policy");
        let told = status
            .conditions
            .iter()
            .find(|it| it.type_ == "OtherFencers");
        let told = told.map(|it| (format!("{} {}", it.status, it.reason), it.message.clone()));
        self.policy.status = Some(status);
        (told, assessment.others.remove("prod").expect("the policy"))
    }
}

/// The rows of the file.
#[derive(Default)]
struct Rows(String);

impl Rows {
    fn one(&mut self, situation: &str, mut scene: Scene) {
        let (told, systems) = scene.told();
        let (shown, message) = told.unwrap_or_else(|| ("-".to_owned(), String::new()));
        let message = (1..=12).fold(message, |message, number| {
            message.replace(&format!(" ({number}) "), &format!("\n    ({number}) "))
        });
        let gauge = systems.join(", ");
        let told = format!("# {situation}\n{shown} [{gauge}]\n    {message}");
        writeln!(self.0, "{}\n", told.trim_end()).expect("a text");
    }
}

/// A cluster with a policy that asks for nothing besides.
fn new() -> Scene {
    Scene::new(&json!({}))
}

/// Who fences, or deletes the Machine.
fn remediators(rows: &mut Rows) {
    rows.one("nobody", new());
    rows.one(
        "out-of-service by somebody",
        new().tainted(&["w2", "away"], OUT_OF_SERVICE, "nodeshutdown"),
    );
    let ours = |node: &mut NodeView| {
        node.taints.push(taint(CLAIM, "fence-nonce", Some(DATE)));
        node.taints
            .push(taint(OUT_OF_SERVICE, "nodeshutdown", Some(DATE)));
    };
    rows.one("out-of-service by the operator", new().on(&["w1"], ours));
    let medik8s = [
        "remediation.medik8s.io",
        "self-node-remediation.medik8s.io",
        "fence-agents-remediation.medik8s.io",
        "machine-deletion-remediation.medik8s.io",
        "storage-based-remediation.medik8s.io",
    ];
    rows.one("all of Medik8s installed", new().serves(&medik8s));
    let key = "medik8s.io/remediation";
    let remediated = new().serves(&medik8s[..2]);
    rows.one(
        "self-node-remediation at work",
        remediated.tainted(&["w1"], key, "self-node-remediation"),
    );
    let excluded = Scene::new(&json!({"exclusions": {"taints": [key]}}));
    rows.one(
        "a policy that excludes their taint",
        excluded.tainted(&["w1"], key, "fence-agents-remediation"),
    );
    rows.one(
        "only on a node of nobody's",
        new().tainted(&["away"], key, "self-node-remediation"),
    );
    let machines = new().serves(&["machine.openshift.io"]);
    rows.one("OpenShift without Machines", machines);
    let machines = new().serves(&["machine.openshift.io"]);
    rows.one(
        "OpenShift with Machines",
        machines.annotated(&["w1", "w2", "w3", "w4"], "machine.openshift.io/machine"),
    );
    let pacemaker = new().serves(&["etcd.openshift.io"]);
    rows.one("two-node OpenShift before it has fenced", pacemaker);
    let pacemaker = new().serves(&["etcd.openshift.io"]);
    rows.one(
        "two-node OpenShift that has fenced a node",
        pacemaker
            .tainted(&["w2"], OUT_OF_SERVICE, "nodeshutdown")
            .annotated(&["w2"], "node.kubernetes.io/out-of-service-applied-by")
            .annotated(&["w1"], "tnf-taint-probe"),
    );
    rows.one(
        "Cluster API, managed from another cluster",
        new().annotated(&["w1"], "cluster.x-k8s.io/machine"),
    );
}

/// Whose machines, whose restarts, whose volumes.
fn neighbours(rows: &mut Rows) {
    let metal3 = new()
        .serves(&["metal3.io"])
        .provided(&["w1"], "metal3://a/b/c");
    rows.one("Metal3, and a policy that only reads", metal3);
    let cutting = Scene::new(&json!({"fence": {"mode": "PowerOff"}}));
    rows.one(
        "Metal3, and a policy that turns machines off",
        cutting.provided(&["w1"], "baremetalhost:///a/b"),
    );
    let cloud = new().provided(&["w1", "w2", "w3", "w4"], "openstack:///2b5d");
    rows.one(
        "a cloud",
        cloud.tainted(&["w4"], "node.cloudprovider.kubernetes.io/shutdown", ""),
    );
    let azure = new().provided(&["w1", "w2"], "azure:///subscriptions/s");
    let azure = azure.provided(&["w3"], "aws:///zone/i-1");
    rows.one(
        "Azure beside another cloud",
        azure.tainted(&["w2"], "node.cloudprovider.kubernetes.io/shutdown", ""),
    );
    rows.one(
        "a cloud that writes no scheme",
        new().provided(&["w1"], "i-0a1b2c3d4e5f60718"),
    );
    rows.one(
        "a distribution that names nodes itself",
        new().provided(&["w1"], "k3s://w1"),
    );
    rows.one(
        "kured",
        new().annotated(&["w3"], "weave.works/kured-most-recent-reboot-needed"),
    );
    let fencing = Scene::new(&json!({"exclusions": {"maintenance": "Fence"}}));
    rows.one(
        "kured, and a policy that fences under maintenance",
        fencing.annotated(&["w3"], "weave.works/kured-reboot-in-progress"),
    );
    let (ceph, on) = ("rook-ceph.rbd.csi.ceph.com", ["w1", "away"]);
    rows.one(
        "Ceph as it wants it",
        new()
            .attached(ceph, &on)
            .serves(&["csiaddons.openshift.io"]),
    );
    for mode in ["AfterDetach", "Manual"] {
        let scene = Scene::new(&json!({"release": {"mode": mode}}));
        rows.one(&format!("Ceph with {mode}"), scene.attached(ceph, &on));
    }
    rows.one("Ceph on other nodes", new().attached(ceph, &["away"]));
    let mut silent = new().annotated(&["w1"], "cluster.x-k8s.io/machine");
    silent.served = Served::Unknown;
    rows.one("an API server that does not say what it serves", silent);
}

#[test]
fn who_else_is_seen_is_told_in_the_words_of_the_file() {
    let mut rows = Rows::default();
    remediators(&mut rows);
    neighbours(&mut rows);
    crate::stale::check("golden others", [("tests/data/other-fencers.txt", rows.0)]);
}

#[test]
fn an_out_of_service_by_pacemaker_is_of_no_unknown_component() {
    let fenced = || new().tainted(&["w2"], OUT_OF_SERVICE, "nodeshutdown");
    assert_eq!(fenced().told().1, ["unknown"]);
    let key = "node.kubernetes.io/out-of-service-applied-by";
    let mut by_pacemaker = fenced().annotated(&["w2"], key);
    assert_eq!(by_pacemaker.told().1, ["openshift-two-node-fencing"]);
    // The annotation of one node says nothing about the taint of another.
    let mut of_two = fenced().annotated(&["w1"], key);
    assert_eq!(of_two.told().1, ["unknown", "openshift-two-node-fencing"]);
}

#[test]
fn it_is_told_from_the_first_sight_on_and_what_is_not_known_leaves_it() {
    let mut scene = Scene::new(&json!({}));
    let shown = |scene: &mut Scene| scene.told().0.map(|(shown, _)| shown);
    assert_eq!(shown(&mut scene), None);
    scene.served = Served::Known(groups().collect());
    assert_eq!(shown(&mut scene).as_deref(), Some("True Installed"));
    // A new leader has asked nobody yet, and an API server may be silent.
    for unknown in [Served::NotAsked, Served::Unknown] {
        scene.served = unknown;
        assert_eq!(shown(&mut scene).as_deref(), Some("True Installed"));
    }
    scene.served = Served::Known(BTreeSet::new());
    assert_eq!(shown(&mut scene).as_deref(), Some("False NoneSeen"));
    scene = scene.annotated(&["w1"], "cluster.x-k8s.io/machine");
    assert_eq!(shown(&mut scene).as_deref(), Some("True SeenOnNodes"));
}

#[test]
fn the_most_that_can_be_told_is_not_cut() {
    let driver = "rook-ceph.cephfs.csi.ceph.com";
    let long = |number: usize| format!("{number}{}", "n".repeat(62));
    let mut scene = Scene::new(&json!({})).attached(driver, &[]);
    scene.nodes = (0..9).map(|number| node(&long(number))).collect();
    scene
        .attached
        .insert(driver.to_owned(), (0..9).map(long).collect());
    scene.served = Served::Known(groups().collect());
    for node in &mut scene.nodes {
        node.provider_id = "aws:///zone/i-1".to_owned();
        node.taints.push(taint(OUT_OF_SERVICE, "", None));
        node.taints.push(taint(
            "medik8s.io/remediation",
            "self-node-remediation",
            None,
        ));
        for key in ["machine.openshift.io/machine", "cluster.x-k8s.io/machine"] {
            node.annotation_keys.push(key.to_owned());
        }
        let kured = "weave.works/kured-reboot-in-progress";
        node.annotation_keys.push(kured.to_owned());
    }
    let (told, systems) = scene.told();
    let (_, message) = told.expect("it is told");
    assert_eq!(systems.len(), 14);
    assert!(message.contains("`kubectl get networkfences`"), "{message}");
}
