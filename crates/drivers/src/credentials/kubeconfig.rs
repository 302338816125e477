//! The kubeconfig of another cluster, out of a Secret: where its API server is, who may answer there, and what opens it.
//!
//! Only what stands in the kubeconfig itself is used. It runs no program, reads no file, goes through no proxy and takes nobody else's name, so a
//! kubeconfig that asks for one of these is refused in words.

use super::{CERTIFICATE, Credentials, CredentialsError};
use crate::tls::CertificateCheck;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use zeroize::Zeroizing;

/// The key of a Secret with a kubeconfig.
pub const KUBECONFIG: [&str; 1] = ["kubeconfig"];
/// What is made of it, beside the client's certificate: the token, and what is no secret.
pub(crate) const TOKEN: &str = "token";
pub(super) const SERVER: &str = "server";
pub(super) const AUTHORITY: &str = "certificate-authority-data";

/// Names of values, with them.
type Values = Vec<(&'static str, Zeroizing<String>)>;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    current_context: Option<String>,
    #[serde(default)]
    clusters: Vec<Named<Cluster>>,
    #[serde(default)]
    contexts: Vec<Named<Context>>,
    #[serde(default)]
    users: Vec<Named<User>>,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    it: T,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: Option<String>,
    certificate_authority: Option<IgnoredAny>,
    insecure_skip_tls_verify: Option<bool>,
    tls_server_name: Option<IgnoredAny>,
    proxy_url: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<IgnoredAny>,
    client_certificate: Option<IgnoredAny>,
    client_key: Option<IgnoredAny>,
    username: Option<IgnoredAny>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
    #[serde(rename = "as")]
    other_name: Option<IgnoredAny>,
}

/// What a kubeconfig opens: of its current context, or of the only one.
///
/// # Errors
/// What is wrong with it, in words that hold nothing of it.
pub(super) fn opened(text: &str) -> Result<Values, String> {
    // What the parser says may repeat a value.
    let config: Config = serde_saphyr::from_str(text)
        .map_err(|_| "it is not the YAML of a kubeconfig".to_owned())?;
    let context = match &config.current_context {
        Some(name) if !name.is_empty() => one(&config.contexts, name, "contexts")?,
        _ => only(&config.contexts)?,
    };
    let cluster = one(&config.clusters, &context.cluster, "clusters")?;
    let user = one(&config.users, &context.user, "users")?;
    let mut values = of_cluster(cluster)?;
    values.extend(of_user(user)?);
    Ok(values)
}

fn one<'a, T>(all: &'a [Named<T>], name: &str, list: &str) -> Result<&'a T, String> {
    let mut found = all.iter().filter(|it| it.name == name);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(&one.it),
        (None, _) => Err(format!(
            "its context names an entry of `{list}` that it does not have"
        )),
        (Some(_), Some(_)) => Err(format!("an entry of `{list}` stands in it twice")),
    }
}

fn only(all: &[Named<Context>]) -> Result<&Context, String> {
    match all {
        [one] => Ok(&one.it),
        _ => Err("it has no `current-context`; set it".to_owned()),
    }
}

fn refused(fields: &[(&str, bool)]) -> Result<(), String> {
    match fields.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((field, _)) => Err(format!(
            "it has `{field}`, which is not supported: no program, file or proxy of a kubeconfig is used; write token or certificates into it"
        )),
    }
}

fn of_cluster(cluster: &Cluster) -> Result<Values, String> {
    refused(&[
        (
            "certificate-authority",
            cluster.certificate_authority.is_some(),
        ),
        ("tls-server-name", cluster.tls_server_name.is_some()),
        ("proxy-url", cluster.proxy_url.is_some()),
    ])?;
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Err(
            "it has `insecure-skip-tls-verify`, which the FenceDevice alone may say; write the authority of the API server into it"
                .to_owned(),
        );
    }
    let server = Zeroizing::new(cluster.server.clone());
    let mut values = vec![(SERVER, server)];
    if let Some(data) = &cluster.certificate_authority_data {
        values.push((AUTHORITY, pem(AUTHORITY, data)?));
    }
    Ok(values)
}

fn of_user(user: &User) -> Result<Values, String> {
    refused(&[
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
        ("username", user.username.is_some()),
        ("as", user.other_name.is_some()),
    ])?;
    let mut values = Vec::new();
    if let Some(token) = user.token.as_ref().filter(|it| !it.is_empty()) {
        values.push((TOKEN, Zeroizing::new(token.trim().to_owned())));
    }
    let certificate = (&user.client_certificate_data, &user.client_key_data);
    match certificate {
        (Some(chain), Some(key)) => {
            let [for_chain, for_key] = CERTIFICATE;
            values.push((for_chain, pem("client-certificate-data", chain)?));
            values.push((for_key, pem("client-key-data", key)?));
        }
        (None, None) => {}
        _ => {
            return Err("it has a client's certificate or its key, and both are needed".to_owned());
        }
    }
    match values.is_empty() {
        true => Err("its user has neither a token nor a client's certificate".to_owned()),
        false => Ok(values),
    }
}

/// PEM, which stands in a kubeconfig in Base64.
fn pem(field: &str, data: &str) -> Result<Zeroizing<String>, String> {
    let bytes = STANDARD.decode(data.trim()).map(Zeroizing::new);
    let bytes = bytes.map_err(|_| format!("its `{field}` is not Base64"))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| format!("its `{field}` is not PEM"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

impl Credentials {
    /// The same check, by the authority in the kubeconfig where the settings name none.
    #[must_use]
    pub fn authority(&self, check: CertificateCheck) -> CertificateCheck {
        let pem = self.value(AUTHORITY).as_bytes();
        match check {
            CertificateCheck::Full {
                ca_bundle_pem: None,
            } if !pem.is_empty() => CertificateCheck::Full {
                ca_bundle_pem: Some(pem.to_vec()),
            },
            other => other,
        }
    }

    /// The API server that the kubeconfig is for, if there is one.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        Some(self.value(SERVER)).filter(|it| !it.is_empty())
    }

    /// Is there a token?
    #[must_use]
    pub fn has_token(&self) -> bool {
        !self.value(TOKEN).is_empty()
    }

    /// Can what the kubeconfig holds be sent at all?
    ///
    /// # Errors
    /// [`CredentialsError::Value`] where no header can carry its token.
    pub fn check_kubeconfig(&self) -> Result<(), CredentialsError> {
        let checked = self.has_token().then(|| self.bearer(TOKEN));
        let checked = checked.transpose().map(drop);
        checked.map_err(|_| {
            self.refuse(
                KUBECONFIG[0],
                "its token holds a space, or a character that is not ASCII",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKEN_VALUE: &str = "eyJhbGciOi-token";

    /// A kubeconfig with these lines in its cluster and its user.
    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: infra\nclusters:\n- name: c\n  cluster: {{server: 'https://infra:6443'{cluster}}}\n\
             contexts:\n- name: infra\n  context: {{cluster: c, user: u, namespace: tenants}}\n- name: other\n  context: {{cluster: x, user: y}}\n\
             users:\n- name: u\n  user: {{{user}}}\npreferences: {{}}\n"
        )
    }

    fn value<'a>(values: &'a Values, name: &str) -> Option<&'a str> {
        let found = values.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value.as_str())
    }

    #[test]
    fn the_current_context_says_where_to_and_with_what() {
        let text = kubeconfig(
            ", certificate-authority-data: Q0E=",
            &format!(
                "token: {TOKEN_VALUE}, client-certificate-data: Q0hBSU4=, client-key-data: S0VZ"
            ),
        );
        let values = opened(&text).expect("a kubeconfig");
        for (name, expected) in [
            (SERVER, "https://infra:6443"),
            (AUTHORITY, "CA"),
            (TOKEN, TOKEN_VALUE),
            (CERTIFICATE[0], "CHAIN"),
            (CERTIFICATE[1], "KEY"),
        ] {
            assert_eq!(value(&values, name), Some(expected), "{name}");
        }
        let only = text
            .replace("current-context: infra\n", "")
            .replace("- name: other\n  context: {cluster: x, user: y}\n", "");
        assert_eq!(opened(&only).map(|it| it.len()), Ok(values.len()));
        let several = text.replace("current-context: infra\n", "");
        assert!(opened(&several).is_err());
        let another = text.replace("current-context: infra", "current-context: other");
        let missing = opened(&another).expect_err("no such cluster");
        assert!(missing.contains("`clusters`"), "{missing}");
    }

    #[test]
    fn what_runs_a_program_or_reads_a_file_is_refused_by_name() {
        let token = format!("token: {TOKEN_VALUE}");
        for (cluster, user, named) in [
            ("", "exec: {command: aws}", "`exec`"),
            ("", "auth-provider: {name: oidc}", "`auth-provider`"),
            ("", "tokenFile: /var/run/token", "`tokenFile`"),
            ("", "client-certificate: a.crt", "`client-certificate`"),
            ("", "username: admin, password: x", "`username`"),
            ("", "token: t, as: admin", "`as`"),
            ("", "client-key-data: S0VZ", "both are needed"),
            (
                "",
                "client-certificate-data: Q0hBSU4=, client-key-data: '*'",
                "`client-key-data`",
            ),
            ("", "", "neither a token"),
            (
                ", certificate-authority: ca.crt",
                &token,
                "`certificate-authority`",
            ),
            (", tls-server-name: x", &token, "`tls-server-name`"),
            (", proxy-url: 'http://p'", &token, "`proxy-url`"),
            (
                ", insecure-skip-tls-verify: true",
                &token,
                "`insecure-skip-tls-verify`",
            ),
            (", certificate-authority-data: '%'", &token, "not Base64"),
        ] {
            let error = opened(&kubeconfig(cluster, user)).expect_err(named);
            assert!(error.contains(named), "{named}: {error}");
        }
    }

    #[test]
    fn no_message_holds_anything_of_it() {
        let text = kubeconfig("", &format!("token: [{TOKEN_VALUE}]"));
        let error = opened(&text).expect_err("a list is no token");
        assert!(!error.contains(TOKEN_VALUE), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}", cluster in "[, a-z:{}'-]{0,40}", user in "[, a-z:{}'-]{0,40}") {
            let _ = (opened(&text), opened(&kubeconfig(&cluster, &user)));
        }
    }
}
