//! Can any pod still start on the node? And who has to go before the node is released?
//!
//! The rules are upstream's: an untolerated NoExecute taint refuses a pod at the kubelet, a pod with a
//! deletionTimestamp is torn down and never started. A pod that tolerates all that a fenced node is tainted with for ever is not
//! evicted, its volumes are not detached, and so it is nobody's danger and nobody's hindrance ([`stays`]).
//! Sources: `pkg/controller/tainteviction`, `pkg/kubelet/lifecycle/predicate.go`, `pkg/controller/podgc` (v1.36).

use super::observed::{CLAIM, OUT_OF_SERVICE, PodView};
use std::collections::BTreeSet;
use std::time::Duration;

/// How far the node has come to a standstill under this claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Quiesce {
    /// Since when no pod can start on the node (time since boot).
    pub since: Option<Duration>,
    /// The node's pods, listed beside the last look at its devices, before the claim.
    pub listed_before: Option<Vec<PodView>>,
    /// UIDs of the pods that it is about, those that could start or were on their way out; none: they have to be listed.
    pub listed: Option<BTreeSet<String>>,
    /// Those among them that could still start when they were last read.
    pub starting: Vec<PodView>,
    /// Pods that had to go.
    pub found: Vec<String>,
    /// Pods left out because they tolerate `out-of-service`.
    pub tolerating: Vec<String>,
    /// Times that pods came, and it began anew.
    pub begun_anew: u32,
}

impl Quiesce {
    /// Takes note of a complete list of the node's pods: those that can start have to go before the power is read. One that
    /// tolerates `out-of-service` stays; if it is deleted later, it is one that has come since.
    pub fn note_list(&mut self, pods: &[PodView]) {
        let concerned = startable(pods).chain(stuck(pods));
        self.listed = Some(concerned.map(|pod| pod.uid.clone()).collect());
        self.tolerating = tolerating(pods).map(PodView::full_name).collect();
        self.found.clear();
        self.note_starting(pods);
    }

    /// Takes note of which of them still can start, and which are on their way out.
    pub fn note_starting(&mut self, pods: &[PodView]) {
        self.found.extend(stuck(pods).map(PodView::full_name));
        self.starting = startable(pods).cloned().collect();
    }

    /// The pods have to be listed anew.
    pub fn forget_list(&mut self) {
        self.listed_before = None;
        self.listed = None;
        self.starting.clear();
    }
}

/// A toleration of a pod, as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Key; empty matches every key (only with `Exists`).
    pub key: String,
    /// `Exists`, `Equal` or empty, which means `Equal`.
    pub operator: String,
    /// Value for `Equal`.
    pub value: String,
    /// Effect; empty matches every effect.
    pub effect: String,
    /// With a number the pod is evicted after that time, so it does not count as tolerating.
    pub seconds: Option<i64>,
}

/// Taints of NoExecute that a node has while it is fenced, with their values: `out-of-service`, our claim (each another value), and
/// what node-lifecycle sets when a kubelet is silent, or speaks and is not ready.
const OF_A_FENCED_NODE: [(&str, Option<&str>); 4] = [
    (OUT_OF_SERVICE, Some("nodeshutdown")),
    (CLAIM, None),
    ("node.kubernetes.io/unreachable", Some("")),
    ("node.kubernetes.io/not-ready", Some("")),
];

/// Does a pod with these tolerations, in their stored order, stay on a fenced node for ever?
///
/// Upstream's taint eviction asks of each taint for the first toleration that matches: none, or one with a time limit, and the pod goes,
/// whatever stands behind it (`GetMatchingTolerations` and `getMinTolerationTime`). `tests/data/tolerations.yaml` has what a real
/// controller-manager does.
pub fn stays(tolerations: &[Toleration]) -> bool {
    OF_A_FENCED_NODE.iter().all(|(key, value)| {
        let mut matching = tolerations.iter().filter(|one| one.matches(key, *value));
        matching.next().is_some_and(|first| first.seconds.is_none())
    })
}

/// The toleration that keeps taint eviction from deleting a pod for our claim, or from doing so at once, in words.
pub fn tolerates_claim(tolerations: &[Toleration]) -> Option<String> {
    let found = tolerations.iter().find(|one| one.matches(CLAIM, None))?;
    let key = match found.key.as_str() {
        "" => "every key".to_owned(),
        key => format!("key {key}"),
    };
    let time = match found.seconds {
        Some(seconds) => format!("for {seconds} s"),
        None => "without a time limit".to_owned(),
    };
    Some(format!("operator {}, {key}, {time}", found.operator))
}

impl Toleration {
    /// Does it match this taint of NoExecute? None: the taint has a value that nobody knows in advance.
    ///
    /// Same rules as `Toleration.ToleratesTaint` in `k8s.io/api/core/v1/toleration.go`, but an operator that we do not know matches
    /// nothing, as does what the API server would refuse.
    fn matches(&self, key: &str, value: Option<&str>) -> bool {
        let effect = self.effect.is_empty() || self.effect == "NoExecute";
        let matches = match self.operator.as_str() {
            "Exists" => self.value.is_empty() && (self.key.is_empty() || self.key == key),
            "" | "Equal" => self.key == key && value == Some(self.value.as_str()),
            _ => false,
        };
        effect && matches
    }
}

/// The pods as a fence sees them whose Node is to be deleted: no pod stays there that uses a volume which would be detached, whatever it
/// tolerates. Without a deletionTimestamp a kubelet that boots may start it at any time, and pod GC takes it as soon as its Node is gone. One with a
/// deletionTimestamp is no better: whoever makes it makes the next one of its name, and no taint keeps that from this node.
pub fn none_stays_with_its_volume(pods: &mut [PodView]) {
    for pod in pods {
        pod.comes_back |= pod.tolerates_out_of_service && pod.attachable && !pod.mirror;
        pod.tolerates_out_of_service &= !pod.attachable;
    }
}

/// Pods that could still be started by this node's kubelet, or be followed by one that could: quiesced means there are none.
pub fn startable(pods: &[PodView]) -> impl Iterator<Item = &PodView> {
    let may_start = |pod: &&PodView| !pod.deleting && !pod.tolerates_out_of_service && !pod.mirror;
    pods.iter()
        .filter(move |pod| pod.comes_back || may_start(pod))
}

/// Pods whose volume no claim protects: a deletion of its VolumeAttachment that is late may hit the next one of their name.
pub fn coming_back(pods: &[PodView]) -> impl Iterator<Item = &PodView> {
    pods.iter().filter(|pod| pod.comes_back)
}

/// Pods that can start, or were perhaps begun to be started since the quiesce: on their way out, but not among those (UIDs) that
/// it was about.
pub fn newcomers<'a>(
    pods: &'a [PodView],
    known: Option<&'a BTreeSet<String>>,
) -> impl Iterator<Item = &'a PodView> {
    let is_known = move |pod: &&PodView| known.is_some_and(|known| known.contains(&pod.uid));
    startable(pods).chain(stuck(pods).filter(move |pod| !is_known(pod)))
}

/// Pods whose objects hold on to their volumes and their names, and that nobody will finish on a dead node. What they
/// tolerate is no matter: a pod that somebody has deleted goes by pod GC under `out-of-service` too (`gcTerminating`).
pub fn stuck(pods: &[PodView]) -> impl Iterator<Item = &PodView> {
    pods.iter()
        .filter(|pod| pod.deleting && !pod.mirror && !pod.comes_back)
}

/// Pods that have to be gone before `out-of-service` may go. A finished pod that only its finalizers keep is not among
/// them: no container of it starts again, and whoever set the finalizer decides when its record goes.
pub fn hindering(pods: &[PodView]) -> impl Iterator<Item = &PodView> {
    pods.iter()
        .filter(|pod| (pod.deleting || !pod.tolerates_out_of_service) && !pod.mirror)
        .filter(|pod| !(pod.deleting && pod.finished && pod.finalizers))
}

/// Pods that stay on the node because they tolerate `out-of-service` and nobody has deleted them.
pub fn tolerating(pods: &[PodView]) -> impl Iterator<Item = &PodView> {
    pods.iter()
        .filter(|pod| pod.tolerates_out_of_service && !pod.deleting && !pod.mirror)
}

/// `a, b, c and 4 more`: a list that fits into a message.
pub fn name_some<'a>(names: impl Iterator<Item = &'a PodView>) -> String {
    let names: Vec<String> = names.map(PodView::full_name).collect();
    shorten(&names)
}

/// The first three of the names, and how many more there are.
pub fn shorten(names: &[String]) -> String {
    match names.get(..3) {
        Some(first) if names.len() > 3 => {
            format!("{} and {} more", first.join(", "), names.len() - 3)
        }
        _ => names.join(", "),
    }
}

/// The number and its noun, in the plural where it is not one: "1 pod", "2 pods".
pub fn counted(count: impl ToString, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pod;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
        Toleration {
            key,
            operator,
            value,
            effect,
            seconds: None,
        }
    }

    fn tolerates(key: &str, operator: &str, value: &str, effect: &str) -> bool {
        toleration(key, operator, value, effect).matches(OUT_OF_SERVICE, Some("nodeshutdown"))
    }

    #[test]
    fn tolerations_follow_upstream() {
        assert!(tolerates("", "Exists", "", ""));
        assert!(tolerates("", "Exists", "", "NoExecute"));
        assert!(tolerates(OUT_OF_SERVICE, "Exists", "", ""));
        let value = "nodeshutdown";
        assert!(tolerates(OUT_OF_SERVICE, "Equal", value, "NoExecute"));
        assert!(tolerates(OUT_OF_SERVICE, "", value, ""));
        assert!(!tolerates(OUT_OF_SERVICE, "Equal", "other", "NoExecute"));
        assert!(!tolerates(OUT_OF_SERVICE, "Exists", "", "NoSchedule"));
        assert!(!tolerates("", "Equal", "", ""));
        assert!(!tolerates("", "Equal", value, ""));
        assert!(!tolerates("other", "Exists", "", "NoExecute"));
    }

    #[test]
    fn nonsense_does_not_tolerate() {
        assert!(!tolerates(OUT_OF_SERVICE, "Lt", "5", ""));
        assert!(!tolerates(OUT_OF_SERVICE, "exists", "", ""));
        assert!(!tolerates("", "Exists", "value", ""));
        assert!(!tolerates(OUT_OF_SERVICE, "Exists", "", "noexecute"));
    }

    #[test]
    fn who_tolerates_the_claim_is_named_with_the_toleration() {
        let every = toleration("", "Exists", "", "");
        let mut limited = toleration(CLAIM, "Exists", "", "NoExecute");
        limited.seconds = Some(86400);
        let other = toleration(OUT_OF_SERVICE, "Exists", "", "");
        let message = |all: &[&Toleration]| {
            let all: Vec<_> = all.iter().copied().cloned().collect();
            tolerates_claim(&all)
        };
        assert_eq!(message(&[&other]), None);
        let of_every = "operator Exists, every key, without a time limit";
        assert_eq!(message(&[&other, &every]).as_deref(), Some(of_every));
        let of_claim = "operator Exists, key nodefencing.io/claim, for 86400 s";
        assert_eq!(message(&[&limited, &every]).as_deref(), Some(of_claim));
    }

    /// S2: pods that a time limit evicts later free their volumes then, whatever machine they run on by that time.
    #[test]
    fn of_each_taint_the_first_toleration_decides_and_a_time_limit_there_evicts() {
        let limited = |mut it: Toleration| {
            it.seconds = Some(300);
            it
        };
        let all = toleration("", "Exists", "", "");
        let ours = toleration(OUT_OF_SERVICE, "Exists", "", "");
        let unreachable = toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute");
        let foreign = toleration("example.com/other", "Exists", "", "NoExecute");
        assert!(stays(std::slice::from_ref(&all)));
        assert!(!stays(&[limited(all.clone())]));
        assert!(!stays(&[limited(ours.clone()), all.clone()]));
        assert!(stays(&[ours.clone(), all.clone()]));
        assert!(stays(&[all.clone(), limited(ours.clone())]));
        assert!(!stays(&[ours.clone(), limited(all.clone())]));
        assert!(!stays(&[limited(unreachable), all.clone()]));
        assert!(stays(&[limited(foreign), all]));
        assert!(!stays(&[ours]), "the claim evicts it");
        assert!(!stays(&[]));
    }

    /// They are named in the record, and their volumes stay attached.
    #[test]
    fn only_a_pod_that_tolerates_and_that_nobody_has_deleted_is_said_to_stay() {
        let says = |tolerates: bool, deleting: bool, mirror: bool| {
            let pod = PodView {
                tolerates_out_of_service: tolerates,
                deleting,
                mirror,
                ..pod("p")
            };
            tolerating(&[pod]).count() == 1
        };
        assert!(says(true, false, false));
        for (tolerates, deleting, mirror) in [
            (false, false, false),
            (true, true, false),
            (true, false, true),
            (false, true, true),
        ] {
            assert!(!says(tolerates, deleting, mirror));
        }
    }

    /// S1: what tolerates everything is followed by the next one of its name, which no claim keeps away.
    #[test]
    fn a_pod_that_comes_back_is_neither_left_nor_deleted() {
        let seen = |tolerates: bool, attachable: bool, deleting: bool| {
            let mut pods = [PodView {
                tolerates_out_of_service: tolerates,
                attachable,
                deleting,
                ..pod("p")
            }];
            // Also where it was looked at so before.
            none_stays_with_its_volume(&mut pods);
            none_stays_with_its_volume(&mut pods);
            let [startable, stuck] = [startable(&pods).count(), stuck(&pods).count()];
            (startable, stuck, coming_back(&pods).count())
        };
        for (tolerates, attachable, deleting, counts) in [
            (true, true, false, (1, 0, 1)),
            (true, true, true, (1, 0, 1)),
            (true, false, true, (0, 1, 0)),
            (true, false, false, (0, 0, 0)),
            (false, true, true, (0, 1, 0)),
            (false, true, false, (1, 0, 0)),
        ] {
            assert_eq!(
                seen(tolerates, attachable, deleting),
                counts,
                "(startable, stuck, coming back), tolerates {tolerates}, attachable {attachable}, deleting {deleting}"
            );
        }
    }

    #[test]
    fn three_names_are_named_and_of_more_how_many() {
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(shorten(&names[..0]), "");
        assert_eq!(shorten(&names[..2]), "a, b");
        assert_eq!(shorten(&names[..3]), "a, b, c");
        assert_eq!(shorten(&names), "a, b, c and 2 more");
    }

    /// S2: a pod of the list may have been given a toleration while it was waited for, and a time limit for that since.
    #[test]
    fn a_pod_that_can_start_counts_though_it_was_known() {
        let deleted = pod("db-0");
        let runs = PodView {
            deleting: false,
            ..pod("db-0")
        };
        let tolerates = PodView {
            tolerates_out_of_service: true,
            ..runs.clone()
        };
        // The pod now, and whether it counts: if the list had it, and if it did not.
        let table = [
            (runs, true, true),
            (deleted, false, true),
            (tolerates, false, false),
        ];
        for (pod, known, unknown) in table {
            let listed = BTreeSet::from([pod.uid.clone()]);
            let pods = [pod];
            let counts = |listed| newcomers(&pods, Some(listed)).count() == 1;
            assert_eq!(counts(&listed), known, "{pods:?}");
            assert_eq!(counts(&BTreeSet::new()), unknown, "{pods:?}");
        }
    }
}
