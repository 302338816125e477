//! A certificate that is judged by the CAs of the machine on which the operator runs.

use super::{UUID, text};
use crate::{ended, operator};
use fencing_testbed::bmc::{Bmc, BmcCa, Credentials, Plug};
use serde_json::json;
use std::sync::Arc;

/// Where no CA is named, those of the system are trusted: the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, if they are set.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_ca_in_the_spec_those_of_the_system_are_trusted_and_no_other() {
    let (ca, other) = (
        BmcCa::new("system").expect("a CA"),
        BmcCa::new("other").expect("a CA"),
    );
    let plug = Arc::new(Plug::new("node-1", UUID));
    let login = Credentials::default();
    let bmc = Bmc::start([127, 85, 1, 1].into(), plug, login.clone(), &ca).expect("a BMC");
    let device = json!({
        "apiVersion": "nodefencing.io/v1alpha1", "kind": "FenceDevice", "metadata": {"name": "worker-3-bmc"},
        "spec": {
            "nodeName": "worker-3", "credentialsRef": {"name": "bmc"},
            "redfish": {"address": bmc.url(), "tls": {"verification": "Full"}},
        },
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": login.username, "password": login.password},
    });
    let files = tempfile::tempdir().expect("a directory");
    let (file, roots) = (
        files.path().join("device.yaml"),
        files.path().join("roots.pem"),
    );
    std::fs::write(&file, format!("{device}\n---\n{secret}")).expect("a file");
    for (pem, code, says) in [
        (ca.pem(), 0, "verdict      clean: fencing works"),
        (other.pem(), 1, "verdict      TlsIdentity: "),
        (String::new(), 1, "knows no CA"),
    ] {
        std::fs::write(&roots, pem).expect("a file");
        let asked = bmc.log().len();
        let mut command = operator(&["probe", "--node-uuid", UUID]);
        command
            .arg(&file)
            .args(["--allow-device-cidr", "127.0.0.0/8"])
            .env("SSL_CERT_FILE", &roots)
            .env_remove("SSL_CERT_DIR");
        let output = tokio::task::spawn_blocking(|| ended(command));
        let output = output.await.expect("it ends");
        let told = text(&output);
        assert!(told.contains(says), "{says} is not in\n{told}");
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert_eq!(
            bmc.log().len() > asked,
            code == 0,
            "the password goes to nobody else"
        );
    }
}
