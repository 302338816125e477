//! `kubectl fence` as its user meets it where the API server is silent, refuses all, or holds what a newer operator has written.

use super::cluster::{GOOD, kubeconfig, serve};
use super::ended;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Exit code, and what it has said, in its own words, where and however.
fn typed(kubeconfig: &Path, line: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-fence"));
    command
        .args(line.split_whitespace())
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = ended(command);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("a code");
    (code, text(output.stdout), text(output.stderr))
}

/// Every command that reads.
const READS: [&str; 10] = [
    "check",
    "check --pre",
    "status",
    "status w1 --watch",
    "plan w1",
    "diagnose -A",
    "diagnose node w1",
    "explain w1",
    "history",
    "report --file silent.tar.gz",
];

#[test]
fn a_silent_api_server_holds_no_command_up_for_longer_than_the_bound_which_it_names() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let silent = kubeconfig("silent", address);
    let is_named = |line: &str, bound: &str| {
        let begun = Instant::now();
        let (code, said, complained) = typed(&silent, line);
        assert_eq!(code, 1, "{line}: {said}{complained}");
        // Findings are told in lines.
        let told = format!("{said} {complained}");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [&format!("http://{address}"), bound, "--request-timeout"] {
            assert!(told.contains(words), "{line}: no `{words}` in {told}");
        }
        begun.elapsed()
    };
    for line in READS {
        let took = is_named(&format!("{line} --request-timeout 1s"), "within 1 s");
        assert!(took < Duration::from_secs(5), "{line}: {took:?}");
    }
    let took = is_named("check", "within 10 s");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_command_line_that_cannot_be_used_ends_with_1_as_with_kubectl() {
    let cluster = GOOD.serve("usage");
    for line in [
        "diagnose db-0",
        "diagnose svc/web",
        "diagnose pod/a/b",
        "diagnose --nonsense",
        "generate policy --name p --power-on",
        "status --request-timeout soon",
        // Of these 2 means that something was found.
        "check --strickt",
        "plan",
    ] {
        let (code, said, complained) = typed(&cluster, line);
        assert_eq!((code, said.as_str()), (1, ""), "{line}: {complained}");
        assert!(complained.starts_with("error: "), "{line}: {complained}");
    }
}

/// As kubectl does.
#[test]
fn log_level_6_prints_each_request_and_how_it_ended() {
    let cluster = GOOD.serve("requests");
    for (line, is_printed) in [("check -v 6", true), ("check", false)] {
        let (_, _, complained) = typed(&cluster, line);
        let request = complained.lines().find(|it| it.starts_with("GET http://"));
        assert_eq!(request.is_some(), is_printed, "{line}: {complained}");
        assert!(
            request.is_none_or(|it| it.ends_with("/version 200 OK")),
            "{line}: {complained}"
        );
    }
}

#[test]
fn a_report_that_may_read_nothing_is_none() {
    let forbidden = |_: &str, _: &Value| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "that is forbidden"});
        ("403 Forbidden", status)
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nothing.tar.gz");
    // Of an earlier run.
    let _ = std::fs::remove_file(&file);
    let (code, said, complained) = typed(
        &serve("forbidden", forbidden),
        "report --file nothing.tar.gz",
    );
    assert_eq!((code, said.as_str()), (1, ""), "{complained}");
    for words in [
        "no archive is written",
        "that is forbidden",
        "node-fencing-cluster-viewer",
    ] {
        assert!(complained.contains(words), "{complained}");
    }
    assert!(!file.exists());
}

/// One object of each kind that this version knows, and one with a value that it does not: of a mode, a trigger, a recovery, a driver's enum.
fn of_ours(line: &str) -> Option<Vec<Value>> {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "nodefencing.io/v1alpha1", "kind": kind,
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
        })
    };
    if line.contains("/nodefencingpolicies?") {
        let policy = |name, mode| {
            let spec =
                json!({"nodeSelector": {"matchLabels": {"a": "b"}}, "fence": {"mode": mode}});
            object("NodeFencingPolicy", name, spec)
        };
        return Some(vec![
            policy("old-policy", "PowerOff"),
            policy("new-policy", "Teleport"),
        ]);
    }
    if line.contains("/fencedevices?") {
        let device = |name, check| {
            let spec = json!({
                "nodeName": "w1", "identityCheck": check, "redfish": {"address": "https://10.0.0.1"},
                "credentialsRef": {"name": "c"},
            });
            object("FenceDevice", name, spec)
        };
        return Some(vec![
            device("old-device", "Require"),
            device("new-device", "Guess"),
        ]);
    }
    if line.contains("/nodefences?") {
        let fence = |name, trigger| {
            let spec = json!({
                "nodeName": "w1", "trigger": {"type": trigger}, "fence": {"mode": "PowerOff"},
                "recovery": {}, "release": {}, "powerOn": {},
            });
            object("NodeFence", name, spec)
        };
        return Some(vec![
            fence("old-fence", "Manual"),
            fence("new-fence", "Prophecy"),
        ]);
    }
    None
}

fn newer(line: &str, body: &Value) -> (&'static str, Value) {
    let list = |items: Vec<Value>| {
        (
            "200 OK",
            json!({"metadata": {"resourceVersion": "1"}, "items": items}),
        )
    };
    if let Some(items) = of_ours(line) {
        return list(items);
    }
    if line.contains("/api/v1/nodes?") {
        return list(vec![
            json!({"metadata": {"name": "w1", "uid": "u"}, "spec": {}, "status": {}}),
        ]);
    }
    match GOOD.answer(line, body) {
        ("404 Not Found", _) if line.contains("limit=") => list(Vec::new()),
        answer => answer,
    }
}

/// Not fields alone: values of enums too.
#[test]
fn what_a_newer_operator_has_written_is_left_out_and_named_by_every_command() {
    let cluster = serve("newer", newer);
    for (line, code, named) in [
        ("status", 3, &["new-policy", "new-fence"][..]),
        ("status -o json", 3, &["new-policy", "new-fence"]),
        ("history", 0, &["new-fence"]),
        ("explain w1", 0, &["new-fence"]),
        ("plan w1", 2, &["new-policy", "new-device", "new-fence"]),
        (
            "plan w1 -o json",
            2,
            &["new-policy", "new-device", "new-fence"],
        ),
        // It found nothing, and not all could be read.
        ("diagnose -A", 1, &["new-policy", "new-fence"]),
        ("diagnose node w1 -o json", 1, &["new-policy", "new-fence"]),
        ("check", 1, &["new-policy", "new-device"]),
    ] {
        let (ended, said, complained) = typed(&cluster, line);
        assert_eq!(ended, code, "{line}: {said}{complained}");
        assert!(!said.is_empty(), "{line}: {complained}");
        let told = format!("{said} {complained}");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in named {
            let words = format!("{name} is left out");
            assert!(told.contains(&words), "{line}: no `{words}` in {told}");
        }
    }
}

/// What is written in somebody's name is dated by the API server's clock, and only where that is silent by this machine's.
#[test]
fn whose_clock_a_word_is_dated_by_is_said_where_it_is_this_machines() {
    let with_date = |date: Option<&'static str>| {
        // What is paused is read back.
        let paused = Arc::new(Mutex::new(json!([])));
        move |line: &str, sent: &Value| {
            if line.contains("selfsubjectreviews") {
                let user = json!({"userInfo": {"username": "vera"}});
                let review = json!({"metadata": {"creationTimestamp": date}, "status": user});
                return ("201 Created", review);
            }
            let policies = of_ours("/nodefencingpolicies?").unwrap_or_default();
            let mut policy = policies.into_iter().next().unwrap_or_default();
            let mut paused = paused.lock().expect("no panic while it is held");
            if line.starts_with("PATCH ") {
                *paused = sent["spec"]["pauseRequests"].clone();
            }
            policy["spec"]["pauseRequests"] = paused.clone();
            ("200 OK", policy)
        }
    };
    for (name, date, is_said) in [
        ("dated", Some("2026-01-01T00:00:00Z"), false),
        ("undated", None, true),
    ] {
        let cluster = serve(name, with_date(date));
        let (code, _, complained) = typed(&cluster, "pause old-policy --for 1h --reason switches");
        assert_eq!(code, 0, "{complained}");
        let words = "dated by the clock of this machine";
        assert_eq!(complained.contains(words), is_said, "{name}: {complained}");
    }
}
