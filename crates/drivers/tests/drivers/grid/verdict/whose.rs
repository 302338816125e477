//! Whose machine it is: another one answers, or two nodes have the same one.

use super::super::cell::ENDLESS;
use super::{Course, Off, Shown};
use fencing_core::identity::{Reports, Wire, duplicates};
use fencing_core::identity_rule::IdentityRule;
use fencing_core::not_proven::NotProven;
use fencing_drivers::confirm::Ended;

pub(super) async fn not_this_machine(course: &mut Course<'_>, reason: &str) -> Shown {
    course.bench.machine_is(false);
    let off = course.off().await;
    must!(
        matches!(&off, Off::NotSent(refusal) if named(refusal) == reason),
        "the command ends with {off:?}"
    );
    let sent = (course.bench.commands)();
    must!(sent.is_empty(), "{} commands were sent", sent.len());
    let ended = course.confirm(ENDLESS, usize::MAX).await;
    must!(ended == Ended::Stable, "the reads end with {ended:?}");
    let proof = course.proof(false);
    must!(
        matches!(&proof, Err(refusal) if named(refusal) == reason),
        "it is judged as {proof:?}"
    );
    Ok(reason.to_owned())
}

fn named(refusal: &NotProven) -> &'static str {
    match refusal {
        NotProven::WrongMachine { .. } => "WrongMachine",
        NotProven::IdentityRefused { .. } => "IdentityRefused",
        _ => "something else",
    }
}

pub(super) async fn shared(course: &mut Course<'_>) -> Shown {
    let wire = |node: &str| Wire {
        device: format!("device-of-{node}"),
        node: node.to_owned(),
        node_exists: true,
        targets: course.bench.targets.clone(),
        uuid: None,
        unpinned: None,
    };
    let refused = duplicates(&[wire("node-1"), wire("node-2")], &Reports::new());
    must!(refused.len() == 2, "refused are {refused:?}");
    let why = refused.into_values().next().unwrap_or_default();
    course.rule = IdentityRule::Refused(why);
    not_this_machine(course, "IdentityRefused").await?;
    Ok("DuplicateTarget".to_owned())
}
