//! What the operator's own process was given to log in with, for drivers that need no Secret: read once, when the process begins.

use crate::network_fence::OwnCluster;
use std::path::PathBuf;
use std::sync::Arc;

/// Longest text of a variable, in bytes.
const TEXT_BYTES_MAX: usize = 2048;

/// Where Google's metadata service is, for whoever runs there.
const GOOGLE_METADATA: &str = "169.254.169.254";

/// What the environment gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The role of AWS that the process may take.
    pub role: Option<AwsRole>,
    /// What gives it the keys of a role, where it has none that it takes itself.
    pub agent: Option<AwsAgent>,
    /// The identity of Azure that the process may take.
    pub azure: Option<AzureIdentity>,
    /// How it gets one of its own node, where it has none that it takes itself.
    pub azure_node: AzureNode,
    /// Where a metadata service gives it tokens of Google's: IP address, and port where it is another than 80. None: it asks none.
    pub google: Option<String>,
    /// The cluster that it runs in; none: it runs in none, as `probe FILE` does.
    pub own_cluster: InCluster,
}

/// The way to the cluster that the process runs in. Two are equal where they are one.
#[derive(Debug, Clone, Default)]
pub struct InCluster(pub Option<Arc<dyn OwnCluster>>);

impl PartialEq for InCluster {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for InCluster {}

/// An identity of Azure, as workload identity gives it to the pods of an annotated service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AzureIdentity {
    /// Its tenant (`AZURE_TENANT_ID`).
    pub tenant: String,
    /// Its client ID (`AZURE_CLIENT_ID`).
    pub client: String,
    /// File with the token that shows who the process is (`AZURE_FEDERATED_TOKEN_FILE`); the kubelet writes it again before it ends.
    pub token_file: PathBuf,
    /// URL of Entra ID where it is not the one of the cloud (`AZURE_AUTHORITY_HOST`). Never a setting of a device: the token goes there.
    pub authority: Option<String>,
}

/// What Azure's metadata service is asked for, on the operator's own node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AzureNode {
    /// Client ID of one of several identities (`AZURE_CLIENT_ID`).
    pub client: Option<String>,
    /// URL of the service where it is not the usual one (`AZURE_POD_IDENTITY_AUTHORITY_HOST`).
    pub metadata: Option<String>,
}

/// The agent of EKS Pod Identity, on the operator's own node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsAgent {
    /// Where it is (`AWS_CONTAINER_CREDENTIALS_FULL_URI`).
    pub url: String,
    /// File with the token that shows who the process is (`AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE`).
    pub token_file: PathBuf,
}

/// A role of AWS, as EKS gives it to the pods of an annotated service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsRole {
    /// Its ARN (`AWS_ROLE_ARN`).
    pub arn: String,
    /// File with the token that shows who the process is (`AWS_WEB_IDENTITY_TOKEN_FILE`); the kubelet writes it anew before it ends.
    pub token_file: PathBuf,
    /// URL of STS where it is not the one of the region (`AWS_ENDPOINT_URL_STS`). Never a setting of a device: the token goes there.
    pub sts: Option<String>,
}

impl Surroundings {
    /// What these variables give.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|it| (1..=TEXT_BYTES_MAX).contains(&it.len()));
        let agent = set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
            .zip(set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
        let azure = set("AZURE_TENANT_ID").zip(set("AZURE_CLIENT_ID"));
        let azure = azure.zip(set("AZURE_FEDERATED_TOKEN_FILE"));
        let role = set("AWS_ROLE_ARN").zip(set("AWS_WEB_IDENTITY_TOKEN_FILE"));
        Self {
            role: role.map(|(arn, file)| AwsRole {
                arn,
                token_file: file.into(),
                sts: set("AWS_ENDPOINT_URL_STS"),
            }),
            agent: agent.map(|(url, file)| AwsAgent {
                url,
                token_file: file.into(),
            }),
            azure: azure.map(|((tenant, client), file)| AzureIdentity {
                tenant,
                client,
                token_file: file.into(),
                authority: set("AZURE_AUTHORITY_HOST"),
            }),
            azure_node: AzureNode {
                client: set("AZURE_CLIENT_ID"),
                metadata: set("AZURE_POD_IDENTITY_AUTHORITY_HOST"),
            },
            // No variable says that there is one: who names no Secret has said so. Google's own programs read this variable, too.
            google: Some(set("GCE_METADATA_HOST").unwrap_or_else(|| GOOGLE_METADATA.to_owned())),
            own_cluster: InCluster::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_needs_its_token() {
        let of = |names: &'static [&'static str]| {
            Surroundings::of(move |it| names.contains(&it).then(|| format!("the {it}")))
        };
        for half in ["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"] {
            let of = Surroundings::of(|it| (it == half).then(|| "half".to_owned()));
            assert_eq!((of.role, of.agent), (None, None), "{half}");
        }
        let role = of(&["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"]).role;
        let role = role.expect("a role");
        assert_eq!(role.arn, "the AWS_ROLE_ARN");
        assert_eq!(role.sts, None);
        let agent = of(&[
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        ]);
        let agent = agent.agent.expect("an agent");
        assert_eq!(agent.url, "the AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let empty = Surroundings::of(|_| Some(String::new()));
        assert_eq!((empty.role, empty.agent), (None, None));
    }

    #[test]
    fn the_metadata_service_is_at_its_own_address_unless_a_variable_says_otherwise() {
        let of = |value: Option<&str>| {
            let value = value.map(str::to_owned);
            Surroundings::of(|it| value.clone().filter(|_| it == "GCE_METADATA_HOST")).google
        };
        assert_eq!(of(None).as_deref(), Some("169.254.169.254"));
        assert_eq!(of(Some("")).as_deref(), Some("169.254.169.254"));
        assert_eq!(of(Some("127.0.0.1:988")).as_deref(), Some("127.0.0.1:988"));
        assert_eq!(Surroundings::default().google, None);
    }

    #[test]
    fn an_identity_of_azure_needs_tenant_client_and_token() {
        let all = [
            "AZURE_TENANT_ID",
            "AZURE_CLIENT_ID",
            "AZURE_FEDERATED_TOKEN_FILE",
        ];
        let of = |missing: &'static str| {
            Surroundings::of(move |it| {
                (all.contains(&it) && it != missing).then(|| format!("the {it}"))
            })
        };
        for missing in all {
            assert_eq!(of(missing).azure, None, "{missing}");
        }
        let identity = of("").azure.expect("an identity");
        assert_eq!(identity.client, "the AZURE_CLIENT_ID");
        assert_eq!(identity.authority, None);
        let node = of("AZURE_TENANT_ID").azure_node;
        assert_eq!(node.client.as_deref(), Some("the AZURE_CLIENT_ID"));
    }
}
