//! Which cluster, as whom: kubectl's own flags, and the kubeconfig that they lead to.

use super::time::limit;
use clap::Args;
use fencing_cluster::client::problem;
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

    /// Cluster of the kubeconfig [default: the context's]
    #[arg(long, value_name = "NAME", global = true, help_heading = HEADING)]
    pub cluster: Option<String>,

    /// User of the kubeconfig [default: the context's]
    #[arg(long, value_name = "NAME", global = true, help_heading = HEADING)]
    pub user: Option<String>,

    /// URL of the API server [default: the cluster's]
    #[arg(short, long, value_name = "URL", global = true, help_heading = HEADING)]
    pub server: Option<http::Uri>,

    /// Bearer token [default: the user's login]
    #[arg(long, value_name = "TOKEN", global = true, help_heading = HEADING)]
    pub token: Option<String>,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER", global = true, help_heading = HEADING)]
    pub as_user: Option<String>,

    /// UID to impersonate, with --as
    #[arg(
        long,
        value_name = "UID",
        global = true,
        help_heading = HEADING,
        requires = "as_user"
    )]
    pub as_uid: Option<String>,

    /// Group to impersonate, with --as; repeatable
    #[arg(
        long = "as-group",
        value_name = "GROUP",
        global = true,
        help_heading = HEADING,
        requires = "as_user"
    )]
    pub groups: Vec<String>,

    /// Time limit of one request, such as 30s or 1m30s, 0 for none; a watch has none
    /// [default: 10s, 30s for changes]
    #[arg(long, value_name = "TIME", global = true, help_heading = HEADING, value_parser = limit)]
    pub request_timeout: Option<SignedDuration>,

    /// Log level as of kubectl: 6 or more prints each request
    #[arg(
        short,
        long = "v",
        value_name = "LEVEL",
        global = true,
        help_heading = HEADING,
        default_value_t = 0,
        hide_default_value = true
    )]
    pub verbosity: u8,

    /// As kubectl takes it with every command. Nodes, policies, devices and NodeFences have no namespace; `diagnose` has a flag of its own.
    #[arg(
        short,
        long,
        value_name = "NAME",
        global = true,
        hide = true,
        help_heading = HEADING
    )]
    pub namespace: Option<String>,

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
        let failed = |error: KubeconfigError| {
            let origin = match (&error, &self.kubeconfig) {
                (KubeconfigError::ReadConfig(_, path), _) | (_, Some(path)) => {
                    path.display().to_string()
                }
                _ => "(KUBECONFIG, else ~/.kube/config)".to_owned(),
            };
            format!("kubeconfig {origin}: {}", problem(&error))
        };
        let kubeconfig = self.kubeconfig().map_err(failed)?;
        // kube takes one that is not there for one without a login; kubectl does not.
        let is_there = |user: &&String| kubeconfig.auth_infos.iter().any(|it| it.name == **user);
        if let Some(user) = self.user.as_ref().filter(|it| !is_there(it)) {
            return Err(format!("the kubeconfig has no user `{user}`"));
        }
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(failed)?;
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
            // That of the cluster is for its own URL (client-go's tools/clientcmd, getCluster).
            config.tls_server_name = None;
        }
        config.auth_info = self.login(config.auth_info);
        Ok(config)
    }

    /// The login of the kubeconfig, with what the flags put in its place. A client certificate goes with a token, as with kubectl.
    fn login(&self, mut own: AuthInfo) -> AuthInfo {
        if let Some(token) = &self.token {
            own = AuthInfo {
                token: Some(token.clone().into()),
                username: None,
                password: None,
                token_file: None,
                auth_provider: None,
                exec: None,
                ..own
            };
        }
        own.impersonate = self.as_user.clone().or(own.impersonate);
        own.impersonate_uid = self.as_uid.clone().or(own.impersonate_uid);
        if !self.groups.is_empty() {
            own.impersonate_groups = Some(self.groups.clone());
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        reach: Reach,
    }

    const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "a", "user": "vera"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://a.example", "tls-server-name": "a"}},
            {"name": "b", "cluster": {"server": "https://b.example"}}],
        "users": [{"name": "vera", "user": {"username": "vera", "password": "p"}}, {"name": "root", "user": {"as": "eve"}}]}"#;

    async fn config(flags: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), KUBECONFIG).expect("written");
        let path = file.path().display().to_string();
        let line = ["x", "--kubeconfig", &path].into_iter();
        let line = Line::try_parse_from(line.chain(flags.split_whitespace()));
        line.expect("flags").reach.config().await
    }

    #[tokio::test]
    async fn kubectls_flags_choose_cluster_user_and_login() {
        let plain = config("").await.expect("a config");
        assert_eq!(plain.cluster_url.host(), Some("a.example"));
        assert_eq!(plain.auth_info.username.as_deref(), Some("vera"));

        let other = config("--cluster b --user root --as bob --as-uid 7 -v 6 -n shop").await;
        let other = other.expect("a config");
        assert_eq!(other.cluster_url.host(), Some("b.example"));
        assert_eq!(other.auth_info.impersonate.as_deref(), Some("bob"));
        assert_eq!(other.auth_info.impersonate_uid.as_deref(), Some("7"));

        let server = config("-s https://c.example:6443 --token t").await;
        let server = server.expect("a config");
        assert_eq!(server.cluster_url.host(), Some("c.example"));
        assert_eq!(server.cluster_url.port_u16(), Some(6443));
        assert_eq!(server.tls_server_name, None);
        assert!(server.auth_info.token.is_some());
        assert!(server.auth_info.username.is_none() && server.auth_info.password.is_none());
    }

    #[tokio::test]
    async fn what_the_kubeconfig_does_not_have_is_named() {
        for (flags, words) in [
            ("--context live", "it has no context `live`"),
            ("--cluster c", "it has no cluster `c`"),
            ("--user eve", "has no user `eve`"),
        ] {
            let error = config(flags).await.expect_err("it is not there");
            assert!(error.contains(words), "{error}");
        }
    }
}
