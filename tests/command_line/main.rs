//! The operator's process as its user meets it: exit codes, the one line that says why, health, and how it ends.

#![allow(
    clippy::disallowed_methods,
    reason = "tests measure how long they wait"
)]

mod probe;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
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

/// Exit code, and what it said on standard error, which must be one line.
fn refusal(command: Command) -> (i32, String) {
    let output = ended(command);
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "more than one line:\n{text}");
    assert!(output.stdout.is_empty());
    (output.status.code().expect("a code"), text)
}

/// An API server: version, our resources if `installed`, and all rights but `denied` (`verb resource`).
#[derive(Clone, Copy)]
struct Cluster {
    minor: &'static str,
    installed: bool,
    denied: &'static str,
}

const GOOD: Cluster = Cluster {
    minor: "36",
    installed: true,
    denied: "",
};

impl Cluster {
    fn answer(self, line: &str, body: &Value) -> (&'static str, Value) {
        if line.starts_with("GET /version ") {
            let version = json!({
                "major": "1", "minor": self.minor, "gitVersion": format!("v1.{}.9", self.minor), "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
            });
            return ("200 OK", version);
        }
        if line.starts_with("GET /apis/nodefencing.io/v1alpha1 ") && self.installed {
            let resources: Vec<_> = ["nodefencingpolicies", "fencedevices", "nodefences"]
                .iter()
                .flat_map(|name| [(*name).to_owned(), format!("{name}/status")])
                .map(|name| json!({"name": name, "singularName": "", "namespaced": false, "kind": "X", "verbs": []}))
                .collect();
            let list = json!({"groupVersion": "nodefencing.io/v1alpha1", "resources": resources});
            return ("200 OK", list);
        }
        if line.contains("selfsubjectaccessreviews") {
            let asked = &body["spec"]["resourceAttributes"];
            let text = |key: &str| asked[key].as_str().unwrap_or_default();
            let right = format!("{} {}", text("verb"), text("resource"));
            let mut review = body.clone();
            review["status"] = json!({"allowed": right != self.denied});
            return ("201 Created", review);
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not here"});
        ("404 Not Found", status)
    }

    /// Serves it until the test ends; gives a kubeconfig for it.
    fn serve(self, name: &str) -> PathBuf {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let address = listener.local_addr().expect("address");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || self.talk(stream));
            }
        });
        kubeconfig(name, address)
    }

    /// One request, one answer, done.
    fn talk(self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok()?;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (status, answer) = self.answer(&first, &body);
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            answer.len()
        );
        let mut stream = reader.into_inner();
        stream.write_all((head + &answer).as_bytes()).ok()
    }
}

fn kubeconfig(name: &str, server: SocketAddr) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kubeconfig"));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{server}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(&path, config.to_string()).expect("kubeconfig");
    path
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
    assert!(
        words.contains("'--http-bnd'") && words.contains("did you mean --http-bind?"),
        "{words}"
    );
    let (code, words) = refusal(operator(&["--http-bind=127.0.0.1:70000"]));
    assert_eq!(code, 2);
    assert!(
        words.contains("--http-bind: `127.0.0.1:70000` has a bad port"),
        "{words}"
    );
    let mut environment = operator(&[]);
    environment.env("POD_NAMESPACE", "Not A Namespace");
    let (code, words) = refusal(environment);
    assert_eq!(code, 2);
    assert!(
        words.contains("--namespace (POD_NAMESPACE): `Not A Namespace` must be"),
        "{words}"
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
    assert!(
        words.contains("no cluster config: give --kubeconfig FILE or set KUBECONFIG"),
        "{words}"
    );

    let (code, words) = refusal(operator(&["--kubeconfig=/nowhere", "--log-filter=off"]));
    assert_eq!(code, 2);
    assert!(
        words.starts_with("error: failed to read the kubeconfig /nowhere (--kubeconfig)"),
        "{words}"
    );

    let taken = TcpListener::bind("127.0.0.1:0").expect("port");
    let bind = format!("--http-bind={}", taken.local_addr().expect("address"));
    let mut command = operator(&[&bind]);
    command.env("KUBECONFIG", GOOD.serve("port-in-use"));
    let (code, words) = refusal(command);
    assert_eq!(code, 2);
    assert!(
        words.contains("is in use by another process; choose another port"),
        "{words}"
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
        text.lines().last().unwrap_or_default().to_owned(),
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
    assert!(
        words.contains("Kubernetes v1.27.9") && words.contains("1.30 or newer"),
        "{words}"
    );

    let bare = Cluster {
        installed: false,
        ..GOOD
    };
    let (code, words) = last_line(bare, "bare");
    assert_eq!(code, Some(2));
    assert!(
        words.contains("nodefences") && words.contains("kubectl apply -k"),
        "{words}"
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
    assert!(
        warning["message"]
            .as_str()
            .is_some_and(|words| words.contains("--log-filter: `info,kube=loud`"))
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
    let ready = operator.get_with("/readyz", "RBAC does not grant: patch nodes");
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    assert_eq!(ready.matches("RBAC").count(), 1, "{ready}");
    assert!(operator.get("/livez").starts_with("HTTP/1.1 200"));
    assert!(
        operator
            .get("/metrics")
            .contains("node_fencing_build_info{")
    );
    operator.ends_on("-TERM");
}
