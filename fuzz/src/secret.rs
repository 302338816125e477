//! A Secret: which driver it is for, a user, a password, and the annotation that says where they may go. No error shows a value.

use fencing_drivers::credentials::{ALLOWED_HOSTS_ANNOTATION, Credentials, LOGIN, VALUE_BYTES_MAX};
use std::collections::BTreeMap;

/// Begins each value, so that it is found wherever one is shown.
const CANARY: &[u8] = b"s3cr3t-canary";

/// The first byte says what it holds, the second how long the user is, the third how long the password; the annotation is what is left.
pub fn run(bytes: &[u8]) {
    let Some(([what, user, password], rest)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let (user, rest) = rest.split_at(usize::from(*user).min(rest.len()));
    let (password, hosts) = rest.split_at(usize::from(*password).min(rest.len()));
    // Bare, or behind the canary.
    let value = |text: &[u8], is_bare: bool| match is_bare {
        true => text.to_vec(),
        false => [CANARY, text].concat(),
    };
    let mut data = BTreeMap::from([("username".to_owned(), value(user, what & 1 != 0))]);
    if what & 2 == 0 {
        data.insert("password".to_owned(), value(password, what & 4 != 0));
    }
    let hosts = (what & 8 != 0).then(|| String::from_utf8_lossy(hosts).into_owned());
    let annotations = hosts
        .iter()
        .map(|hosts| (ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts.clone()));
    match Credentials::with_keys("bmc", &LOGIN, &data, &annotations.collect()) {
        Err(error) => hides(&error),
        Ok(credentials) => ask(&credentials, hosts.is_some(), &data),
    }
}

fn ask(credentials: &Credentials, is_bound: bool, data: &BTreeMap<String, Vec<u8>>) {
    hides(credentials);
    for value in data.values() {
        let text = std::str::from_utf8(value).expect("it was taken");
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        assert!(
            !line.trim().is_empty() && !line.contains(['\0', '\r', '\n']),
            "a value that cannot be used"
        );
        assert!(value.len() <= VALUE_BYTES_MAX);
    }
    match credentials.basic() {
        Ok(header) => assert!(header.is_sensitive() && header.as_bytes().starts_with(b"Basic ")),
        Err(error) => hides(&error),
    }
    match credentials.ipmi() {
        Ok(login) => assert!(login.user.len() <= 16 && login.password.len() <= 20),
        Err(error) => hides(&error),
    }
    for (host, address) in [("bmc.example", "192.0.2.1"), ("2001:db8::7", "2001:db8::7")] {
        let verdict = credentials.judge_host(host, address.parse().expect("an address"));
        assert!(is_bound || verdict.is_ok(), "no annotation, no bound");
    }
}

fn hides(shown: &impl std::fmt::Debug) {
    let shown = format!("{shown:?}");
    let canary = std::str::from_utf8(CANARY).expect("text");
    assert!(
        !shown.contains(canary) && !shown.contains("czNjcjN0"),
        "{shown}"
    );
}
