//! Text that libraries and the resolver write for people, where nothing else says what it means.

use rustls::CertificateError;

/// Has the resolver no answer now, by its words? Of the codes of getaddrinfo(3) the standard library hands on nothing but the words of glibc or
/// musl.
#[must_use]
pub fn is_temporary(error: &str) -> bool {
    let mut temporary = ["Temporary failure in name resolution", "Try again"].iter();
    temporary.any(|it| error.contains(it))
}

/// What is wrong with a certificate, where rustls hands on an error of webpki that has no type here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It is of X.509 version 1 or 2.
    Version,
    /// It is that of a CA.
    CaAsDevice,
    /// It is made for another purpose.
    Purpose,
}

/// By the name that its error has in webpki.
#[must_use]
pub fn flaw(problem: &CertificateError) -> Option<Flaw> {
    let text = format!("{problem:?}");
    let names = [
        ("UnsupportedCertVersion", Flaw::Version),
        ("CaUsedAsEndEntity", Flaw::CaAsDevice),
        ("InvalidPurpose", Flaw::Purpose),
    ];
    let found = names.into_iter().find(|(name, _)| text.contains(name));
    found.map(|(_, flaw)| flaw)
}
