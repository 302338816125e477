//! The operator's process as its user meets it: exit codes, the one line that says why, health, and how it ends. And that of `kubectl fence`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests measure how long they wait"
)]

mod cluster;
mod plugin;
mod probe;

use cluster::{Cluster, GOOD, kubeconfig};
use fencing_cluster::preflight;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The operator with these flags, in an environment that says nothing.
fn operator(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_node-fencing-operator"));
    for name in [
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "POD_NAMESPACE",
        "POD_NAME",
        "NODE_NAME",
    ] {
        command.env_remove(name);
    }
    command
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end, which must be soon.
fn ended(mut command: Command) -> Output {
    let child = command.spawn().expect("the operator's binary");
    let (pid, (sender, receiver)) = (child.id(), mpsc::channel());
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(Duration::from_secs(30)) {
        Ok(output) => output.expect("output"),
        Err(_) => {
            signal(pid, "-KILL");
            panic!("it did not end");
        }
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// What a line of the log says; one that is bare: what stands behind `error: `.
fn words_of(line: &str) -> String {
    let words = match serde_json::from_str::<Value>(line) {
        Ok(line) => line["message"].as_str().map(str::to_owned),
        Err(_) => line.trim_end().strip_prefix("error: ").map(str::to_owned),
    };
    words.unwrap_or_else(|| panic!("no words in {line}"))
}

/// Exit code, and what it said on standard error, which must be one line.
fn refusal(command: Command) -> (i32, String) {
    let output = ended(command);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "more than one line:\n{text}");
    assert!(output.stdout.is_empty());
    (output.status.code().expect("a code"), words_of(&text))
}

/// A running operator. Dropping it kills it.
struct Running {
    child: Child,
    address: String,
    lines: mpsc::Receiver<Value>,
    log: Vec<Value>,
}

impl Running {
    fn start(kubeconfig: &PathBuf, flags: &[&str]) -> Self {
        let mut command = operator(&["--http-bind=127.0.0.1:0"]);
        command.args(flags).env("KUBECONFIG", kubeconfig);
        let mut child = command.spawn().expect("the operator's binary");
        let (sender, lines) = mpsc::channel();
        let stderr = child.stderr.take().expect("stderr");
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let line =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                let _ = sender.send(line);
            }
        });
        let mut this = Self {
            child,
            address: String::new(),
            lines,
            log: vec![],
        };
        let serving = this.line_with("address", "127.0.0.1:");
        serving["address"]
            .as_str()
            .expect("address")
            .clone_into(&mut this.address);
        this
    }

    /// Waits for a line of the log whose field contains `part`.
    fn line_with(&mut self, field: &str, part: &str) -> Value {
        loop {
            let Ok(line) = self.lines.recv_timeout(Duration::from_secs(20)) else {
                panic!("no line whose {field} has {part:?} in {:#?}", self.log);
            };
            self.log.push(line.clone());
            if line[field].as_str().is_some_and(|text| text.contains(part)) {
                return line;
            }
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("connection");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answer");
        answer
    }

    /// Waits until the answer to `path` contains `part`.
    fn get_with(&self, path: &str, part: &str) -> String {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = self.get(path);
            if answer.contains(part) {
                return answer;
            }
            assert!(Instant::now() < end, "no {part:?} in {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a signal; it must end well, within five seconds (L8).
    fn ends_on(mut self, name: &str) {
        let begun = Instant::now();
        signal(self.child.id(), name);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("status") {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "it still runs");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let (code, words) = refusal(operator(&["--http-bnd=127.0.0.1:80"]));
    assert_eq!(code, 2);
    assert_eq!(
        words,
        "unexpected argument '--http-bnd' found; did you mean --http-bind?; --help lists the flags"
    );
    let (code, words) = refusal(operator(&["--http-bind=127.0.0.1:70000"]));
    assert_eq!(code, 2);
    assert_eq!(
        words,
        "--http-bind: `127.0.0.1:70000` has a bad port: it must be a number from 0 to 65535"
    );
    let mut environment = operator(&[]);
    environment.env("POD_NAMESPACE", "Not A Namespace");
    let (code, words) = refusal(environment);
    assert_eq!(code, 2);
    assert_eq!(
        words,
        "--namespace (POD_NAMESPACE): `Not A Namespace` must be the name of a namespace: at most 63 lower-case letters, digits and inner hyphens"
    );
}

#[test]
fn help_and_version_end_with_0() {
    for flag in ["--help", "--version"] {
        let output = ended(operator(&[flag]));
        assert!(output.status.success() && output.stderr.is_empty());
        assert!(String::from_utf8_lossy(&output.stdout).contains("node-fencing-operator"));
    }
}

#[test]
fn what_cannot_work_ends_with_2_and_the_way_out() {
    let (code, words) = refusal(operator(&[]));
    assert_eq!(code, 2);
    assert_eq!(
        words,
        "no cluster config: give --kubeconfig FILE or set KUBECONFIG, or run in a pod with a service account"
    );

    let (code, words) = refusal(operator(&["--kubeconfig=/nowhere", "--log-filter=off"]));
    assert_eq!(code, 2);
    assert_eq!(
        words,
        "failed to read the kubeconfig /nowhere (--kubeconfig): the file does not exist; name one with which `kubectl --kubeconfig FILE get nodes` works, or none in a pod"
    );

    let taken = TcpListener::bind("127.0.0.1:0").expect("port");
    let address = taken.local_addr().expect("address");
    let bind = format!("--http-bind={address}");
    let mut command = operator(&[&bind]);
    command.env("KUBECONFIG", GOOD.serve("port-in-use"));
    let (code, words) = refusal(command);
    assert_eq!(code, 2);
    assert_eq!(
        words,
        format!(
            "--http-bind: {address} is in use by another process; choose another port, or 0 for a free one"
        )
    );
}

/// Ends, after lines about the way there, with this code and last line.
fn last_line(cluster: Cluster, name: &str) -> (Option<i32>, String) {
    let mut command = operator(&["--http-bind=127.0.0.1:0"]);
    command.env("KUBECONFIG", cluster.serve(name));
    let output = ended(command);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    (
        output.status.code(),
        words_of(text.lines().last().unwrap_or_default()),
    )
}

#[test]
fn an_old_kubernetes_and_missing_resources_end_with_2() {
    let old = Cluster {
        minor: "27",
        ..GOOD
    };
    let (code, words) = last_line(old, "old");
    assert_eq!(code, Some(2));
    let found = "v1.27.9".to_owned();
    assert_eq!(words, preflight::Error::TooOld { found }.to_string());

    let bare = Cluster {
        installed: false,
        ..GOOD
    };
    let (code, words) = last_line(bare, "bare");
    assert_eq!(code, Some(2));
    assert_eq!(
        words,
        "the API server does not serve nodefencingpolicies, nodefencingpolicies/status, fencedevices, fencedevices/status, nodefences, nodefences/status as nodefencing.io/v1alpha1; apply the CustomResourceDefinitions of this version (kubectl apply -k crds, or helm upgrade)"
    );
}

#[test]
fn without_an_api_server_it_lives_is_not_ready_and_ends_on_a_signal() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("port");
    let address = nobody.local_addr().expect("address");
    drop(nobody);
    let mut operator = Running::start(
        &kubeconfig("nobody", address),
        &["--log-filter=info,kube=loud"],
    );
    let warning = &operator.log[0];
    assert_eq!(warning["level"], "WARN");
    assert_eq!(
        warning["message"],
        "--log-filter: `info,kube=loud` must be a level or a list such as info,kube=debug (error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5); info is used"
    );
    let asked = format!("failed to ask the API server http://{address} for its version: ");
    operator.line_with("message", &asked);
    assert!(operator.get("/livez").starts_with("HTTP/1.1 200"));
    let ready = operator.get_with("/readyz", &asked);
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    operator.ends_on("-INT");
}

#[test]
fn a_missing_right_is_listed_by_readyz_and_the_log() {
    let cluster = Cluster {
        denied: "patch nodes",
        ..GOOD
    };
    let mut operator = Running::start(&cluster.serve("denied"), &[]);
    let line = operator.line_with("message", "not ready: RBAC does not grant");
    assert_eq!(line["level"], "ERROR");
    let missing = "RBAC does not grant: patch nodes (see deploy/rbac.yaml)";
    assert_eq!(line["message"], format!("not ready: {missing}"));
    let ready = operator.get_with("/readyz", missing);
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    let mut lines = ready.lines().filter(|line| line.contains("RBAC"));
    assert!(
        lines.next().is_some_and(|line| line.ends_with(missing)),
        "{ready}"
    );
    assert_eq!(lines.next(), None, "{ready}");
    assert!(operator.get("/livez").starts_with("HTTP/1.1 200"));
    assert!(
        operator
            .get("/metrics")
            .contains("node_fencing_build_info{")
    );
    operator.ends_on("-TERM");
}
