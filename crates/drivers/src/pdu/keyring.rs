//! The keys that SNMPv3 makes of passwords, made once for each version of a Secret.
//!
//! Whoever guesses passwords is slowed down by a hash over a mebibyte for each, and so would be a probe: a thousand PDUs that are
//! looked at every minute would spend some 10 % of a core on keys that they had a minute ago. So the keys are kept while the Secret
//! is the one that they were made of, and some device needs them. They are wiped from memory when they go.

use super::Login;
use crate::DeviceError;
use crate::credentials::Credentials;
use fencing_api::device::FenceDevice;
use fencing_api::pdu::{SnmpSettings, SnmpVersion};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which keys: the Secret's name, and how SNMP is spoken.
type Which = (String, SnmpSettings);

/// The keys that are kept.
#[derive(Debug, Default)]
pub struct Keyring(Mutex<HashMap<Which, Kept>>);

#[derive(Debug)]
struct Kept {
    /// `resourceVersion` of the Secret.
    version: String,
    login: Login,
}

impl Keyring {
    /// What opens a PDU with the Secret of this name and `resourceVersion`, which holds these credentials.
    ///
    /// # Errors
    /// [`DeviceError::Credentials`] when SNMP cannot carry a value.
    pub fn login(
        &self,
        secret: &(String, String),
        snmp: &SnmpSettings,
        credentials: &Credentials,
    ) -> Result<Login, DeviceError> {
        let (name, version) = secret;
        // A community is no work, and a Secret without a version is that of a file.
        if snmp.version == SnmpVersion::V2c || version.is_empty() {
            return Login::new(snmp, credentials);
        }
        let which = (name.clone(), snmp.clone());
        match self.kept().get(&which) {
            Some(kept) if kept.version == *version => return Ok(kept.login.clone()),
            _ => {}
        }
        // Others need not wait; whoever comes at the same time makes the same keys.
        self.kept().remove(&which);
        let login = Login::new(snmp, credentials)?;
        let kept = Kept {
            version: version.clone(),
            login: login.clone(),
        };
        self.kept().insert(which, kept);
        Ok(login)
    }

    /// The Secret cannot be used any more.
    pub fn forget(&self, secret: &str) {
        self.kept().retain(|(name, _), _| name != secret);
    }

    /// Drops what none of these devices needs.
    pub fn keep_those_of(&self, devices: &[&FenceDevice]) {
        let needed = |device: &&FenceDevice| {
            let secret = device.spec.credentials_ref.as_ref()?;
            let pdu = device.spec.drivers.pdu.as_ref()?;
            Some((secret.name.clone(), pdu.snmp.clone()))
        };
        let needed: HashSet<Which> = devices.iter().filter_map(needed).collect();
        self.kept().retain(|which, _| needed.contains(which));
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Which, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn credentials(password: &str) -> Credentials {
        let values = [
            ("username", "fencer"),
            ("authPassword", password),
            ("privPassword", password),
        ];
        let data: BTreeMap<String, Vec<u8>> = values
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        let keys = ["username", "authPassword", "privPassword"];
        Credentials::with_keys("pdu", &keys, &data, &BTreeMap::new()).expect("credentials")
    }

    fn settings(snmp: Value) -> SnmpSettings {
        serde_json::from_value(snmp).expect("settings")
    }

    fn secret(version: &str) -> (String, String) {
        ("pdu".to_owned(), version.to_owned())
    }

    fn device(spec: Value) -> FenceDevice {
        let mut whole = json!({
            "nodeName": "w1", "credentialsRef": {"name": "pdu"},
            "pdu": {"address": "pdu-1", "model": "APCRackPDU2", "outlets": [3]},
        });
        json_patch::merge(&mut whole, &spec);
        FenceDevice::new("a", serde_json::from_value(whole).expect("a spec"))
    }

    /// Whether these keys still are in memory somewhere.
    fn made(keyring: &Keyring, version: &str, snmp: Value) -> std::sync::Weak<impl Sized + use<>> {
        let login = keyring.login(
            &secret(version),
            &settings(snmp),
            &credentials("long enough"),
        );
        login.expect("a login").watch()
    }

    #[test]
    fn keys_are_made_once_for_a_version_of_a_secret() {
        let keyring = Keyring::default();
        let first = made(&keyring, "1", json!({}));
        assert!(first.ptr_eq(&made(&keyring, "1", json!({}))));
        let other = made(&keyring, "1", json!({"authentication": "SHA512"}));
        assert!(!first.ptr_eq(&other));
        assert!(first.upgrade().is_some());
        // Written again: the old keys are gone with the old password.
        let second = made(&keyring, "2", json!({}));
        assert!(first.upgrade().is_none() && second.upgrade().is_some());
        // Also when the new password makes none.
        let short = keyring.login(&secret("3"), &settings(json!({})), &credentials("short"));
        assert_eq!(short.expect_err("too short").reason(), "CredentialsInvalid");
        assert!(second.upgrade().is_none());
    }

    #[test]
    fn keys_go_with_their_secret_and_with_the_last_device_that_needs_them() {
        let keyring = Keyring::default();
        let (one, other) = (
            device(json!({})),
            device(json!({"pdu": {"snmp": {"authentication": "SHA512"}}})),
        );
        let keys = made(&keyring, "1", json!({}));
        keyring.keep_those_of(&[&other, &one]);
        assert!(keys.upgrade().is_some());
        keyring.keep_those_of(&[&other]);
        assert!(keys.upgrade().is_none());

        let keys = made(&keyring, "1", json!({}));
        keyring.forget("another");
        assert!(keys.upgrade().is_some());
        keyring.forget("pdu");
        assert!(keys.upgrade().is_none());
    }

    #[test]
    fn what_costs_nothing_is_not_kept_and_nothing_is_shown() {
        let keyring = Keyring::default();
        assert!(made(&keyring, "", json!({})).upgrade().is_none());
        let community = BTreeMap::from([("community".to_owned(), b"outlets".to_vec())]);
        let community = Credentials::with_keys("pdu", &["community"], &community, &BTreeMap::new());
        let v2c = settings(json!({"version": "V2c"}));
        keyring
            .login(&secret("1"), &v2c, &community.expect("credentials"))
            .expect("a login");
        assert_eq!(
            format!("{keyring:?}"),
            "Keyring(Mutex { data: {}, poisoned: false, .. })"
        );
        made(&keyring, "1", json!({}));
        let shown = format!("{keyring:?}");
        assert!(
            shown.contains("Login { .. }") && !shown.contains("fencer"),
            "{shown}"
        );
    }
}
