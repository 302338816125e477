//! The cluster: its version, the custom resources, the policies that guard them.

use super::super::cluster::{Cluster, Error, VIEWER, seen};
use super::answers::words;
use super::{Category, Check, Finding};
use fencing_cluster::client::AskError;
use fencing_cluster::{preflight, schema};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::ResourceExt;
use kube::api::ListParams;
use std::collections::BTreeSet;

const HERE: Category = Category("cluster");
const VERSION: Check = HERE.check("api-server", "docs/compatibility.md#kubernetes");
const SCHEMAS: Check = HERE.check("custom-resources", "docs/how-to/upgrade.md#do-it");
pub(super) const GUARD: Check = HERE.check(
    "admission-policies",
    "docs/runbooks/NodeFencingAdmissionGuardMissing.md#diagnosis",
);
/// Bindings of `deploy/admission.yaml` that hold the operator and people, by how their names end.
const GUARDS: [&str; 12] = [
    "-nodes",
    "-attachments",
    "-pods",
    "-claim",
    "-out-of-service",
    "-records",
    "-approve",
    "-confirm",
    "-fence",
    "-notes",
    "-pause",
    "-probe",
];

pub(super) async fn look(cluster: &Cluster) -> Result<Vec<Finding>, Error> {
    let clients = &cluster.clients;
    let mut findings = match cluster.preflight(preflight::cluster(clients)).await {
        Ok(version) => vec![VERSION.well(format!("{} is Kubernetes {version}", clients.server))],
        Err(error @ preflight::Error::NotInstalled { .. }) => {
            return Ok(vec![SCHEMAS.fails(error.to_string())]);
        }
        Err(error) => return Ok(vec![VERSION.fails(words(cluster, error)?)]),
    };
    findings.push(
        match schema::unknown_fields(clients, cluster.limits.read).await {
            Ok(unknown) if unknown.is_empty() => {
                SCHEMAS.well("the CustomResourceDefinitions know every field of this version")
            }
            Ok(unknown) => SCHEMAS.warns(schema::words(&unknown)),
            Err(AskError::Refused { message, .. }) => SCHEMAS.unknown(message),
            Err(error) => SCHEMAS.unknown(error.to_string()),
        },
    );
    findings.push(guard(cluster).await?);
    Ok(findings)
}

/// Whether they refuse what they should only the operator can try; that they are there is what a user can see.
async fn guard(cluster: &Cluster) -> Result<Finding, Error> {
    let bindings = cluster.api::<ValidatingAdmissionPolicyBinding>();
    let bindings = cluster.list(&bindings, &ListParams::default()).await;
    let bindings = match seen(bindings)? {
        Ok(bindings) => bindings,
        Err(words) => {
            return Ok(GUARD.unknown(format!(
                "the admission policies could not be checked: {words} (ClusterRole {VIEWER})"
            )));
        }
    };
    let names: BTreeSet<String> = bindings.iter().map(ResourceExt::name_any).collect();
    let stands = |end: &&str| {
        names
            .iter()
            .any(|it| it.contains("node-fencing") && it.ends_with(*end))
    };
    let missing: Vec<&str> = GUARDS.into_iter().filter(|it| !stands(it)).collect();
    Ok(match missing.is_empty() {
        true => GUARD.well("the admission policies of the operator are bound"),
        false => GUARD.fails(format!(
            "no ValidatingAdmissionPolicyBinding of the operator ends with {}, so neither its token nor manual confirmations are limited; apply deploy/admission.yaml, or set admissionPolicy.enabled in the chart",
            missing.join(", ")
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_of_the_operator_is_looked_for() {
        let manifest = include_str!("../../../../deploy/admission.yaml");
        let documents = manifest.split("\n---\n");
        let bindings = documents.filter(|it| it.contains("kind: ValidatingAdmissionPolicyBinding"));
        let names = bindings.filter_map(|it| it.split("name: node-fencing-operator").nth(1));
        let ends: Vec<&str> = names.filter_map(|it| it.lines().next()).collect();
        assert_eq!(ends, GUARDS);
    }
}
