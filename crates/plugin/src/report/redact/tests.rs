use super::*;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

const UUID: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d32";
const SWAPPED: &str = "44454C4C-4200-1035-8052-B4C04F4A4D32";

fn shown(text: &str) -> String {
    Redactor::default().text(text)
}

#[test]
fn what_looks_like_an_address_is_replaced_wherever_it_stands() {
    for (text, expected) in [
        ("10.20.0.13", "address-1"),
        ("at 10.20.0.13, port", "at address-1, port"),
        ("10.20.0.13:443: it broke.", "address-1:443: it broke."),
        ("it is 10.20.0.13.", "it is address-1."),
        ("10.20.0.0/16", "address-1/16"),
        ("bmc-10.20.0.13-a", "bmc-address-1-a"),
        ("v10.020.000.013x", "vaddress-1x"),
        ("[fe80::1]:443", "[address-1]:443"),
        ("fe80::1%eth0", "address-1%eth0"),
        ("FE80::1.", "address-1."),
        ("2001:db8:0:0:0:0:0:1:", "address-1:"),
        ("::ffff:10.0.0.1 10.0.0.1", "address-1 address-1"),
        ("b4:96:91:aa:00:01 B4-96-91-AA-00-01", "mac-1 mac-1"),
        ("mac=b4:96:91:aa:00:01:", "mac=mac-1:"),
        ("pvc-4c4c4544-0042-3510-8052-b4c04f4a4d32", "pvc-uuid-1"),
        (
            "4c4c45440042351080 4c4c4544004235108052b4c04f4a4d32",
            "4c4c45440042351080 uuid-1",
        ),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn what_only_looks_alike_stays() {
    let fingerprint = ["AB"; 32].join(":");
    for text in [
        "node_fencing_operator::shell::detect",
        "x::y ::",
        "2026-11-26T10:42:13.123456Z",
        "Kubernetes v1.33.2",
        "1.3.6.1.4.1.318",
        "300.1.1.1",
        "00000000-0000-0000-0000-000000000000",
        "worker-3-5c0ffee5",
        "sha256:3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c3f2c",
        "ContainerCreating node-fencing-system/operator",
        "100%",
        &fingerprint,
    ] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn one_machine_is_one_stand_in_in_either_byte_order() {
    assert_eq!(shown(&format!("{UUID} {SWAPPED}")), "uuid-1 uuid-1");
}

#[test]
fn an_encoding_hides_nothing() {
    let address = "https://10.20.0.13/redfish/v1";
    let percent: String = address.bytes().map(|it| format!("%{it:02x}")).collect();
    let twice = percent.replace('%', "%25");
    for text in [
        STANDARD.encode(address),
        STANDARD.encode("10.20.0.13"),
        URL_SAFE_NO_PAD.encode(format!("a longer text, which has {UUID} in it?>")),
        STANDARD.encode(STANDARD.encode(address)),
        STANDARD.encode(&percent),
    ] {
        let told = shown(&format!("data: {text}, and so on"));
        // What is encoded twice takes two numbers.
        let shown = told.replace("encoded-2", "encoded-1");
        assert_eq!(shown, "data: encoded-1, and so on", "{text}");
    }
    for text in [percent, twice, "10%2e20.0%2E13".to_owned()] {
        let told = shown(&text);
        assert!(told.contains("address-1"), "{text}: {told}");
    }
}

#[test]
fn a_login_is_left_out() {
    for (text, expected) in [
        (
            "https://root:cal%76in@10.0.0.1/x",
            "https://left-out@address-1/left-out",
        ),
        (
            "Authorization: Basic cm9vdDpjYWx2aW4= sent",
            "Authorization: Basic left-out sent",
        ),
        ("\"bearer eyJhbGciOi.x.y\"", "\"bearer left-out"),
    ] {
        assert_eq!(shown(text), expected);
    }
}

#[test]
fn a_host_is_learned_and_then_replaced_in_any_case() {
    let mut redactor = Redactor::default();
    redactor.keep(["worker-1".to_owned()]);
    redactor.learn(&json!({
        "spec": {"redfish": {"address": "https://${node.name}-bmc.corp.example:8443"}},
        "status": {"addresses": [{"type": "Hostname", "address": "worker-1"}]},
        "message": "it is http://Jump.corp.example/x, see https://kubernetes.io/docs",
    }));
    for (text, expected) in [
        ("WORKER-1-bmc.corp.example.", "address-1."),
        (
            "worker-1-bmc.corp.example:8443: no answer",
            "address-1:8443: no answer",
        ),
        ("worker-1-bmc%2Ecorp%2Eexample", "address-1"),
        ("jump.corp.example", "address-2"),
        (
            "worker-1 of kubernetes.io/hostname",
            "worker-1 of kubernetes.io/hostname",
        ),
        (
            "`https://${node.name}-bmc.corp.example:8443`",
            "`https://address-3:8443`",
        ),
    ] {
        assert_eq!(redactor.text(text), expected, "{text}");
    }
    let encoded = STANDARD.encode("x Jump.Corp.Example");
    assert_eq!(redactor.text(&encoded), "encoded-1");
}

/// A log remembers devices that were deleted since, so that no object has their hosts.
#[test]
fn a_host_that_only_a_log_has_is_replaced_too() {
    let mut redactor = Redactor::default();
    redactor.learn_lines(
        "cannot reach bmc-7.rack.corp.example:443: refused at crates/drivers/src/lib.rs:42\n{\"server\":\"jump\",\"n\":1}\n",
    );
    for (text, expected) in [
        ("bmc-7.rack.corp.example is gone", "address-1 is gone"),
        ("BMC-8.Rack.Corp.Example: no answer", "address-2: no answer"),
        (
            "a jump to crates/drivers/src/lib.rs:42",
            "a address-3 to crates/drivers/src/lib.rs:42",
        ),
        ("corp.example/rack", "corp.example/rack"),
        ("kubelet.v1.33:9", "kubelet.v1.33:9"),
    ] {
        assert_eq!(redactor.text(text), expected, "{text}");
    }
}

#[test]
fn a_path_of_a_url_is_left_out_unless_everybody_has_it() {
    for (text, expected) in [
        (
            "GET https://10.0.0.1/redfish/v1/Systems/1: 404",
            "GET https://address-1/redfish/v1/Systems/1: 404",
        ),
        (
            "\"https://10.0.0.1:6443/apis/nodefencing.io\", then",
            "\"https://address-1:6443/apis/nodefencing.io\", then",
        ),
        (
            "https://10.0.0.1/apis/x?token=abc",
            "https://address-1/left-out",
        ),
        (
            "https://10.0.0.1/customers/acme, or http://10.0.0.1?a=b.",
            "https://address-1/left-out, or http://address-1?left-out",
        ),
        ("https://10.0.0.1/apish", "https://address-1/left-out"),
        (
            "https://kubernetes.io/docs/a https://10.0.0.1/",
            "https://kubernetes.io/docs/a https://address-1/",
        ),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn an_id_of_a_system_that_is_a_serial_number_is_replaced() {
    let mut redactor = Redactor::default();
    redactor.learn(&json!({
        "redfish": {"systemID": "437XR1138R2"},
        "other": {"systemID": "/redfish/v1/Systems/System.Embedded.1"},
        "message": "GET /redfish/v1/Systems/7XKQD3Z is answered by 404, and so is /redfish/v1/Chassis/1",
    }));
    for (text, expected) in [
        ("437xr1138r2", "serial-1"),
        (
            "/redfish/v1/Systems/7XKQD3Z/Actions",
            "/redfish/v1/Systems/serial-2/Actions",
        ),
        (
            "System.Embedded.1, Chassis/1",
            "System.Embedded.1, Chassis/1",
        ),
    ] {
        assert_eq!(redactor.text(text), expected, "{text}");
    }
}

#[test]
fn a_serial_number_is_replaced_in_its_field_and_wherever_else_it_stands() {
    let mut redactor = Redactor::default();
    let object = json!({"system": {"serialNumber": "CN-7016 AB"}, "other": {"serialNumber": "7"}, "m": [{"serialNumber": "ABC1234"}]});
    redactor.learn(&object);
    assert_eq!(
        redactor.value(object),
        json!({"system": {"serialNumber": "serial-3"}, "other": {"serialNumber": "serial-2"}, "m": [{"serialNumber": "serial-1"}]})
    );
    let told = redactor.text("machine abc1234 (cn-7016 ab), 7 of them");
    assert_eq!(told, "machine serial-1 (serial-3), 7 of them");
}

#[test]
fn secrets_that_should_not_be_there_are_left_out() {
    let value = json!({"password": "calvin", "Token": "x", "credentialsRef": {"name": "bmc"}});
    assert_eq!(
        Redactor::default().value(value),
        json!({"password": LEFT_OUT, "Token": LEFT_OUT, "credentialsRef": {"name": "bmc"}})
    );
}

#[test]
fn a_line_of_json_stays_json() {
    let line = "{\"endpoint\":\"10.0.0.1:443\",\"n\":1}\nplain 10.0.0.1\n";
    let told = Redactor::default().lines(line);
    assert_eq!(
        told,
        "{\"endpoint\":\"address-1:443\",\"n\":1}\nplain address-1\n"
    );
}

/// Total over any text, and nothing that is replaced comes back.
#[test]
fn what_was_replaced_once_stays_as_it_is() {
    for text in [
        "%",
        "%4",
        "%zz",
        "a%",
        "\u{e4}%c3",
        "::::",
        "....",
        "----",
        "=====",
        "://@",
        "basic",
    ] {
        let once = shown(text);
        assert_eq!(shown(&once), once, "{text}");
    }
}
