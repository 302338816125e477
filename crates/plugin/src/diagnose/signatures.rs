//! From facts to findings, without asking anybody: the ways in which a volume keeps a pod from running, each told from its neighbours.
//!
//! D1, D2 and D12 are nodes that are down or out of service, with volumes, D3, D6, D7, D9, D13 and D16 attachments that do not end, D4 and D5
//! workloads that ask for what the volume cannot give, D8 and D11 pods that do not leave, D10 and D15 what the scheduler refuses, D14 drivers whose
//! controller is on a dead node. D17 is what lasts and is none of these. What is not known is taken for neither there nor absent: a signature that
//! needs a list which could not be read whole does not show.

mod attachments;
mod drivers;
mod lingering;
mod nodes;
mod orphans;
pub mod others;
mod reach;
mod scheduling;
mod steps;
mod unfenced;
mod workloads;

use super::facts::Facts;
use super::finding::Finding;
use super::index::Index;
use super::stuck::stuck;

/// All findings, in the order of the signatures.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let index = Index::of(facts);
    let stuck = stuck(&index);
    let explained = [
        attachments::undetached(&index),
        nodes::unevictable(&index),
        lingering::terminating(&index),
        drivers::unattaching(&index),
    ]
    .concat();
    let mut findings = nodes::dead(&index, &stuck, &explained);
    findings.extend(explained);
    findings.extend(workloads::shared(&index, &stuck));
    findings.extend(attachments::unmounting(&index, &stuck));
    findings.extend(attachments::stale(&index));
    findings.extend(orphans::orphaned(&index, &stuck));
    findings.extend(scheduling::refused(&index, &stuck));
    findings.extend(drivers::unserved(&index));
    findings.extend(reach::unreachable(&index));
    findings.extend(lingering::unused(&index, &stuck));
    let unexplained = others::unexplained(&index, &stuck, &findings);
    findings.extend(unexplained);
    findings.sort_by_key(|it| it.id);
    findings
}

#[cfg(test)]
pub(super) mod tests;
