//! What surrounds the operator: others that fence, the CSI drivers, the controller-manager's own forced detach, and whoever is to be paged.

use super::super::cluster::{Cluster, Error, seen};
use super::super::replica::{MANAGER, flag};
use super::answers::early;
use super::{Category, Check, Finding};
use fencing_api::conditions::{OTHER_FENCERS, find};
use fencing_api::policy::NodeFencingPolicy;
use fencing_cluster::text::listed;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::Value;

const HERE: Category = Category("surroundings");
const OTHERS: Check = HERE.check(
    "other-fencers",
    "docs/comparison.md#others-beside-this-operator",
);
const DRIVERS: Check = HERE.check("csi-drivers", "docs/compatibility.md#storage");
const FORCED: Check = HERE.check(
    "forced-detach",
    "docs/how-to/recovery-time.md#kubernetes-own-forced-detach",
);
const ALERTS: Check = HERE.check(
    "alerts",
    "docs/how-to/watch.md#with-the-prometheus-operator",
);
/// The flag without which the controller-manager detaches volumes of a machine that may run, after six minutes.
const FLAG: &str = "--disable-force-detach-on-timeout";
const NAMED_MAX: usize = 6;

pub(super) async fn look(
    cluster: &Cluster,
    policies: &[NodeFencingPolicy],
) -> Result<Vec<Finding>, Error> {
    let mut findings = of_others(policies);
    findings.extend(around(cluster, When::Installed).await?);
    findings.push(alerts(cluster).await);
    Ok(findings)
}

/// Are the operator's roles there, for whoever lacks a right?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Not yet.
    Before,
    /// They came with it.
    Installed,
}

impl When {
    fn seen<T>(self, answer: Result<T, Error>) -> Result<Result<T, String>, Error> {
        match self {
            Self::Before => seen(early(answer)),
            Self::Installed => seen(answer),
        }
    }
}

/// What is there whether the operator is or not.
pub(super) async fn around(cluster: &Cluster, when: When) -> Result<Vec<Finding>, Error> {
    let drivers = cluster
        .list(&cluster.api::<CSIDriver>(), &ListParams::default())
        .await;
    let managers = ListParams::default().labels(MANAGER);
    let managers = cluster.list(&cluster.api::<Pod>(), &managers).await;
    Ok(vec![
        of_drivers(when.seen(drivers)?),
        forced(when.seen(managers)?),
    ])
}

fn of_others(policies: &[NodeFencingPolicy]) -> Vec<Finding> {
    let told = policies.iter().filter_map(|policy| {
        let status = policy.status.as_ref()?;
        let found = find(&status.conditions, OTHER_FENCERS).filter(|it| it.status == "True")?;
        Some(OTHERS.warns(format!(
            "NodeFencingPolicy {}: {}",
            policy.name_any(),
            found.message
        )))
    });
    let told: Vec<Finding> = told.collect();
    match told.is_empty() {
        true => {
            vec![
                OTHERS.well(
                    "no other component was found that fences, restarts or deletes these nodes",
                ),
            ]
        }
        false => told,
    }
}

fn of_drivers(drivers: Result<Vec<CSIDriver>, String>) -> Finding {
    let drivers = match drivers {
        Ok(drivers) => drivers,
        Err(words) => return DRIVERS.unknown(words),
    };
    let (attached, free): (Vec<&CSIDriver>, Vec<&CSIDriver>) = drivers
        .iter()
        .partition(|it| it.spec.attach_required.unwrap_or(true));
    let names =
        |some: &[&CSIDriver]| -> Vec<String> { some.iter().map(|it| it.name_any()).collect() };
    let words = format!(
        "volumes of {} are attached, and detach in a fence",
        or_no(&names(&attached))
    );
    match free.is_empty() {
        true => DRIVERS.well(words),
        false => DRIVERS.well(format!("{words}; those of {} are not attached, and their release waits only for the power-off proof", or_no(&names(&free)))),
    }
}

fn or_no(names: &[String]) -> String {
    match names.is_empty() {
        true => "no CSI driver".to_owned(),
        false => listed(names, "", NAMED_MAX),
    }
}

/// Its flags can be read where it is a pod, and nowhere else.
fn forced(managers: Result<Vec<Pod>, String>) -> Finding {
    let managers = match managers {
        Ok(managers) if !managers.is_empty() => managers,
        Ok(_) => return FORCED.unknown(format!("{FLAG} of kube-controller-manager could not be read (no pod), and without it running machines lose volumes after six minutes; ask the cluster's provider")),
        Err(words) => return FORCED.unknown(words),
    };
    let has_flag = |pod: &Pod| flag([pod], FLAG) == Some("true");
    let without: Vec<String> = managers
        .iter()
        .filter(|it| !has_flag(it))
        .map(ResourceExt::name_any)
        .collect();
    match without.is_empty() {
        true => FORCED.well(format!("the controller-manager runs with {FLAG}")),
        false => FORCED.warns(format!("{} runs without {FLAG}, so volumes of a running machine may be detached after six minutes; set it", listed(&without, "", NAMED_MAX))),
    }
}

/// Are the rules there for a Prometheus Operator? A plain Prometheus has them in a file, which nobody can see from here.
async fn alerts(cluster: &Cluster) -> Finding {
    let path = "/apis/monitoring.coreos.com/v1/prometheusrules?labelSelector=app.kubernetes.io%2Fname%3Dnode-fencing-operator&limit=1";
    let unknown = |why: &str| {
        ALERTS.unknown(format!("alert rules could not be checked: {why}; load the rules into your Prometheus (metrics.prometheusRule.enabled in the chart, or its plain file)"))
    };
    let groups = match cluster.raw("/apis").await {
        Ok(groups) => groups,
        Err(error) => return unknown(&error.to_string()),
    };
    let names = groups.get("groups").and_then(Value::as_array);
    let mut names = names.into_iter().flatten().filter_map(|it| it.get("name"));
    if !names.any(|it| it == "monitoring.coreos.com") {
        return unknown("this cluster has no Prometheus Operator");
    }
    match cluster.raw(path).await {
        Ok(found) => {
            let items = found.get("items").and_then(Value::as_array);
            match items.is_none_or(Vec::is_empty) {
                true => ALERTS.warns("there is no PrometheusRule of the operator, so a stuck fence alerts no one; set metrics.prometheusRule.enabled in the chart"),
                false => ALERTS.well("the PrometheusRule of the operator exists"),
            }
        }
        Err(Error::Refused(words)) => unknown(&words),
        Err(error) => unknown(&error.to_string()),
    }
}
