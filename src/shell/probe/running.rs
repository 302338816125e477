//! Is the machine running of which its device reads Off? The kubelet answers that, by renewing its Lease.
//!
//! A machine that has just lost its power leaves its Node Ready for most of a minute, so an Off beside a Ready Node is no accusation yet. It becomes
//! one when the Lease was renewed after the device had read Off, and the device then reads Off again, in the same boot. No clocks are
//! compared: the Lease was read twice, and has changed in between.

use super::Prober;
use super::judge::{Finding, Judgement};
use crate::shell::found_off::Said;
use crate::shell::observe;
use fencing_api::device::{FenceDevice, Reads};
use fencing_core::control;
use fencing_core::early::Off;
use fencing_core::observed::{LeaseView, Read, Ready};
use fencing_core::protection::levels::Readiness;
use fencing_core::reading::PowerState;
use fencing_drivers::{DeviceError, Probe};
use kube::ResourceExt;
use std::time::Duration;

/// A device has read Off beside a Ready Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    /// The boot of that Node.
    pub boot_id: String,
    /// The kubelet's Lease, read after the device had answered. None: it could not be read, and is read beside the next answer.
    lease: Option<LeaseView>,
}

impl Prober {
    /// What counts in a proof counts here: an Off by the right machine, whose device has read On of it. A storage says nothing of the machine.
    pub(super) fn tell_of_off(
        &self,
        device: &FenceDevice,
        finding: &Finding,
        judgement: &Judgement,
        on_before: Option<Duration>,
    ) {
        let reading = finding.outcome.as_ref().ok().map(|probe| &probe.reading);
        let counts =
            judgement.readiness() != Readiness::NotReady && device.spec.reads() != Reads::Storage;
        let said = reading.and_then(|reading| match reading.is_off() {
            true => counts.then_some(Said::Off(Off {
                first: reading.asked,
                last: reading.asked,
                on_before,
            })),
            false => Some(Said::On).filter(|_| reading.state == PowerState::On),
        });
        self.found_off.note(&device.name_any(), &finding.node, said);
    }

    /// Has the kubelet renewed its Lease since the doubt arose?
    pub(super) async fn has_renewed(&self, node: &str, doubt: Option<&Doubt>) -> bool {
        let Some(doubt) = doubt else {
            return false;
        };
        match observe::lease(&self.client, node).await {
            Read::Present(lease) => doubt.lease.as_ref().is_some_and(|it| lease != *it),
            Read::Absent | Read::Failed(_) | Read::NotRead => false,
        }
    }

    /// The doubt that this answer leaves, or that it leaves standing.
    pub(super) async fn doubt(
        &self,
        node: &str,
        outcome: &Result<Probe, DeviceError>,
        before: Option<Doubt>,
    ) -> Option<Doubt> {
        let probe = outcome.as_ref().ok()?;
        if !control::reads_off(&probe.reading) {
            return None;
        }
        let cached = self.caches.node(node)?;
        let view = &cached.view;
        if view.ready() != Ready::True {
            return None;
        }
        let stands = |doubt: &Doubt| doubt.boot_id == view.boot_id && doubt.lease.is_some();
        let standing = before.filter(stands);
        if standing.is_some() {
            return standing;
        }
        let lease = match observe::lease(&self.client, node).await {
            Read::Present(lease) => Some(lease),
            Read::Absent | Read::Failed(_) | Read::NotRead => None,
        };
        Some(Doubt {
            boot_id: view.boot_id.clone(),
            lease,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::fake::{self, Cluster, failure};
    use crate::shell::probe::judge::{self, Finding};
    use crate::shell::probe::tests::prober;
    use fencing_api::device::FenceDevice;
    use fencing_core::control::Control;
    use fencing_core::fixtures::{node, off_readings};
    use fencing_drivers::clock::Clock;
    use serde_json::json;

    const LEASE: &str =
        "GET /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1";

    fn reads_off() -> Probe {
        Probe {
            reading: off_readings()[0].readings[0].clone(),
            vendor: None,
            model: None,
            firmware: None,
            power_restore_policy: None,
            restarter: None,
            certificate_expiry: None,
            off_denied: None,
            cipher_suites: Vec::new(),
            clock: None,
        }
    }

    /// S25: incidents are resolved by what it has found, whether or not the status of the FenceDevice could be written.
    #[tokio::test]
    async fn an_off_of_a_running_machine_counts_from_the_moment_it_is_found() {
        let cluster = Cluster::new().await;
        let prober = prober(&cluster.context());
        let device = FenceDevice::new(
            "bmc",
            serde_json::from_value(json!({"nodeName": "worker-1"})).expect("a spec"),
        );
        let mut node = node();
        node.conditions[0].status = "True".to_owned();
        prober.devices.survey(&[&device], &[&node]);
        let finding = |renewed| Finding {
            at: Clock::SYSTEM.wall(),
            node: node.clone(),
            identity: None,
            outcome: Ok(reads_off()),
            trimmed_keys: Vec::new(),
            renewed,
            control: None,
            on_node: None,
            asked: judge::asked(&device),
        };
        for (renewed, control) in [(false, Control::Missing), (true, Control::OffWhileRunning)] {
            prober.judged(&device, "worker-1", &finding(renewed));
            let now = prober
                .devices
                .control(&device, &node, "boot-1", Clock::SYSTEM.wall());
            assert_eq!(now, control, "{renewed}");
        }
    }

    /// S25: a Lease that cannot be read beside the first Off is no reason to believe the device until its next period.
    #[tokio::test]
    async fn an_off_beside_a_ready_node_is_doubted_also_while_its_lease_cannot_be_read() {
        let cluster = Cluster::new().await;
        let mut node = fake::node();
        node["status"]["conditions"][0]["status"] = "True".into();
        cluster.put("GET /api/v1/nodes", 200, fake::list("Node", "7", &[node]));
        let (context, _watches) = cluster.watching();
        let nodes = &context.caches.nodes;
        nodes.wait_until_ready().await.expect("the Nodes");
        let (prober, outcome) = (prober(&context), Ok(reads_off()));
        let lease = |time: &str| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "worker-1", "namespace": "kube-node-lease", "uid": "uid-1", "resourceVersion": "7"}, "spec": {"renewTime": time},
            })
        };
        let (status, body) = failure(500, "etcd is slow");
        cluster.put(LEASE, status, body);
        let doubt = prober.doubt("worker-1", &outcome, None).await;
        assert!(doubt.is_some());
        cluster.put(LEASE, 200, lease("2026-11-28T09:00:00.000000Z"));
        assert!(!prober.has_renewed("worker-1", doubt.as_ref()).await);
        let doubt = prober.doubt("worker-1", &outcome, doubt).await;
        assert!(!prober.has_renewed("worker-1", doubt.as_ref()).await);
        cluster.put(LEASE, 200, lease("2026-11-28T09:00:10.000000Z"));
        assert!(prober.has_renewed("worker-1", doubt.as_ref()).await);
    }
}
