//! `kubectl fence version`: of the plugin, of the operator, and whether they go together.

use super::Done;
use super::cluster::{Cluster, seen};
use super::output::print;
use super::reach::Reach;
use super::table::wrapped;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::ListParams;
use std::process::ExitCode;

/// Show the version of the plugin and of the operator
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only of the plugin: asks no cluster
    #[arg(long)]
    client: bool,
}

/// Runs the command.
///
/// # Errors
/// [`super::Error`].
pub async fn run(reach: &Reach, args: Args) -> Done {
    let own = env!("CARGO_PKG_VERSION");
    print(&format!("kubectl-fence: {own}\n"))?;
    if args.client {
        return Ok(ExitCode::SUCCESS);
    }
    let cluster = Cluster::of(reach).await?;
    let ours = ListParams::default().labels("app.kubernetes.io/name=node-fencing-operator");
    let deployments = cluster.list(&cluster.own::<Deployment>(), &ours).await;
    let text = match seen(deployments)? {
        Ok(found) => told(own, &found, &cluster.namespace),
        Err(words) => wrapped(&format!("node-fencing-operator: not known: {words}"), 0),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn told(own: &str, found: &[Deployment], namespace: &str) -> String {
    if found.is_empty() {
        return wrapped(
            &format!(
                "node-fencing-operator: no Deployment of it in namespace {namespace}; name another one with --operator-namespace"
            ),
            0,
        );
    }
    let told = found.iter().map(|it| {
        let version = of(it).unwrap_or("<none>");
        let skew = match go_together(own, version) {
            true => "",
            false => {
                "; the plugin goes with its own minor version of the operator, the one before and the one after: take another one"
            }
        };
        let name = it.name_any();
        wrapped(&format!("node-fencing-operator: {version} (deployment/{name}){skew}"), 0)
    });
    told.collect()
}

/// The version that a Deployment shows.
pub fn of(deployment: &Deployment) -> Option<&str> {
    let version = deployment.labels().get("app.kubernetes.io/version");
    version.map(String::as_str)
}

/// N-1, N or N+1; whoever has no version to show (a build of one's own) is believed.
pub fn go_together(one: &str, other: &str) -> bool {
    let parts = |version: &str| {
        let mut parts = version.trim_start_matches('v').split('.');
        let mut next = || parts.next()?.parse::<u32>().ok();
        Some((next()?, next()?))
    };
    let known = parts(one).zip(parts(other));
    known.is_none_or(|((major, minor), (other, other_minor))| {
        major == other && minor.abs_diff(other_minor) <= 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_goes_with_the_minor_version_before_and_after() {
        for (own, operator, is_well) in [
            ("0.3.0", "0.3.9", true),
            ("0.3.0", "v0.2.1", true),
            ("0.3.0", "0.4.0-rc.1", true),
            ("0.3.0", "0.5.0", false),
            ("0.3.0", "1.3.0", false),
            ("0.3.0", "latest", true),
        ] {
            assert_eq!(go_together(own, operator), is_well, "{own} {operator}");
        }
    }
}
