//! D15: a volume that its node affinity ties to nodes that take no pod: local disks of a node that is lost, a zone without nodes.

use super::super::backends::{Type, of_volume};
use super::super::finding::{Finding, Id, Object, Step, named, steps};
use super::super::index::Index;
use crate::foreign_text::Sign;
use fencing_cluster::slim::{SlimPod, WideNode};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume};
use kube::ResourceExt;
use std::collections::BTreeSet;

/// Pods without a node whose volume is out of reach.
pub(super) fn unreachable(index: &Index<'_>) -> Vec<Finding> {
    if !index.facts.nodes.is_complete() {
        return Vec::new();
    }
    let pods = index.facts.pods.items.iter();
    let pods = pods.filter(|it| it.is_pending() && it.spec.node_name.is_none());
    let of_pod = |pod: &SlimPod| {
        let namespace = pod.namespace().unwrap_or_default();
        let claims = pod.claims();
        let mut volumes = claims.iter().filter_map(|it| {
            let volume = index.volume(index.volume_of(&namespace, it)?)?;
            Some((it, volume, terms(volume)?))
        });
        volumes.find_map(|(claim, volume, terms)| of_volume_of(index, pod, claim, volume, terms))
    };
    pods.filter_map(of_pod).collect()
}

fn terms(volume: &PersistentVolume) -> Option<&[NodeSelectorTerm]> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    Some(&affinity.required.as_ref()?.node_selector_terms)
}

fn of_volume_of(
    index: &Index<'_>,
    pod: &SlimPod,
    claim: &str,
    volume: &PersistentVolume,
    terms: &[NodeSelectorTerm],
) -> Option<Finding> {
    let nodes = index.facts.nodes.items.iter();
    let reaching: Vec<&WideNode> = nodes.filter(|it| reaches(terms, it)).collect();
    let is_lost = reaching.iter().all(|it| it.is_down());
    let words = index.refusal(pod, |it| Sign::NodeAffinity.is_in(it));
    if !is_lost && words.is_none() {
        return None;
    }
    let (name, namespace) = (volume.name_any(), pod.namespace().unwrap_or_default());
    let full_name = pod.full_name();
    let mut objects = vec![
        Object::pod(pod),
        Object::volume(&name),
        Object::of("pvc", &namespace, claim),
    ];
    objects.extend(reaching.iter().map(|it| Object::node(&it.name_any())));
    let ties = ties(terms);
    let mut seen = vec![format!("node affinity of volume {name}: {}", named(&ties))];
    seen.extend(reaching.iter().take(3).map(|it| index.told(it)));
    if reaching.is_empty() {
        seen.push("no Node matches it".to_owned());
    }
    seen.extend(words.map(|it| format!("pod {full_name}: {it}")));
    let is_local = of_volume(volume).is_some_and(|it| it.type_ == Type::Local);
    let whose = match (is_lost, reaching.is_empty()) {
        (true, true) => "from nodes that do not exist",
        (true, false) => "from nodes that are not Ready",
        (false, _) => "from nodes that refuse the pod",
    };
    let cause = match (is_local, is_lost) {
        (true, true) => "the data is on the disks of that node. No fence moves it to another one",
        (false, true) => {
            "the storage is reached from these nodes alone, such as those of one zone. No fence moves the volume to another one"
        }
        (_, false) => {
            "the nodes that reach the volume are Ready, and the scheduler rejects them for another reason"
        }
    };
    Some(Finding {
        id: Id::D15,
        title: format!("volume {name} of pod {full_name} can be reached only {whose}"),
        objects,
        cause: cause.to_owned(),
        seen,
        fix: way_out(&name, &namespace, claim, &reaching, is_lost),
    })
}

fn way_out(
    name: &str,
    namespace: &str,
    claim: &str,
    reaching: &[&WideNode],
    is_lost: bool,
) -> Vec<Step> {
    let mut fix = steps(&format!(
        "# what ties the volume
        kubectl get pv {name} -o jsonpath='{{.spec.nodeAffinity}}'"
    ));
    fix.extend(match reaching.first().map(|it| it.name_any()) {
        Some(node) if is_lost => steps(&format!(
            "# bring this node back: the volume is reached from there
            kubectl describe node {node}"
        )),
        Some(node) => steps(&format!(
            "# why this node takes no pod: taints, room, the pod's own selectors
            kubectl describe node {node}"
        )),
        None => steps(
            "# bring back a node with these labels
            kubectl get nodes --show-labels",
        ),
    });
    if is_lost {
        fix.extend(steps(&format!(
            "# only if its data is given up, or restored elsewhere: a new claim gets a new volume
            kubectl -n {namespace} delete pvc {claim} --wait=false"
        )));
    }
    fix
}

/// One of the terms holds, as the scheduler reads them; an empty one matches nothing.
fn reaches(terms: &[NodeSelectorTerm], node: &WideNode) -> bool {
    terms.iter().any(|term| {
        let labels = term.match_expressions.iter().flatten();
        let fields = term.match_fields.iter().flatten();
        let name = node.name_any();
        let mut all = labels
            .map(|it| holds(it, node.labels().get(&it.key).map(String::as_str)))
            .chain(fields.map(|it| holds(it, Some(name.as_str()))))
            .peekable();
        all.peek().is_some() && all.all(|it| it)
    })
}

fn holds(rule: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let is_in = || value.is_some_and(|value| rule.values.iter().flatten().any(|it| it == value));
    let number = |it: &str| it.parse::<i64>().ok();
    let bound = || number(rule.values.as_ref()?.first()?);
    let numbers = || value.and_then(number).zip(bound());
    match rule.operator.as_str() {
        "In" => is_in(),
        "NotIn" => !is_in(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(it, bound)| it > bound),
        "Lt" => numbers().is_some_and(|(it, bound)| it < bound),
        _ => false,
    }
}

/// The terms in words, each once.
fn ties(terms: &[NodeSelectorTerm]) -> Vec<String> {
    let rules = terms.iter().flat_map(|it| {
        let labels = it.match_expressions.iter().flatten();
        labels.chain(it.match_fields.iter().flatten())
    });
    let rules = rules.map(|it| {
        let values = it.values.clone().unwrap_or_default().join(",");
        format!("{} {} {values}", it.key, it.operator)
            .trim_end()
            .to_owned()
    });
    let rules: BTreeSet<String> = rules.collect();
    rules.into_iter().collect()
}
