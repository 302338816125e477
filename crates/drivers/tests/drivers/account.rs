//! An account that may read and not reset, as its service tells in peace time (AccountService), and services that do not tell.

use crate::bmc::{Act, Bmc, Request, reply};
use crate::device::{RESET, SYSTEM, settings_of, system};
use fencing_drivers::redfish::{Redfish, RedfishSettings};
use fencing_drivers::{DeviceError, Extent, FenceDriver};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SERVICE: &str = "/redfish/v1/AccountService";
const ACCOUNTS: &str = "/redfish/v1/AccountService/Accounts";
const ROLE: &str = "/redfish/v1/AccountService/Roles/own";

/// A link.
fn to(path: &str) -> String {
    format!(r#"{{"@odata.id":"{path}"}}"#)
}

/// The second of two accounts is ours; the first is hidden.
fn answer(request: &Request, privileges: &str) -> Act {
    let own = format!("{ACCOUNTS}/2");
    let ok = |body: &str| Act::Send(reply("200 OK", body));
    match request.path.as_str() {
        SYSTEM => ok(&system("\"On\"")),
        RESET => Act::Send(reply("204 No Content", "")),
        SERVICE => ok(&format!(r#"{{"Accounts":{}}}"#, to(ACCOUNTS))),
        ACCOUNTS => {
            let first = format!("{ACCOUNTS}/1");
            ok(&format!(r#"{{"Members":[{},{}]}}"#, to(&first), to(&own)))
        }
        path if path == own => {
            let role = to(ROLE);
            ok(&format!(
                r#"{{"UserName":"admin","Links":{{"Role":{role}}}}}"#
            ))
        }
        ROLE => ok(&format!(
            r#"{{"RoleId":"ReadOnly","AssignedPrivileges":{privileges},"OemPrivileges":[]}}"#
        )),
        _ => Act::Send(reply("403 Forbidden", "{}")),
    }
}

async fn with_privileges(privileges: &'static str) -> Bmc {
    Bmc::plain(move |request| answer(request, privileges)).await
}

async fn denial(settings: &RedfishSettings, extent: Extent) -> Option<DeviceError> {
    let driver = Redfish::new(settings.clone()).unwrap();
    let probe = driver.open().probe(extent).await.unwrap();
    probe.off_denied
}

const READER: &str = r#"["Login","ConfigureSelf"]"#;

#[tokio::test]
async fn an_account_that_may_only_read_is_told_of_and_remembered() {
    let bmc = with_privileges(READER).await;
    let settings = settings_of(&bmc);
    assert_eq!(
        denial(&settings, Extent::Needed).await,
        None,
        "not asked yet"
    );
    let denied = denial(&settings, Extent::Whole).await.unwrap();
    assert!(matches!(denied, DeviceError::PermissionDenied { .. }));
    let words = denied.to_string();
    assert!(
        words.ends_with("denied the reset to this account (role ReadOnly); give it the Operator role on the device"),
        "{words}"
    );
    let asked = bmc.requests().len();
    assert_eq!(denial(&settings, Extent::Needed).await, Some(denied));
    let again = bmc.requests().len() - asked;
    assert_eq!(again, 1, "the looks in between ask for the system alone");
    // Of another login nothing is known.
    let other = RedfishSettings {
        past: settings.past.of_another_login(),
        ..settings
    };
    assert_eq!(denial(&other, Extent::Needed).await, None);
    assert!(bmc.commands().is_empty());
}

#[tokio::test]
async fn it_is_forgotten_once_the_role_may() {
    let may = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&may);
    let bmc = Bmc::plain(move |request| {
        let operator = r#"["Login","ConfigureComponents"]"#;
        let privileges = if now.load(Ordering::Relaxed) {
            operator
        } else {
            READER
        };
        answer(request, privileges)
    })
    .await;
    let settings = settings_of(&bmc);
    assert!(denial(&settings, Extent::Whole).await.is_some());
    may.store(true, Ordering::Relaxed);
    assert!(denial(&settings, Extent::Needed).await.is_some());
    for extent in [Extent::Whole, Extent::Needed] {
        assert_eq!(denial(&settings, extent).await, None, "{extent:?}");
    }
}

/// Whatever stands in the way of the answer, the look is what it is without the question.
#[tokio::test]
async fn a_service_that_does_not_tell_changes_nothing() {
    type Change = fn(&Request) -> Option<Act>;
    let not_there: Change =
        |it| (it.path == SERVICE).then(|| Act::Send(reply("404 Not Found", "{}")));
    let slow: Change = |it| (it.path == ACCOUNTS).then_some(Act::Hang);
    let hidden: Change = |it| (it.path == ROLE).then(|| Act::Send(reply("403 Forbidden", "{}")));
    let nonsense: Change = |it| (it.path == SERVICE).then(|| Act::Send(reply("200 OK", "[")));
    let gone: Change = |it| (it.path == ACCOUNTS).then_some(Act::Reset);
    let elsewhere: Change = |it| {
        let link = r#"{"Accounts":{"@odata.id":"http://127.0.0.9/redfish/v1/x"}}"#;
        (it.path == SERVICE).then(|| Act::Send(reply("200 OK", link)))
    };
    for change in [not_there, slow, hidden, nonsense, gone, elsewhere] {
        let script =
            move |request: &Request| change(request).unwrap_or_else(|| answer(request, READER));
        let bmc = Bmc::plain(script).await;
        let settings = RedfishSettings {
            call_timeout: Duration::from_secs(2),
            ..settings_of(&bmc)
        };
        assert_eq!(denial(&settings, Extent::Whole).await, None);
    }
    for says_nothing in ["[]", r#""Login""#] {
        let bmc = with_privileges(says_nothing).await;
        assert_eq!(denial(&settings_of(&bmc), Extent::Whole).await, None);
    }
}
