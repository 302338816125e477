use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn driver(agent: &str, parameters: &Value) -> FenceAgentDriver {
    let driver = json!({"agent": agent, "parameters": parameters});
    serde_json::from_value(driver).expect("settings")
}

fn made(agent: &str, parameters: &Value) -> Result<FenceAgent, DeviceError> {
    let driver = driver(agent, parameters);
    let data = BTreeMap::from([("password".to_owned(), b"correct horse".to_vec())]);
    let keys = driver.credential_keys();
    let credentials = Credentials::with_keys("s", keys, &data, &BTreeMap::new())?;
    FenceAgent::new(FenceAgentSettings {
        driver,
        credentials: Arc::new(credentials),
        rules: Arc::new(AddressRules::default()),
        call_timeout: Duration::from_secs(1),
        command_timeout: Duration::from_secs(1),
        clock: Clock::SYSTEM,
        directory: PathBuf::from(DIRECTORY),
    })
}

fn ipmi(ip: &str) -> Value {
    json!([
        {"name": "ip", "value": ip}, {"name": "username", "value": "u"}, {"name": "password", "secretKey": "password"},
    ])
}

/// Two nodes on one device are noticed whichever driver each of them has, and so are two agents for one maker's BMC.
#[test]
fn a_device_is_known_by_address_and_outlet_and_not_by_its_agent() {
    let of =
        |agent: &str, parameters: Value| driver(agent, &parameters).targets(&NodeFacts::default());
    let bmc = of("fence_ipmilan", ipmi("BMC-1"));
    assert_eq!(bmc, ["bmc-1:623"]);
    assert_eq!(of("fence_idrac", ipmi("bmc-1")), bmc);
    let port = json!([{"name": "ip", "value": "bmc-1"}, {"name": "ipport", "value": "6230"}]);
    assert_eq!(of("fence_idrac", port), ["bmc-1:6230"]);
    let outlet =
        |plug: &str| json!([{"name": "ip", "value": "pdu-1"}, {"name": "plug", "value": plug}]);
    assert_eq!(of("fence_eaton_snmp", outlet("3")), ["pdu-1:161 outlet 3"]);
    assert_ne!(
        of("fence_eaton_snmp", outlet("3")),
        of("fence_eaton_snmp", outlet("4"))
    );
    assert!(of("fence_ipmilan", json!([{"name": "username", "value": "u"}])).is_empty());
}

/// Calls to the outlets of one PDU take turns.
#[test]
fn the_device_does_one_thing_at_a_time_for_whichever_outlet() {
    let outlet = json!([
        {"name": "ip", "value": "pdu-1"}, {"name": "plug", "value": "3"}, {"name": "snmp_version", "value": "3"},
    ]);
    let made = made("fence_eaton_snmp", &outlet).expect("fine");
    assert_eq!(
        (made.endpoint(), made.target()),
        ("pdu-1:161".to_owned(), "pdu-1:161 outlet 3".to_owned())
    );
}

#[test]
fn an_agent_is_run_by_its_absolute_path_and_only_if_reviewed() {
    let agent = made("fence_ipmilan", &ipmi("bmc-1")).expect("fine");
    assert_eq!(agent.program, PathBuf::from("/usr/sbin/fence_ipmilan"));
    for (name, words) in [
        ("fence_dummy", "it reports success without a device"),
        ("fence_vmware_rest", "hibernate"),
        ("fence_of_tomorrow", "it is not reviewed"),
        ("../../bin/sh", "it is not reviewed"),
    ] {
        let error = made(name, &ipmi("bmc-1")).expect_err(name);
        let said = error.to_string();
        assert!(
            said.contains(words) && said.contains("`fenceAgent.agent` cannot be used"),
            "{said}"
        );
        assert_eq!(error.reason(), "SettingsInvalid");
    }
}

#[test]
fn nothing_of_the_account_is_shown() {
    let shown = format!("{:?}", made("fence_ipmilan", &ipmi("bmc-1")).expect("fine"));
    assert!(
        !shown.contains("horse") && shown.contains("bmc-1:623"),
        "{shown}"
    );
}

/// Of two devices with one name, one would be switched and the other one read.
#[test]
fn a_name_stands_for_one_device_and_the_same_address_each_time() {
    let of = |addresses: &[&str]| {
        let found = addresses
            .iter()
            .map(|it| (it.parse::<std::net::IpAddr>().expect("an address"), 623).into());
        let found = session::one_device(found.collect(), "bmc-1");
        found
            .map(|it| it.iter().map(|it| it.ip().to_string()).collect::<Vec<_>>())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        of(&["fd00::1", "10.0.0.1"]),
        Ok(vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()])
    );
    assert_eq!(
        of(&["10.0.0.1", "10.0.0.1"]),
        Ok(vec!["10.0.0.1".to_owned()])
    );
    for two in [
        ["10.0.0.1", "10.0.0.2"],
        ["fd00::1", "fd00::2"],
        ["10.0.0.1", "::ffff:10.0.0.2"],
    ] {
        let said = of(&two).expect_err("two");
        assert!(
            said.contains("`ip` bmc-1 resolves to 2 addresses"),
            "{said}"
        );
    }
}
