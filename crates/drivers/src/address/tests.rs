use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The rule that the text breaks.
fn broken_rule(result: Result<Address, AddressError>) -> String {
    match result {
        Err(AddressError::Invalid { rule, .. }) => rule,
        other => panic!("{other:?}"),
    }
}

fn denied(address: &str) -> Option<String> {
    let service_range = (
        "10.96.0.0/12".parse().unwrap(),
        "the cluster's service range".to_owned(),
    );
    let rules = AddressRules::new(vec!["127.0.0.2/32".parse().unwrap()], vec![service_range]);
    match rules.judge("bmc", address.parse().unwrap()) {
        Ok(()) => None,
        Err(AddressError::NotAllowed { rule, .. }) => Some(rule),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn addresses_are_read() {
    for (text, shown, authority) in [
        ("https://10.20.0.13", "10.20.0.13:443", "10.20.0.13"),
        ("https://10.20.0.13/", "10.20.0.13:443", "10.20.0.13"),
        (
            "https://BMC-7.mgmt.example.com:8443/redfish/v1/",
            "bmc-7.mgmt.example.com:8443",
            "bmc-7.mgmt.example.com:8443",
        ),
        ("http://bmc", "bmc:80", "bmc"),
        (
            "https://[2001:db8::7]",
            "[2001:db8::7]:443",
            "[2001:db8::7]",
        ),
        (
            "https://[2001:db8::7]:444",
            "[2001:db8::7]:444",
            "[2001:db8::7]:444",
        ),
    ] {
        let address = parsed(text);
        assert_eq!(
            (address.to_string().as_str(), address.authority().as_str()),
            (shown, authority)
        );
        assert_eq!(address.plaintext, text.starts_with("http:"));
    }
}

#[test]
fn other_addresses_are_refused_by_a_named_rule() {
    let long_label = format!("https://{}.example", "x".repeat(64));
    for (text, expected) in [
        ("", "must begin with https://"),
        ("10.20.0.13", "must begin with https://"),
        ("ftp://10.20.0.13", "must begin with https://"),
        ("file:///etc/shadow", "must begin with https://"),
        ("HTTPS://10.20.0.13", "must begin with https://"),
        ("https://", "its host must be"),
        ("https:///redfish/v1", "its host must be"),
        ("https://bmc_7", "its host must be"),
        ("https://-bmc", "its host must be"),
        ("https://bmc..example", "its host must be"),
        ("https://bmc\r\nx", "its host must be"),
        ("https://bmc\\evil", "its host must be"),
        (&long_label, "its host must be"),
        ("https://bmc?x=y", "no query"),
        ("https://bmc#x", "no query and no fragment"),
        ("https://bmc/redfish/v2", "no path"),
        ("https://bmc:0", "from 1 to 65535"),
        ("https://bmc:65536", "from 1 to 65535"),
        ("https://bmc:", "from 1 to 65535"),
        ("https://2001:db8::7", "in brackets"),
        ("https://[fe80::1%25eth0]", "in brackets"),
        ("https://[2001:db8::7", "in brackets"),
        ("https://10.20.0.256", "four decimal numbers"),
        ("https://1.2.3.4.5", "four decimal numbers"),
        ("https://4294967296", "four decimal numbers"),
        ("https://127.16777216", "four decimal numbers"),
        ("https://256.1", "four decimal numbers"),
        ("https://089.0.0.1", "four decimal numbers"),
    ] {
        let rule = broken_rule(Address::parse(text));
        assert!(rule.contains(expected), "{text}: {rule}");
    }
}

/// An address in disguise is refused for what it is, whichever spelling hides it.
#[test]
fn legacy_spellings_are_not_allowed_and_the_address_is_named() {
    for (text, address, what) in [
        ("https://0x7f000001", "127.0.0.1", " (loopback)"),
        ("https://0X7F000001", "127.0.0.1", " (loopback)"),
        ("https://2130706433", "127.0.0.1", " (loopback)"),
        ("https://017700000001", "127.0.0.1", " (loopback)"),
        ("https://127.1:8443", "127.0.0.1", " (loopback)"),
        ("https://127.0.1", "127.0.0.1", " (loopback)"),
        ("https://0177.0.0.1", "127.0.0.1", " (loopback)"),
        ("https://127.0.0.0x1", "127.0.0.1", " (loopback)"),
        ("https://0x7f.1", "127.0.0.1", " (loopback)"),
        ("https://0", "0.0.0.0", " (the unspecified address)"),
        ("https://0x", "0.0.0.0", " (the unspecified address)"),
        (
            "https://2852039166",
            "169.254.169.254",
            " (a cloud's metadata service)",
        ),
        (
            "https://169.254.43518",
            "169.254.169.254",
            " (a cloud's metadata service)",
        ),
        (
            "https://4294967295",
            "255.255.255.255",
            " (a reserved or broadcast address)",
        ),
        ("https://10.20.13", "10.20.0.13", ""),
        ("https://010.20.0.13", "8.20.0.13", ""),
    ] {
        let error = Address::parse(text).expect_err("refused");
        assert_eq!(error.reason(), "AddressNotAllowed", "{text}: {error}");
        let words = error.to_string();
        assert!(
            words.contains(&format!("{address}{what}; ")),
            "{text}: {words}"
        );
    }
    let error = Address::expand("https://${node.name}", "127.1").expect_err("refused");
    assert_eq!(error.reason(), "AddressNotAllowed");
    // A name whose last label is not a number is a name.
    assert_eq!(parsed("https://0x7f.bmc").host, "0x7f.bmc");
    assert_eq!(parsed("https://cafe").host, "cafe");
}

#[test]
fn user_information_is_refused_and_not_repeated() {
    for text in [
        "https://admin:hunter2@bmc",
        "https://hunter2@x@bmc",
        "https://admin:hunter2@bmc/?@",
        "hunter2@bmc",
    ] {
        let error = Address::parse(text).expect_err("user information");
        assert!(
            !error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}

#[test]
fn only_the_name_of_the_node_is_expanded_and_only_in_the_host() {
    let expanded =
        Address::expand("https://${node.name}-bmc.mgmt.example.com", "worker-3").unwrap();
    assert_eq!(expanded.host, "worker-3-bmc.mgmt.example.com");
    assert_eq!(
        Address::expand("https://bmc-3", "worker-3").unwrap().host,
        "bmc-3"
    );
    let longest = "x".repeat(63);
    for (template, node, expected) in [
        (
            "https://${node.labels.bmc}",
            "worker-3",
            "only ${node.name}",
        ),
        ("https://${node.name", "worker-3", "only ${node.name}"),
        ("https://${node.name}${x}", "worker-3", "only ${node.name}"),
        ("https://$node.name", "worker-3", "only ${node.name}"),
        ("https://bmc:${node.name}", "8443", "in the host only"),
        ("https://bmc/${node.name}", "x", "in the host only"),
        (
            "https://${node.name}.example",
            "evil.example/",
            "not a DNS name",
        ),
        (
            "https://${node.name}.example",
            "user@evil",
            "not a DNS name",
        ),
        ("https://${node.name}.example", "", "not a DNS name"),
        (
            "https://${node.name}-bmc.example",
            &longest,
            "at most 253 characters",
        ),
        ("https://${node.name}", "127.256.1", "four decimal numbers"),
    ] {
        let rule = broken_rule(Address::expand(template, node));
        assert!(rule.contains(expected), "{template} {node}: {rule}");
    }
}

#[test]
fn what_is_never_a_device_is_denied_by_name() {
    for (address, rule) in [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("0.0.0.0", "the unspecified address"),
        ("0.1.2.3", "the unspecified address"),
        ("::", "the unspecified address"),
        ("169.254.1.1", "link-local"),
        ("fe80::1", "link-local"),
        ("febf::1", "link-local"),
        ("169.254.169.254", "a cloud's metadata service"),
        ("::ffff:169.254.169.254", "a cloud's metadata service"),
        ("fd00:ec2::254", "a cloud's metadata service"),
        ("fd00:ec2::23", "a cloud's metadata service"),
        ("fd20:ce::254", "a cloud's metadata service"),
        ("fd00:c1::a9fe:a9fe", "a cloud's metadata service"),
        ("fd00:42::42", "a cloud's metadata service"),
        ("fd00:a9fe:a9fe::1", "a cloud's metadata service"),
        ("fd00:100::100:200", "a cloud's metadata service"),
        ("192.0.0.192", "a cloud's metadata service"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "a reserved or broadcast address"),
        ("10.96.0.1", "the cluster's service range"),
        ("::ffff:10.111.255.255", "the cluster's service range"),
    ] {
        assert_eq!(denied(address).as_deref(), Some(rule), "{address}");
    }
    for address in [
        "10.20.0.13",
        "10.112.0.1",
        "192.168.1.1",
        "2001:db8::7",
        "fd00::7",
        "fd00:ec2::24",
        "fd20:ce::255",
        "fd00:c1::a9fe:a9ff",
        "fd00:42::43",
        "fd00:a9fe:a9fe::2",
        "fd00:100::100:201",
        "192.0.0.191",
        "fec0::1",
    ] {
        assert_eq!(denied(address), None, "{address}");
    }
}

#[test]
fn the_operator_s_own_flag_overrides_a_denial() {
    assert_eq!(denied("127.0.0.2"), None);
    assert_eq!(denied("::ffff:127.0.0.2"), None);
    assert_eq!(denied("127.0.0.3").as_deref(), Some("loopback"));
}

mod properties {
    use super::*;
    use fencing_core::fixtures::cases;

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn no_text_panics_and_what_is_read_is_a_plain_host(text in ".{0,80}", node in ".{0,20}") {
            for address in [Address::parse(&text), Address::parse(&format!("https://{text}")), Address::expand(&text, &node)] {
                let Ok(address) = address else { continue };
                let plain = address.host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
                prop_assert!(plain && !address.host.is_empty() && address.host.len() <= HOST_CHARACTERS_MAX);
            }
        }

        #[test]
        fn a_host_of_digits_and_dots_is_only_ever_a_dotted_quad(host in "(0x)?[0-9a-f.]{1,16}") {
            if let Ok(address) = Address::parse(&format!("https://{host}")) {
                // No resolver would read as a number what is not an address already.
                prop_assert!(address.literal().is_some() || !is_numeric_form(&address.host));
            }
        }

        #[test]
        fn loopback_is_denied_in_every_dress(low: [u8; 3]) {
            let v4 = std::net::Ipv4Addr::new(127, low[0], low[1], low[2]);
            let rules = AddressRules::default();
            for address in [IpAddr::V4(v4), v4.to_ipv6_mapped().into(), v4.to_ipv6_compatible().into()] {
                prop_assert!(rules.judge("x", address).is_err());
            }
        }
    }
}

#[test]
fn a_host_alone_has_neither_path_nor_port() {
    for text in ["bmc/redfish", "admin@bmc", "bmc?x", "bmc#x", "bmc:623"] {
        let read = Address::expand_host(text, 623, "worker-1");
        let rule = broken_rule(read);
        assert!(rule.contains("an IP address alone"), "{text}: {rule}");
    }
    for text in [
        "bmc-${node.name}",
        "192.0.2.1",
        "2001:db8::1",
        "[2001:db8::1]",
    ] {
        let read = Address::expand_host(text, 623, "worker-1");
        assert!(read.is_ok(), "{text}");
    }
}

#[test]
fn an_address_tells_whether_its_host_is_one_of_ip() {
    let literal = |text: &str| parsed(text).literal();
    assert_eq!(literal("https://192.0.2.1"), "192.0.2.1".parse().ok());
    assert_eq!(literal("https://[2001:db8::1]"), "2001:db8::1".parse().ok());
    assert_eq!(literal("https://bmc"), None);
}

#[tokio::test]
async fn names_are_looked_up_by_whom_the_rules_say() {
    let found = "192.0.2.7:443".parse().unwrap();
    let lookup = Lookup::new(move |_, _| Box::pin(async move { Ok(vec![found]) }));
    let rules = AddressRules::default().with_lookup(lookup);
    let answer = rules.lookup().of("bmc", 443).await;
    assert_eq!(answer.unwrap(), [found]);
}

/// S5: two devices at one address are told by its text.
#[test]
fn an_ip_address_has_one_spelling() {
    for (written, host) in [
        ("https://[2001:DB8:0:0::9]", "2001:db8::9"),
        ("https://[::ffff:10.0.0.9]", "10.0.0.9"),
        ("https://10.0.0.9", "10.0.0.9"),
    ] {
        let address = Address::parse(written).expect("an address");
        assert_eq!(address.host, host, "{written}");
    }
}

#[test]
fn an_address_that_is_not_allowed_is_named_once() {
    let rules = AddressRules::default();
    for (host, said) in [
        (
            "127.0.0.1",
            "127.0.0.1: loopback may not be a fence device; ",
        ),
        (
            "bmc.example",
            "bmc.example is 127.0.0.1, and loopback may not be a fence device; ",
        ),
    ] {
        let refused = rules.judge(host, "127.0.0.1".parse().expect("an address"));
        let words = refused.expect_err("loopback").to_string();
        assert!(words.starts_with(said), "{words}");
    }
}

/// As many as are kept, in whatever clothes; and what is allowed stays so.
#[test]
fn the_addresses_of_the_api_server_are_denied() {
    let rules = AddressRules::new(vec!["10.0.0.0/32".parse().expect("a range")], Vec::new());
    let address = |number: u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
    let is_denied = |address: IpAddr| {
        let judged = rules.judge("bmc", address);
        matches!(judged, Err(AddressError::NotAllowed { rule, .. }) if rule == "the API server")
    };
    assert!(!is_denied(address(1)));
    for number in 0..300 {
        rules.deny_api_server(address(number));
    }
    assert!(!is_denied(address(0)), "it is allowed");
    assert!(is_denied(address(1)) && is_denied(address(255)));
    assert!(is_denied("::ffff:10.0.0.1".parse().expect("an address")));
    assert!(!is_denied(address(256)), "the memory has a bound");
}
