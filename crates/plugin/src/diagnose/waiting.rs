//! Pods that wait for what may yet be in order: a detach takes some seconds. What lasts longer is a finding (D17).

use super::finding::Finding;
use super::index::Index;
use super::scope::Scope;
use super::signatures::others::{Untold, untold};
use super::stuck::stuck;
use crate::table::duration;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// A pod that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The volume, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The node that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The reason and the words of the error that is reported of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For how many seconds it has waited.
    pub seconds: i64,
}

impl Wait {
    fn of(it: &Untold<'_>) -> Self {
        Self {
            pod: it.pod.full_name(),
            volume: it.volume.clone(),
            holder: it.holder.clone(),
            error: it.error.map(|(reason, words)| format!("{reason}: {words}")),
            seconds: it.age.as_secs(),
        }
    }

    /// In words.
    pub fn told(&self) -> String {
        let age = duration(jiff::SignedDuration::from_secs(self.seconds));
        let volume = self.volume.as_ref().map(|it| format!(" for volume {it}"));
        let holder = self
            .holder
            .as_ref()
            .map(|it| format!(", which node {it} has"));
        let error = self.error.as_ref().map(|it| format!(": {it}"));
        let told = [volume, holder].map(Option::unwrap_or_default).concat();
        format!(
            "pod {}, {age} old, waits{told}{}",
            self.pod,
            error.unwrap_or_default()
        )
    }
}

/// Those of which no finding tells.
pub fn waits(index: &Index<'_>, scope: &Scope, findings: &[Finding]) -> Vec<Wait> {
    let all = untold(index, &stuck(index), findings);
    let pods = scope.pods_of_it(index, all.iter().map(|it| it.pod).collect());
    let names: BTreeSet<String> = pods.iter().map(|it| it.full_name()).collect();
    let of_it = all.iter().map(Wait::of);
    of_it.filter(|it| names.contains(&it.pod)).collect()
}
