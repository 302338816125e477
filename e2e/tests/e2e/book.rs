//! The book's commands for a cluster, as they stand on its pages and in its runbooks, typed into a shell with a real kubectl: while one node's
//! incident goes on, with a NodeFence of its own for each block that changes one.
//!
//! A page's own objects are applied before its commands, and a file that the page writes is written. What stands for a name (`NAME`, `NODE`,
//! `POLICY`, `DEVICE`) is put in. What cannot run here is named in [`ELSEWHERE`], with the reason.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::lab;
use e2e::lab::{Lab, Setup};
use e2e::operator::plugins;
use e2e::prometheus::Prometheus;
use e2e::toolchain::{Programs, Toolchain};
use fencing_testbed::debian;
use fencing_testbed::paths::workspace;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::process::Command;

use crate::outage::name;

/// Files that pages make Secrets and ConfigMaps of.
const FILES: [&str; 6] = [
    "key.json",
    "infra.kubeconfig",
    "hosts.kubeconfig",
    "tls.crt",
    "tls.key",
    "cacert.pem",
];
/// What is in a command that cannot run in a lab, and why.
const ELSEWHERE: [(&str, &str); 9] = [
    (" logs ", "the lab's operator runs beside the cluster"),
    (" port-forward ", "the same"),
    ("/proxy/", "the same"),
    (
        " kube-controller-manager ",
        "the lab's has no rival, and no Lease",
    ),
    (" bmh ", "Metal3 is not there"),
    (" csiaddonsnodes ", "CSI-Addons is not there"),
    (" networkfences", "the same"),
    (
        " fence check",
        "it finds the lab's operator not in the cluster, which is its answer",
    ),
    (" -w", "it does not end"),
];
/// Is typed elsewhere, in the lab that it is about: [`crate::prompt`].
const PLAYED: &str = "docs/tutorial.md";
/// Whose removal is to be tried last: nothing else works after it.
const LAST: &str = "docs/how-to/uninstall.md";
/// What a command finds nothing with is no failure: grep says so by 1. And what `kubectl fence` finds it says by 2 and 3; that it has failed, by 1.
const PRELUDE: &str = "set -eu\ngrep() { command grep \"$@\" || test $? = 1; }\nkubectl() { command kubectl \"$@\" || case \"$1:$?\" in fence:[23]) ;; *) return 1 ;; esac; }\n";

/// A block of commands.
struct Block {
    place: String,
    text: String,
}

/// A page, in the order in which it is read.
struct Page {
    path: String,
    /// Objects of ours that it shows, and the files into which it has somebody write them.
    objects: Vec<(Option<String>, String)>,
    /// The blocks that need a cluster: those that say so, and all of the runbooks.
    blocks: Vec<Block>,
}

fn pages() -> Result<Vec<Page>> {
    let mut paths = Vec::new();
    for folder in ["docs", "docs/how-to", "docs/runbooks"] {
        for entry in std::fs::read_dir(workspace().join(folder))? {
            paths.push(format!("{folder}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    paths.retain(|path| path.ends_with(".md") && path != PLAYED);
    paths.sort_by_key(|path| (path == LAST, path.clone()));
    paths.into_iter().map(page).collect()
}

fn page(path: String) -> Result<Page> {
    let text = std::fs::read_to_string(workspace().join(&path))?;
    let of_runbook = path.starts_with("docs/runbooks/");
    let (mut objects, mut blocks) = (Vec::new(), Vec::new());
    let mut open: Option<(&str, usize, String)> = None;
    let mut file = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info, number, String::new())),
            (Some(_), Some(_)) => {
                let Some((info, number, text)) = open.take() else {
                    continue;
                };
                let place = format!("{path}:{number}");
                if info == "sh cluster" || of_runbook && info == "sh" {
                    blocks.push(Block { place, text });
                } else if info == "yaml" && text.starts_with("apiVersion: nodefencing.io/") {
                    objects.push((file.take(), text));
                }
            }
            (None, Some((_, _, block))) => block.push_str(&format!("{line}\n")),
            // `worker-3.yaml`: what follows is what stands in it.
            (None, None) => {
                let mut quoted = line.split('`').skip(1).step_by(2);
                let is_file = |word: &&str| word.ends_with(".yaml") && !word.contains([' ', '/']);
                file = quoted.find(is_file).map(str::to_owned).or(file);
            }
        }
    }
    Ok(Page {
        path,
        objects,
        blocks,
    })
}

/// With names in place of what stands for them.
fn filled(text: &str, names: &[(&str, &str)]) -> String {
    let word = |word: &str| {
        let known = names.iter().find(|(placeholder, _)| {
            word == *placeholder || word.ends_with(&format!("={placeholder}"))
        });
        match known {
            Some((placeholder, name)) => word.replace(placeholder, name),
            None => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// A lab in which somebody works by the book.
struct Desk {
    lab: Lab,
    prometheus: Prometheus,
    /// Where the commands are typed.
    folder: PathBuf,
    path: String,
    /// The node whose incident goes on, and its NodeFence.
    node: String,
    fence: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_commands_for_a_cluster_do_what_they_are_there_for() -> Result<()> {
    if !debian::available_to_test("the_books_commands_for_a_cluster_do_what_they_are_there_for")? {
        return Ok(());
    }
    let lab = Lab::start(Setup::new("book", 3).alone()).await?;
    let operator = lab.operator().await?;
    lab.wait_protected().await?;
    // An incident that waits for a human.
    workers(&lab).await?;
    // The machine of the pages is not there.
    let absent = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-3"}});
    let nodes: Api<Node> = Api::all(lab.control_plane.admin());
    nodes
        .create(&PostParams::default(), &serde_json::from_value(absent)?)
        .await?;
    lab.rig(1).machine.set_power(false);
    let fence = lab.wait_stage("node-1", "AwaitingApproval").await?;
    let desk = Desk::furnish(lab, name(&fence)?.to_owned()).await?;
    let (mut ran, mut failures) = (0, Vec::new());
    let mut operator = Some(operator);
    for page in pages()? {
        if page.path == LAST {
            // It goes with its account, and would be told so by each answer.
            operator.take().context("the operator")?.check()?;
        }
        desk.open(&page).await?;
        for block in page.blocks {
            match desk.run(&block).await {
                Ok(commands) => ran += commands,
                Err(error) => {
                    eprintln!("{}: {error:#}", block.place);
                    failures.push(block.place);
                }
            }
        }
    }
    ensure!(failures.is_empty(), "these failed: {failures:?}");
    ensure!(ran > 100, "only {ran} commands");
    Ok(())
}

/// The policy by the name that the pages use.
async fn workers(lab: &Lab) -> Result<()> {
    let asks = json!({"fence": {"approval": {"mode": "Manual"}}});
    lab.policy_named("workers", "ConfirmOnly", asks).await
}

impl Desk {
    async fn furnish(lab: Lab, fence: String) -> Result<Self> {
        let plane = &lab.control_plane;
        let folder = plane.files().directory().join("desk");
        std::fs::create_dir_all(folder.join("my"))?;
        // What docs/how-to/install.md has somebody write, and what redfish.md has at hand.
        std::os::unix::fs::symlink(workspace().join("deploy"), folder.join("deploy"))?;
        std::fs::write(folder.join("my/kustomization.yaml"), kustomization()?)?;
        std::fs::write(folder.join("ca.crt"), plane.ca_pem())?;
        // What other tools have written: what is in them no command here looks at.
        for name in FILES {
            std::fs::write(folder.join(name), "what a tool has written")?;
        }
        let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
        let kubectl = toolchain.program("kubectl");
        let programs = kubectl.parent().context("a folder")?.display().to_string();
        let others = std::env::var("PATH")?;
        let path = format!("{programs}:{}:{others}", plugins().await?.display());
        let rules = json!({"groups": []});
        let prometheus = Prometheus::start(plane.guard(), &folder, &rules, &[]).await?;
        Ok(Self {
            lab,
            prometheus,
            folder,
            path,
            node: "node-1".to_owned(),
            fence,
        })
    }

    /// Brings about what the page takes for granted.
    async fn open(&self, page: &Page) -> Result<()> {
        workers(&self.lab).await?;
        for (number, (file, object)) in page.objects.iter().enumerate() {
            let name = file.clone().unwrap_or(format!("object-{number}.yaml"));
            let path = self.folder.join(name);
            // Whoever asks for a fence says who they are.
            let object = object.replace("requestedBy: alice", "requestedBy: admin");
            std::fs::write(&path, object)?;
            let path = path.to_str().context("UTF-8")?;
            let apply = ["apply", "--server-side", "--force-conflicts", "-f", path];
            let applied = self.lab.control_plane.kubectl_text(&apply).await;
            applied.with_context(|| format!("{}, object {number}", page.path))?;
        }
        Ok(())
    }

    /// Runs the block's commands in one shell, and says how many they were.
    async fn run(&self, block: &Block) -> Result<usize> {
        let (fence, node) = self.subjects(block).await?;
        let names = [
            ("NAME", fence.as_str()),
            ("NODE", &node),
            ("POLICY", "workers"),
            ("DEVICE", &format!("{node}-bmc")),
        ];
        let text = filled(&block.text, &names);
        let is_elsewhere = |line: &&str| ELSEWHERE.iter().any(|(part, _)| line.contains(part));
        let (mut here, mut commands) = (PRELUDE.to_owned(), 0);
        for line in text.lines().filter(|line| !is_elsewhere(line)) {
            commands += 1;
            if let Some(query) = line.trim_start().strip_prefix("promtool query instant ") {
                self.query(query)?;
                continue;
            }
            here.push_str(line);
            here.push('\n');
        }
        self.shell(&here).await?;
        Ok(commands)
    }

    /// The NodeFence and the node that a block is about: those of the incident, or new ones for a block that changes them.
    async fn subjects(&self, block: &Block) -> Result<(String, String)> {
        let text = block.text.as_str();
        let kubectl =
            async |arguments: &[&str]| self.lab.control_plane.kubectl_text(arguments).await;
        for (words, name) in [
            ("create secret generic ", "secret"),
            ("create configmap ", "configmap"),
        ] {
            for after in text.split(words).skip(1) {
                let object = after.split_whitespace().next().context("a name")?;
                let namespace = "--namespace=node-fencing-system";
                kubectl(&["delete", name, object, namespace, "--ignore-not-found"]).await?;
            }
        }
        if text.contains("kubectl delete crd ") {
            // What Helm leaves.
            let path = |part: &str| workspace().join(part).display().to_string();
            kubectl(&["apply", "--kustomize", &path("crds")]).await?;
            kubectl(&["apply", "-f", &path("deploy/namespace.yaml")]).await?;
        }
        if text.contains("kubectl taint node NODE") {
            let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
            kubectl(&["taint", "--overwrite", "node", "node-3", taint]).await?;
        }
        let patches = |kind: &str| text.contains(&format!("kubectl patch {kind} NAME"));
        if !patches("nf") && !patches("nodefences") {
            let is_about_another = text.contains("kubectl taint node NODE");
            let node = if is_about_another {
                "node-3"
            } else {
                &self.node
            };
            return Ok((self.fence.clone(), node.to_owned()));
        }
        let place = |sign: char| {
            if sign.is_ascii_alphanumeric() {
                sign
            } else {
                '-'
            }
        };
        let name = block.place.to_lowercase().replace("docs/", "");
        let name: String = name.chars().map(place).collect();
        let uid = self.lab.node("node-3").await?.metadata.uid;
        let trigger = json!({"type": "Manual", "requestedBy": "admin", "reason": "the book"});
        let spec = json!({"nodeName": "node-3", "nodeUID": uid, "trigger": trigger, "fence": {"mode": "Observe"}});
        self.lab.apply("NodeFence", &name, spec).await?;
        Ok((name, "node-3".to_owned()))
    }

    /// Asks the query between the quotes of a real Prometheus.
    fn query(&self, words: &str) -> Result<()> {
        let query = words.split('\'').nth(1).context("a quoted query")?;
        let url = format!("http://127.0.0.1:{}", self.prometheus.port());
        let mut promtool = self.prometheus.promtool();
        let output = promtool.args(["query", "instant", &url, query]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{query}: {said}");
        Ok(())
    }

    async fn shell(&self, script: &str) -> Result<()> {
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.lab.control_plane.kubeconfig_for_admin())
            .env("HOME", &self.folder)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(lab::LIMIT, output).await??;
        if !output.status.success() {
            let (out, err) = (&output.stdout, &output.stderr);
            bail!(
                "{script}\n{}{}",
                String::from_utf8_lossy(out),
                String::from_utf8_lossy(err)
            );
        }
        Ok(())
    }
}

/// The block of docs/how-to/install.md that names the image.
fn kustomization() -> Result<String> {
    let page = std::fs::read_to_string(workspace().join("docs/how-to/install.md"))?;
    let mut blocks = page.split("```yaml\n").skip(1);
    let block = blocks.find(|block| block.starts_with("resources: [../deploy]"));
    let block = block.context("the page has a kustomization")?;
    Ok(block.split("```").next().unwrap_or_default().to_owned())
}
