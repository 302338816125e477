//! Whole calls of the driver, against a service on loopback.

use super::*;
use crate::clock::Clock;
use crate::cloud::fixtures::{HANGS_UP, SAYS_NOTHING, Service};
use crate::{DriverKind, Extent, FenceDriver, FenceSession, OffOutcome, OnOutcome, Parts};
use std::sync::Arc;

/// A cluster that answers for a VM that is off.
pub async fn service() -> Service {
    let service = Service::new().await;
    let get =
        |path: &str, body: Value| service.answer(&format!("GET {API}{path}"), "200 OK", "", body);
    let item = json!({"type": "qemu", "vmid": 104, "node": "pve2", "name": "worker-1"});
    get("/cluster/resources?type=vm", json!({"data": [item]}));
    let smbios = format!("uuid={UUID},serial=eA==,base64=1");
    get(
        "/nodes/pve2/qemu/104/config?current=1",
        json!({"data": {"smbios1": smbios}}),
    );
    get("/nodes/pve2/qemu/104/status/current", stopped());
    get("/cluster/status", cluster());
    service
}

fn session(service: &Service, provider_id: &str) -> Box<dyn FenceSession> {
    driver(service, provider_id).open()
}

pub fn driver(service: &Service, provider_id: &str) -> Arc<dyn FenceDriver> {
    driver_by(service, provider_id, Clock::SYSTEM)
}

fn driver_by(service: &Service, provider_id: &str, clock: Clock) -> Arc<dyn FenceDriver> {
    let node = NodeFacts {
        provider_id: provider_id.to_owned(),
        system_uuid: UUID.to_owned(),
        ..NodeFacts::named("worker-1")
    };
    let secret = [
        ("tokenID", "fence@pve!operator"),
        ("tokenSecret", "0b3d5b1f-secret"),
    ];
    let settings: ProxmoxDriver =
        serde_json::from_value(json!({"address": service.url, "tls": {"verification": "None"}}))
            .expect("settings");
    let parts = Parts {
        clock,
        ..service.parts(node, &secret)
    };
    settings.make(parts).expect("a driver")
}

/// L5: reads of a fence go on, by what is left of the burst.
#[tokio::test]
async fn a_look_in_peace_time_begins_only_while_turns_are_left_for_fences() {
    const STILL: Clock = Clock {
        since_boot: || Duration::from_secs(1000),
        wall: || jiff::Timestamp::UNIX_EPOCH,
    };
    let service = service().await;
    let driver = driver_by(&service, "proxmox://lab/104", STILL);
    let mut looks = 0;
    while driver.open().take_turn_now() {
        driver.open().probe(Extent::Needed).await.expect("a probe");
        looks += 1;
    }
    assert_eq!(
        looks, 10,
        "five requests each, until half of the burst is spent"
    );
    driver.open().observe().await.expect("a reading");
}

#[tokio::test]
async fn a_list_serves_probes_of_machines_that_were_read_and_run() {
    let service = service().await;
    let list = format!("GET {API}/cluster/resources?type=vm");
    let status = format!("GET {API}/nodes/pve2/qemu/104/status/current");
    let listed = |state: &str| {
        let item = json!({"type": "qemu", "vmid": 104, "node": "pve2", "name": "worker-1", "status": state, "hastate": "started"});
        service.now(&list, "200 OK", "", json!({"data": [item]}));
    };
    let running = with(stopped(), "/data/status", Some(json!("running")));
    service.now(&status, "200 OK", "", running);
    listed("running");
    let driver = driver(&service, "proxmox://lab/104");
    let probe = async |extent| driver.open().probe(extent).await.expect("a probe");

    // It is not known yet whose number that is.
    assert_eq!(probe(Extent::Listed).await.restarter, None);
    assert_eq!(service.asked().len(), 5);
    for requests in [1, 0] {
        let probed = probe(Extent::Listed).await;
        assert_eq!(service.asked().len(), requests);
        assert_eq!(probed.reading.state, PowerState::On);
        assert!(probed.reading.identity.is_system(UUID));
        assert_eq!(probed.restarter.as_deref(), Some("Proxmox HA"));
    }
    // A fence reads the machine itself, and so does a probe that is to show that the device reads On.
    probe(Extent::Needed).await;
    assert_eq!(service.asked().len(), 5);
    driver.open().observe().await.expect("a reading");
    assert_eq!(service.asked().len(), 4);
}

/// S7: a config that was moved leaves the process where it is, and a later session has not seen it there.
#[tokio::test]
async fn a_vm_is_off_only_where_it_was_read_on_last() {
    let service = service().await;
    let list = format!("GET {API}/cluster/resources?type=vm");
    let at = |node: &str, state: &str| {
        let item =
            json!({"type": "qemu", "vmid": 104, "node": node, "name": "worker-1", "status": state});
        service.now(&list, "200 OK", "", json!({"data": [item]}));
        let path = format!("GET {API}/nodes/{node}/qemu/104");
        let config = json!({"data": {"smbios1": format!("uuid={UUID}")}});
        service.now(&format!("{path}/config?current=1"), "200 OK", "", config);
        let status = with(stopped(), "/data/status", Some(json!(state)));
        service.now(&format!("{path}/status/current"), "200 OK", "", status);
    };
    let driver = driver(&service, "proxmox://lab/104");
    let read = async || driver.open().observe().await.expect("a reading");
    at("pve2", "stopped");
    assert!(read().await.is_off(), "nothing is known of it yet");
    at("pve1", "running");
    driver.open().probe(Extent::Needed).await.expect("a probe");
    for _ in 0..2 {
        at("pve2", "stopped");
        assert_eq!(read().await.faults, ["it read On on pve1 last"]);
    }
    at("pve2", "running");
    read().await;
    at("pve2", "stopped");
    assert!(read().await.is_off());
    // Where it ran has said that it is off: it may be put elsewhere.
    at("pve1", "stopped");
    assert!(read().await.is_off());
    // A list tells where it runs, too.
    at("pve1", "running");
    driver.open().probe(Extent::Listed).await.expect("a probe");
    at("pve2", "stopped");
    assert_eq!(read().await.faults, ["it read On on pve1 last"]);
}

/// S7: its config is on another node by now, and the list says yet what the node that runs it has told: the machine itself is asked.
#[tokio::test]
async fn a_list_does_not_tell_that_a_vm_has_moved() {
    let service = service().await;
    let list = format!("GET {API}/cluster/resources?type=vm");
    let at = |node: &str| {
        let item = json!({"type": "qemu", "vmid": 104, "node": node, "name": "worker-1", "status": "running"});
        service.now(&list, "200 OK", "", json!({"data": [item]}));
    };
    let status = |node: &str, state: &str| {
        let path = format!("GET {API}/nodes/{node}/qemu/104");
        let config = json!({"data": {"smbios1": format!("uuid={UUID}")}});
        service.now(&format!("{path}/config?current=1"), "200 OK", "", config);
        let status = with(stopped(), "/data/status", Some(json!(state)));
        service.now(&format!("{path}/status/current"), "200 OK", "", status);
    };
    at("pve1");
    status("pve1", "running");
    let driver = driver(&service, "proxmox://lab/104");
    driver.open().probe(Extent::Needed).await.expect("a probe");
    at("pve2");
    status("pve2", "stopped");
    let probe = driver.open().probe(Extent::Listed).await.expect("a probe");
    assert_eq!(probe.reading.faults, ["it read On on pve1 last"]);
}

#[tokio::test]
async fn one_who_is_told_to_ask_less_does_not_ask_for_each_machine_instead() {
    let service = service().await;
    let status = format!("GET {API}/nodes/pve2/qemu/104/status/current");
    let running = with(stopped(), "/data/status", Some(json!("running")));
    service.now(&status, "200 OK", "", running);
    let driver = driver(&service, "proxmox://lab/104");
    driver.open().probe(Extent::Needed).await.expect("a probe");
    service.asked();
    let list = format!("GET {API}/cluster/resources?type=vm");
    service.now(&list, "429 Too Many Requests", "", "");
    for requests in [1, 0] {
        let busy = driver
            .open()
            .probe(Extent::Listed)
            .await
            .expect_err("no probe");
        assert_eq!(busy.reason(), "Busy", "{busy}");
        assert_eq!(service.asked().len(), requests);
    }
}

#[tokio::test]
async fn what_a_list_does_not_show_running_is_read_by_itself() {
    let service = service().await;
    let driver = driver(&service, "proxmox://lab/104");
    for _ in 0..2 {
        let probed = driver.open().probe(Extent::Listed).await.expect("a probe");
        assert!(probed.reading.is_off());
        assert!(service.asked().len() >= 4);
    }
}

#[tokio::test]
async fn a_vm_is_read_where_it_is_and_with_the_token() {
    let service = service().await;
    for id in ["proxmox://lab/104", ""] {
        let reading = session(&service, id).observe().await.expect("a reading");
        assert!(reading.is_off(), "{reading:?}");
        assert!(reading.identity.is_system(UUID));
        let asked = service.asked();
        assert_eq!(asked.len(), 4);
        let token = "\r\nauthorization: PVEAPIToken=fence@pve!operator=0b3d5b1f-secret\r\n";
        assert!(
            asked.iter().all(|request| request.contains(token)),
            "{asked:?}"
        );
        assert!(!asked.iter().any(|request| request.contains("odata")));
    }
}

#[tokio::test]
async fn a_dead_node_a_lost_vm_and_a_refused_token_are_no_reading() {
    let service = service().await;
    let status = format!("GET {API}/nodes/pve2/qemu/104/status/current");
    let gone = "Configuration file 'nodes/pve2/qemu-server/104.conf' does not exist";
    for (answer, body, reason) in [
        ("595 No route to host", String::new(), "Busy"),
        ("596 tls_process_server_certificate", String::new(), "Busy"),
        ("500 got timeout", String::new(), "Busy"),
        (
            "500 error",
            json!({"data": null, "message": gone}).to_string(),
            "ProtocolError",
        ),
        ("401 invalid token value!", String::new(), "AuthFailed"),
        (
            "403 Permission check failed",
            String::new(),
            "PermissionDenied",
        ),
    ] {
        service.now(&status, answer, "", body);
        let error = session(&service, "proxmox://lab/104").observe().await;
        let error = error.expect_err("no reading");
        assert_eq!(error.reason(), reason, "{error}");
        let phrase = answer.split_once(' ').expect("two words").1;
        let said = error.to_string();
        assert!(said.contains(phrase) || said.contains(gone), "{said}");
    }
    service.now(
        &format!("GET {API}/cluster/resources?type=vm"),
        "200 OK",
        "",
        json!({"data": []}),
    );
    let error = session(&service, "proxmox://lab/104").observe().await;
    assert!(error.expect_err("no VM").to_string().contains("is no Off"));
}

#[tokio::test]
async fn a_machine_found_by_its_uuid_is_the_one_with_the_uuid() {
    let service = service().await;
    let item =
        |vm: u64, name: &str| json!({"type": "qemu", "vmid": vm, "node": "pve2", "name": name});
    let list = format!("GET {API}/cluster/resources?type=vm");
    let both = json!({"data": [item(105, "worker-1"), item(104, "worker-1"), item(106, "other")]});
    service.now(&list, "200 OK", "", both);
    let config = |uuid: &str| json!({"data": {"smbios1": format!("uuid={uuid}")}});
    let clone = format!("GET {API}/nodes/pve2/qemu/105/config?current=1");
    service.answer(&clone, "200 OK", "", config(&UUID.replace('6', "7")));
    let reading = session(&service, "").observe().await.expect("a reading");
    assert!(
        reading.is_off() && reading.identity.is_system(UUID),
        "{reading:?}"
    );
    for (uuid, says) in [(UUID, "several VMs"), ("", "no VM is")] {
        service.now(&clone, "200 OK", "", config(uuid));
        let own = format!("GET {API}/nodes/pve2/qemu/104/config?current=1");
        service.now(&own, "200 OK", "", config(uuid));
        let error = session(&service, "")
            .observe()
            .await
            .expect_err("no reading");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn the_status_of_another_vm_is_no_reading() {
    let service = service().await;
    let other = with(stopped(), "/data/vmid", Some(json!(105)));
    let status = format!("GET {API}/nodes/pve2/qemu/104/status/current");
    for answer in [other, with(stopped(), "/data/vmid", None)] {
        service.now(&status, "200 OK", "", answer);
        let error = session(&service, "proxmox://lab/104").observe().await;
        assert_eq!(error.expect_err("no reading").reason(), "ProtocolError");
    }
}

#[tokio::test]
async fn a_stop_is_one_request_and_its_task_is_followed() {
    let service = service().await;
    let stop = format!("POST {API}/nodes/pve2/qemu/104/status/stop");
    let task = format!("GET {API}/nodes/pve2/tasks/{TASK}/status");
    let off = async || {
        let mut session = session(&service, "proxmox://lab/104");
        let identity = session.prepare_off().await.expect("prepared");
        assert!(identity.is_system(UUID));
        service.asked();
        let outcome = session.force_off().await;
        let stops = service
            .asked()
            .iter()
            .filter(|request| request.starts_with("POST "))
            .count();
        assert_eq!(stops, 1);
        assert!(session.force_off().await.is_err(), "never twice");
        outcome
    };
    service.answer(&stop, "200 OK", "", json!({"data": TASK}));
    service.answer(&task, "200 OK", "", json!({"data": {"status": "running"}}));
    service.answer(
        &task,
        "200 OK",
        "",
        json!({"data": {"status": "stopped", "exitstatus": "OK"}}),
    );
    assert_eq!(off().await, Ok(OffOutcome::Accepted));
    for end in [
        json!({"data": {"status": "stopped", "exitstatus": "VM is locked (backup)"}}),
        json!({"data": {"status": "running"}}),
        json!({}),
    ] {
        service.now(&task, "200 OK", "", end);
        assert!(matches!(off().await, Ok(OffOutcome::Unknown(_))));
    }
    for (answer, is_unknown) in [
        ("500 VM 104 not running", false),
        ("500 got signal", true),
        ("596 Connection timed out", true),
        (HANGS_UP, true),
        (SAYS_NOTHING, true),
        ("200 OK", true),
    ] {
        service.now(&stop, answer, "", "");
        let outcome = off().await.expect("an outcome");
        assert_eq!(
            matches!(outcome, OffOutcome::Unknown(_)),
            is_unknown,
            "{outcome:?}"
        );
    }
    for (answer, reason) in [
        ("595 No route to host", "Busy"),
        ("500 VM is locked (backup)", "Refused"),
        ("403 Permission check failed", "PermissionDenied"),
    ] {
        service.now(&stop, answer, "", "");
        assert_eq!(off().await.expect_err("not carried out").reason(), reason);
    }
}

#[tokio::test]
async fn a_session_sends_only_the_command_that_it_prepared() {
    let service = service().await;
    let task = TASK.replace("qmstop", "qmstart");
    let start = format!("POST {API}/nodes/pve2/qemu/104/status/start");
    service.answer(&start, "200 OK", "", json!({"data": task}));
    let ended = json!({"data": {"status": "stopped", "exitstatus": "OK"}});
    let followed = format!("GET {API}/nodes/pve2/tasks/{task}/status");
    service.answer(&followed, "200 OK", "", ended);
    let mut session = session(&service, "proxmox://lab/104");
    assert!(session.power_on().await.is_err());
    session.prepare_off().await.expect("prepared");
    assert!(session.power_on().await.is_err());
    assert!(session.force_off().await.is_err());
    assert!(!service.asked().iter().any(|it| it.starts_with("POST ")));
    let reading = session.prepare_on().await.expect("prepared");
    assert!(reading.is_off());
    assert_eq!(session.seen(), Some(reading));
    assert_eq!(session.power_on().await, Ok(OnOutcome::Accepted));
}

/// Its volumes have moved: a start that resumes its old memory would write them.
#[tokio::test]
async fn a_hibernated_vm_is_not_started() {
    let service = service().await;
    let config = format!("GET {API}/nodes/pve2/qemu/104/config?current=1");
    let smbios = format!("uuid={UUID}");
    let hibernated = json!({"data": {"smbios1": smbios, "vmstate": "local:vm-104-state-suspend"}});
    service.now(&config, "200 OK", "", hibernated);
    let mut session = session(&service, "proxmox://lab/104");
    let reading = session.prepare_on().await.expect("prepared");
    assert_eq!(reading.faults, ["vmstate, which keeps its memory"]);
    let error = session.power_on().await.expect_err("not sent");
    assert_eq!(error.reason(), "Refused");
    assert!(!service.asked().iter().any(|it| it.starts_with("POST ")));
}
