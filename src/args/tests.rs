//! Every bad value gets one line.

use super::*;
use std::net::IpAddr;

/// Tests run in one process, so they may not depend on its environment: none of the three variables is set by cargo.
fn order(flags: &[&str]) -> Result<Order, Error> {
    let line = std::iter::once("node-fencing-operator").chain(flags.iter().copied());
    Order::read(line.map(OsString::from))
}

fn read(flags: &[&str]) -> Result<Settings, Error> {
    match order(flags)? {
        Order::Run(settings) => Ok(*settings),
        other => panic!("{flags:?} is read as {other:?}"),
    }
}

fn complaint(flags: &[&str]) -> String {
    let text = order(flags).expect_err("a bad command line").to_string();
    assert!(!text.contains('\n'), "more than one line: {text}");
    text
}

#[test]
fn defaults_suit_a_pod() {
    let settings = read(&[]).expect("defaults");
    assert_eq!(settings.namespace, "node-fencing-system");
    assert_eq!(settings.http_bind.to_string(), "[::]:8080");
    assert_eq!(settings.log_filter, "info");
    assert_eq!(settings.node_name, None);
    assert_eq!(settings.max_concurrent, None);
    assert!(!settings.callers);
    assert_eq!(settings.kubeconfig, None);
    assert_eq!(settings.election, Times::default());
}

/// A chart's `extraArgs` come after what the chart writes by itself. Lists grow instead.
#[test]
fn of_a_flag_that_is_given_twice_the_last_counts() {
    let cidrs = [
        "--allow-device-cidr=169.254.1.0/24",
        "--allow-device-cidr=169.254.2.0/24",
    ];
    let twice = ["--log-filter=info", "--log-filter=debug"];
    let settings = read(&[&twice[..], &cidrs].concat()).expect("good");
    assert_eq!(settings.log_filter, "debug");
    for address in ["169.254.1.7", "169.254.2.7"] {
        let address = address.parse().expect("an address");
        let judged = settings.addresses.judge("bmc", address);
        assert!(judged.is_ok(), "{judged:?}");
    }
}

#[test]
fn a_cap_of_0_is_none_and_one_that_is_no_number_is_refused() {
    for (value, cap) in [("0", None), ("1", Some(1)), ("1000", Some(1000))] {
        let flag = format!("--max-concurrent-fences={value}");
        assert_eq!(read(&[&flag]).expect("good").max_concurrent, cap);
    }
    for bad in ["-1", "1001", "two", ""] {
        let complaint = complaint(&[&format!("--max-concurrent-fences={bad}")]);
        assert!(complaint.contains("`pauseRequests`"), "{complaint}");
    }
}

/// Two replicas must never work at once because of their times.
#[test]
fn the_times_of_the_lease_suit_each_other() {
    let times = |lease: &str, renew: &str, retry: &str| {
        [
            format!("--leader-elect-lease-duration-seconds={lease}"),
            format!("--leader-elect-renew-deadline-seconds={renew}"),
            format!("--leader-elect-retry-period-seconds={retry}"),
        ]
    };
    let good = times("60", "45", "15");
    let settings = read(&good.each_ref().map(String::as_str)).expect("good times");
    assert_eq!(settings.election.lease, Duration::from_secs(60));
    assert_eq!(settings.election.renew, Duration::from_secs(45));
    assert_eq!(settings.election.retry, Duration::from_secs(15));
    for (bad, flag) in [
        (
            times("0", "10", "2"),
            "--leader-elect-lease-duration-seconds",
        ),
        (
            times("301", "10", "2"),
            "--leader-elect-lease-duration-seconds",
        ),
        (
            times("15s", "10", "2"),
            "--leader-elect-lease-duration-seconds",
        ),
        (
            times("15", "15", "2"),
            "--leader-elect-renew-deadline-seconds",
        ),
        (
            times("15", "10", "4"),
            "--leader-elect-retry-period-seconds",
        ),
    ] {
        let text = complaint(&bad.each_ref().map(String::as_str));
        assert!(text.starts_with(flag), "{text}");
    }
}

#[test]
fn every_flag_is_read() {
    let settings = read(&[
        "--namespace=fencing",
        "--http-bind=[::1]:0",
        "--http-tls-dir=/tls",
        "--log-format=text",
        "--log-filter=debug",
        "--node-name=worker-1.example.org",
        "--pod-name=operator-0",
        "--allow-device-cidr=127.0.0.0/8",
        "--deny-device-cidr=10.96.0.0/12",
        "--deny-device-cidr=fd00:10:96::/112",
        "--kubeconfig=/tmp/config",
    ])
    .expect("all flags");
    assert_eq!(settings.namespace, "fencing");
    assert_eq!(settings.http_bind.to_string(), "[::1]:0");
    assert_eq!(settings.http_tls_dir, Some(PathBuf::from("/tls")));
    assert_eq!(settings.log_format, LogFormat::Text);
    assert_eq!(settings.node_name.as_deref(), Some("worker-1.example.org"));
    assert_eq!(settings.pod_name.as_deref(), Some("operator-0"));
    assert_eq!(settings.kubeconfig, Some(PathBuf::from("/tmp/config")));
    let judge = |address: &str| {
        let address: IpAddr = address.parse().expect("address");
        settings.addresses.judge("bmc", address)
    };
    assert!(judge("127.0.0.1").is_ok());
    assert!(judge("10.0.0.1").is_ok());
    let denial = judge("10.96.0.1").expect_err("denied").to_string();
    assert!(
        denial.contains("10.96.0.0/12 (--deny-device-cidr)"),
        "{denial}"
    );
    assert!(judge("fd00:10:96::a").is_err());
}

#[test]
fn an_unknown_flag_gets_a_suggestion_in_one_line() {
    assert_eq!(
        complaint(&["--http-bnd=:80"]),
        "unexpected argument '--http-bnd' found; did you mean --http-bind?; --help lists the flags"
    );
    assert!(complaint(&["fence"]).starts_with("unrecognized subcommand 'fence'"));
    assert!(complaint(&["--kubeconfig"]).contains("--kubeconfig"));
}

#[test]
fn every_complaint_names_flag_value_rule_and_way_out() {
    let cases: &[(&str, &[&str])] = &[
        (
            "--http-bind=8080",
            &["--http-bind", "`8080`", "0.0.0.0:8080"],
        ),
        (
            "--http-bind=0.0.0.0:65536",
            &["`0.0.0.0:65536`", "from 0 to 65535"],
        ),
        ("--http-bind=0.0.0.0:-1", &["from 0 to 65535"]),
        (
            "--http-bind=localhost:80",
            &["must be an IP address and a port"],
        ),
        ("--http-bind=[::1]:http", &["bad port"]),
        (
            "--log-format=xml",
            &["--log-format", "`xml`", "text or json"],
        ),
        ("--namespace=", &["--namespace (POD_NAMESPACE)", "``"]),
        ("--namespace=Kube_System", &["`Kube_System`", "lower-case"]),
        ("--namespace=a.b", &["`a.b`"]),
        ("--node-name=", &["--node-name (NODE_NAME)", "leave it out"]),
        ("--node-name=a\nb", &["`a\\nb`"]),
        ("--pod-name=-a", &["--pod-name (POD_NAME)", "`-a`"]),
        (
            "--allow-device-cidr=10.0.0.0",
            &["--allow-device-cidr", "`10.0.0.0`", "10.20.0.0/16"],
        ),
        (
            "--deny-device-cidr=10.0.0.1/8",
            &["--deny-device-cidr", "write 10.0.0.0/8"],
        ),
    ];
    for (flag, parts) in cases {
        let text = complaint(&[flag]);
        for part in *parts {
            assert!(text.contains(part), "{flag}: {text:?} lacks {part:?}");
        }
    }
}

/// What is a namespace, and what a time, is the same to each subcommand.
#[test]
fn a_subcommand_complains_in_the_same_words() {
    let namespace =
        "must be the name of a namespace: at most 63 lower-case letters, digits and inner hyphens";
    for (flags, words) in [
        (
            &["probe", "a.yaml", "--namespace=a.b"][..],
            format!("--namespace: `a.b` {namespace}"),
        ),
        (
            &["check", "--namespace=a.b"],
            format!("--namespace (POD_NAMESPACE): `a.b` {namespace}"),
        ),
        (
            &["probe", "a.yaml", "--power-off", "--yes", "--timeout=4"],
            "--timeout: `4` must be a number of seconds from 5 to 1800".to_owned(),
        ),
        (
            &["check", "--wait=3601"],
            "--wait: `3601` must be a number of seconds from 0 to 3600".to_owned(),
        ),
    ] {
        assert_eq!(complaint(flags), words);
    }
    let Ok(Order::Check(check)) = order(&["check", "--wait=3600"]) else {
        panic!("no check");
    };
    assert_eq!(check.wait, Duration::from_secs(3600));
    assert_eq!(check.namespace, "node-fencing-system");
}

/// Written with a blank before it, too: clap would take a bare `-1` for a flag, and say nothing of the one it stands behind.
#[test]
fn a_number_below_0_gets_the_words_of_its_flag() {
    let lease = "must be a number of seconds from 1 to 300";
    for (flags, rule) in [
        (
            &["--max-concurrent-fences"][..],
            "must be a number from 0 (no limit",
        ),
        (&["--leader-elect-lease-duration-seconds"], lease),
        (&["--leader-elect-renew-deadline-seconds"], lease),
        (&["--leader-elect-retry-period-seconds"], lease),
        (
            &["check", "--wait"],
            "must be a number of seconds from 0 to 3600",
        ),
        (
            &["probe", "a.yaml", "--power-off", "--yes", "--timeout"],
            "must be a number of seconds from 5 to 1800",
        ),
    ] {
        let flag = flags.last().expect("a flag");
        let begin = format!("{flag}: `-1` {rule}");
        let said = complaint(&[flags, &["-1"]].concat());
        assert!(said.starts_with(&begin), "{said}");
    }
    assert_eq!(
        complaint(&["--max-concurrent-fences", "-1"]),
        "--max-concurrent-fences: `-1` must be a number from 0 (no limit but `budget.maxConcurrent` of each policy) to 1000; to pause use `pauseRequests`"
    );
}

/// Nobody has a machine turned off by leaving something out.
#[test]
fn a_power_off_that_is_not_confirmed_says_what_it_would_do_and_what_to_add() {
    for (flags, words) in [
        (
            &["--power-off"][..],
            "--power-off would turn the machine of `a.yaml` off, hard, and end its workload; add --yes if that is meant, or leave \
             --power-off out to only read",
        ),
        (
            &["--yes"],
            "--yes only confirms --power-off; add --power-off to turn the machine off, hard, or leave --yes out to only read",
        ),
        (
            &["--timeout", "60"],
            "--timeout: `60` is valid only with --power-off --yes; add these to turn the machine off, hard, or leave --timeout out to only read",
        ),
    ] {
        assert_eq!(complaint(&[&["probe", "a.yaml"], flags].concat()), words);
    }
}

#[test]
fn help_and_version_are_shown() {
    let Err(Error::Shown(help)) = read(&["--help"]) else {
        panic!("--help is an error");
    };
    for part in [
        "Examples:",
        "--allow-device-cidr",
        "[env: NODE_NAME",
        "Exit codes",
    ] {
        assert!(help.contains(part), "{part} is missing in:\n{help}");
    }
    let Err(Error::Shown(version)) = read(&["--version"]) else {
        panic!("--version is an error");
    };
    assert_eq!(
        version.trim(),
        concat!("node-fencing-operator ", env!("CARGO_PKG_VERSION"))
    );
}
