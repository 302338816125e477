//! An API server that knows what the operator asks for when it starts.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;

/// An API server: version, our resources if `installed`, and all rights but `denied` (`verb resource`).
#[derive(Clone, Copy)]
pub struct Cluster {
    pub minor: &'static str,
    pub installed: bool,
    pub denied: &'static str,
}

/// One with which all is well.
pub const GOOD: Cluster = Cluster {
    minor: "36",
    installed: true,
    denied: "",
};

impl Cluster {
    pub fn answer(self, line: &str, body: &Value) -> (&'static str, Value) {
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
    pub fn serve(self, name: &str) -> PathBuf {
        serve(name, move |line, body| self.answer(line, body))
    }
}

/// Serves these answers until the test ends; gives a kubeconfig for it.
pub fn serve(
    name: &str,
    answer: impl Fn(&str, &Value) -> (&'static str, Value) + Clone + Send + 'static,
) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || talk(stream, answer));
        }
    });
    kubeconfig(name, address)
}

/// One request, one answer, done.
fn talk(stream: TcpStream, answer: impl Fn(&str, &Value) -> (&'static str, Value)) -> Option<()> {
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
    let (status, answer) = answer(&first, &body);
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    let mut stream = reader.into_inner();
    stream.write_all((head + &answer).as_bytes()).ok()
}

/// A file that names this API server.
pub fn kubeconfig(name: &str, server: SocketAddr) -> PathBuf {
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
