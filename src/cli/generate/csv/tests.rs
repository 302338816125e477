use super::super::document::document;
use super::*;

const TITLES: &str =
    "node,driver,address,credentials,name,system,fingerprint,ca,port,cipherSuite,privilege,group\n";

fn problems(rows: &str) -> Vec<Problem> {
    read(&format!("{TITLES}{rows}\n"), &Common::default()).expect_err(rows)
}

#[test]
fn a_table_is_a_fleet() {
    let table = "\u{feff}address , node, driver,credentials,cipherSuite,ca,group
# rack 7
https://10.0.0.1, worker-1, redfish, bmc, , bmc-ca,
10.0.0.2, worker-2, ipmi, bmc, 3, , chassis-7
,,,,,,
";
    let common = Common {
        labels: vec![("tier".to_owned(), "bmc".to_owned())],
        ..Common::default()
    };
    let devices = read(table, &common).expect("devices");
    let printed = devices
        .iter()
        .map(|it| document(it, &[], true).expect("YAML"));
    assert_eq!(
        printed.collect::<String>(),
        "---
apiVersion: nodefencing.io/v1alpha1
kind: FenceDevice
metadata:
  labels:
    tier: bmc
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
apiVersion: nodefencing.io/v1alpha1
kind: FenceDevice
metadata:
  labels:
    tier: bmc
  name: worker-2-bmc
spec:
  credentialsRef:
    name: bmc
  ipmi:
    address: \"10.0.0.2\"
    cipherSuite: 3
  nodeName: worker-2
  serializationGroup: chassis-7
"
    );
}

/// A row, and how what is said of it begins.
const WRONG: [(&str, &str); 18] = [
    (
        "w1,redfish,10.0.0.1,bmc,,,,,,,,",
        "line 2, column address: `10.0.0.1` must be https://HOST[:PORT]",
    ),
    (
        "w1,redfish,http://10.0.0.1,bmc,,,,,,,,",
        "line 2, column address: `http://10.0.0.1` must begin with https://",
    ),
    (
        "w1,redfish,https://u:secret@h,bmc,,,,,,,,",
        "line 2, column address: `<with an @>` must be",
    ),
    (
        "W1,redfish,https://h,bmc,,,,,,,,",
        "line 2, column node: `W1` must be the name of an object",
    ),
    (
        "w1,apc,10.0.0.1,bmc,,,,,,,,",
        "line 2, column driver: `apc` must be redfish or ipmi",
    ),
    (
        "w1,redfish,https://h,,,,,,,,,",
        "line 2, column credentials: `` must not be empty",
    ),
    (
        "w1,redfish,https://h,bmc,,a/b,,,,,,",
        "line 2, column system: `a/b`",
    ),
    (
        "w1,redfish,https://h,bmc,,,12:34,,,,,",
        "line 2, column fingerprint: `12:34` must be 64 hexadecimal digits",
    ),
    (
        "w1,redfish,https://h,bmc,,,,,623,,,",
        "line 2, column port: `623` must be empty: driver redfish has no such setting",
    ),
    (
        "w1,redfish,https://127.0.0.1:8443,bmc,,,,,,,,",
        "line 2, column address: `https://127.0.0.1:8443` cannot be used: 127.0.0.1: loopback may not be a fence device",
    ),
    (
        "w1,ipmi,169.254.169.254,bmc,,,,,,,,",
        "line 2, column address: `169.254.169.254` cannot be used: 169.254.169.254: a cloud's metadata service may not be",
    ),
    (
        "w1,ipmi,10.0.0.1:623,bmc,,,,,,,,",
        "line 2, column address: `10.0.0.1:623` must be a host name or an IP address alone",
    ),
    (
        "w1,ipmi,${node.name}-bmc,bmc,,,,,,,,",
        "line 2, column address: `${node.name}-bmc` must be one host",
    ),
    (
        "w1,ipmi,10.0.0.1,bmc,,,,,0,,,",
        "line 2, column port: `0` must be a number from 1 to 65535",
    ),
    (
        "w1,ipmi,10.0.0.1,bmc,,,,,,0,,",
        "line 2, column cipherSuite: `0` must be 17, or 3",
    ),
    (
        "w1,ipmi,10.0.0.1,bmc,,,,,,,User,",
        "line 2, column privilege: `User` must be Operator or Administrator",
    ),
    (
        "w1,ipmi,10.0.0.1,bmc,,1,,,,,,",
        "line 2, column system: `1` must be empty: driver ipmi",
    ),
    (
        "w1,ipmi,10.0.0.1",
        "line 2: the row has 3 values, and must have 12",
    ),
];

#[test]
fn a_wrong_value_is_told_with_line_column_value_and_rule() {
    for (row, told) in WRONG {
        let problems = problems(row);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with(told), "{problems:?}");
        assert!(!problems[0].contains("secret"), "{problems:?}");
    }
}

#[test]
fn an_address_that_a_rule_denies_is_allowed_as_the_operator_is_told_to() {
    let common = Common {
        allow_device_cidr: vec!["127.0.0.0/8".parse().expect("a range")],
        ..Common::default()
    };
    let row = "w1,redfish,https://127.0.0.1:8443,bmc,,,,,,,,";
    let devices = read(&format!("{TITLES}{row}\n"), &common).expect("a fleet");
    assert_eq!(devices.len(), 1);
}

#[test]
fn every_problem_is_told_at_once() {
    let rows = "w1,redfish,h,bmc,,,,,,,,\nw2,ipmi,10.0.0.2,,,,,,x,,,\n";
    let problems = problems(rows);
    let lines: Vec<_> = problems
        .iter()
        .filter_map(|it| it.split(':').next())
        .collect();
    assert_eq!(
        lines,
        [
            "line 2, column address",
            "line 3, column credentials",
            "line 3, column port"
        ]
    );
}

#[test]
fn two_devices_of_one_name_are_refused() {
    let problems = problems("w1,ipmi,10.0.0.1,bmc,,,,,,,,\nw1,ipmi,10.0.0.2,bmc,,,,,,,,");
    assert_eq!(
        problems,
        [
            "line 3, column name: `w1-bmc` must be another name than that in line 2: set the column name"
        ]
    );
}

#[test]
fn the_columns_are_known_and_complete() {
    let told = |titles: &str| {
        read(titles, &Common::default())
            .expect_err(titles)
            .join("\n")
    };
    assert!(told("node,adress,driver,credentials\n").contains("`adress` is no column"));
    assert!(told("node,driver,credentials\n").contains("column `address` is missing"));
    assert!(
        told("node,node,driver,address,credentials\n").contains("column `node` stands there twice")
    );
    assert!(told(TITLES).contains("there is no row"));
    assert!(told("").contains("column `node` is missing"));
}

#[test]
fn a_fingerprint_takes_the_place_of_a_ca() {
    let row = format!(
        "{TITLES}w1,redfish,https://h,bmc,,,{},,,,,\n",
        "ab".repeat(32)
    );
    let common = Common {
        ca_config_map: Some("bmc-ca".to_owned()),
        ..Common::default()
    };
    let device = read(&row, &common).expect("a device").remove(0);
    let tls = device.spec.redfish.expect("redfish").tls;
    assert_eq!(tls.verification, TlsVerification::Pinned);
    assert_eq!(tls.ca_ref, None);
    assert!(tls.sha256_fingerprint.expect("a pin").starts_with("AB:AB:"));
}

/// A device without a system counts as every system at its address, and is refused for both nodes (`DuplicateTarget`).
#[test]
fn two_nodes_at_one_address_name_their_systems() {
    let problems = problems("w1,redfish,https://h,bmc,,,,,,,,\nw2,redfish,https://H/,bmc,,,,,,,,");
    assert_eq!(problems.len(), 1, "{problems:?}");
    let told = "line 3, column address: `https://H/` must be another address than that in line 2";
    assert!(problems[0].starts_with(told), "{problems:?}");
    let apart = "w1,redfish,https://h,bmc,,1,,,,,,\nw2,redfish,https://h,bmc,,2,,,,,,";
    let devices = read(&format!("{TITLES}{apart}\n"), &Common::default());
    assert_eq!(devices.map(|it| it.len()), Ok(2));
}
