//! When what a Secret holds ends: a client's certificate, and a token that says so itself.

use super::{CERTIFICATE, Credentials, KUBECONFIG_TOKEN};
use crate::tls::{self, Expiry};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;

/// Two weeks in seconds. A token that lives for less is renewed by a program, and would always be about to end.
const LIFETIME_MIN: i64 = 14 * 24 * 3600;

/// What a JSON Web Token says of its time, in seconds since the epoch (RFC 7519, 4.1).
#[derive(Deserialize)]
struct Claims {
    exp: i64,
    #[serde(default)]
    iat: i64,
}

impl Credentials {
    /// When the client's certificate ends, with the ones behind it, and when the token does.
    #[must_use]
    pub fn expiries(&self) -> Vec<(&'static str, Expiry)> {
        let [chain, _] = CERTIFICATE;
        let certificate = tls::expiries(self.value(chain).as_bytes()).min();
        let certificate = certificate.map(|at| ("ClientCertificate", at));
        let token = token_expiry(self.value(KUBECONFIG_TOKEN)).map(|at| ("Token", at));
        certificate.into_iter().chain(token).collect()
    }
}

/// When a token ends that is a JSON Web Token and lives long; most others are opaque.
fn token_expiry(token: &str) -> Option<Expiry> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let Claims { exp, iat } = serde_json::from_slice(&claims).ok()?;
    let lives_long = exp.saturating_sub(iat) >= LIFETIME_MIN;
    let at = Timestamp::from_second(exp).ok().filter(|_| lives_long)?;
    Some(Expiry::of(Timestamp::from_second(iat).ok(), at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A token with these claims.
    fn token(claims: &str) -> String {
        let [header, claims] = [r#"{"alg":"RS256"}"#, claims].map(|it| URL_SAFE_NO_PAD.encode(it));
        format!("{header}.{claims}.c2lnbmF0dXJl")
    }

    #[test]
    fn a_token_that_lives_long_says_when_it_ends() {
        let end = |claims: &str| token_expiry(&token(claims)).map(|it| it.at.as_second());
        let day = 24 * 3600;
        let lives = |days: i64| format!(r#"{{"iat": 1000, "exp": {}}}"#, 1000 + days * day);
        assert_eq!(end(&lives(14)), Some(1000 + 14 * day));
        assert_eq!(end(&lives(13)), None, "a program renews it");
        assert_eq!(end(r#"{"exp": 1900000000}"#), Some(1_900_000_000));
        for claims in ["{}", r#"{"exp": "soon"}"#, r#"{"exp": 9e40}"#, "no JSON"] {
            assert_eq!(end(claims), None, "{claims}");
        }
        for opaque in ["", "a.b", "a.*.c", "eyJhbGciOi-token"] {
            assert_eq!(token_expiry(opaque), None, "{opaque}");
        }
    }

    #[test]
    fn a_client_certificate_ends_with_the_first_of_its_chain() {
        let until = |year: i32| {
            let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            parameters.self_signed(&key).unwrap().pem()
        };
        let chain = format!("{}{}", until(2050), until(2031));
        let data = [
            ("tls.crt".to_owned(), chain.into_bytes()),
            ("tls.key".to_owned(), b"key".to_vec()),
        ];
        let credentials =
            Credentials::with_keys("s", &CERTIFICATE, &data.into(), &Default::default());
        let expiries = credentials.expect("credentials").expiries();
        let end: Timestamp = "2031-01-01T00:00:00Z".parse().expect("a time");
        assert_eq!(expiries, [("ClientCertificate", Expiry::of(None, end))]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}", claims in ".{0,40}") {
            let _ = (token_expiry(&text), token_expiry(&token(&claims)));
        }
    }
}
