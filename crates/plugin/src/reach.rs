//! Which cluster, as whom: kubectl's own flags, and the kubeconfig that they lead to.

use super::time::limit;
use clap::Args;
use fencing_cluster::text;
use jiff::SignedDuration;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::path::PathBuf;

/// Above the flags of every command.
const HEADING: &str = "Cluster and user";

/// Which cluster, as whom: kubectl's own flags.
#[derive(Debug, Clone, Args)]
pub struct Reach {
    /// Kubeconfig file [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", global = true, help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", global = true, help_heading = HEADING)]
    pub context: Option<String>,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER", global = true, help_heading = HEADING)]
    pub user: Option<String>,

    /// Group to impersonate, with --as; repeatable
    #[arg(
        long = "as-group",
        value_name = "GROUP",
        global = true,
        help_heading = HEADING,
        requires = "user"
    )]
    pub groups: Vec<String>,

    /// Time limit of one request, such as 30s or 1m30s, 0 for none; a watch has none
    /// [default: 10s, 30s for changes]
    #[arg(long, value_name = "TIME", global = true, help_heading = HEADING, value_parser = limit)]
    pub request_timeout: Option<SignedDuration>,

    /// Namespace of the operator
    #[arg(
        long,
        value_name = "NAME",
        global = true,
        help_heading = HEADING,
        default_value = fencing_api::names::NAMESPACE
    )]
    pub operator_namespace: String,
}

impl Reach {
    /// The file, or what all that KUBECONFIG names have together.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn kubeconfig(&self) -> Result<Kubeconfig, KubeconfigError> {
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
    }

    /// The kubeconfig, read. Nothing is sent.
    ///
    /// # Errors
    /// Which file it is, and what is wrong with it, in words.
    pub async fn config(&self) -> Result<Config, String> {
        let origin = || match &self.kubeconfig {
            Some(path) => format!("the kubeconfig {}", path.display()),
            None => "the kubeconfig (KUBECONFIG, else ~/.kube/config)".to_owned(),
        };
        let kubeconfig = self
            .kubeconfig()
            .map_err(|it| format!("failed to read {}: {}", origin(), text::chain(&it)))?;
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|it| format!("{}: {}", origin(), text::chain(&it)))?;
        let own = &config.auth_info;
        config.auth_info = AuthInfo {
            impersonate: self.user.clone().or_else(|| own.impersonate.clone()),
            impersonate_groups: match self.groups.is_empty() {
                true => own.impersonate_groups.clone(),
                false => Some(self.groups.clone()),
            },
            ..config.auth_info
        };
        Ok(config)
    }
}
