//! The checklist as people read it.

use super::super::finding::named;
use super::{AttachmentSheet, Checklist, ClaimSheet, DriverSheet, Gap, NodeSheet, PodSheet};
use crate::diagnose::backends::Backend;
use crate::table::{age, wrapped};
use fencing_core::quiesce::counted;
use jiff::Timestamp;

/// Columns of a label.
const LABEL: usize = 14;
const INDENT: usize = 2;

impl Checklist {
    /// All of it.
    pub fn told(&self, now: Timestamp) -> String {
        let has = |gap: Gap| self.gaps.contains(&gap);
        let node = self.node.iter().map(|it| of_node(it, has));
        let pods = self.pods.iter().map(|it| of_pod(it, now));
        let claims = self.claims.iter().map(|it| of_claim(it, has));
        let mut text: String = node.chain(pods).chain(claims).collect();
        if self.node.is_none() && self.claims.is_empty() {
            text += "The pod uses no PersistentVolumeClaim: no volume keeps it from running\n";
        }
        text
    }
}

/// A label, and its words beside it in as many lines as they take.
fn row(label: &str, words: &str) -> String {
    let width = INDENT + LABEL;
    let text = wrapped(words, width);
    format!("{:INDENT$}{label:<LABEL$}{}", "", text.trim_start())
}

fn rows(label: &str, all: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = all.into_iter().collect();
    if all.is_empty() {
        return row(label, "<none>");
    }
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels
        .zip(all)
        .map(|(label, words)| row(label, &words))
        .collect()
}

/// The same of a list that may not be whole: who sees no attachment there would take it for none.
fn partial(label: &str, mut all: Vec<String>, is_partial: bool) -> String {
    if is_partial {
        all.push("not known, or not all of them".to_owned());
    }
    rows(label, all)
}

fn of_node(node: &NodeSheet, has: impl Fn(Gap) -> bool) -> String {
    let mut text = format!("Node {}\n", node.name);
    text += &row("State", &node.state);
    text += &row(
        "Fence",
        match (node.fence.as_deref(), has(Gap::Fences)) {
            (Some(fence), _) => fence,
            (None, true) => "whether a NodeFence is open is not known",
            (None, false) => "no NodeFence is open",
        },
    );
    text += &row(
        "Mounted",
        &format!("{}, by its kubelet", counted(node.volumes_in_use, "volume")),
    );
    let attachments = node.attachments.iter().map(of_attachment).collect();
    text + &partial("Attachments", attachments, has(Gap::Attachments))
}

fn of_pod(pod: &PodSheet, now: Timestamp) -> String {
    let mut text = format!("Pod {}\n", pod.name);
    text += &row("State", &pod.state);
    let state = pod.node_state.as_ref().map(|it| format!(" ({it})"));
    text += &row(
        "Node",
        &match &pod.node {
            Some(node) => format!("{node}{}", state.unwrap_or_default()),
            None => "<none>: it waits for the scheduler".to_owned(),
        },
    );
    let strategy = pod.strategy.as_ref().map(|it| format!(", strategy {it}"));
    text += &row(
        "Made by",
        &format!("{}{}", pod.owner, strategy.unwrap_or_default()),
    );
    let refusal = pod.scheduler.iter();
    text.extend(refusal.map(|it| row("Scheduler", it)));
    let events = pod.events.iter().map(|it| {
        let ago = it.time.map(|at| format!(" {} ago", age(at, now)));
        format!("{}{}: {}", it.reason, ago.unwrap_or_default(), it.message)
    });
    text + &rows("Events", events)
}

fn of_claim(claim: &ClaimSheet, has: impl Fn(Gap) -> bool) -> String {
    let mut text = format!("PersistentVolumeClaim {}\n", claim.name);
    let modes = claim.access_modes.join(", ");
    text += &row("Phase", &format!("{} {modes}", claim.phase));
    text += &row(
        "StorageClass",
        claim.storage_class.as_deref().unwrap_or("<none>"),
    );
    text += &partial("Used by", claim.pods.clone(), has(Gap::Pods));
    if let Some(volume) = &claim.volume {
        let handle = volume.handle.as_ref().map(|it| format!(", handle {it}"));
        let bound = match volume.node_affinity {
            true => ", and only some nodes reach it (nodeAffinity)",
            false => "",
        };
        let handle = handle.unwrap_or_default();
        text += &row(
            "Volume",
            &format!("{} {}{handle}{bound}", volume.name, volume.phase),
        );
    }
    let attachments = claim.attachments.iter().map(of_attachment).collect();
    text += &partial("Attachments", attachments, has(Gap::Attachments));
    text += &claim.driver.as_ref().map(of_driver).unwrap_or_default();
    match (claim.backend, &claim.driver) {
        (Some(backend), _) => text + &of_backend(backend),
        (None, Some(_)) => {
            let words = "no advice is known for this CSI driver: see its documentation";
            text + &row("Backend", words)
        }
        (None, None) => text,
    }
}

fn of_attachment(attachment: &AttachmentSheet) -> String {
    let volume = attachment.volume.as_ref().map(|it| format!("{it} "));
    let error = attachment.error.as_ref().map(|it| format!(": {it}"));
    format!(
        "{}{} on node {} ({}){}",
        volume.unwrap_or_default(),
        attachment.state,
        attachment.node,
        attachment.name,
        error.unwrap_or_default()
    )
}

fn of_driver(driver: &DriverSheet) -> String {
    let attach = match driver.attach_required {
        Some(true) => "its volumes are attached",
        Some(false) => "its volumes are not attached",
        None => "there is no CSIDriver of it",
    };
    let missing = match driver.missing_on.is_empty() {
        true => String::new(),
        false => format!(", not on {}", named(&driver.missing_on)),
    };
    let words = format!(
        "{}: {attach}; on {}{missing}",
        driver.name,
        counted(driver.nodes, "node")
    );
    let label = match driver.attachers_known {
        true => "Attacher",
        false => "One of these",
    };
    row("CSI driver", &words) + &rows(label, driver.attachers.clone())
}

fn of_backend(backend: &Backend) -> String {
    let words = format!(
        "{} ({:?}): ReadWriteMany {}, VolumeAttachments {}",
        backend.name,
        backend.type_,
        backend.read_write_many.told(),
        backend.attach.told()
    );
    let detach = backend
        .force_detach
        .as_deref()
        .unwrap_or("nothing of its own is documented");
    let fences = backend.fences.as_deref().unwrap_or("nothing is documented");
    let mut text = row("Backend", &words);
    text += &row("", &format!("out-of-service: {detach}"));
    text += &row("", &format!("fences by itself: {fences}"));
    text + &row("", &format!("source: {}", backend.sources.join(" ")))
}
