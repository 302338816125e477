//! Why nothing reaches the API server, and what is wrong with a kubeconfig: one cause in plain words, without those of the libraries in between.

use super::AskError;
use crate::text;
use hyper_util::client::legacy;
use kube::config::KubeconfigError;
use rustls::CertificateError as Flaw;
use std::error::Error;
use std::io;

/// Why a request has no answer, by the error at the bottom: those above it only say which library it went through.
pub(super) fn failure(error: &kube::Error) -> AskError {
    let all: Vec<&(dyn Error + 'static)> =
        std::iter::successors(error.source(), |&it| it.source()).collect();
    let of_hyper = all.iter().find_map(|it| it.downcast_ref::<legacy::Error>());
    let (Some(of_hyper), Some(last)) = (of_hyper, all.last()) else {
        return AskError::Unknown(match error {
            kube::Error::Service(inner) => text::chain(&**inner),
            other => text::chain(other),
        });
    };
    let io = all.iter().find_map(|it| it.downcast_ref::<io::Error>());
    let words = io.map(innermost).and_then(of_io);
    let words = words.unwrap_or_else(|| last.to_string());
    match of_hyper.is_connect() {
        true => AskError::NoConnection(words),
        false => AskError::Unknown(words),
    }
}

/// An error of I/O inside of others is not their source.
fn innermost(mut error: &io::Error) -> &io::Error {
    while let Some(inner) = error
        .get_ref()
        .and_then(|it| it.downcast_ref::<io::Error>())
    {
        error = inner;
    }
    error
}

fn of_io(error: &io::Error) -> Option<String> {
    let tls = error
        .get_ref()
        .and_then(|it| it.downcast_ref::<rustls::Error>());
    if let Some(error) = tls {
        return Some(of_tls(error));
    }
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route to host",
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => "connection closed by the other side",
        _ => return None,
    };
    Some(words.to_owned())
}

fn of_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(flaw) => {
            format!("its TLS certificate is not trusted ({})", of_flaw(flaw))
        }
        rustls::Error::InvalidMessage(_) => "it does not speak TLS on this port".to_owned(),
        rustls::Error::AlertReceived(alert) => {
            let number = u8::from(*alert);
            format!("it ended the TLS handshake with alert {number}")
        }
        error => format!("TLS handshake failed ({error})"),
    }
}

fn of_flaw(flaw: &Flaw) -> String {
    let words = match flaw {
        Flaw::UnknownIssuer | Flaw::BadSignature => {
            "signed by another authority than the kubeconfig's"
        }
        Flaw::Expired | Flaw::ExpiredContext { .. } => "expired",
        Flaw::NotValidYet | Flaw::NotValidYetContext { .. } => {
            "not yet valid: check this machine's clock"
        }
        Flaw::NotValidForName | Flaw::NotValidForNameContext { .. } => {
            "issued for another host name or address"
        }
        other => return other.to_string(),
    };
    words.to_owned()
}

/// What is wrong with a kubeconfig whose name is told beside it. Nothing of what it holds is quoted: there may be a token on that line.
#[must_use]
pub fn problem(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => match error.kind() {
            io::ErrorKind::NotFound => "the file does not exist".to_owned(),
            io::ErrorKind::PermissionDenied => "no permission to read the file".to_owned(),
            _ => error.to_string(),
        },
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!("it is not valid, see line {}", at.line()),
            None => "it is not valid YAML of a kubeconfig".to_owned(),
        },
        KubeconfigError::CurrentContextNotSet => "it has no `current-context`".to_owned(),
        KubeconfigError::LoadContext(name) => format!("it has no context `{name}`"),
        KubeconfigError::LoadClusterOfContext(name) => format!("it has no cluster `{name}`"),
        error => text::chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::{Client, Config};
    use std::net::SocketAddr;
    use std::path::PathBuf;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn asked(server: SocketAddr) -> AskError {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("https://{server}");
        let mut config = Config::new(url.parse().expect("a URL"));
        // Not those of this machine, which may have none.
        config.root_cert = Some(Vec::new());
        let client = Client::try_from(config).expect("a client");
        failure(&client.apiserver_version().await.expect_err("no cluster"))
    }

    #[tokio::test]
    async fn a_connection_that_fails_is_one_cause_in_plain_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let refused = AskError::NoConnection("connection refused".to_owned());
        assert_eq!(asked(address).await, refused);

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut hello = [0; 4096];
            let _ = stream.read(&mut hello).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        });
        let plain = AskError::NoConnection("it does not speak TLS on this port".to_owned());
        assert_eq!(asked(address).await, plain);
    }

    #[test]
    fn certificates_and_kubeconfigs_are_told_without_words_of_libraries() {
        let flaw = |flaw| of_tls(&rustls::Error::InvalidCertificate(flaw));
        for (flaw, words) in [
            (flaw(Flaw::UnknownIssuer), "another authority"),
            (flaw(Flaw::Expired), "(expired)"),
            (flaw(Flaw::NotValidForName), "another host name"),
        ] {
            assert!(flaw.contains(words), "{flaw}");
        }
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let missing = KubeconfigError::ReadConfig(missing, PathBuf::from("/x"));
        assert_eq!(problem(&missing), "the file does not exist");
    }

    /// It may be a token.
    #[test]
    fn what_a_kubeconfig_holds_is_not_quoted() {
        let error =
            kube::config::Kubeconfig::from_yaml("users: [{name: a, user: {token: [s3cret]}}]");
        let words = problem(&error.expect_err("a token is text"));
        assert!(words.starts_with("it is not valid"), "{words}");
        assert!(!words.contains("s3cret"), "{words}");
    }
}
