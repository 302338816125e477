//! The API server refusing a kubelet's status, while it takes its Lease.
//!
//! It happens in life (an admission webhook or policy gone wrong), and the node then looks as dead as it did before
//! power-on while it runs pods: only the Lease gives it away. Here a ValidatingAdmissionPolicy does it, to one node.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::toolchain::Toolchain;

/// How long the API server may take to follow a change of its policies. It takes about a second.
const EFFECT_LIMIT: Duration = Duration::from_secs(20);

/// The refusal of one node's status: off at first.
pub(super) struct Refusal {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    node: String,
    on: AtomicBool,
}

impl Refusal {
    pub(super) fn new(toolchain: &Toolchain, admin: &Path, node: &str) -> Self {
        let (kubectl, kubeconfig) = (toolchain.program("kubectl"), admin.to_owned());
        Self {
            kubectl,
            kubeconfig,
            node: node.to_owned(),
            on: AtomicBool::new(false),
        }
    }

    /// Switches it. Blocks until the API server does so; does nothing if it does already.
    pub(super) fn set(&self, on: bool) -> Result<()> {
        if self.on.swap(on, Ordering::Relaxed) == on {
            return Ok(());
        }
        let verb = if on {
            ["apply", "--filename=-"]
        } else {
            ["delete", "--filename=-"]
        };
        let output = self.kubectl(&verb, &self.policy().to_string())?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let end = Instant::now() + EFFECT_LIMIT;
        while self.refused()? != on {
            if Instant::now() > end {
                bail!(
                    "the API server does not follow its policy on the status of {}",
                    self.node
                );
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Tries, by a status that the policy refuses to anybody.
    fn refused(&self) -> Result<bool> {
        let status = json!({"status": {"nodeInfo": {"bootID": PROBE}}});
        let patch = format!("--patch={status}");
        let verb = ["patch", "node", &self.node, "--subresource=status"];
        let output = self.kubectl(&[&verb[..], &["--dry-run=server", &patch]].concat(), "")?;
        let message = String::from_utf8_lossy(&output.stderr);
        let refused = message.contains(MESSAGE);
        ensure!(output.status.success() || refused, "{message}");
        Ok(refused)
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = Command::new(&self.kubectl)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env("NO_PROXY", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to run kubectl")?;
        child
            .stdin
            .take()
            .context("no standard input")?
            .write_all(input.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// The policy and its binding, in one list.
    fn policy(&self) -> serde_json::Value {
        let name = format!("lab-refuses-status-of-{}", self.node);
        let condition = format!(
            "request.userInfo.username == 'system:node:{}' || object.status.nodeInfo.bootID == '{PROBE}'",
            self.node
        );
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]});
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "this-kubelet-or-probe", "expression": condition}],
                "validations": [{"expression": "false", "message": MESSAGE}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
    }
}

/// The boot ID of a status that only the lab tries to write.
const PROBE: &str = "lab-probe";

/// What the kubelet is told.
const MESSAGE: &str = "the lab refuses this node's status";
