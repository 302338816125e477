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

/// What was searched.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Searched {
    /// Files.
    pub files: usize,
    /// Bytes in all.
    pub bytes: usize,
}

/// Fails if one of them stands in a file of this directory, whatever it is called and however deep it lies, or in the name of one.
pub fn check_tree(directory: &Path, secrets: &[Secret]) -> Result<Searched> {
    let mut searched = Searched::default();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let shown = path.display().to_string();
        check(&format!("the name {shown}"), shown.as_bytes(), secrets)?;
        if kind.is_dir() {
            let below = check_tree(&path, secrets)?;
            searched.files += below.files;
            searched.bytes += below.bytes;
        } else if kind.is_file() {
            let text = std::fs::read(&path).with_context(|| shown.clone())?;
            check(&shown, &text, secrets)?;
            searched.files += 1;
            searched.bytes += text.len();
        }
    }
    Ok(searched)
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

    #[test]
    fn every_file_of_a_directory_is_searched_and_every_name() {
        let secrets = [Secret::new("the password", "s3cret-Bmc").expect("long enough")];
        let found = |name: &str, text: &str| {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(&path, text).expect("a file");
            check_tree(directory.path(), &secrets).map_err(|error| error.to_string())
        };
        let one = Searched { files: 1, bytes: 4 };
        assert_eq!(found("operator.log", "fine"), Ok(one));
        assert_eq!(found("a/b/run.json", "fine"), Ok(one));
        let encoded = BASE64.encode("fence:s3cret-Bmc");
        for (name, text) in [
            ("operator.log", "s3cret-Bmc"),
            ("devices.jsonl", encoded.as_str()),
            ("volumes/work-db/writes", "s3cret-Bmc"),
            ("no-ending", "7333637265742d426d63"),
            ("a/s3cret-Bmc/b", "fine"),
        ] {
            let error = found(name, text).expect_err(name);
            assert!(error.starts_with("the password stands in "), "{error}");
        }
    }
}
