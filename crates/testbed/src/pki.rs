//! The lab's certificate authority: serving and client certificates, the service account key, kubeconfigs.
//!
//! Each lab has its own authority, so that a client of one lab can never talk to the API server of another by accident:
//! the handshake fails. Users are those of Kubernetes: the common name is the user, the organisation the group.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use serde_json::json;

/// A certificate authority that lives in memory.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS #8.
    pub key: String,
}

/// Who a client is, in Kubernetes' terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's group; an X.509 subject of ours holds at most one.
    pub group: Option<String>,
}

impl User {
    /// A user in a group.
    pub fn new(name: &str, group: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            group: group.map(str::to_owned),
        }
    }

    /// The lab's administrator.
    pub fn admin() -> Self {
        Self::new("admin", Some("system:masters"))
    }

    /// The kubelet of that node, as NodeRestriction and the Node authorizer want it.
    pub fn node(node: &str) -> Self {
        Self::new(&format!("system:node:{node}"), Some("system:nodes"))
    }
}

impl Authority {
    /// Makes a new authority.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// The authority's certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server that answers at these addresses and names.
    pub fn serving(&self, addresses: &[IpAddr], names: &[String]) -> Result<Identity> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params
            .subject_alt_names
            .extend(addresses.iter().copied().map(SanType::IpAddress));
        params.distinguished_name.push(DnType::CommonName, "lab");
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a server at this address that expired years ago.
    pub fn serving_expired(&self, address: IpAddr) -> Result<Identity> {
        let mut params = CertificateParams::new(vec![address.to_string()])?;
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client.
    pub fn client(&self, user: &User) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, user.name.as_str());
        if let Some(group) = &user.group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group.as_str());
        }
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        // libvirt takes no certificate that says what it is for and leaves out the second.
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key` into a directory and returns their paths.
    pub fn write(&self, directory: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let paths = (
            directory.join(format!("{name}.crt")),
            directory.join(format!("{name}.key")),
        );
        write_private(&paths.0, &self.certificate)?;
        write_private(&paths.1, &self.key)?;
        Ok(paths)
    }
}

/// Writes the key pair with which the API server signs and checks service account tokens: `NAME.key` and `NAME.pub`.
pub fn write_signing_key(directory: &Path, name: &str) -> Result<()> {
    let key = KeyPair::generate()?;
    write_private(&directory.join(format!("{name}.key")), &key.serialize_pem())?;
    write_private(
        &directory.join(format!("{name}.pub")),
        &key.public_key_pem(),
    )
}

/// How a client of a kubeconfig authenticates.
pub enum Credentials<'a> {
    /// By a client certificate.
    Certificate(&'a Identity),
    /// By a bearer token, such as a service account's.
    Token(&'a str),
}

/// A kubeconfig that needs no other file. It is JSON, which every reader of YAML takes.
pub fn kubeconfig(server: &str, authority_pem: &str, credentials: &Credentials<'_>) -> String {
    let user = match credentials {
        Credentials::Certificate(identity) => json!({
            "client-certificate-data": BASE64_STANDARD.encode(&identity.certificate),
            "client-key-data": BASE64_STANDARD.encode(&identity.key),
        }),
        Credentials::Token(token) => json!({ "token": token }),
    };
    let authority = BASE64_STANDARD.encode(authority_pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "users": [{"name": "lab", "user": user}],
    });
    format!("{config:#}\n")
}

/// Writes a file that only its owner can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt};
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("failed to write {}", path.display()))
}
