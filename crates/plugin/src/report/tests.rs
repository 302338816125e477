use super::*;
use serde_json::json;

fn entries() -> Vec<Entry> {
    let entry = |path: &str, content| Entry {
        path: path.to_owned(),
        content,
    };
    vec![
        entry(
            "devices.json",
            Content::Objects(json!([{
                "spec": {"redfish": {"address": "https://Canary-Bmc.corp.example:8443"}},
                "status": {"system": {"serialNumber": "CANARY77"}},
            }])),
        ),
        entry(
            collect::NODES,
            Content::Objects(json!([{
                "metadata": {"name": "worker-1"},
                "status": {"addresses": [
                    {"type": "Hostname", "address": "worker-1"},
                    {"type": "InternalIP", "address": "10.20.0.13"},
                ]},
            }])),
        ),
        entry(
            "operator/logs/p/c.log",
            Content::Log(
                "worker-1 at 10.20.0.13 is canary77\n{\"m\":\"canary-bmc.corp.example says no\"}\n"
                    .to_owned(),
            ),
        ),
    ]
}

fn text(missing: &[Missing]) -> String {
    let files = files(
        entries(),
        missing,
        "node-fencing-system",
        Timestamp::UNIX_EPOCH,
    );
    files
        .iter()
        .map(|it| format!("== {}\n{}", it.path, it.text))
        .collect()
}

#[test]
fn what_is_one_thing_has_one_name_in_all_files() {
    let text = text(&[]);
    for canary in ["canary", "10.20.0.13", "corp"] {
        assert!(!text.to_lowercase().contains(canary), "{text}");
    }
    assert!(
        text.contains("\"address\": \"https://address-1:8443\""),
        "{text}"
    );
    assert!(
        text.contains("worker-1 at address-2 is serial-1\n{\"m\":\"address-1 says no\"}\n"),
        "{text}"
    );
    assert!(text.contains("\"address\": \"worker-1\""), "{text}");
    assert!(text.contains("Nothing is missing."), "{text}");
}

#[test]
fn what_is_missing_is_told_with_its_right() {
    let missing = Missing {
        what: "nodes.json".to_owned(),
        why: "nodes is forbidden at 10.20.0.13".to_owned(),
        way_out: "it takes the right to list nodes".to_owned(),
    };
    let text = text(&[missing]);
    let told = "nodes.json: nodes is forbidden at address-1; it takes the right to list nodes";
    assert!(text.replace("\n  ", " ").contains(told), "{text}");
}
