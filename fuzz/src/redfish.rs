//! Bodies of a Redfish service: what is read as off says so, and what is asked for next is of the same service.

use fencing_core::reading::PowerState;
use fencing_drivers::redfish::parse::{
    Allowable, ROOT, action_info, date_time, json, members, system,
};
use fencing_drivers::redfish::said::{said, sentence};

pub fn run(bytes: &[u8]) {
    printable(&said(bytes), 201);
    let Ok(document) = json(bytes) else {
        return;
    };
    printable(&sentence(&document), 201);
    let _ = action_info(&document);
    let _ = date_time(&document);
    members(&document)
        .iter()
        .flatten()
        .for_each(|path| within(path));
    let Ok(system) = system(&document) else {
        return;
    };
    printable(&system.raw, 64);
    if system.state == PowerState::Off {
        assert_eq!(document["PowerState"], "Off");
        let kind = document["@odata.type"].as_str().unwrap_or_default();
        let resets = document.pointer("/Actions/#ComputerSystem.Reset").is_some();
        assert!(
            kind.contains("ComputerSystem") || kind.is_empty() && resets,
            "{kind}"
        );
    }
    system.manager.iter().for_each(|path| within(path));
    if let Ok(reset) = system.reset {
        within(&reset.target);
        if let Allowable::ActionInfo(path) = reset.allowable {
            within(&path);
        }
    }
}

/// The request that follows carries the password.
fn within(path: &str) {
    let rest = path.strip_prefix(ROOT).expect("a path of the service");
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"".contains(&byte);
    assert!(rest.bytes().all(plain), "{path}");
    let climbs = |segment: &str| {
        matches!(
            segment.replace("%2e", ".").replace("%2E", ".").as_str(),
            "." | ".."
        )
    };
    assert!(!rest.split('/').any(climbs), "{path}");
}

/// It may stand in a condition and in the log.
fn printable(text: &str, characters_max: usize) {
    assert!(text.chars().count() <= characters_max, "{text:?}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
