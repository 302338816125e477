use super::super::reviewed::{AGENTS, find};
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const PASSWORD: &str = "correct horse";

fn driver(agent: &str, parameters: &Value) -> FenceAgentDriver {
    let driver = json!({"agent": agent, "parameters": parameters});
    serde_json::from_value(driver).expect("settings")
}

fn given(agent: &str, parameters: &Value, password: &str) -> Result<Given, DeviceError> {
    let driver = driver(agent, parameters);
    let data = [("password", password), ("community", "public-1")];
    let data = data.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    let credentials =
        Credentials::with_keys("s", keys(&driver), &BTreeMap::from(data), &BTreeMap::new());
    Given::new(&driver, find(agent).expect("reviewed"), &credentials?)
}

fn ipmi(extra: &[(&str, &str)]) -> Value {
    let mut all = vec![
        json!({"name": "ip", "value": "10.0.0.1"}),
        json!({"name": "username", "value": "fencer"}),
        json!({"name": "password", "secretKey": "password"}),
    ];
    all.extend(
        extra
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value})),
    );
    json!(all)
}

fn refusal(agent: &str, parameters: &Value) -> String {
    match given(agent, parameters, PASSWORD) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_action_is_ours_and_the_last_word() {
    let given = given("fence_ipmilan", &ipmi(&[]), PASSWORD).expect("fine");
    for (action, word) in [
        (Action::Status, "status"),
        (Action::Off, "off"),
        (Action::On, "on"),
    ] {
        let input = given.input(action, [10, 0, 0, 9].into());
        let wanted = format!(
            "ip=10.0.0.9\nusername=fencer\npassword={PASSWORD}\ncipher=17\nprivlvl=operator\nlanplus=1\nmethod=onoff\ndelay=0\npower_wait=0\n\
             retry_on=0\naction={word}\n"
        );
        assert_eq!(*input, wanted);
    }
}

/// Whatever runs a program, writes a file, or changes what Off means; and whatever else is not on the list.
#[test]
fn only_listed_parameters_are_taken() {
    for name in [
        "action",
        "option",
        "method",
        "missing_as_off",
        "password_script",
        "passwd_script",
        "ipmitool_path",
        "sudo",
        "sudo_path",
        "debug_file",
        "debug",
        "ssh_options",
        "identity_file",
        "delay",
        "retry_on",
        "plug_separator",
        "plug",
        "port",
        "target",
        "lanplus",
        "auth",
        "ipaddr",
        "login",
        "passwd",
        "verbose",
        "quiet",
        "power_timeout",
        "disable_timeout",
        "IP",
        "ip ",
        "#",
        "",
    ] {
        let said = refusal("fence_ipmilan", &ipmi(&[(name, "1")]));
        assert!(
            said.contains("is not taken; only these are: ip, ipport, username"),
            "{name}: {said}"
        );
    }
}

#[test]
fn a_value_that_an_agent_puts_on_a_command_line_is_one_word_of_a_list() {
    for (name, value) in [
        ("cipher", "0"),
        ("cipher", "3 -f /etc/passwd"),
        ("privlvl", "callback"),
        ("ipport", "623 -v"),
        ("ipport", "0"),
        ("ipport", "65536"),
        ("ipport", ""),
        ("ipport", "+1"),
    ] {
        let said = refusal("fence_ipmilan", &ipmi(&[(name, value)]));
        assert!(
            said.contains(&format!("`{name}` must be")),
            "{name}={value}: {said}"
        );
    }
    assert_eq!(
        refusal(
            "fence_ipmilan",
            &ipmi(&[("cipher", "3"), ("ipport", "6230")])
        ),
        "taken"
    );
}

#[test]
fn an_agent_is_given_one_outlet() {
    let eaton = |plug: &str| {
        json!([
            {"name": "ip", "value": "10.0.0.1"}, {"name": "plug", "value": plug}, {"name": "snmp_version", "value": "2c"},
            {"name": "community", "secretKey": "community"},
        ])
    };
    assert_eq!(refusal("fence_eaton_snmp", &eaton("3")), "taken");
    for plug in ["3,4", "3 4", "0", "", "web-1", "03"] {
        let said = refusal("fence_eaton_snmp", &eaton(plug));
        assert!(
            said.contains("`plug` must be the number of one outlet"),
            "{plug}: {said}"
        );
    }
    let none = refusal(
        "fence_eaton_snmp",
        &json!([{"name": "ip", "value": "10.0.0.1"}, {"name": "snmp_version", "value": "3"}]),
    );
    assert!(none.contains("needs `plug`"), "{none}");
}

#[test]
fn a_password_comes_from_the_secret_and_is_not_changed_on_the_way() {
    let open = json!([
        {"name": "ip", "value": "a"}, {"name": "username", "value": "u"}, {"name": "password", "value": "in the open"},
    ]);
    let said = refusal("fence_ipmilan", &open);
    assert!(
        said.contains("`password` is a secret") && !said.contains("in the open"),
        "{said}"
    );
    for password in ["ends with a blank ", "\"quoted\"", "a\u{85}b", "nbsp\u{a0}"] {
        let error = given("fence_ipmilan", &ipmi(&[]), password)
            .map(drop)
            .expect_err(password);
        let said = error.to_string();
        assert!(
            said.contains("Secret `s`, key `password`") && !said.contains(password),
            "{said}"
        );
    }
    for password in [
        "a\"b",
        " starts with a blank",
        "it's",
        "$(reboot)",
        "pass=word",
        "#hash",
    ] {
        let given =
            given("fence_ipmilan", &ipmi(&[]), password).unwrap_or_else(|error| panic!("{error}"));
        let input = given.input(Action::Status, [10, 0, 0, 9].into());
        assert!(
            input.contains(&format!("\npassword={password}\n")),
            "{password}"
        );
    }
}

#[test]
fn the_address_is_never_a_secret_and_no_secret_has_another_key() {
    let ip = json!([
        {"name": "ip", "secretKey": "password"}, {"name": "username", "value": "u"}, {"name": "password", "secretKey": "password"},
    ]);
    assert!(refusal("fence_ipmilan", &ip).contains("`ip` is no secret"));
    let port = json!([
        {"name": "ip", "value": "a"}, {"name": "ipport", "secretKey": "password"}, {"name": "username", "value": "u"},
        {"name": "password", "secretKey": "password"},
    ]);
    assert!(refusal("fence_ipmilan", &port).contains("`ipport` is no secret"));
    let strange = json!([
        {"name": "ip", "value": "a"}, {"name": "username", "value": "u"}, {"name": "password", "secretKey": "token"},
    ]);
    assert!(
        refusal("fence_ipmilan", &strange)
            .contains("must be one of username, password, community, privPassword")
    );
    // The password would stand where everyone on the way reads it.
    let swapped = json!([
        {"name": "ip", "value": "a"}, {"name": "username", "secretKey": "password"}, {"name": "password", "secretKey": "password"},
    ]);
    let said = refusal("fence_ipmilan", &swapped);
    assert!(
        said.contains("`secretKey` of `username` must be username"),
        "{said}"
    );
}

#[test]
fn no_agent_takes_a_community_that_everybody_knows() {
    let open = json!([
        {"name": "ip", "value": "10.0.0.1"}, {"name": "plug", "value": "3"}, {"name": "snmp_version", "value": "2c"},
    ]);
    let said = refusal("fence_eaton_snmp", &open);
    assert!(said.contains("needs `community`"), "{said}");
}

#[test]
fn the_secret_is_asked_for_the_keys_that_are_named() {
    let of = |names: &[&str]| {
        let parameters: Vec<Value> = names
            .iter()
            .map(|key| json!({"name": key, "secretKey": key}))
            .collect();
        keys(&driver("fence_ipmilan", &json!(parameters)))
    };
    assert_eq!(of(&[]), &[] as &[&str]);
    assert_eq!(of(&["password", "username"]), ["username", "password"]);
    assert_eq!(of(&["privPassword"]), ["privPassword"]);
    assert_eq!(of(&SECRET_KEYS), SECRET_KEYS);
    assert!(of(&["token"]).is_empty());
}

proptest! {
    #![proptest_config(fencing_core::fixtures::cases())]

    /// Whatever a user writes: as many lines as there are parameters, one action, one address.
    #[test]
    fn no_value_becomes_a_line_of_its_own(user in ".{0,40}", password in ".{1,40}", cipher in ".{0,4}", agent in 0..AGENTS.len()) {
        let Some(agent) = AGENTS.get(agent) else { return Ok(()) };
        let parameters = json!([
            {"name": "ip", "value": "10.0.0.1"}, {"name": "username", "value": user}, {"name": "password", "secretKey": "password"},
            {"name": "cipher", "value": cipher},
        ]);
        if let Ok(given) = given(agent.name, &parameters, &password) {
            let input = given.input(Action::Off, [10, 0, 0, 9].into());
            let of = |name: &str| input.lines().filter(|line| line.split('=').next() == Some(name)).count();
            prop_assert_eq!((of("action"), of("ip"), of("password")), (1, 1, 1));
            prop_assert_eq!(input.lines().count(), input.matches('\n').count());
        }
    }
}
