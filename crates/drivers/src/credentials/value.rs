//! One value of a Secret, as somebody has written it.

use super::{CERTIFICATE, CredentialsError, KEY_FILE, KUBECONFIG, VALUE_BYTES_MAX};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Longest certificate, or its key, or file with a key, in bytes: a chain of three with long RSA keys.
const FILE_BYTES_MAX: usize = 16 << 10;
/// Longest kubeconfig in bytes: an authority, such a certificate and its key, in Base64.
const KUBECONFIG_BYTES_MAX: usize = 64 << 10;

/// One value: present, short enough, and text, on one line unless it is a file.
pub(super) fn read(
    secret: &str,
    data: &BTreeMap<String, Vec<u8>>,
    key: &'static str,
    trimmed_keys: &mut Vec<&'static str>,
) -> Result<Zeroizing<String>, CredentialsError> {
    let refuse = |problem: &str| {
        Err(CredentialsError::Value {
            secret: secret.to_owned(),
            key,
            problem: problem.to_owned(),
        })
    };
    let Some(bytes) = data.get(key) else {
        // The names of the others stay where they are: whoever reads a status may not read the Secret.
        return Err(CredentialsError::Missing {
            secret: secret.to_owned(),
            key,
        });
    };
    let is_file = CERTIFICATE.contains(&key) || key == KEY_FILE;
    let has_lines = is_file || KUBECONFIG.contains(&key);
    let bytes_max = match key {
        _ if is_file => FILE_BYTES_MAX,
        _ if KUBECONFIG.contains(&key) => KUBECONFIG_BYTES_MAX,
        _ => VALUE_BYTES_MAX,
    };
    if bytes.len() > bytes_max {
        return refuse(&format!(
            "it has {} bytes, and {bytes_max} are allowed",
            bytes.len()
        ));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refuse("it is not UTF-8 text");
    };
    if has_lines && !text.trim().is_empty() {
        return Ok(Zeroizing::new(text.to_owned()));
    }
    // `echo secret | base64` leaves one; no device has a password that ends in a newline.
    let line = text
        .strip_suffix('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    if line.is_some() {
        trimmed_keys.push(key);
    }
    let value = line.unwrap_or(text);
    if value.trim().is_empty() {
        return refuse("it is empty or white space");
    }
    if value.contains(['\0', '\r', '\n']) {
        return refuse("it holds a NUL, a carriage return or a line feed");
    }
    Ok(Zeroizing::new(value.to_owned()))
}
