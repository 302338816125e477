//! From facts to findings, without asking anybody: ten ways in which a volume keeps a pod from running, each told from its neighbours.
//!
//! D1 and D2 are silent nodes with volumes, D3, D6, D7 and D9 attachments that do not end, D4 and D5 workloads that ask for what the volume cannot
//! give, D8 pods that no taint evicts, D10 what the scheduler refuses. What is not known is taken for neither there nor absent: a signature that
//! needs a list which could not be read whole does not show.

mod attachments;
mod nodes;
mod scheduling;
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
    let undetached = attachments::undetached(&index);
    let unevictable = nodes::unevictable(&index);
    let explained = [undetached, unevictable].concat();
    let mut findings = nodes::dead(&index, &stuck, &explained);
    findings.extend(explained);
    findings.extend(workloads::shared(&index, &stuck));
    findings.extend(attachments::unmounting(&index, &stuck));
    findings.extend(attachments::stale(&index));
    findings.extend(attachments::orphaned(&index, &stuck));
    findings.extend(scheduling::refused(&index, &stuck));
    findings.sort_by_key(|it| it.id);
    findings
}

#[cfg(test)]
pub(super) mod tests;
