//! `kubectl fence version`: of the plugin, of the operator, and whether they go together.

use super::cluster::{Cluster, seen};
use super::output::{Content, Form, forms, print, written};
use super::reach::Reach;
use super::table::wrapped;
use super::{Done, Error};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::ListParams;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Show the version of the plugin and of the operator
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only of the plugin: asks no cluster
    #[arg(long)]
    client: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table",
        value_parser = forms(&[Form::Table, Form::Json, Form::Yaml]))]
    output: Form,
}

/// What the command shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Of the plugin.
    pub client_version: &'static str,
    /// The operators in its namespace; none: nobody was asked, or there was no answer.
    pub operators: Option<Vec<Operator>>,
    /// Why they are not known.
    pub unknown: Option<String>,
}

impl Content for Version {
    const KIND: &'static str = "Version";
}

/// A Deployment of the operator.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The version that it shows; none: it shows none, as a build of one's own may not.
    pub version: Option<String>,
    /// Does the plugin go with it? None: that is not known from what it shows.
    pub goes_together: Option<bool>,
}

/// Runs the command.
///
/// # Errors
/// [`Error`].
pub async fn run(reach: &Reach, args: Args) -> Done {
    let asked = match args.client {
        true => Ok(None),
        false => operators(reach).await.map(Some),
    };
    let (operators, unknown) = match &asked {
        Ok(Some(Ok(found))) => (Some(found.iter().map(operator).collect()), None),
        Ok(Some(Err(words))) => (None, Some(words.clone())),
        Ok(None) | Err(_) => (None, None),
    };
    let version = Version {
        client_version: env!("CARGO_PKG_VERSION"),
        operators,
        unknown,
    };
    // Its own it knows, whatever the cluster has to say.
    let namespace = &reach.operator_namespace;
    print(&written(args.output, &version, |_| {
        told(&version, namespace)
    })?)?;
    asked.map(|_| ExitCode::SUCCESS)
}

async fn operators(reach: &Reach) -> Result<Result<Vec<Deployment>, String>, Error> {
    let cluster = Cluster::of(reach).await?;
    let ours = ListParams::default().labels(super::replica::OPERATOR);
    let deployments = cluster.list(&cluster.own::<Deployment>(), &ours).await;
    Ok(seen(deployments)?)
}

fn operator(deployment: &Deployment) -> Operator {
    let version = of(deployment).map(str::to_owned);
    Operator {
        name: deployment.name_any(),
        namespace: deployment.namespace().unwrap_or_default(),
        goes_together: version
            .as_deref()
            .and_then(|it| go_together(env!("CARGO_PKG_VERSION"), it)),
        version,
    }
}

fn told(version: &Version, namespace: &str) -> String {
    let mut text = format!("kubectl-fence: {}\n", version.client_version);
    if let Some(words) = &version.unknown {
        text += &wrapped(&format!("node-fencing-operator: unknown: {words}"), 0);
    }
    if version.operators.as_ref().is_some_and(Vec::is_empty) {
        text += &wrapped(
            &format!(
                "node-fencing-operator: no Deployment in namespace {namespace}; name another one with --operator-namespace"
            ),
            0,
        );
    }
    for operator in version.operators.iter().flatten() {
        let skew = match operator.goes_together {
            Some(true) => "",
            None => "; compatibility unknown (the operator's build shows no version)",
            Some(false) => {
                "; incompatible (more than one minor version apart): install the plugin of the operator's version"
            }
        };
        let shown = operator.version.as_deref().unwrap_or("<none>");
        let line = format!(
            "node-fencing-operator: {shown} (deployment/{}){skew}",
            operator.name
        );
        text += &wrapped(&line, 0);
    }
    text
}

/// The version that a Deployment shows.
pub fn of(deployment: &Deployment) -> Option<&str> {
    let version = deployment.labels().get("app.kubernetes.io/version");
    version.map(String::as_str)
}

/// N-1, N or N+1; none: one of them is no version.
pub fn go_together(one: &str, other: &str) -> Option<bool> {
    let parts = |version: &str| {
        let mut parts = version.trim_start_matches('v').split('.');
        let mut next = || parts.next()?.parse::<u32>().ok();
        Some((next()?, next()?))
    };
    let ((major, minor), (other, other_minor)) = parts(one).zip(parts(other))?;
    Some(major == other && minor.abs_diff(other_minor) <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_of_the_operator_is_null_and_said_in_words() {
        let deployment = |version: &str| {
            let labels = json!({"app.kubernetes.io/version": version});
            let metadata = json!({"name": "nfo", "namespace": "fencing", "labels": labels});
            let deployment = json!({"metadata": metadata});
            serde_json::from_value::<Deployment>(deployment).expect("a Deployment")
        };
        let mut version = Version {
            client_version: env!("CARGO_PKG_VERSION"),
            operators: Some(vec![operator(&deployment("99.0.0"))]),
            unknown: None,
        };
        assert!(told(&version, "fencing").contains("99.0.0 (deployment/nfo); incompatible"));
        let text = written(Form::Json, &version, |_| String::new()).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["kind"], "Version");
        assert_eq!(value["operators"][0]["goesTogether"], false);
        for of_ones_own in [Deployment::default(), deployment("latest")] {
            version.operators = Some(vec![operator(&of_ones_own)]);
            let words = "compatibility unknown";
            let told = told(&version, "fencing").replace('\n', " ");
            assert!(told.contains(words), "{told}");
            let value = serde_json::to_value(&version).expect("JSON");
            assert!(value["operators"][0]["goesTogether"].is_null(), "{value}");
        }
        version.operators = Some(Vec::new());
        assert!(told(&version, "fencing").contains("no Deployment in namespace fencing"));
        (version.operators, version.unknown) = (None, Some("you may not".to_owned()));
        assert!(told(&version, "fencing").contains("unknown: you may not"));
        let text = written(Form::Json, &version, |_| String::new()).expect("JSON");
        assert!(text.contains("\"operators\": null"), "{text}");
    }

    #[test]
    fn a_plugin_goes_with_the_minor_version_before_and_after() {
        for (own, operator, is_well) in [
            ("0.3.0", "0.3.9", Some(true)),
            ("0.3.0", "v0.2.1", Some(true)),
            ("0.3.0", "0.4.0-rc.1", Some(true)),
            ("0.3.0", "0.5.0", Some(false)),
            ("0.3.0", "1.3.0", Some(false)),
            ("0.3.0", "latest", None),
        ] {
            assert_eq!(go_together(own, operator), is_well, "{own} {operator}");
        }
    }
}
