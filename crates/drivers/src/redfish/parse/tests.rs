use super::*;
use crate::json::MEMORY_BYTES_MAX;
use proptest::prelude::*;

/// Any JSON, with the names and words that matter among its strings.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("Off".to_owned()),
        Just("PowerState".to_owned()),
        Just("#ComputerSystem.v1_20_0.ComputerSystem".to_owned()),
        Just("/redfish/v1/Systems/1".to_owned()),
        ".{0,12}",
    ];
    let name = prop_oneof![
        Just("PowerState".to_owned()),
        Just("@odata.type".to_owned()),
        Just("@odata.id".to_owned()),
        Just("Members".to_owned()),
        Just("Actions".to_owned()),
        Just("#ComputerSystem.Reset".to_owned()),
        Just("ResetType@Redfish.AllowableValues".to_owned()),
        Just("target".to_owned()),
        Just("Parameters".to_owned()),
        Just("error".to_owned()),
        ".{0,12}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Everything that a document can be asked.
fn ask_everything(document: &Value) {
    let _ = (system(document), members(document), action_info(document));
}

/// May this document, and no other, be read as off? A system names itself; where it does not, its action does.
fn says_off(document: &Value) -> bool {
    let kind = document.get("@odata.type").and_then(Value::as_str);
    let is_system = match kind.unwrap_or_default() {
        "" => document.pointer("/Actions/#ComputerSystem.Reset").is_some(),
        kind => kind.starts_with("#ComputerSystem."),
    };
    is_system && document.get("PowerState") == Some(&Value::from("Off"))
}

fn reads_off(document: &Value) -> bool {
    system(document).is_ok_and(|system| system.state == PowerState::Off)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_panic_and_none_are_off(bytes: Vec<u8>) {
        let _ = crate::redfish::said::said(&bytes);
        if let Ok(document) = json(&bytes) {
            ask_everything(&document);
            prop_assert_eq!(reads_off(&document), says_off(&document));
        }
    }

    #[test]
    fn no_document_panics_and_off_is_never_invented(document in any_json()) {
        ask_everything(&document);
        let text = document.to_string();
        let _ = crate::redfish::said::said(text.as_bytes());
        prop_assert_eq!(json(text.as_bytes()), Ok(document.clone()));
        prop_assert_eq!(reads_off(&document), says_off(&document));
    }

    #[test]
    fn any_other_word_is_not_off(word in ".{0,12}") {
        let document = serde_json::json!({"@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "PowerState": word});
        prop_assert_eq!(reads_off(&document), word == "Off");
    }

    #[test]
    fn a_document_cut_anywhere_is_no_document(cut in 0usize..100) {
        let text = r##"{"@odata.type":"#ComputerSystem.v1_20_0.ComputerSystem","Id":"1","PowerState":"Off"}"##;
        if cut < text.len() {
            prop_assert!(json(&text.as_bytes()[..cut]).is_err());
        }
    }

    #[test]
    fn a_link_that_is_followed_stays_in_the_service(path in "/redfish/v1/[-/.%a-zA-Z0-9@:?#\\\\]{0,40}") {
        if let Ok(path) = local_path(&path) {
            let uri: http::Uri = path.parse().unwrap();
            prop_assert!(uri.authority().is_none() && uri.query().is_none());
            prop_assert!(uri.path().starts_with(ROOT) && !uri.path().contains("/../"));
        }
    }
}

#[test]
fn a_name_twice_is_refused_at_any_depth() {
    assert!(
        json(br#"{"a":1,"b":{"c":[{"d":1,"d":1}]}}"#)
            .unwrap_err()
            .contains("\"d\" stands twice")
    );
    assert!(
        json(br#"{"a":1,"\u0061":2}"#)
            .unwrap_err()
            .contains("\"a\" stands twice"),
        "however it is written"
    );
    assert!(json(br#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#).is_ok());
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json(nested(100).as_bytes()).is_ok());
    assert!(json(nested(200).as_bytes()).is_err());
    assert!(json("{\"a\":".repeat(1 << 17).as_bytes()).is_err());
}

#[test]
fn long_words_of_a_device_are_cut_and_control_characters_are_not_shown() {
    let long = "x".repeat(1000);
    let document = serde_json::json!({
        "@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem",
        "PowerState": format!("\u{1b}[31m{long}"),
        "UUID": long,
        "SerialNumber": "  ",
    });
    let system = system(&document).unwrap();
    assert_eq!(system.state, PowerState::Unknown);
    assert_eq!(system.raw.chars().count(), WORD_CHARACTERS_MAX + 1);
    assert!(!system.raw.contains('\u{1b}'));
    assert_eq!(system.identity.serial_number, None);
    assert!(!system.identity.usable());
}

fn of_system(more: Value) -> System {
    let mut document = serde_json::json!({"@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem"});
    json_patch::merge(&mut document, &more);
    system(&document).expect("a system")
}

/// S4: and nothing else is an Off.
#[test]
fn each_power_state_of_the_schema_means_what_it_says() {
    for (word, state) in [
        ("On", PowerState::On),
        ("Off", PowerState::Off),
        ("PoweringOn", PowerState::Transitional),
        ("PoweringOff", PowerState::Transitional),
        ("Paused", PowerState::Unknown),
        ("off", PowerState::Unknown),
    ] {
        let system = of_system(serde_json::json!({"PowerState": word}));
        assert_eq!((system.state, system.raw.as_str()), (state, word));
    }
}

#[test]
fn what_a_system_says_of_itself_is_kept() {
    let system = of_system(serde_json::json!({
        "UUID": " 4c4c4544-0042-3510-8052-b4c04f4a4d32 ",
        "Manufacturer": "Dell Inc.",
        "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
    }));
    let uuid = system.identity.system_uuid.as_deref();
    assert_eq!(uuid, Some("4c4c4544-0042-3510-8052-b4c04f4a4d32"));
    assert_eq!(system.vendor.as_deref(), Some("Dell Inc."));
    assert_eq!(system.manager.as_deref(), Some("/redfish/v1/Managers/1"));
    let elsewhere = serde_json::json!({"Links": {"ManagedBy": [{"@odata.id": "//evil/redfish"}]}});
    assert_eq!(of_system(elsewhere).manager, None);
}

#[test]
fn the_reset_types_stand_with_the_action_or_in_a_resource_of_their_own() {
    let reset = |more: Value| {
        let mut action = serde_json::json!({"target": "/redfish/v1/Systems/1/Actions/Reset"});
        json_patch::merge(&mut action, &more);
        of_system(serde_json::json!({"Actions": {"#ComputerSystem.Reset": action}})).reset
    };
    let listed = serde_json::json!({"ResetType@Redfish.AllowableValues": ["On", "ForceOff"]});
    let values = vec!["On".to_owned(), "ForceOff".to_owned()];
    let found = reset(listed).expect("a reset");
    assert_eq!(found.target, "/redfish/v1/Systems/1/Actions/Reset");
    assert_eq!(found.allowable, Allowable::Listed(values.clone()));
    let path = "/redfish/v1/Systems/1/ResetActionInfo";
    let elsewhere = reset(serde_json::json!({"@Redfish.ActionInfo": path})).expect("a reset");
    assert_eq!(elsewhere.allowable, Allowable::ActionInfo(path.to_owned()));
    assert!(reset(serde_json::json!({})).is_err());
    assert!(reset(serde_json::json!({"ResetType@Redfish.AllowableValues": [5]})).is_err());

    let info = |name: &str| {
        let parameters = serde_json::json!([
            {"Name": "Delay", "AllowableValues": ["0"]},
            {"Name": name, "AllowableValues": ["On", "ForceOff"]},
        ]);
        action_info(&serde_json::json!({"Parameters": parameters}))
    };
    assert_eq!(info("ResetType"), Ok(values));
    assert!(info("Other").is_err());
}

#[test]
fn a_collection_names_its_members_on_one_page() {
    let path = "/redfish/v1/Systems/1";
    let one = serde_json::json!({"Members": [{"@odata.id": path}]});
    assert_eq!(members(&one), Ok(vec![path.to_owned()]));
    for (more, words) in [
        (
            serde_json::json!({"Members@odata.nextLink": "/redfish/v1/Systems?$skip=1"}),
            "more than one page",
        ),
        (
            serde_json::json!({"Members": [{"@odata.id": "https://evil/"}]}),
            "leads to another host or port",
        ),
        (serde_json::json!({"Members": [{}]}), "no `@odata.id`"),
        (serde_json::json!({"Members": null}), "no `Members`"),
    ] {
        let mut document = one.clone();
        json_patch::merge(&mut document, &more);
        let refused = members(&document).expect_err("refused");
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_manager_s_clock_is_read_from_a_short_text() {
    let read = |text: &str| date_time(&serde_json::json!({"DateTime": text}));
    let expected = "2026-01-01T00:00:00Z".parse().ok();
    assert!(expected.is_some());
    assert_eq!(read("2026-01-01T01:00:00+01:00"), expected);
    let long = |digits: usize| format!("2026-01-01T00:00:00.{}Z", "0".repeat(digits));
    assert_eq!(read(&long(9)), expected);
    assert_eq!(read("yesterday"), None);
}

/// S19: of a few bytes of JSON come hundreds in memory.
#[test]
fn a_document_that_would_take_too_much_memory_is_refused() {
    let refused = |text: String| json(text.as_bytes()).is_err_and(|words| words.contains("memory"));
    let list = |items: usize| format!("[{}0]", "0,".repeat(items));
    assert!(!refused(list(1000)));
    assert!(refused(list(400_000)));
    assert!(refused(format!("[{}{{}}]", "{},".repeat(10_000))));
    let entry = |number: usize| format!("\"the name of {number}\":0");
    let entries = |count: usize| (0..count).map(entry).collect::<Vec<_>>().join(",");
    assert!(!refused(format!("{{{}}}", entries(1000))));
    assert!(refused(format!("{{{}}}", entries(10_000))));
    assert!(!refused(format!("\"{}\"", "x".repeat(MEMORY_BYTES_MAX))));
    assert!(refused(format!("\"{}\"", "x".repeat(MEMORY_BYTES_MAX + 1))));
}

#[test]
fn every_kind_of_value_is_read_as_it_is() {
    let text = r#"{"a":null,"b":true,"c":-1,"d":18446744073709551615,"e":1.5,"f":"x","g":[]}"#;
    let document: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(json(text.as_bytes()), Ok(document));
}

/// Each text that is shown is made harmless; a UUID is compared, and a serial number that would be another one is left away.
#[test]
fn what_is_shown_of_a_system_is_replaced_and_what_is_compared_is_not() {
    let uuid = "4c4c4544-0042-3510-8052-b4c04f4a4d32";
    let texts = serde_json::json!({
        "PowerState": "On secret", "UUID": uuid, "SerialNumber": "secret", "Manufacturer": "Dell secret",
        "Model": "R740 secret", "BiosVersion": "2.1 secret", "PowerRestorePolicy": "LastState secret",
    });
    let hidden = |system: System| system.with_texts(|text| text.replace("secret", "***"));
    let shown = hidden(of_system(texts));
    assert_eq!(shown.raw, "On ***");
    assert_eq!(shown.vendor.as_deref(), Some("Dell ***"));
    assert_eq!(shown.model.as_deref(), Some("R740 ***"));
    assert_eq!(shown.firmware.as_deref(), Some("2.1 ***"));
    assert_eq!(shown.power_restore_policy.as_deref(), Some("LastState ***"));
    assert_eq!(shown.identity.system_uuid.as_deref(), Some(uuid));
    assert_eq!(shown.identity.serial_number, None);
    let plain = hidden(of_system(
        serde_json::json!({"UUID": "secret", "SerialNumber": "ABC1"}),
    ));
    assert_eq!(plain.identity.system_uuid.as_deref(), Some("***"));
    assert_eq!(plain.identity.serial_number.as_deref(), Some("ABC1"));
}
