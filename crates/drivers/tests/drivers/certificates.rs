//! Certificates that do not fit: the password goes to nobody who has not proved to be the device.

use crate::bmc::{Bmc, Certificate, reply};
use crate::device::{observe, service, settings, settings_of, verdict_of};
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::tls::{CertificateCheck, Fingerprint};
use fencing_drivers::{DeviceError, Extent, FenceDriver};
use std::time::Duration;

/// What an off machine behind this certificate is read as, and the message of the error.
async fn with_certificate(
    certificate: &Certificate,
    verification: CertificateCheck,
) -> (String, String) {
    let bmc = Bmc::tls(certificate, service("\"Off\"")).await;
    let driver = Redfish::new(RedfishSettings {
        verification,
        ..settings_of(&bmc)
    })
    .unwrap();
    let verdict = match observe(&driver).await {
        Ok((state, _)) => (format!("{state:?}"), String::new()),
        Err(error) => (error.reason().to_owned(), error.to_string()),
    };
    let reached = !bmc.requests().is_empty();
    assert_eq!(
        reached,
        verdict.0 == "Off",
        "the password goes only to a device that proved its identity"
    );
    verdict
}

fn full(bundle: &str) -> CertificateCheck {
    CertificateCheck::Full {
        ca_bundle_pem: Some(bundle.as_bytes().to_vec()),
    }
}

#[tokio::test]
async fn full_verification_checks_chain_name_and_dates() {
    let certificate = Certificate::new();
    let trust = full(&certificate.issuer_pem);
    assert_eq!(with_certificate(&certificate, trust.clone()).await.0, "Off");
    for (what, certificate, trust, expected) in [
        (
            "another CA",
            Certificate::new(),
            trust.clone(),
            "signed by no trusted CA",
        ),
        (
            "stolen",
            certificate.stolen(),
            trust,
            "without the key of its certificate",
        ),
        (
            "expired",
            Certificate::valid_until(2001),
            CertificateCheck::None,
            "expired on 2001-01-01",
        ),
        (
            "another host",
            Certificate::of_host("bmc.example"),
            CertificateCheck::None,
            "is for bmc.example, not for 127.0.0.1",
        ),
    ] {
        // The last two are signed by the CA that is trusted.
        let trust = if trust == CertificateCheck::None {
            full(&certificate.issuer_pem)
        } else {
            trust
        };
        let (reason, message) = with_certificate(&certificate, trust).await;
        assert_eq!(reason, "TlsIdentity", "{what}");
        assert!(message.contains(expected), "{what}: {message}");
    }
}

#[tokio::test]
async fn a_self_signed_ca_certificate_is_for_a_pin() {
    let certificate = Certificate::self_signed();
    let (reason, message) = with_certificate(&certificate, full(&certificate.issuer_pem)).await;
    assert_eq!(reason, "TlsIdentity");
    assert!(
        message.contains("pin the certificate with `tls.verification: Pinned`"),
        "{message}"
    );
    let pin = CertificateCheck::Pinned(Fingerprint::of(&certificate.der));
    assert_eq!(with_certificate(&certificate, pin).await.0, "Off");
}

/// The field case tls-sha1-leaf-caref.
#[tokio::test]
async fn a_certificate_that_is_signed_with_sha_1_is_named_and_can_be_pinned() {
    let certificate = Certificate::signed_with_sha_1();
    let (reason, message) = with_certificate(&certificate, full(&certificate.issuer_pem)).await;
    assert_eq!(reason, "TlsIdentity");
    for words in [
        "signed with SHA-1, which is not accepted; sign it again with SHA-256",
        "or pin the certificate",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let pin = CertificateCheck::Pinned(Fingerprint::of(&certificate.der));
    assert_eq!(with_certificate(&certificate, pin).await.0, "Off");
}

/// The field case tls-x509-v1-pinned: no advice to do what is set already, or what would not help.
#[tokio::test]
async fn a_certificate_of_version_1_is_named_and_no_pin_is_advised() {
    let certificate = Certificate::of_version_1();
    for verification in [
        CertificateCheck::Pinned(Fingerprint::of(&certificate.der)),
        CertificateCheck::None,
        full(&certificate.issuer_pem),
    ] {
        let (reason, message) = with_certificate(&certificate, verification).await;
        assert_eq!(reason, "TlsIdentity");
        let words = "X.509 version 1 or 2, and only version 3 is read; make one of version 3";
        assert!(message.contains(words), "{message}");
        assert!(!message.contains("pin"), "{message}");
    }
}

#[tokio::test]
async fn a_pin_is_for_one_certificate_and_its_key() {
    let certificate = Certificate::valid_until(2001);
    let pin = CertificateCheck::Pinned(Fingerprint::of(&certificate.der));
    assert_eq!(
        with_certificate(&certificate, pin.clone()).await.0,
        "Off",
        "dates and names do not matter"
    );
    let other = Certificate::new();
    let (reason, message) = with_certificate(&other, pin.clone()).await;
    assert_eq!(reason, "TlsIdentity");
    for fingerprint in [
        Fingerprint::of(&certificate.der),
        Fingerprint::of(&other.der),
    ] {
        assert!(message.contains(&fingerprint.to_string()), "{message}");
    }
    assert_eq!(
        with_certificate(&certificate.stolen(), pin).await.0,
        "TlsIdentity",
        "the key is proved"
    );
}

#[tokio::test]
async fn no_verification_still_demands_the_key_of_the_certificate() {
    let certificate = Certificate::of_host("anything");
    assert_eq!(
        with_certificate(&certificate, CertificateCheck::None)
            .await
            .0,
        "Off"
    );
    assert_eq!(
        with_certificate(&certificate.stolen(), CertificateCheck::None)
            .await
            .0,
        "TlsIdentity"
    );
}

#[tokio::test]
async fn plain_http_and_https_are_never_exchanged() {
    let plain = Bmc::plain(service("\"Off\"")).await;
    // A request line never ends for a server that sees a TLS handshake; this one answers at once instead.
    let answering = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = answering.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = answering.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &reply("400 Bad Request", ""))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    let error = observe(&Redfish::new(settings(&format!("https://{address}"))).unwrap())
        .await
        .expect_err("no TLS");
    assert_eq!(error.reason(), "TlsIdentity");
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
    server.abort();

    let certificate = Certificate::new();
    let bmc = Bmc::tls(&certificate, service("\"Off\"")).await;
    assert_ne!(
        verdict_of(settings(&format!("http://{}", bmc.address))).await,
        "Off(Off)"
    );
    assert!(bmc.requests().is_empty());

    let verified = RedfishSettings {
        verification: full(&certificate.issuer_pem),
        ..settings_of(&plain)
    };
    let error = Redfish::new(verified).expect_err("a certificate cannot be checked without TLS");
    assert!(
        matches!(
            error,
            DeviceError::Settings {
                field: "redfish.address",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_ca_bundle_is_judged_with_index_and_date() {
    let pem = Certificate::new().issuer_pem;
    let broken = pem.replace("MII", "AII");
    for (bundle, expected) in [
        (String::new(), "no certificate in PEM"),
        ("not PEM".to_owned(), "no certificate in PEM"),
        (format!("{pem}{broken}"), "certificate 2 cannot be read"),
    ] {
        let error = Redfish::new(RedfishSettings {
            verification: full(&bundle),
            ..settings("https://127.0.0.1")
        })
        .unwrap_err();
        assert_eq!(error.reason(), "SettingsInvalid");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// A probe tells when the device will be lost, and only where the date counts.
#[tokio::test]
async fn a_probe_tells_when_the_certificate_expires() {
    let certificate = Certificate::valid_until(2091);
    let expiry = async |verification: CertificateCheck| {
        let bmc = Bmc::tls(&certificate, service("\"Off\"")).await;
        let driver = Redfish::new(RedfishSettings {
            verification,
            ..settings_of(&bmc)
        });
        let probe = driver.unwrap().open().probe(Extent::Whole).await.unwrap();
        probe.certificate_expiry.map(|expiry| expiry.at.to_string())
    };
    let trusted = full(&certificate.issuer_pem);
    assert_eq!(
        expiry(trusted).await.as_deref(),
        Some("2091-01-01T00:00:00Z")
    );
    let pin = CertificateCheck::Pinned(Fingerprint::of(&certificate.der));
    assert_eq!(expiry(pin).await, None);
}
