//! D17: an error or a wait that none of the other signatures explains. The reason of the event decides, and its words are quoted.

use super::super::facts::{ATTACH, MOUNT, SCHEDULING};
use super::super::finding::{Finding, Id, Object, Step, steps};
use super::super::index::Index;
use super::super::stuck::{OVERDUE, PATIENCE, Stuck, waits};
use super::steps::{logs, storage};
use crate::foreign_text::{Sign, quoted};
use crate::table::duration;
use fencing_cluster::slim::SlimPod;
use jiff::SignedDuration;
use kube::ResourceExt;
use std::collections::BTreeSet;

/// A pod that waits, and what is known of it.
pub struct Untold<'a> {
    /// The pod.
    pub pod: &'a SlimPod,
    /// The volume, if that is known.
    pub volume: Option<String>,
    /// The node that has it.
    pub holder: Option<String>,
    /// The reason of the event, and its words.
    pub error: Option<(&'static str, &'a str)>,
    /// For how long the pod has waited.
    pub age: SignedDuration,
}

impl Untold<'_> {
    /// Does it last longer than what is in order?
    pub fn is_overdue(&self) -> bool {
        match self.error {
            Some(_) => self.age >= PATIENCE,
            None => self.age >= OVERDUE,
        }
    }
}

/// All of which no finding tells.
pub fn untold<'a>(index: &Index<'a>, stuck: &[Stuck<'a>], findings: &[Finding]) -> Vec<Untold<'a>> {
    let told: BTreeSet<&Object> = findings.iter().flat_map(|it| &it.objects).collect();
    // What is told of an attachment is of its volume, and stands for each pod that waits for that.
    let is_told = |pod: &SlimPod, volume: Option<&str>| {
        let volume = volume.map(Object::volume);
        told.contains(&Object::pod(pod)) || volume.is_some_and(|it| told.contains(&it))
    };
    let mut all: Vec<Untold<'a>> = Vec::new();
    let now = index.facts.now;
    let pods = index.facts.pods.items.iter();
    for pod in pods.filter(|it| it.is_pending()) {
        let error = error(index, pod);
        let volume = error.and_then(|(_, words)| quoted(words));
        let volume = volume.filter(|it| index.volume(it).is_some());
        if error.is_some() && !is_told(pod, volume) {
            all.push(Untold {
                pod,
                volume: volume.map(ToOwned::to_owned),
                holder: None,
                error,
                age: waits(pod, now),
            });
        }
    }
    let waiting = stuck.iter().filter(|it| !is_told(it.pod, Some(&it.volume)));
    for it in waiting {
        let is_there = |other: &Untold<'_>| other.pod.metadata.uid == it.pod.metadata.uid;
        if !all.iter().any(is_there) {
            all.push(Untold {
                pod: it.pod,
                volume: Some(it.volume.clone()),
                holder: it.holder.clone(),
                error: None,
                age: waits(it.pod, now),
            });
        }
    }
    all
}

/// What is said of the pod and not over: by the scheduler, by attach/detach, or by its kubelet.
fn error<'a>(index: &Index<'a>, pod: &'a SlimPod) -> Option<(&'static str, &'a str)> {
    if pod.spec.node_name.is_none() {
        return Some((SCHEDULING, index.refusal(pod, |_| true)?));
    }
    if pod.is_mounted() {
        return None;
    }
    // However old: while the pod has its volume neither attached nor mounted, its last error is not over.
    let events = index.events(pod).into_iter().rev();
    let said = events.filter_map(|it| Some((it.reason.as_deref()?, it.message.as_deref()?)));
    let said: Vec<(&str, &str)> = said.collect();
    let of = |reason: &'static str, says: &dyn Fn(&str) -> bool| {
        let mut of_reason = said.iter().filter(|(it, _)| *it == reason);
        let found = of_reason.find(|(_, words)| says(words));
        found.map(|(_, words)| (reason, *words))
    };
    let is_attached = |words: &str| quoted(words).is_some_and(|it| index.is_attached(it, pod));
    let is_own = |words: &str| !Sign::MultiAttach.is_in(words) && !is_attached(words);
    let attach = of(ATTACH, &is_own);
    let mount = || of(MOUNT, &|words| !Sign::MountSummary.is_in(words));
    let by_attachment = || by_attachment(index, pod).map(|words| (ATTACH, words));
    // Where a volume is held elsewhere, the summary says no more than that.
    let summary = || {
        let is_held = said.iter().any(|(_, it)| Sign::MultiAttach.is_in(it));
        of(MOUNT, &|_| !is_held)
    };
    attach
        .or_else(mount)
        .or_else(by_attachment)
        .or_else(summary)
}

/// What its own VolumeAttachments say, where no event does.
fn by_attachment<'a>(index: &Index<'a>, pod: &SlimPod) -> Option<&'a str> {
    let volumes = index.volumes(pod).into_iter();
    let attachments = volumes.flat_map(|it| index.attachments(it).iter().copied());
    let mut own = attachments.filter(|it| pod.is_on(&it.spec.node_name));
    own.find_map(|it| {
        let error = it.status.attach_error.as_ref()?;
        error.message.as_deref().filter(|_| !it.status.attached)
    })
}

/// D17: those that last.
pub(super) fn unexplained(
    index: &Index<'_>,
    stuck: &[Stuck<'_>],
    findings: &[Finding],
) -> Vec<Finding> {
    let untold = untold(index, stuck, findings).into_iter();
    let overdue = untold.filter(Untold::is_overdue);
    overdue.map(|it| unexplained_of(index, &it)).collect()
}

fn unexplained_of(index: &Index<'_>, it: &Untold<'_>) -> Finding {
    let (pod, age) = (it.pod.full_name(), duration(it.age));
    let node = it.pod.spec.node_name.as_deref();
    let mut objects = vec![Object::pod(it.pod)];
    objects.extend(it.volume.as_deref().map(Object::volume));
    let volume = it.volume.as_deref().unwrap_or("not known");
    let holder = it.holder.as_deref().unwrap_or("not known");
    let title = match it.error {
        Some((ATTACH, _)) => {
            format!("pod {pod} has waited for {age}: its volume cannot be attached")
        }
        Some((SCHEDULING, _)) => {
            format!("pod {pod} has waited for {age}: the scheduler finds no node")
        }
        Some(_) => format!("pod {pod} has waited for {age}: its kubelet cannot mount a volume"),
        None => {
            format!("pod {pod} has waited for {age} for volume {volume}, held by node {holder}")
        }
    };
    let error = it.error.iter();
    let error = error.map(|(reason, words)| format!("pod {pod}: {reason}: {words}"));
    let mut seen: Vec<String> = error.collect();
    let machine = [node, it.holder.as_deref()].into_iter().flatten();
    seen.extend(machine.filter_map(|it| Some(index.told(index.node(it)?))));
    Finding {
        id: Id::D17,
        title,
        objects,
        cause: match it.error {
            Some(_) => "none of D1 to D16 explains it: Kubernetes reports the error below as the cause, and no dead node was found",
            None => "none of D1 to D16 explains it (a regular detach takes some seconds)",
        }
        .to_owned(),
        seen,
        fix: way_out(index, it),
    }
}

fn way_out(index: &Index<'_>, it: &Untold<'_>) -> Vec<Step> {
    let (name, namespace) = (it.pod.name_any(), it.pod.namespace().unwrap_or_default());
    let volume = it.volume.as_deref();
    let driver = volume.and_then(|it| index.driver(it));
    let more: Vec<Step> = match it.error {
        Some((SCHEDULING, _)) => steps(&format!(
            "# its claims, and whether they are bound
            kubectl -n {namespace} get pvc -o wide"
        )),
        Some((MOUNT, words)) => {
            let why = match Sign::CallPending.is_in(words) {
                true => {
                    "an earlier call for the volume has not returned; see the log of the driver on that node"
                }
                false => "log of the driver on that node",
            };
            let node = it.pod.spec.node_name.as_ref();
            let pods = index.facts.pods.items.iter();
            let own = pods.filter(|pod| pod.spec.node_name.as_ref() == node);
            let own = own.filter(|pod| driver.is_some_and(|it| pod.mentions(it)));
            let logs = own.take(2).flat_map(|pod| {
                let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                steps(&format!(
                    "# {why}
                    kubectl -n {namespace} logs {name} --all-containers --tail=50"
                ))
            });
            logs.collect()
        }
        Some(_) | None => {
            let logs = driver.map(|it| logs(index, it));
            let storage = volume.map(|it| storage(index, it));
            [logs, storage].map(Option::unwrap_or_default).concat()
        }
    };
    let mut fix = steps(&format!(
        "# status and Events of the pod
        kubectl -n {namespace} describe pod {name}"
    ));
    fix.extend(more);
    fix
}
