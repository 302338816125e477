//! The look in peace time: what a fence would need, and a word about each thing that is missing.

use super::*;
use fencing_core::reading::PowerState;
use fencing_drivers::{Advice, Extent};
use fencing_testbed::ipmi::{Nonsense, Reply, RestorePolicy, Which};

#[tokio::test]
async fn a_probe_tells_power_identity_and_restore_policy_and_changes_nothing() {
    for (policy, expected) in [
        (RestorePolicy::StaysOff, Some("AlwaysOff")),
        (RestorePolicy::Previous, Some("LastState")),
        (RestorePolicy::PowersUp, Some("AlwaysOn")),
        (RestorePolicy::Unknown, None),
    ] {
        let bench = bench();
        bench.bmc.faults(|faults| faults.restore_policy = policy);
        let probe = bench.driver().open().probe(Extent::Whole).await.unwrap();
        assert_eq!(probe.reading.state, PowerState::On);
        assert!(probe.reading.identity.is_system(UUID));
        assert_eq!(probe.power_restore_policy.as_deref(), expected);
        assert_eq!(probe.off_denied, None);
        assert!(bench.bmc.power_commands().is_empty());
        bench.assert_closed(1).await;
    }
}

#[tokio::test]
async fn a_bmc_of_ipmi_1_5_is_refused_by_name_before_any_login() {
    let bench = bench();
    bench.bmc.faults(|faults| faults.says_1_5_only = true);
    let error = bench
        .driver()
        .open()
        .probe(Extent::Whole)
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason(), error.advice()),
        ("NoSecureLogin", Advice::Human)
    );
    assert!(error.to_string().contains("IPMI 1.5 only"), "{error}");
    assert!(bench.bmc.sessions().is_empty());
}

#[tokio::test]
async fn a_list_without_the_suite_names_those_that_are_offered() {
    let bench = bench_with(Settings::with_suite(Suite::Three));
    // More than one answer can hold.
    let listed: Vec<u8> = (0..=14).collect();
    bench
        .bmc
        .faults(|faults| faults.lists_suites = Some(listed));
    let error = bench
        .driver()
        .open()
        .probe(Extent::Whole)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "NoSecureLogin");
    let words = error.to_string();
    assert!(
        words.contains("13, 14") && words.contains("`ipmi.cipherSuite: 3`"),
        "{words}"
    );
    assert!(bench.bmc.sessions().is_empty());
}

/// The list is not authenticated: only the login shows what the BMC refuses.
#[tokio::test]
async fn a_list_without_the_suite_is_no_refusal() {
    let bench = bench();
    for listed in [vec![3], vec![0, 1, 2]] {
        bench
            .bmc
            .faults(|faults| faults.lists_suites = Some(listed.clone()));
        let probe = bench.driver().open().probe(Extent::Whole).await.unwrap();
        assert_eq!(probe.cipher_suites, listed);
    }
}

#[tokio::test]
async fn suite_0_beside_the_right_one_is_left_alone() {
    let bench = bench();
    bench.bmc.faults(|faults| faults.offers_suite_zero = true);
    assert!(bench.driver().open().probe(Extent::Whole).await.is_ok());
    let suites: Vec<u8> = bench.bmc.sessions().iter().map(|one| one.suite).collect();
    assert_eq!(suites, [17]);
}

/// Get SEL Time is optional, and a clock that was never set counts from the BMC's start.
#[tokio::test]
async fn the_suites_and_the_clock_are_shown_and_no_fault_of_the_clock_fails_a_probe() {
    let bench = bench();
    let table = [
        (None, None),
        (Some(1_790_000_000), Some(1_790_000_000)),
        (Some(0x1000), None),
        (Some(u32::MAX), None),
    ];
    for (shows, expected) in table {
        bench.bmc.faults(|faults| faults.sel_time = shows);
        let probe = bench.driver().open().probe(Extent::Whole).await.unwrap();
        assert_eq!(probe.cipher_suites, [17, 3]);
        let clock = probe.clock.map(|clock| clock.time.as_second());
        assert_eq!(clock, expected, "{shows:?}");
    }
    bench.bmc.faults(|faults| {
        faults.sel_time = Some(1_790_000_000);
        // Until the probe has no more time for it.
        faults.replies = vec![Reply::new(Which::SEL_TIME, Nonsense::Code(0xc0))];
    });
    let probe = bench.driver().open().probe(Extent::Whole).await.unwrap();
    assert_eq!((probe.reading.state, probe.clock), (PowerState::On, None));
    bench.assert_closed(5).await;
}
