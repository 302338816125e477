//! What credentials look like in the `Authorization` header of a request.

use super::{Credentials, CredentialsError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use zeroize::Zeroizing;

impl Credentials {
    /// User and password (RFC 7617), marked sensitive.
    ///
    /// # Errors
    /// [`CredentialsError::Value`] when the user holds a colon, which Basic authentication cannot carry.
    pub fn basic(&self) -> Result<HeaderValue, CredentialsError> {
        let (username, password) = (self.value("username"), self.value("password"));
        if username.contains(':') {
            let problem = "it holds a colon, which Basic authentication cannot carry: take a user without one";
            return Err(self.refuse("username", problem));
        }
        let pair = Zeroizing::new(format!("{username}:{password}"));
        let header = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
        self.sensitive("username", &header)
    }

    /// The token of this key (RFC 6750), marked sensitive.
    ///
    /// # Errors
    /// [`CredentialsError::Value`] when no header can carry it.
    pub fn bearer(&self, key: &'static str) -> Result<HeaderValue, CredentialsError> {
        self.token(key, "Bearer ")
    }

    /// The token of this key alone, for a header of its own, marked sensitive.
    ///
    /// # Errors
    /// As [`Credentials::bearer`].
    pub fn bare(&self, key: &'static str) -> Result<HeaderValue, CredentialsError> {
        self.token(key, "")
    }

    fn token(&self, key: &'static str, scheme: &str) -> Result<HeaderValue, CredentialsError> {
        let token = self.value(key);
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = "it holds a space, or a character that is not ASCII: take a token of letters, digits and -._~+/=";
            return Err(self.refuse(key, problem));
        }
        let header = Zeroizing::new(format!("{scheme}{token}"));
        self.sensitive(key, &header)
    }

    fn sensitive(&self, key: &'static str, header: &str) -> Result<HeaderValue, CredentialsError> {
        let mut value = HeaderValue::from_str(header)
            .map_err(|_| self.refuse(key, "it cannot be put into a header"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
