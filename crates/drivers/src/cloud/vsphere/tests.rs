//! What the answers of a vCenter mean.

use super::*;
use crate::cloud::fixtures::Service;
use crate::cloud::words::Said;
use crate::{DriverKind, FenceDriver, OffOutcome};
use fencing_core::fixtures::cases;
use fencing_core::reading::PowerState;
use proptest::prelude::*;
use serde_json::json;

const UUID: &str = "4c4c4544-0042-3510-8054-b4c04f4e4e31";

/// Name and value of a property.
type Property<'a> = (&'a str, &'a str);

fn property((name, value): Property<'_>) -> String {
    format!("<propSet><name>{name}</name><val>{value}</val></propSet>")
}

fn response(method: &str, values: &str) -> String {
    soap::envelope(&format!(
        "<{method}Response xmlns=\"urn:vim25\">{values}</{method}Response>"
    ))
}

const RUNTIME: [Property<'static>; 4] = [
    ("host", "host-21"),
    ("connectionState", "connected"),
    ("powerState", "poweredOff"),
    ("vmFailoverInProgress", "false"),
];

/// An answer for a VM that is off, with one thing of it changed.
fn answer(changed: Option<Property<'_>>, host: &str) -> String {
    let of = |(name, value): Property<'_>| {
        let value = changed
            .filter(|(it, _)| *it == name)
            .map_or(value.to_owned(), |(_, it)| it.to_owned());
        format!("<{name}>{value}</{name}>")
    };
    let runtime: String = RUNTIME.into_iter().map(of).collect();
    let template = changed
        .filter(|(name, _)| *name == "config.template")
        .map_or("false", |(_, it)| it);
    let vm = [
        property(("runtime", &runtime)),
        property(("name", "worker-1")),
        property(("config.uuid", UUID)),
        property((
            "config.instanceUuid",
            "500c0ffe-1111-2222-3333-444455556666",
        )),
        property(("config.template", template)),
    ];
    let host = property(("runtime.connectionState", host));
    response(
        "RetrievePropertiesEx",
        &format!(
            "<returnval><objects><obj type=\"VirtualMachine\">vm-62</obj>{}</objects><objects><obj type=\"HostSystem\">host-21</obj>{host}</objects></returnval>",
            vm.concat()
        ),
    )
}

fn said(answer: &str) -> Said {
    facts::vm(answer, "vm-62").expect("a VM").said
}

#[test]
fn privileges_are_those_that_are_said_of_one_object() {
    let of = |name: &str, granted: &str| {
        format!(
            "<privAvailability><privId>{name}</privId><isGranted>{granted}</isGranted></privAvailability>"
        )
    };
    let vm = |all: &str| format!("<returnval><entity>vm-62</entity>{all}</returnval>");
    let one = vm(&[of(PRIVILEGES[0], "true"), of(PRIVILEGES[1], "false")].concat());
    let answer = |values: &str| facts::privileges(&response("HasPrivilegeOnEntities", values));
    let has = answer(&one).unwrap();
    assert_eq!(
        PRIVILEGES.map(|it| has.get(it).copied()),
        [Some(true), Some(false)]
    );
    assert!(answer(&vm(&of(PRIVILEGES[1], "no"))).unwrap().is_empty());
    for no_answer in [String::new(), format!("{one}{one}")] {
        assert!(answer(&no_answer).is_err(), "{no_answer}");
    }
}

#[test]
fn only_a_connected_vm_of_a_connected_host_is_off() {
    assert!(said(&answer(None, "connected")).is_off());
    let with = |name, value, host| said(&answer(Some((name, value)), host));
    for state in ["notResponding", "disconnected", ""] {
        let off = said(&answer(None, state));
        assert_eq!(off.faults.len(), 1, "{state}: {off:?}");
    }
    for state in ["disconnected", "orphaned", "inaccessible", "invalid"] {
        assert_eq!(
            with("connectionState", state, "connected").faults,
            [format!("VM {state}")]
        );
    }
    assert_eq!(
        with("host", "host-22", "connected").faults,
        ["host not shown"]
    );
    assert_eq!(
        with("vmFailoverInProgress", "true", "connected").faults,
        ["a failover of vSphere HA"]
    );
    assert_eq!(
        with("config.template", "true", "connected").faults,
        ["a template"]
    );
    for kept in ["suspended", "poweredoff", "PoweredOff", "off", ""] {
        assert_eq!(
            with("powerState", kept, "connected").state,
            PowerState::Unknown,
            "{kept}"
        );
    }
    let on = with("powerState", "poweredOn", "notResponding");
    assert_eq!((on.state, on.faults.len()), (PowerState::On, 0));
    let another = facts::vm(&answer(None, "connected"), "vm-63").expect_err("another VM");
    assert!(another.contains("vm-62"), "{another}");
}

#[test]
fn a_task_that_found_the_state_is_told_from_one_that_failed() {
    let task = |state: &str, error: &str| {
        let error = property(("info.error", error));
        let object = format!(
            "<objects><obj type=\"Task\">task-7</obj>{}{error}</objects>",
            property(("info.state", state))
        );
        let answer = response(
            "RetrievePropertiesEx",
            &format!("<returnval>{object}</returnval>"),
        );
        facts::follow(&answer, "task-7").expect("a task")
    };
    assert_eq!(task("running", ""), Follow::Running);
    assert_eq!(task("queued", ""), Follow::Running);
    assert_eq!(task("success", ""), Follow::Done);
    let failed = |kind: &str| {
        let fault = format!(
            "<fault xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"{kind}\"/><localizedMessage>no</localizedMessage>"
        );
        task("error", &fault)
    };
    assert_eq!(
        failed("InvalidPowerState"),
        Follow::Already("no".to_owned())
    );
    assert!(matches!(failed("InvalidState"), Follow::Failed(_)));
    assert!(matches!(task("", ""), Follow::Failed(_)));
    assert!(facts::follow(&response("RetrievePropertiesEx", ""), "task-7").is_err());
}

#[test]
fn the_machine_follows_from_the_provider_id_or_the_system_uuid() {
    let of = |provider_id: &str| {
        let node = NodeFacts {
            provider_id: provider_id.to_owned(),
            system_uuid: UUID.to_uppercase(),
            ..NodeFacts::named("worker-1")
        };
        Vsphere.machine(&node).map(|id| id.id).ok()
    };
    assert_eq!(of(&format!("vsphere://{UUID}")).as_deref(), Some(UUID));
    assert_eq!(of("").as_deref(), Some(UUID));
    for other in ["vsphere://vm-62", "vsphere://", "aws:///a/i-1", UUID] {
        assert_eq!(of(other), None, "{other}");
    }
    let turned = "44454c4c-4200-1035-8054-b4c04f4e4e31";
    assert_eq!(spellings(UUID), [UUID, turned]);
    assert_eq!(spellings("00112233").len(), 0);
}

/// A vCenter that answers each request with the next of these.
async fn service(answers: &[&str]) -> Service {
    let service = Service::new().await;
    let content = "<returnval><rootFolder>group-d1</rootFolder><propertyCollector>pc</propertyCollector><viewManager>vm</viewManager><about><apiVersion>8.0.2.0</apiVersion></about><sessionManager>sm</sessionManager><searchIndex>si</searchIndex><authorizationManager>am</authorizationManager></returnval>";
    let path = "POST /sdk";
    service.answer(
        path,
        "200 OK",
        "",
        response("RetrieveServiceContent", content),
    );
    let cookie =
        "Set-Cookie: other=1\r\nSet-Cookie: vmware_soap_session=\"52a1\"; Path=/; HttpOnly\r\n";
    service.answer(
        path,
        "200 OK",
        cookie,
        response("Login", "<returnval><key>52b9</key></returnval>"),
    );
    for answer in answers {
        service.answer(path, "200 OK", "", *answer);
    }
    service
}

fn driver(service: &Service) -> Arc<dyn FenceDriver> {
    driver_of(
        service,
        NodeFacts {
            provider_id: format!("vsphere://{UUID}"),
            ..NodeFacts::named("worker-1")
        },
    )
}

fn driver_of(service: &Service, node: NodeFacts) -> Arc<dyn FenceDriver> {
    let settings: VsphereDriver =
        serde_json::from_value(json!({"address": service.url, "tls": {"verification": "None"}}))
            .expect("settings");
    let secret = [("username", "fence"), ("password", "a&b<c")];
    settings
        .make(service.parts(node, &secret))
        .expect("a driver")
}

#[tokio::test]
async fn a_vm_is_found_by_its_uuid_in_a_session_that_serves_all() {
    let hit = response("FindAllByUuid", "<returnval>vm-62</returnval>");
    let none = response("FindAllByUuid", "");
    let off = answer(None, "connected");
    let service = service(&[&hit, &none, &off, &hit, &none, &off]).await;
    let driver = driver(&service);
    for requests in [5, 3] {
        let reading = driver.open().observe().await.expect("a reading");
        assert!(reading.is_off(), "{reading:?}");
        assert!(reading.identity.is_system(UUID));
        let asked = service.asked();
        assert_eq!(asked.len(), requests, "{asked:?}");
        let last = asked.last().expect("a request");
        assert!(
            last.contains("\r\ncookie: vmware_soap_session=\"52a1\"\r\n"),
            "{last}"
        );
        assert!(
            last.contains("\r\nsoapaction: urn:vim25/8.0.2.0\r\n"),
            "{last}"
        );
        let login = asked.iter().find(|it| it.contains("<Login "));
        assert!(login.is_none_or(|it| it.contains("<password>a&amp;b&lt;c</password>")));
    }
}

#[tokio::test]
async fn an_account_that_may_not_turn_the_vm_off_is_told_of_in_peace_time() {
    let hit = response("FindAllByUuid", "<returnval>vm-62</returnval>");
    let none = response("FindAllByUuid", "");
    let on = answer(Some(("powerState", "poweredOn")), "connected");
    let privileges = |read: bool, off: bool| {
        let of = |name: &str, has: bool| {
            format!(
                "<privAvailability><privId>{name}</privId><isGranted>{has}</isGranted></privAvailability>"
            )
        };
        let all = [of(PRIVILEGES[0], read), of(PRIVILEGES[1], off)].concat();
        response(
            "HasPrivilegeOnEntities",
            &format!("<returnval>{all}</returnval>"),
        )
    };
    // A session that is not known has nothing at all, it is said.
    for (read, off, may) in [
        (true, true, true),
        (true, false, false),
        (false, false, true),
    ] {
        let service = service(&[&hit, &none, &on, &privileges(read, off)]).await;
        let probe = driver(&service).open().probe(crate::Extent::Needed).await;
        let denied = probe.expect("a probe").off_denied;
        assert_eq!(denied.is_none(), may, "{denied:?}");
        let asked = service.asked();
        let last = asked.last().expect("a request");
        assert!(
            last.contains(
                "<entity type=\"VirtualMachine\">vm-62</entity><sessionId>52b9</sessionId>"
            ),
            "{last}"
        );
    }
}

#[tokio::test]
async fn two_vms_of_one_uuid_are_neither_and_none_is_no_off() {
    let two = response(
        "FindAllByUuid",
        "<returnval>vm-62</returnval><returnval>vm-63</returnval>",
    );
    let none = response("FindAllByUuid", "");
    for (first, words) in [(&two, "2 VMs"), (&none, "0 VMs")] {
        let service = service(&[first, &none]).await;
        let refused = driver(&service)
            .open()
            .observe()
            .await
            .expect_err("no reading");
        assert!(refused.to_string().contains(words), "{refused}");
        assert!(refused.to_string().contains("is no Off"), "{refused}");
    }
}

/// S5: a kubelet can report the UUID of another machine.
#[tokio::test]
async fn without_a_provider_id_the_vm_is_called_like_its_node() {
    let hit = response("FindAllByUuid", "<returnval>vm-62</returnval>");
    let none = response("FindAllByUuid", "");
    for (name, is_it) in [("worker-1.example.com", true), ("db-1", false)] {
        let service = service(&[&hit, &none, &answer(None, "connected")]).await;
        let node = NodeFacts {
            system_uuid: UUID.to_owned(),
            ..NodeFacts::named(name)
        };
        let read = driver_of(&service, node).open().observe().await;
        assert_eq!(read.is_ok(), is_it, "{name}: {read:?}");
        let words = read.err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(words.contains("another name"), !is_it, "{words}");
    }
}

#[tokio::test]
async fn a_vm_that_moves_while_it_is_read_is_not_off() {
    let hit = response("FindAllByUuid", "<returnval>vm-62</returnval>");
    let none = response("FindAllByUuid", "");
    let off = answer(None, "connected");
    let elsewhere = off.replace("host-21", "host-9");
    let service = service(&[
        &hit, &none, &off, &hit, &none, &elsewhere, &hit, &none, &elsewhere,
    ])
    .await;
    let mut session = driver(&service).open();
    assert!(session.observe().await.expect("a reading").is_off());
    let moved = session.observe().await.expect("a reading");
    assert_eq!(moved.faults, ["it has moved from host-21"]);
    assert!(
        session.observe().await.expect("a reading").is_off(),
        "it stays there"
    );
}

#[tokio::test]
async fn a_command_names_its_task_or_is_of_unknown_outcome() {
    let hit = response("FindAllByUuid", "<returnval>vm-62</returnval>");
    let none = response("FindAllByUuid", "");
    let on = answer(Some(("powerState", "poweredOn")), "connected");
    let unclear = response("PowerOffVM_Task", "");
    let service = service(&[&hit, &none, &on, &unclear]).await;
    let mut session = driver(&service).open();
    session.prepare_off().await.expect("a preparation");
    let outcome = session.force_off().await.expect("it was sent");
    assert!(matches!(outcome, OffOutcome::Unknown(_)), "{outcome:?}");
    let asked = service.asked();
    let last = asked.last().expect("a request");
    assert!(
        last.contains(
            "<PowerOffVM_Task xmlns=\"urn:vim25\"><_this type=\"VirtualMachine\">vm-62</_this>"
        ),
        "{last}"
    );
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_answer_panics_and_none_without_all_conditions_is_off(
        cut in 0_usize..2000,
        junk in "[<>/a-z\"= ]{0,12}",
        removed in prop::sample::select(&["poweredOff", "connected", "false", "vm-62", "propSet", "objects"][..]),
        put in "[a-zA-Z-]{0,10}",
    ) {
        let whole = answer(None, "connected");
        let cut = cut.min(whole.len());
        if whole.is_char_boundary(cut) {
            let text = format!("{}{junk}{}", &whole[..cut], &whole[cut..]);
            let _ = facts::vm(&text, "vm-62");
            if let Ok(vm) = facts::vm(&whole[..cut], "vm-62") {
                prop_assert!(!vm.said.is_off() || cut == whole.len(), "cut at {}", cut);
            }
        }
        let changed = whole.replacen(removed, &put, 1);
        if let Ok(vm) = facts::vm(&changed, "vm-62") {
            prop_assert!(!vm.said.is_off() || put == removed, "{} -> {}", removed, put);
        }
    }
}
