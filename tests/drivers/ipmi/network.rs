//! Getting there: networks that lose, repeat, reorder, corrupt and forge; ports that are closed and addresses that are not allowed.

use super::*;
use e2e::https::Line;
use e2e::ipmi::{Network, Path, Source};
use node_fencing_operator::core::reading::PowerState;
use node_fencing_operator::fence::credentials::ALLOWED_HOSTS_ANNOTATION;

#[tokio::test]
async fn a_closed_port_is_unreachable_at_once() {
    let bench = bench();
    bench.bmc.set_line(Line::Refused).unwrap();
    let begun = Instant::now();
    let patient = IpmiSettings {
        call_timeout: ENDLESS,
        ..bench.settings()
    };
    assert_eq!(verdict(&Ipmi::new(patient).unwrap()).await, "Unreachable");
    assert!(begun.elapsed() < ENDLESS, "it waited for the deadline");
}

#[tokio::test]
async fn a_black_hole_ends_at_the_call_s_own_deadline() {
    let bench = bench();
    bench.bmc.set_line(Line::BlackHole).unwrap();
    let begun = Instant::now();
    assert_eq!(verdict(&bench.impatient()).await, "Timeout");
    assert!((SHORT..ENDLESS).contains(&begun.elapsed()));
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_unreachable() {
    let bench = bench();
    let settings = IpmiSettings {
        address: Address::expand_host("bmc.invalid", 623, "n").unwrap(),
        ..bench.settings()
    };
    assert_eq!(verdict(&Ipmi::new(settings).unwrap()).await, "Unreachable");
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

/// Reads, switches off and reads again over such a network.
async fn works_over(name: &str, network: Network) {
    let bench = bench();
    bench.bmc.faults(|faults| faults.network = network);
    let patient = IpmiSettings {
        call_timeout: ENDLESS,
        command_timeout: ENDLESS,
        ..bench.settings()
    };
    let mut session = Ipmi::new(patient).unwrap().open();
    let before = session.observe().await;
    assert_eq!(before.unwrap().state, PowerState::On, "{name}");
    session.prepare_off().await.unwrap();
    let outcome = session.force_off().await.unwrap();
    assert_eq!(outcome, OffOutcome::Accepted, "{name}");
    for _ in 0..4 {
        let after = session.observe().await.unwrap();
        assert_eq!(after.state, PowerState::Off, "{name}");
        assert!(after.identity.is_system(UUID), "{name}");
    }
}

#[tokio::test]
async fn thirty_per_cent_loss_only_costs_time() {
    let lossy = || Path {
        lost: 0.3,
        ..Path::default()
    };
    let network = Network {
        seed: 4,
        requests: lossy(),
        answers: lossy(),
        ..Network::default()
    };
    works_over("loss", network).await;
}

#[tokio::test]
async fn duplicates_and_reordered_datagrams_are_tolerated() {
    let restless = || Path {
        duplicated: 0.5,
        late: 0.3,
        late_by: Duration::from_millis(400),
        ..Path::default()
    };
    let network = Network {
        seed: 5,
        requests: restless(),
        answers: restless(),
        replayed: 0.5,
        ..Network::default()
    };
    works_over("duplicates", network).await;
}

#[tokio::test]
async fn corrupt_datagrams_are_dropped_and_asked_for_again() {
    let corrupting = || Path {
        corrupted: 0.15,
        ..Path::default()
    };
    let network = Network {
        seed: 6,
        requests: corrupting(),
        answers: corrupting(),
        ..Network::default()
    };
    works_over("corruption", network).await;
}

#[tokio::test]
async fn half_a_second_each_way_succeeds_within_six() {
    let slow = || Path {
        delay: Duration::from_millis(500),
        ..Path::default()
    };
    let bench = bench();
    bench.bmc.faults(|faults| {
        faults.network.requests = slow();
        faults.network.answers = slow();
    });
    let settings = IpmiSettings {
        call_timeout: Duration::from_secs(6),
        ..bench.settings()
    };
    assert!(
        verdict(&Ipmi::new(settings).unwrap())
            .await
            .starts_with("On")
    );
}

#[tokio::test]
async fn answers_from_elsewhere_are_never_heard() {
    for source in [Source::OtherPort, Source::OtherAddress] {
        let bench = bench();
        bench.bmc.faults(|faults| faults.network.source = source);
        assert_eq!(verdict(&bench.impatient()).await, "Timeout", "{source:?}");
    }
}
