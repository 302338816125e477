//! Logging in: whom the BMC lets in, what it may choose, and that each refusal is told from the others with its way out.

use super::*;
use fencing_drivers::credentials::ALLOWED_HOSTS_ANNOTATION;
use fencing_drivers::{Advice, Extent};
use fencing_testbed::ipmi::{Nonsense, Reply, UnknownUser, Which};

#[tokio::test]
async fn a_wrong_password_frees_its_slot_and_is_told_from_an_unknown_user() {
    let bench = bench();
    let user = bench.bmc.credentials().username.clone();
    let with = |user: &str, password: &str| {
        Ipmi::new(IpmiSettings {
            credentials: credentials(user, password, &[]),
            ..bench.settings()
        })
        .unwrap()
    };
    let error = with(&user, "wrong").open().observe().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("AuthFailed", Advice::Human)
    );
    let given_up =
        |entry: &fencing_testbed::ipmi::Entry| matches!(entry.asked, Asked::Rakp3 { status: 0x0f });
    bench.bmc.wait_for(ENDLESS, given_up).await.unwrap();
    let sessions = bench.bmc.sessions();
    let freed = |end: &End| matches!(end, End::GivenUp(0x0f));
    assert!(
        matches!(sessions.as_slice(), [only] if only.ended.as_ref().is_some_and(|(_, end)| freed(end))),
        "{sessions:?}"
    );

    let error = with("nobody", "wrong").open().observe().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("UnknownUser", Advice::Human)
    );
    assert!(error.to_string().contains("0x0d"), "{error}");
}

#[tokio::test]
async fn a_bmc_that_is_silent_to_an_unknown_user_is_said_to_be_that() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.unknown_user = UnknownUser::Silence);
    let driver = Ipmi::new(IpmiSettings {
        credentials: credentials("nobody", "wrong", &[]),
        call_timeout: SHORT,
        ..bench.settings()
    });
    let error = driver.unwrap().open().observe().await.unwrap_err();
    assert_eq!(error.reason(), "LoginUnanswered");
    assert!(error.to_string().contains("`username`"), "{error}");
}

/// As Lenovo's and OpenBMC's do, says xcat2/xcat-core issue 7511.
#[tokio::test]
async fn a_bmc_that_tags_nothing_lets_us_in() {
    for (suite, number) in [(Suite::Seventeen, 17), (Suite::Three, 3)] {
        let bench = bench_with(Settings::with_suite(suite));
        bench.bmc.faults(|faults| faults.zero_tags = true);
        let driver = Ipmi::new(IpmiSettings {
            cipher_suite: number,
            ..bench.settings()
        });
        let probe = driver.unwrap().open().probe(Extent::Whole).await;
        assert!(probe.is_ok(), "{probe:?}");
        assert_eq!(bench.bmc.sessions().len(), 1);
        bench.assert_closed(1).await;
    }
}

/// Whatever is not understood of its answers, the BMC keeps sessions for others.
#[tokio::test]
async fn a_login_that_begins_again_does_not_use_up_the_sessions() {
    let bench = bench();
    let cut = Reply::new(Which::Rakp1, Nonsense::Truncated(30));
    bench.bmc.faults(|faults| faults.replies.push(cut));
    let settings = IpmiSettings {
        call_timeout: Duration::from_secs(12),
        ..bench.settings()
    };
    let error = Ipmi::new(settings).unwrap().open().observe().await;
    assert_eq!(error.unwrap_err().reason(), "LoginUnanswered");
    assert_eq!(bench.bmc.sessions().len(), 2);
}

/// Of each status that is about the login, something that a human can try; never the address, since the BMC has answered.
#[tokio::test]
async fn a_refusal_of_the_login_says_what_to_try() {
    for (status, reason, words) in [
        (0x02, "ProtocolError", "restart the BMC"),
        (0x03, "ProtocolError", "firmware"),
        (0x08, "ProtocolError", "restart the BMC"),
        (0x09, "PermissionDenied", "role"),
        (0x0c, "ProtocolError", "shorter `username`"),
        (0x0e, "ProtocolError", "GUID"),
        (0x11, "NoSecureLogin", "`ipmi.cipherSuite: 3`"),
        (0x12, "ProtocolError", "`ipmi.cipherSuite: 3`"),
        (0x12, "ProtocolError", "`ipmi.privilege`"),
        (0x12, "ProtocolError", "`username`"),
        (0x77, "ProtocolError", "`ipmi.privilege`"),
    ] {
        let bench = bench();
        let refusal = Reply::new(Which::Rakp1, Nonsense::Status(status));
        bench.bmc.faults(|faults| faults.replies.push(refusal));
        let error = bench.read().await.unwrap_err();
        assert_eq!(error.reason(), reason, "{status:#x}");
        let said = error.to_string();
        assert!(
            said.contains(words) && said.contains(&format!("{status:#04x}")),
            "{said}"
        );
        assert!(!said.contains("check that the address"), "{said}");
    }
}

#[tokio::test]
async fn a_locked_account_is_not_hammered() {
    let bench = bench();
    bench
        .bmc
        .faults(|faults| faults.lock_account_after = Some(0));
    let error = bench.read().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("AuthFailed", Advice::Human)
    );
    let log = bench.bmc.log();
    let proofs = log
        .iter()
        .filter(|entry| matches!(entry.asked, Asked::Rakp3 { status: 0 }));
    assert_eq!(proofs.count(), 2);
}

#[tokio::test]
async fn a_full_table_of_sessions_is_retried_and_reported_as_that() {
    let bench = bench();
    bench.bmc.faults(|faults| faults.session_table_full = true);
    let error = bench.read().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("SessionsExhausted", Advice::Wait)
    );
    bench.bmc.heal().unwrap();
    bench.bmc.faults(|faults| {
        let full = Reply::new(Which::Open, Nonsense::Status(0x01)).times(2);
        faults.replies.push(full);
    });
    assert!(bench.read().await.is_ok());
}

#[tokio::test]
async fn a_bmc_with_one_session_serves_call_after_call() {
    let bench = bench_with(Settings {
        sessions_max: 1,
        ..Settings::default()
    });
    let driver = bench.driver();
    for _ in 0..3 {
        // As User and as Operator, which are two sessions, one after the other.
        let mut session = driver.open();
        session.observe().await.unwrap();
        session.prepare_off().await.unwrap();
        session.probe(Extent::Whole).await.unwrap();
    }
    bench.assert_closed(6).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_no_session_behind() {
    let bench = bench();
    for which in [Which::Rakp3, Which::CHASSIS_STATUS] {
        let hold = bench.bmc.hold_answer(which);
        let mut session = bench.driver().open();
        let call = tokio::time::timeout(Duration::from_millis(200), session.observe()).await;
        assert!(call.is_err(), "{which:?}");
        drop(session);
        drop(hold);
    }
    let begun = Instant::now();
    while bench
        .bmc
        .sessions()
        .iter()
        .any(|session| session.ended.is_none())
    {
        assert!(begun.elapsed() < ENDLESS, "{:?}", bench.bmc.sessions());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_user_without_the_right_to_switch_can_read() {
    let bench = bench_of_a_reader();
    assert!(bench.read().await.is_ok());
    let error = bench.power_off().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("PermissionDenied", Advice::Human)
    );
    assert!(error.to_string().contains("Operator role"), "{error}");
    assert!(bench.bmc.power_commands().is_empty());
    let probe = bench.driver().open().probe(Extent::Whole).await.unwrap();
    let denied = probe.off_denied.unwrap();
    assert_eq!(denied.reason(), "PermissionDenied");
}

#[tokio::test]
async fn another_suite_than_asked_for_is_refused_by_name() {
    // The BMC does not have it.
    let bench = bench_with(Settings::with_suite(Suite::Three));
    let error = bench.read().await.unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("NoSecureLogin", Advice::Human)
    );
    assert!(
        error.to_string().contains("`ipmi.cipherSuite: 3`"),
        "{error}"
    );
    // The BMC takes another one.
    for suite in [Suite::Zero, Suite::Three] {
        let bench = super::bench();
        bench
            .bmc
            .faults(|faults| faults.answers_suite = Some(suite));
        let error = bench.read().await.unwrap_err();
        assert_eq!(error.reason(), "NoSecureLogin", "{suite:?}");
        let asked = bench.bmc.log();
        assert!(
            asked
                .iter()
                .all(|entry| matches!(entry.asked, Asked::Open(_))),
            "{asked:?}"
        );
    }
}

/// What ipmitool's users report of suite 17: the login works, and then nothing does.
#[tokio::test]
async fn a_suite_that_breaks_after_the_login_is_named_with_the_other_one() {
    let answers = [
        (Nonsense::BadCode, "NoSecureLogin", Advice::Human),
        (Nonsense::Silence, "Timeout", Advice::Retry),
    ];
    let cases = answers.iter().flat_map(|(what, reason, advice)| {
        [Which::CHASSIS_STATUS, Which::SET_PRIVILEGE].map(|which| async move {
            let error = broken_session(which, what.clone()).await;
            let found = (error.reason(), error.advice());
            assert_eq!(found, (*reason, *advice), "{which:?}, {what:?}: {error}");
            for words in ["cipher suite 17", "`ipmi.cipherSuite: 3`", "firmware"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        })
    });
    futures::future::join_all(cases).await;
    // Nothing is given up for a few.
    let bench = bench();
    let broken = Reply::new(Which::SET_PRIVILEGE, Nonsense::BadCode).times(2);
    bench.bmc.faults(|faults| faults.replies.push(broken));
    assert_eq!(bench.power_off().await, Ok(OffOutcome::Accepted));
}

/// How it ends where such a request, the first one in its session, is answered so for ever.
async fn broken_session(which: Which, what: Nonsense) -> DeviceError {
    let bench = bench();
    let broken = Reply::new(which, what);
    bench.bmc.faults(|faults| faults.replies.push(broken));
    let mut session = bench.impatient().open();
    let error = match which {
        Which::CHASSIS_STATUS => session.observe().await.unwrap_err(),
        _ => session.prepare_off().await.unwrap_err(),
    };
    assert!(bench.bmc.power_commands().is_empty());
    error
}

#[tokio::test]
async fn a_suite_that_authenticates_or_encrypts_nothing_is_refused_by_name() {
    let bench = bench();
    for (number, word) in [
        (0, "requires no password"),
        (1, "encrypt"),
        (8, "not supported"),
        (15, "encrypt"),
    ] {
        let settings = IpmiSettings {
            cipher_suite: number,
            ..bench.settings()
        };
        let error = Ipmi::new(settings).unwrap_err();
        assert_eq!(error.reason(), "SettingsInvalid");
        assert!(error.to_string().contains("`ipmi.cipherSuite`"), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_password_or_user_that_ipmi_has_no_room_for_is_refused_with_its_length() {
    let bench = bench();
    for (user, password, expected) in [
        (
            "admin",
            "123456789012345678901234",
            "IPMI 2.0 allows 20 bytes, was 24",
        ),
        (
            "12345678901234567",
            "secret",
            "IPMI 2.0 allows 16 bytes, was 17",
        ),
    ] {
        let settings = IpmiSettings {
            credentials: credentials(user, password, &[]),
            ..bench.settings()
        };
        let error = Ipmi::new(settings).unwrap_err();
        assert_eq!(error.reason(), "CredentialsInvalid");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains(password), "{error}");
    }
    let longest = bench_with(Settings {
        accounts: vec![Account {
            credentials: fencing_testbed::bmc::Credentials {
                username: "1234567890123456".to_owned(),
                password: "12345678901234567890".to_owned(),
            },
            ..Account::default()
        }],
        ..Settings::default()
    });
    assert!(longest.read().await.is_ok());
}

#[tokio::test]
async fn an_address_that_is_not_allowed_gets_no_datagram() {
    let bench = bench();
    let forbidden = IpmiSettings {
        rules: Arc::default(),
        ..bench.settings()
    };
    assert_eq!(
        verdict(&Ipmi::new(forbidden).unwrap()).await,
        "AddressNotAllowed"
    );
    let user = bench.bmc.credentials();
    let elsewhere = [(ALLOWED_HOSTS_ANNOTATION, "10.0.0.0/8")];
    let excluded = IpmiSettings {
        credentials: credentials(&user.username, &user.password, &elsewhere),
        ..bench.settings()
    };
    assert_eq!(
        verdict(&Ipmi::new(excluded).unwrap()).await,
        "CredentialsInvalid"
    );
    assert!(bench.bmc.log().is_empty());
}
