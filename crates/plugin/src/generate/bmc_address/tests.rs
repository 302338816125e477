use super::*;

fn redfish(address: &str, system_id: Option<&str>) -> BmcAddress {
    BmcAddress::Redfish {
        address: address.to_owned(),
        system_id: system_id.map(str::to_owned),
        is_plaintext: false,
    }
}

fn ipmi(host: &str, port: u16) -> BmcAddress {
    BmcAddress::Ipmi {
        host: host.to_owned(),
        port,
        privilege: IpmiPrivilege::Operator,
    }
}

#[test]
fn every_way_to_boot_over_redfish_is_one_service() {
    for scheme in REDFISH {
        for plus in ["", "+https"] {
            let text = format!("{scheme}{plus}://10.0.0.1/redfish/v1/Systems/System.Embedded.1");
            assert_eq!(
                BmcAddress::read(&text),
                Ok(redfish("https://10.0.0.1", Some("System.Embedded.1"))),
                "{text}"
            );
        }
        let text = format!("{scheme}+http://10.0.0.1:8000/redfish/v1/Systems/1");
        let read = BmcAddress::Redfish {
            address: "https://10.0.0.1:8000".to_owned(),
            system_id: Some("1".to_owned()),
            is_plaintext: true,
        };
        assert_eq!(BmcAddress::read(&text), Ok(read), "{text}");
    }
}

#[test]
fn a_system_is_named_by_its_id_or_by_its_path_or_not_at_all() {
    for (path, id) in [
        ("", None),
        ("/", None),
        ("/redfish/v1/", None),
        ("/redfish/v1/Systems/1/", Some("1")),
        ("/redfish/v1/Nodes/1", Some("/redfish/v1/Nodes/1")),
    ] {
        let text = format!("redfish://bmc.example.com:8443{path}");
        let read = redfish("https://bmc.example.com:8443", id);
        assert_eq!(BmcAddress::read(&text), Ok(read), "{text}");
    }
    let error = BmcAddress::read("redfish://10.0.0.1/foo/bar").unwrap_err();
    assert!(error.contains("/redfish/v1/"), "{error}");
}

#[test]
fn what_has_no_scheme_is_ipmi() {
    for (text, host, port) in [
        ("192.168.122.1", "192.168.122.1", 623),
        ("192.168.122.1:6233", "192.168.122.1", 6233),
        ("my.favoritebmc.com", "my.favoritebmc.com", 623),
        ("ipmi:192.168.122.1:6233", "192.168.122.1", 6233),
        ("ipmi://192.168.122.1", "192.168.122.1", 623),
        ("ipmi://192.168.122.1:443", "192.168.122.1", 443),
        (
            "[fe80::fc33:62ff:fe83:8a76]:6233",
            "fe80::fc33:62ff:fe83:8a76",
            6233,
        ),
        (
            "libvirt://192.168.122.1:6233/?abc=def",
            "192.168.122.1",
            6233,
        ),
        ("ipmi://10.0.0.1?privilegelevel=OPERATOR", "10.0.0.1", 623),
    ] {
        assert_eq!(BmcAddress::read(text), Ok(ipmi(host, port)), "{text}");
    }
    let read = BmcAddress::Ipmi {
        host: "10.0.0.1".to_owned(),
        port: 623,
        privilege: IpmiPrivilege::Administrator,
    };
    let text = "ipmi://10.0.0.1?privilegelevel=ADMINISTRATOR";
    assert_eq!(BmcAddress::read(text), Ok(read));
}

#[test]
fn a_protocol_of_the_makers_own_is_named() {
    for scheme in OWN {
        let read = BmcAddress::Other {
            scheme: scheme.to_owned(),
            address: "https://10.0.0.1:8443".to_owned(),
        };
        let text = format!("{scheme}://10.0.0.1:8443");
        assert_eq!(BmcAddress::read(&text), Ok(read));
    }
}

#[test]
fn what_cannot_be_an_address_is_refused_and_no_password_is_repeated() {
    for text in [
        "",
        "redfish+ftp://10.0.0.1",
        "ipmi+https://10.0.0.1",
        "snmp://10.0.0.1",
        "my-.examplehost.com",
        "[fe80::fc33:62ff:fe33:8xff]:6223",
        "fe80::1",
        "redfish://127.1",
        "redfish:///redfish/v1",
        "ipmi://host:0",
    ] {
        let error = BmcAddress::read(text).expect_err(text);
        assert!(error.contains("spec.bmc.address"), "{text}: {error}");
    }
    let error = BmcAddress::read("redfish://root:calvin@10.0.0.1").unwrap_err();
    assert!(!error.contains("calvin"), "{error}");
}
