//! Files and flags that `probe` cannot use: exit code 2, and nothing is sent.

use crate::{operator, refusal};
use fencing_api::drivers::supported;
use std::path::Path;

const FLEET: &str = r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeSelector": {}, "manual": {}}}"#;
const OF_ONE: &str = r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeName": "w", "manual": {}}}"#;
const OF_NONE: &str =
    r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeName": "w"}}"#;
const OF_TWO: &str = r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"nodeName": "w", "manual": {}, "ipmi": {"address": "127.0.0.1"}}}"#;
const OF_NUMBER: &str =
    r#"{"kind": "Secret", "metadata": {"name": "bmc"}, "stringData": {"password": 1234}}"#;
const OF_PLAIN: &str =
    r#"{"kind": "Secret", "metadata": {"name": "bmc"}, "data": {"password": "pa$$word"}}"#;
const OF_ELSEWHERE: &str =
    r#"{"kind": "Secret", "metadata": {"name": "bmc", "namespace": "default"}}"#;
const TWICE: &str =
    "{kind: Secret, metadata: {name: bmc}}\n---\n{kind: Secret, metadata: {name: bmc}}";
const TWO_SECRETS: &str =
    "{kind: Secret, metadata: {name: bmc}}\n---\n{kind: Secret, metadata: {name: other}}";
// With a `---` behind the last one, which adds nothing.
const TWO_DEVICES: &str = "{kind: FenceDevice, metadata: {name: a}, spec: {nodeName: w, manual: {}}}\n---\n{kind: FenceDevice, metadata: {name: b}, spec: {nodeName: v, manual: {}}}\n---\n";
const MISSPELT: &str =
    "{kind: FenceDevice, metadata: {name: a}, spec: {nodeName: w, identityChek: Skip, manual: {}}}";
const OF_NO_TEXT: &str =
    "{kind: FenceDevice, metadata: {name: a}, spec: {nodeName: 7, manual: {}}}";
const OF_NOBODY: &str =
    r#"{"kind": "FenceDevice", "metadata": {"name": "a"}, "spec": {"manual": {}}}"#;
const CA_ELSEWHERE: &str =
    r#"{"kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "default"}}"#;

#[test]
fn a_file_or_a_flag_that_cannot_be_used_is_one_line() {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("file.yaml");
    let table: [(Option<&str>, &[&str], &str); 19] = [
        (None, &[], "cannot be read"),
        (Some("{"), &[], "is not YAML"),
        (Some("kind: Secret"), &[], "exactly one FenceDevice"),
        (Some(FLEET), &[], "--node"),
        (Some(FLEET), &["--power-off"], "--yes"),
        (Some(FLEET), &["--output", "xml"], "must be text or json"),
        (
            Some(FLEET),
            &["--node-uuid", "00000000-0000-0000-0000-000000000000"],
            "--node-uuid",
        ),
        (Some(OF_ONE), &["--power-off", "--yes"], "needs --node-uuid"),
        (
            Some(OF_ONE),
            &["--node-address", "10.0.0"],
            "--node-address: `10.0.0` must be an IP address",
        ),
        (
            Some(OF_ONE),
            &["--node", "v"],
            "`v` is not the node of this FenceDevice",
        ),
        (Some(OF_ONE), &["--timeout", "60"], "--power-off"),
        (
            Some(OF_ONE),
            &["--power-off", "--yes", "--timeout", "1801"],
            "--timeout: `1801` must be a number of seconds from 5 to 1800",
        ),
        (
            Some(OF_NOBODY),
            &[],
            "`spec` of FenceDevice `a` must set `nodeName` or `nodeSelector`",
        ),
        (Some(TWICE), &[], "Secret `bmc` is in the files twice"),
        (
            Some(OF_NUMBER),
            &[],
            "`stringData.password` of Secret `bmc`",
        ),
        (
            Some(OF_PLAIN),
            &[],
            "`data.password` of Secret `bmc` is not base64",
        ),
        (
            Some(OF_ELSEWHERE),
            &[],
            "Secret `bmc` is in namespace `default`",
        ),
        (
            Some(CA_ELSEWHERE),
            &[],
            "ConfigMap `ca` is in namespace `default`",
        ),
        // One in the operator's own namespace is none of these.
        (
            Some(OF_ELSEWHERE),
            &["--namespace", "default"],
            "exactly one FenceDevice",
        ),
    ];
    for (text, flags, says) in table {
        if let Some(text) = text {
            std::fs::write(&file, text).expect("a file");
        }
        refuses(&file, flags, says);
    }
}

fn refuses(file: &Path, flags: &[&str], says: &str) {
    let mut command = operator(&["probe"]);
    command.arg(file).args(flags);
    let (code, said) = refusal(command);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(says), "{said}");
}

#[test]
fn a_file_without_one_device_of_one_driver_says_what_it_holds() {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("file.yaml");
    for (text, says) in [
        ("", "exactly one FenceDevice, they hold nothing"),
        (
            TWO_SECRETS,
            "exactly one FenceDevice, they hold: Secret `bmc`, Secret `other`; add it as it will be applied (`kind: FenceDevice`)",
        ),
        (
            TWO_DEVICES,
            "exactly one FenceDevice, they hold: FenceDevice `a`, FenceDevice `b`; keep the one that is to be probed",
        ),
        (
            MISSPELT,
            "FenceDevice `a` sets unknown fields: `spec.identityChek`; correct their spelling",
        ),
        (
            OF_NO_TEXT,
            "FenceDevice `a` cannot be read: invalid type: integer `7`, expected a string; ",
        ),
        (
            OF_NONE,
            &format!(
                "`spec` of FenceDevice `a` must set exactly one driver ({}), it sets none; add one",
                supported()
            ),
        ),
        (
            OF_TWO,
            "it sets 2: ipmi, manual; keep one, and make a FenceDevice of each other",
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        refuses(&file, &[], says);
    }
}

/// A message names what was read, and `-` alone is no name.
#[test]
fn what_cannot_be_used_of_standard_input_is_called_so() {
    let files = tempfile::tempdir().expect("a directory");
    let file = files.path().join("file.yaml");
    for (text, says) in [
        ("{", "standard input (`-`) is not YAML: "),
        ("", "exactly one FenceDevice, they hold nothing; add it"),
    ] {
        std::fs::write(&file, text).expect("a file");
        let mut command = operator(&["probe", "-"]);
        command.stdin(std::fs::File::open(&file).expect("the file"));
        let (code, said) = refusal(command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(says), "{said}");
    }
}
