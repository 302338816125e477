//! Does a password stand anywhere that it should not? Looked for as it is, and in every form in which a careless line would print it.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::general_purpose::{GeneralPurpose, NO_PAD},
};

/// Shorter ones are found where they mean nothing.
const LENGTH_MIN: usize = 6;

/// A password in all its forms.
#[derive(Debug)]
pub struct Secret {
    name: String,
    forms: Vec<Vec<u8>>,
}

impl Secret {
    /// `name` is what a finding calls it.
    pub fn new(name: impl Into<String>, value: &str) -> Result<Self> {
        ensure!(value.len() >= LENGTH_MIN, "too short to be looked for");
        let bytes = value.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        let mut forms = vec![
            bytes.to_vec(),
            hex.to_uppercase().into_bytes(),
            hex.into_bytes(),
            percent.into_bytes(),
            // `Debug` of bytes.
            format!("{bytes:?}")
                .trim_matches(['[', ']'])
                .as_bytes()
                .to_vec(),
        ];
        for alphabet in [&STANDARD, &URL_SAFE] {
            let engine = GeneralPurpose::new(alphabet, NO_PAD);
            // Three bytes make four characters. Wherever it begins inside of something longer (`user:password`), the characters that
            // nothing but it decides are the same.
            for before in 0..3 {
                let padded = [&b"xx"[..before], bytes].concat();
                let text = engine.encode(&padded);
                let first = (before * 8).div_ceil(6);
                let last = padded.len() * 8 / 6;
                forms.push(text.as_bytes()[first..last].to_vec());
            }
        }
        Ok(Self {
            name: name.into(),
            forms,
        })
    }

    /// Does it stand there, in any form?
    pub fn is_in(&self, text: &[u8]) -> bool {
        let stands = |form: &Vec<u8>| memchr::memmem::find(text, form).is_some();
        self.forms.iter().any(stands)
    }
}

/// Fails if one of them stands in the text.
pub fn check(what: &str, text: &[u8], secrets: &[Secret]) -> Result<()> {
    match secrets.iter().find(|secret| secret.is_in(text)) {
        Some(secret) => bail!("{} stands in {what}", secret.name),
        None => Ok(()),
    }
}

/// Fails if one of them stands in a log of this directory. Returns how many bytes were read.
pub fn check_logs(directory: &Path, secrets: &[Secret]) -> Result<usize> {
    let mut read = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = std::fs::read(&path).with_context(|| format!("{}", path.display()))?;
            check(&path.display().to_string(), &text, secrets)?;
            read += text.len();
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD as BASE64;

    #[test]
    fn a_password_is_found_in_every_form_and_wherever_it_begins() {
        let secret = Secret::new("the password", "s3cret-Bmc").expect("long enough");
        for told in [
            "wrong password: s3cret-Bmc".to_owned(),
            "7333637265742d426d63".to_owned(),
            "https://fence:%73%33%63%72%65%74%2D%42%6D%63@bmc".to_owned(),
            format!("{:?}", b"s3cret-Bmc\n"),
            BASE64.encode("s3cret-Bmc"),
            BASE64.encode("a:s3cret-Bmc"),
            BASE64.encode("ab:s3cret-Bmc"),
            format!("Authorization: Basic {}", BASE64.encode("fence:s3cret-Bmc")),
            BASE64.encode("user:s3cret-Bmc and more"),
        ] {
            assert!(secret.is_in(told.as_bytes()), "{told}");
        }
        for harmless in ["fence", "s3cret", "***", "password s3cret Bmc"] {
            assert!(!secret.is_in(harmless.as_bytes()), "{harmless}");
        }
    }
}
