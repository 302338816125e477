use super::*;
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

/// May this document, and no other, be read as off?
fn says_off(document: &Value) -> bool {
    let kind = document
        .get("@odata.type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    kind.starts_with("#ComputerSystem.") && document.get("PowerState") == Some(&Value::from("Off"))
}

fn reads_off(document: &Value) -> bool {
    system(document).is_ok_and(|system| system.state == PowerState::Off)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_panic_and_none_are_off(bytes: Vec<u8>) {
        let _ = crate::fence::redfish::said::said(&bytes);
        if let Ok(document) = json(&bytes) {
            ask_everything(&document);
            prop_assert_eq!(reads_off(&document), says_off(&document));
        }
    }

    #[test]
    fn no_document_panics_and_off_is_never_invented(document in any_json()) {
        ask_everything(&document);
        let text = document.to_string();
        let _ = crate::fence::redfish::said::said(text.as_bytes());
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
