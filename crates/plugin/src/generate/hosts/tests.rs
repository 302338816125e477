use super::super::devices::text;
use super::*;
use serde_json::{Value, json};

const UID: &str = "0a0b0c0d-0000-4000-8000-000000000001";
const UUID: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d32";

fn host(name: &str, bmc: &str, more: Value) -> Host {
    let mut host = json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "metal3", "uid": UID},
        "spec": {"online": true, "bmc": {"address": bmc, "credentialsName": format!("{name}-secret")}},
    });
    json_patch::merge(&mut host, &more);
    serde_json::from_value(host).expect("a host")
}

fn node(name: &str, more: Value) -> SlimNode {
    let mut node = json!({"metadata": {"name": name}});
    json_patch::merge(&mut node, &more);
    serde_json::from_value(node).expect("a node")
}

fn around(nodes: Vec<SlimNode>) -> Surroundings {
    Surroundings {
        nodes: Ok(nodes),
        consumers: Consumers::default(),
        namespace: "node-fencing-system".to_owned(),
    }
}

fn printed(hosts: &[Host], around: &Surroundings) -> String {
    text(&proposals(hosts, around, &Common::default())).expect("YAML")
}

#[test]
fn a_host_is_the_device_of_its_node() {
    let bmc = "idrac-virtualmedia://10.20.0.13/redfish/v1/Systems/System.Embedded.1";
    let vendor =
        json!({"manufacturer": "Dell Inc.", "productName": "R640", "serialNumber": "ABC1234"});
    let host = host(
        "host-3",
        bmc,
        json!({"status": {"hardware": {"systemVendor": vendor}}}),
    );
    let node = node(
        "worker-3",
        json!({"spec": {"providerID": "metal3://metal3/host-3/machine-3"}}),
    );
    assert_eq!(
        printed(&[host], &around(vec![node])),
        "---
# BareMetalHost metal3/host-3 (Dell Inc. R640 ABC1234); its Node by its
# providerID.
# Its Secret, for the operator's namespace:
#   kubectl -n metal3 get secret host-3-secret -o go-template='{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"host-3-secret\"},\"data\":{\"username\":\"{{.data.username}}\",\"password\":\"{{.data.password}}\"}}' | kubectl -n node-fencing-system create -f -
# So that it is sent to no other host:
#   kubectl -n node-fencing-system annotate secret host-3-secret nodefencing.io/allowed-hosts=10.20.0.13
apiVersion: nodefencing.io/v1alpha1
kind: FenceDevice
metadata:
  name: host-3-bmc
spec:
  credentialsRef:
    name: host-3-secret
  nodeName: worker-3
  redfish:
    address: https://10.20.0.13
    systemID: System.Embedded.1
"
    );
}

/// The Machine of Metal3's and the one of OpenShift's that worker-3 belongs to.
fn consumers() -> Consumers {
    let owner = json!({"metadata": {"name": "m3m-3", "namespace": "metal3", "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "m-3"}]}});
    let owned = json!({"metadata": {"name": "m-3", "namespace": "metal3"}, "status": {"nodeRef": {"name": "worker-3"}}});
    let listed =
        |group: &str, kind: &str, it: &Value| Consumers::listed(group, kind, Ok(vec![it.clone()]));
    listed(
        "infrastructure.cluster.x-k8s.io/v1beta1",
        "Metal3Machine",
        &owner,
    )
    .and(listed("cluster.x-k8s.io/v1beta1", "Machine", &owned))
    .and(listed("machine.openshift.io/v1beta1", "Machine", &owned))
}

#[test]
fn a_node_is_found_in_every_way_that_leads_to_it() {
    let machine = json!({"consumerRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine", "name": "m3m-3", "namespace": "metal3"}});
    let openshift = json!({"consumerRef": {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m-3", "namespace": "metal3"}});
    let provider = |id: &str| json!({"spec": {"providerID": id}});
    let uuid = json!({"status": {"nodeInfo": {"bootID": "", "systemUUID": UUID.to_uppercase()}}});
    let virtual_bmc = format!("redfish+https://10.0.0.1:8000/redfish/v1/Systems/{UUID}");
    let named = |name: &str| json!({"status": {"hardware": {"hostname": name}}});
    let called =
        json!({"status": {"addresses": [{"type": "Hostname", "address": "worker-3.example.com"}]}});
    for (how, bmc, of_host, of_node) in [
        (
            "its providerID",
            "10.0.0.1",
            json!({}),
            provider(&format!("metal3://{UID}")),
        ),
        (
            "its providerID",
            "10.0.0.1",
            json!({}),
            provider("baremetalhost:///metal3/host-3/uid"),
        ),
        (
            "the Machine of its consumerRef",
            "10.0.0.1",
            json!({"spec": machine}),
            json!({}),
        ),
        (
            "the Machine of its consumerRef",
            "10.0.0.1",
            json!({"spec": openshift}),
            json!({}),
        ),
        (
            "the system UUID in the BMC's address",
            virtual_bmc.as_str(),
            json!({}),
            uuid,
        ),
        (
            "status.hardware.hostname",
            "10.0.0.1",
            named("Worker-3"),
            json!({}),
        ),
        (
            "status.hardware.hostname",
            "10.0.0.1",
            named("worker-3.example.com"),
            called,
        ),
    ] {
        let around = Surroundings {
            consumers: consumers(),
            ..around(vec![node("worker-2", json!({})), node("worker-3", of_node)])
        };
        let found = node_of(&host("host-3", bmc, of_host), &around);
        assert_eq!(found, Ok(("worker-3".to_owned(), how)));
    }
}

#[test]
fn a_host_without_a_node_is_a_comment_that_names_what_is_missing() {
    let reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine", "name": "m3m-3", "namespace": "metal3"});
    let host = host(
        "host-3",
        "ipmi://10.0.0.1:6230",
        json!({"spec": {"consumerRef": reference}}),
    );
    let refused = Err("metal3machines is forbidden".to_owned());
    let around = Surroundings {
        consumers: Consumers::listed(
            "infrastructure.cluster.x-k8s.io/v1beta1",
            "Metal3Machine",
            refused,
        ),
        ..around(vec![node("worker-3", json!({}))])
    };
    let text = printed(&[host], &around);
    let plain = text.replace("\n# ", " ");
    for told in [
        "no Node has a providerID with metal3/host-3",
        "Metal3Machine metal3/m3m-3 could not be read: metal3machines is forbidden",
        "`status.hardware.hostname` is not set",
        "nodeName: NODE",
        "port: 6230",
    ] {
        assert!(plain.contains(told), "{told}: {plain}");
    }
    assert!(
        text.lines().all(|it| it == "---" || it.starts_with('#')),
        "{text}"
    );
}

#[test]
fn nothing_becomes_less_checked_than_in_full() {
    let provider = json!({"spec": {"providerID": "metal3://metal3/host-3/m"}});
    for (bmc, told) in [
        ("redfish://10.0.0.1", "disableCertificateVerification: true"),
        ("redfish+http://10.0.0.1:8000", "exposes the password"),
    ] {
        let unchecked = json!({"spec": {"bmc": {"disableCertificateVerification": true}}});
        let host = host("host-3", bmc, unchecked);
        let text = printed(&[host], &around(vec![node("worker-3", provider.clone())]));
        assert!(text.contains(told), "{text}");
        let (_, device) = text.split_once("apiVersion:").expect("a device");
        assert!(!device.contains("verification"), "{text}");
        assert!(device.contains("address: https://10.0.0.1"), "{text}");
    }
}

/// Loopback is the operator's own pod, and in a test of Metal3's the host of all machines.
#[test]
fn a_host_whose_address_the_operator_refuses_is_a_comment() {
    let provider = json!({"spec": {"providerID": "metal3://metal3/host-3/m"}});
    for bmc in ["127.0.0.1:6230", "redfish+http://127.0.0.1:8000"] {
        let text = printed(
            &[host("host-3", bmc, json!({}))],
            &around(vec![node("worker-3", provider.clone())]),
        );
        let plain = text.replace("\n# ", " ");
        assert!(
            plain
                .contains("The operator refuses it: 127.0.0.1: loopback may not be a fence device"),
            "{plain}"
        );
        assert!(!text.contains("\nkind:"), "{text}");
    }
}

#[test]
fn a_secret_is_sent_to_all_hosts_that_have_it_and_to_no_other() {
    let shared = |namespace: &str| json!({"metadata": {"namespace": namespace}, "spec": {"bmc": {"credentialsName": "all"}}});
    let hosts = [
        host("a", "10.0.0.1", shared("metal3")),
        host("b", "redfish://10.0.0.2:8443", shared("metal3")),
        host("c", "10.0.0.3", shared("edge")),
    ];
    let text = printed(&hosts, &around(Vec::new()));
    for told in [
        "annotate secret metal3-all nodefencing.io/allowed-hosts=10.0.0.1,10.0.0.2\n",
        "annotate secret edge-all nodefencing.io/allowed-hosts=10.0.0.3\n",
    ] {
        assert_eq!(text.matches(told).count(), 1, "{text}");
    }
}

#[test]
fn hosts_and_secrets_of_one_name_in_two_namespaces_stay_apart() {
    let elsewhere = json!({"metadata": {"namespace": "edge"}});
    let hosts = [
        host("host-3", "10.0.0.1", json!({})),
        host("host-3", "10.0.0.2", elsewhere),
    ];
    let proposals = proposals(&hosts, &around(Vec::new()), &Common::default());
    let names = proposals.devices.iter().map(|it| {
        let secret = it.device.spec.credentials_ref.as_ref().expect("a Secret");
        (it.device.metadata.name.as_deref(), secret.name.as_str())
    });
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            (Some("edge-host-3-bmc"), "edge-host-3-secret"),
            (Some("metal3-host-3-bmc"), "metal3-host-3-secret"),
        ]
    );
}

#[test]
fn a_node_to_which_two_hosts_lead_is_neither_ones() {
    let named = json!({"status": {"hardware": {"hostname": "worker-3"}}});
    let hosts = [
        host("a", "10.0.0.1", named.clone()),
        host("b", "10.0.0.2", named),
    ];
    let proposals = proposals(
        &hosts,
        &around(vec![node("worker-3", json!({}))]),
        &Common::default(),
    );
    assert!(proposals.devices.iter().all(|it| !it.is_complete));
}

#[test]
fn a_host_of_which_no_device_can_be_made_is_told_at_the_end() {
    let hosts = [
        host("a", "", json!({})),
        host("b", "redfish://root:calvin@10.0.0.1", json!({})),
        host(
            "c",
            "10.0.0.1",
            json!({"spec": {"bmc": {"credentialsName": "A'B"}}}),
        ),
    ];
    let text = printed(&hosts, &around(Vec::new()));
    let plain = text.replace("\n# ", " ");
    assert!(
        plain.contains("BareMetalHost metal3/a: no FenceDevice: `spec.bmc.address` is not set"),
        "{plain}"
    );
    assert!(
        plain.contains("`spec.bmc.credentialsName` is not the name of a Secret"),
        "{plain}"
    );
    assert!(
        !plain.contains("calvin") && !plain.contains("kind:"),
        "{plain}"
    );
}

#[test]
fn a_protocol_of_the_makers_own_is_proposed_as_redfish_to_be_tried() {
    let provider = json!({"spec": {"providerID": "metal3://metal3/host-3/m"}});
    let text = printed(
        &[host("host-3", "irmc://10.0.0.1", json!({}))],
        &around(vec![node("worker-3", provider)]),
    );
    assert!(
        text.contains("#   curl --insecure https://10.0.0.1/redfish/v1/"),
        "{text}"
    );
    assert!(text.contains("# kind: FenceDevice"), "{text}");
}
