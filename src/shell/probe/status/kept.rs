//! What the status keeps of each node of a device until a probe says otherwise: pins, what was seen of running machines, what restarts them.

use super::super::judge::Judgement;
use super::{PINS_MAX, Row};
use fencing_api::device::{PinnedSystem, PositiveControl, Restarter};
use std::collections::BTreeMap;

/// The old pins of Nodes that still exist, and the new ones. A new one takes the place of the same node's old one.
pub(super) fn pins(
    old: Vec<PinnedSystem>,
    judged: &[(Row<'_>, Judgement)],
    lives: impl Fn(&str, &str) -> bool,
) -> Vec<PinnedSystem> {
    let living = old
        .into_iter()
        .filter(|pin| lives(&pin.node_name, &pin.node_uid));
    let mut pins: BTreeMap<String, PinnedSystem> =
        living.map(|pin| (pin.node_name.clone(), pin)).collect();
    for (row, judgement) in judged {
        // A system that serves two nodes is nobody's.
        let Some(pin) = judgement.pin.as_ref().filter(|_| row.duplicate.is_none()) else {
            continue;
        };
        if pins.len() < PINS_MAX || pins.contains_key(&pin.node_name) {
            pins.insert(pin.node_name.clone(), pin.clone());
        }
    }
    pins.into_values().collect()
}

/// What is known of the running machines (S25), one row a node.
pub(super) fn controls(
    kept: impl Iterator<Item = PositiveControl>,
    judged: &[(Row<'_>, Judgement)],
) -> Vec<PositiveControl> {
    let mut rows: BTreeMap<String, PositiveControl> =
        kept.map(|row| (row.node_name.clone(), row)).collect();
    for (_, judgement) in judged {
        if let Some(row) = &judgement.control
            && (rows.len() < PINS_MAX || rows.contains_key(&row.node_name))
        {
            rows.insert(row.node_name.clone(), row.clone());
        }
    }
    rows.into_values().collect()
}

/// What turns the machines on again, by the probe of each that answered last.
pub(super) fn restarters(old: Vec<Restarter>, judged: &[(Row<'_>, Judgement)]) -> Vec<Restarter> {
    let mut old: BTreeMap<String, Restarter> = old
        .into_iter()
        .map(|it| (it.node_name.clone(), it))
        .collect();
    let now =
        judged.iter().filter_map(
            |(row, _)| match row.finding.map(|finding| &finding.outcome) {
                Some(Ok(probe)) => probe.restarter.clone().map(|by| Restarter {
                    node_name: row.node.to_owned(),
                    by,
                }),
                Some(Err(_)) | None => old.remove(row.node),
            },
        );
    now.take(PINS_MAX).collect()
}
