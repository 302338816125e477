//! The commands that a finding ends with, tried on the cluster as they stand, one after the other: what only reads is run, what changes something is
//! a dry run of the API server, with whatever admission has to say. A label is set all the same, for what comes after it builds on that. What
//! needs a kubelet or an editor is not tried, and is named here.

use std::ffi::OsString;

use anyhow::{Context, Result, ensure};
use e2e::lab::Lab;
use e2e::operator::plugins;
use serde_json::Value;
use tokio::process::Command;

/// What is left out, and why.
const UNTRIED: [(&str, &str); 5] = [
    (" get --raw '/api/v1/nodes/", "asks a kubelet"),
    ("kubectl debug ", "starts a pod on the node"),
    (" logs ", "asks a kubelet"),
    (" fence test ", "asks the operator, which may not run"),
    (
        " get lease -n kube-system ",
        "the lab's kube-controller-manager is the only one and elects no leader",
    ),
];
/// They change something.
const CHANGES: [&str; 10] = [
    " patch ",
    " delete ",
    " scale ",
    " taint ",
    " drain ",
    " fence now ",
    " fence approve ",
    " fence deny ",
    " fence cancel ",
    " fence release ",
];
/// What the reader puts in, and what a reader might.
const BLANKS: [(&str, &str); 2] = [("WHY", "seen dark"), ("KEY=VALUE", "lab/policy=looks")];
/// Exit code of `kubectl fence status` while an incident is open.
const OPEN: i32 = 3;

/// Tries all of them.
pub(super) async fn tried(lab: &Lab, finding: &Value) -> Result<()> {
    let steps = finding["fix"].as_array().into_iter().flatten();
    let commands: Vec<&str> = steps.filter_map(|it| it["command"].as_str()).collect();
    ensure!(!commands.is_empty(), "no way out: {finding:#}");
    for command in commands {
        if let Some(line) = to_try(command) {
            run(lab, &line).await.with_context(|| command.to_owned())?;
        }
    }
    Ok(())
}

/// What is typed to try it; none: it is not tried.
fn to_try(command: &str) -> Option<String> {
    if UNTRIED.iter().any(|(part, _)| command.contains(part)) {
        return None;
    }
    // An editor reads the object first, and that is what is tried of it; a follower never ends.
    let mut line = command.replace(" edit ", " get ").replace(" --watch", "");
    for (blank, word) in BLANKS {
        line = line.replace(blank, word);
    }
    if CHANGES.iter().any(|part| line.contains(part)) {
        line += " --dry-run=server";
    }
    Some(line)
}

async fn run(lab: &Lab, line: &str) -> Result<()> {
    let plane = &lab.control_plane;
    let mut path = OsString::from(plane.toolchain().directory());
    path.push(":");
    path.push(plugins().await?);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env("PATH", path);
    let output = plane.run_command(shell).await?;
    let code = output.status.code();
    let is_open = code == Some(OPEN) && line.contains(" fence status ");
    let complained = String::from_utf8_lossy(&output.stderr);
    // The reader's label may be that of a policy which only observes: then the reader has to say how far it goes.
    let is_asked = line.contains(" fence now ")
        && !line.contains(" --mode ")
        && complained.contains("is in mode Observe; add --mode ConfirmOnly");
    ensure!(
        code == Some(0) || is_open || is_asked,
        "{line}: {code:?}: {complained}"
    );
    Ok(())
}

#[test]
fn what_changes_something_is_tried_without_effect_and_what_asks_a_kubelet_is_not() {
    let tried = |command: &str| to_try(command).unwrap_or_default();
    assert_eq!(
        tried("kubectl fence now w --reason \"WHY\""),
        "kubectl fence now w --reason \"seen dark\" --dry-run=server"
    );
    assert_eq!(
        tried("kubectl -n a edit deployment/b"),
        "kubectl -n a get deployment/b"
    );
    assert_eq!(
        tried("kubectl fence status w --watch"),
        "kubectl fence status w"
    );
    assert_eq!(to_try("kubectl -n a logs b -c c"), None);
}
