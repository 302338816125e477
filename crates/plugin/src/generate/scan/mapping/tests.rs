use super::super::super::devices::text;
use super::*;
use fencing_drivers::redfish::parse;
use serde_json::{Value, json};

const UUID: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d32";
/// The same as SMBIOS orders it.
const SWAPPED: &str = "44454C4C-4200-1035-8052-B4C04F4A4D32";
const OTHER: &str = "4c4c4544-0042-3510-8052-b4c04f4a4d33";

fn machines(host: &str, uuids: &[Value]) -> Vec<Machine> {
    let address = Address::parse(&format!("https://{host}")).expect("an address");
    let systems = (1..).zip(uuids).map(|(number, uuid)| {
        let document = json!({
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "UUID": uuid, "Manufacturer": "Contoso", "Model": "R640", "PowerState": "On",
        });
        let path = format!("/redfish/v1/Systems/{number}");
        (path, parse::system(&document).expect("a system"))
    });
    Machine::all(&address, systems.collect())
}

fn node(name: &str, uuid: &str) -> SlimNode {
    let node = json!({"metadata": {"name": name}, "status": {"nodeInfo": {"bootID": "", "systemUUID": uuid}}});
    serde_json::from_value(node).expect("a node")
}

fn writing() -> Writing {
    Writing {
        namespace: "node-fencing-system".to_owned(),
        username: "fence".to_owned(),
        credentials: "bmc".to_owned(),
        ca_config_map: Some("bmc-ca".to_owned()),
        ca_file: Some("ca.pem".into()),
        is_insecure: false,
        common: Common::default(),
    }
}

#[test]
fn a_system_is_the_node_that_names_the_same_uuid_in_either_order() {
    let nodes = [node("worker-1", SWAPPED), node("worker-2", OTHER)];
    let proposals = writing().proposals(&machines("10.0.0.1", &[json!(UUID)]), &nodes, &[]);
    assert_eq!(
        text(&proposals).expect("YAML"),
        "\
# The account of the devices; type its password, then Ctrl-D twice:
#   kubectl -n node-fencing-system create secret generic bmc --from-literal=username=fence --from-file=password=/dev/stdin
# So that it is sent to no other host:
#   kubectl -n node-fencing-system annotate secret bmc nodefencing.io/allowed-hosts=10.0.0.1
# The CA of their certificates:
#   kubectl -n node-fencing-system create configmap bmc-ca --from-file=ca.crt=ca.pem
---
# 10.0.0.1:443/redfish/v1/Systems/1 (Contoso R640): it and Node worker-1 both
# report the system UUID 4c4c4544-0042-3510-8052-b4c04f4a4d32.
apiVersion: nodefencing.io/v1alpha1
kind: FenceDevice
metadata:
  name: worker-1-bmc
spec:
  credentialsRef:
    name: bmc
  nodeName: worker-1
  redfish:
    address: https://10.0.0.1
    tls:
      caRef:
        name: bmc-ca
---
# No BMC of this scan names the system UUID of: worker-2.
"
    );
}

/// Of a chassis each system is named by its id.
#[test]
fn a_system_of_several_is_named_by_its_id() {
    let nodes = [node("worker-1", UUID), node("worker-2", OTHER)];
    let machines = machines("10.0.0.1", &[json!(OTHER), json!(UUID)]);
    let proposals = writing().proposals(&machines, &nodes, &[]);
    let ids = proposals.devices.iter().map(|it| {
        let spec = &it.device.spec;
        let redfish = spec.drivers.redfish.as_ref().expect("redfish");
        (spec.node_name.as_deref(), redfish.system_id.as_deref())
    });
    let expected = [(Some("worker-2"), Some("1")), (Some("worker-1"), Some("2"))];
    assert_eq!(ids.collect::<Vec<_>>(), expected);
}

/// As `HGX_Baseboard_0` beside the system that it is built into, which may name the same UUID.
#[test]
fn a_part_that_cannot_be_reset_is_no_machine() {
    let mut machines = machines("10.0.0.1", &[json!(UUID), json!(UUID)]);
    let target = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
    machines[0].system.reset = Ok(parse::Reset {
        target: target.to_owned(),
        allowable: parse::Allowable::Listed(vec!["ForceOff".to_owned()]),
    });
    let proposals = writing().proposals(&machines, &[node("worker-1", UUID)], &[]);
    let [proposal] = &proposals.devices[..] else {
        panic!("{} devices", proposals.devices.len());
    };
    assert!(proposal.is_complete);
    let redfish = proposal
        .device
        .spec
        .drivers
        .redfish
        .as_ref()
        .expect("redfish");
    assert_eq!(redfish.system_id.as_deref(), Some("1"));
    let text = text(&proposals).expect("YAML").replace("\n# ", " ");
    assert!(
        text.contains("Systems/2 (Contoso R640): it cannot be turned off"),
        "{text}"
    );
}

#[test]
fn what_names_no_machine_for_sure_is_a_comment_that_says_why() {
    let nodes = [node("worker-1", UUID), node("worker-2", UUID)];
    let zeros = "00000000-0000-0000-0000-000000000000";
    for (uuid, why) in [
        (json!(null), "the BMC reports no system UUID"),
        (json!(zeros), "identifies no machine"),
        (json!(OTHER), "no Node reports the system UUID"),
        (json!(UUID), "several Nodes report the system UUID"),
    ] {
        let proposals = writing().proposals(&machines("10.0.0.1", &[uuid]), &nodes, &[]);
        let proposal = &proposals.devices[0];
        assert!(!proposal.is_complete, "{why}");
        let text = text(&proposals).expect("YAML").replace("\n# ", " ");
        assert!(text.contains(why), "{text}");
        assert!(text.contains("nodeName: NODE"), "{text}");
        assert!(!text.contains("\nkind:"), "{text}");
    }
    let twice = [
        machines("10.0.0.1", &[json!(UUID)]),
        machines("10.0.0.2", &[json!(SWAPPED)]),
    ];
    let proposals = writing().proposals(&twice.concat(), &nodes[..1], &[]);
    assert!(proposals.devices.iter().all(|it| !it.is_complete));
}

#[test]
fn what_was_not_checked_is_not_written_down_as_checked_or_as_unchecked() {
    let unchecked = Writing {
        is_insecure: true,
        ca_config_map: None,
        ca_file: None,
        ..writing()
    };
    let nodes = [node("worker-1", UUID)];
    let silent = ["10.0.0.9:443: no answer".to_owned()];
    let proposals =
        unchecked.proposals(&machines("10.0.0.1:8443", &[json!(UUID)]), &nodes, &silent);
    let text = text(&proposals).expect("YAML");
    assert!(!text.contains("  verification"), "{text}");
    assert!(
        text.contains("openssl s_client -connect 10.0.0.1:8443 "),
        "{text}"
    );
    assert!(
        text.contains("# No system was read: 10.0.0.9:443: no answer."),
        "{text}"
    );
}
