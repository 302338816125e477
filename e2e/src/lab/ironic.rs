//! Machines that are hosts of Metal3, as in [`super::metal3`], on Ironic: what the controller of ours says of a host's power is what Ironic says of
//! its node, and Ironic has it of sushy-tools' emulator before the machine. None of us wrote these two.
//!
//! The controller does what baremetal-operator 02aa5059 does with a host that is provisioned (`manageHostPower` in
//! `internal/controller/metal3.io/baremetalhost_controller.go`, `pkg/provisioner/ironic/ironic.go`), in its order, and writes what it writes. It
//! looks four times a second, where the other waits for 3 s to a minute, and after a failure as long as the other does after the first. Left out:
//! soft power-offs, and what is not about the power.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Lab;
use super::infra::{Controller, Infra, Manage, Switches};
use super::metal3::{HOSTS, event, is_wanted, release, switched};
use fencing_testbed::{ironic::Ironic, moment::Moment, power::Power, sushy::Sushy};

/// `status.errorType` after a power command in vain.
const POWER_ERROR: &str = "power management error";
/// The reason of its event.
const FAILED: &str = "PowerManagementError";
/// How long a host is left alone after a failure: their shortest time. They double it with each.
const BACK_OFF: Duration = Duration::from_secs(60);

/// The cluster with the hosts, Ironic and the BMCs. It ends when dropped.
pub struct Metal3OnIronic {
    _controller: Controller,
    hosts: Api<DynamicObject>,
    ironic: Arc<Ironic>,
    bmcs: Vec<Sushy>,
    _infra: Infra,
}

impl Metal3OnIronic {
    /// See [`super::Metal3::release`].
    pub async fn release(&self, node: &str) -> Result<()> {
        release(&self.hosts, node).await
    }

    /// What was done to the machine of this place, counted from 0: when, and whether on or off.
    pub fn switched(&self, machine: usize) -> Vec<(Moment, bool)> {
        self.bmcs[machine].switched()
    }

    /// The BMC of the machine of this place, counted from 0.
    pub fn bmc(&mut self, machine: usize) -> &mut Sushy {
        &mut self.bmcs[machine]
    }

    /// The BareMetalHost of this node.
    pub async fn host(&self, node: &str) -> Result<DynamicObject> {
        Ok(self.hosts.get(node).await?)
    }

    /// Ironic's node of this node.
    pub async fn ironic_node(&self, node: &str) -> Result<Value> {
        self.ironic.node(&name_of(node)).await
    }
}

impl Lab {
    /// A cluster of Metal3 on Ironic, whose hosts they are. Ironic reads their power again after each period of `sync`.
    pub async fn metal3_on_ironic(&self, sync: Duration) -> Result<Metal3OnIronic> {
        let plane = &self.control_plane;
        let (guard, logs) = (plane.guard(), plane.files().directory());
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ironic = Arc::new(Ironic::start(here, sync, &self.ca, guard, logs).await?);
        let mut bmcs = Vec::new();
        for (place, rig) in self.rigs.iter().enumerate() {
            let bmc = self.bare_emulator(place + 1, None).await?;
            ironic.enrol(&name_of(rig.machine.name()), &bmc).await?;
            bmcs.push(bmc);
        }
        let (infra, hosts) = self.hosts().await?;
        let baremetal_operator = BaremetalOperator {
            hosts: hosts.clone(),
            events: Api::namespaced(infra.plane.admin(), HOSTS),
            ironic: Arc::clone(&ironic),
            failed: Mutex::default(),
        };
        let controller = Controller::run(Switches::of(self.plugs()), baremetal_operator);
        Ok(Metal3OnIronic {
            _controller: controller,
            hosts,
            ironic,
            bmcs,
            _infra: infra,
        })
    }
}

/// The name that baremetal-operator gives the node of a host.
fn name_of(host: &str) -> String {
    format!("{HOSTS}~{host}")
}

/// See the module.
struct BaremetalOperator {
    hosts: Api<DynamicObject>,
    events: Api<Event>,
    ironic: Arc<Ironic>,
    /// When a host has failed last, by its name.
    failed: Mutex<HashMap<String, Instant>>,
}

impl Manage for BaremetalOperator {
    async fn manage(&self, machine: &dyn Power) -> Result<()> {
        let name = machine.name();
        let failed = self.failed.lock().await.get(name).copied();
        if failed.is_some_and(|at| at.elapsed() < BACK_OFF) {
            return Ok(());
        }
        let mut host = self.hosts.get(name).await?;
        // Where Ironic does not answer, nothing is written.
        let node = self.ironic.node(&name_of(name)).await?;
        let before = host.data["status"].clone();
        let event = self.power(&mut host, &node).await?;
        let manageable = match node["fault"] == "power failure" {
            true => json!({"type": "Manageable", "status": "False", "reason": "PowerFailure"}),
            false => json!({"type": "Manageable", "status": "True", "reason": "Manageable"}),
        };
        host.data["status"]["conditions"] = json!([manageable]);
        if host.data["status"] != before {
            // Fails where the host has changed since it was read.
            let params = PostParams::default();
            self.hosts.replace_status(name, &params, &host).await?;
        }
        if let Some(event) = event {
            if event.reason.as_deref() == Some(FAILED) {
                let mut failed = self.failed.lock().await;
                failed.insert(name.to_owned(), Instant::now());
            }
            self.events.create(&PostParams::default(), &event).await?;
        }
        Ok(())
    }
}

impl BaremetalOperator {
    /// What Ironic's node says of the power goes into the status; or Ironic is asked to change it. Returns the event about it.
    async fn power(&self, host: &mut DynamicObject, node: &Value) -> Result<Option<Event>> {
        let is_on = match node["power_state"].as_str() {
            Some("power on") => Some(true),
            Some("power off") => Some(false),
            // Ironic does not know: what was written last stays.
            _ => None,
        };
        let wanted = is_wanted(host);
        let is_failed = host.data["status"]["errorType"] == POWER_ERROR;
        let is_written = |on: bool| host.data["status"]["poweredOn"] == json!(on);
        if let Some(on) = is_on.filter(|on| !is_written(*on)) {
            host.data["status"]["poweredOn"] = json!(on);
            if is_failed {
                clear_error(host);
            }
            return Ok(None);
        }
        if is_written(wanted) {
            return Ok(None);
        }
        let target = match wanted {
            true => "power on",
            false => "power off",
        };
        let under_way = &node["target_power_state"];
        let last_error = node["last_error"].as_str().unwrap_or_default();
        if under_way == target {
            clear_error(host);
            return Ok(None);
        }
        // After a failure that was written, it is tried again.
        if !last_error.is_empty() && !is_failed {
            let count = host.data["status"]["errorCount"].as_i64();
            let status = &mut host.data["status"];
            status["operationalStatus"] = json!("error");
            status["errorType"] = json!(POWER_ERROR);
            status["errorMessage"] = json!(last_error);
            status["errorCount"] = json!(count.unwrap_or_default() + 1);
            return event(host, FAILED, last_error).map(Some);
        }
        let name = host.metadata.name.as_deref().context("a name")?;
        match self.ironic.set_power(&name_of(name), target).await? {
            StatusCode::ACCEPTED => {
                clear_error(host);
                let (reason, message) = switched(wanted);
                event(host, reason, message).map(Some)
            }
            // The node is locked.
            StatusCode::CONFLICT => {
                clear_error(host);
                Ok(None)
            }
            other => bail!("{target}: {other}"),
        }
    }
}

fn clear_error(host: &mut DynamicObject) {
    let status = &mut host.data["status"];
    status["operationalStatus"] = json!("OK");
    status["errorMessage"] = json!("");
    if let Some(status) = status.as_object_mut() {
        status.remove("errorType");
    }
}
