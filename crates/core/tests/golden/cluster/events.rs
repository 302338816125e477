//! What happens in a story to the Node, its Lease, its pods and its volumes, by somebody else's hand.

use super::{MACHINE, WALL, World};
use fencing_core::decision::Evidence;
use fencing_core::observed::{AttachmentView, CLAIM, ConditionView, NodeView, PodView, TaintView};
use fencing_core::record;
use std::collections::BTreeMap;

impl World {
    /// `NotReady`, `Ready`, `boots boot-2`, `is deleted`, `is created anew`, `cannot be read: why`, `loses its conditions`,
    /// `has the finalizer NAME`, `is being deleted`, `loses its finalizers` (and is gone then).
    pub fn node_event(&mut self, event: &str) -> Result<(), String> {
        self.node_unreadable = None;
        self.versions += 1;
        let reported = (WALL + self.now).to_string();
        let status = |node: &mut Option<NodeView>, status: &str| {
            let node = node.as_mut().ok_or("there is no Node")?;
            for condition in &mut node.conditions {
                status.clone_into(&mut condition.status);
                if status != "Unknown" {
                    condition.heartbeat.clone_from(&reported);
                }
            }
            Ok::<_, String>(())
        };
        match event {
            "is NotReady" => status(&mut self.node, "Unknown")?,
            "reports Ready=False" => status(&mut self.node, "False")?,
            "is Ready" => status(&mut self.node, "True")?,
            "is deleted" => self.node = None,
            "is created anew" => self.node = Some(node("uid-2", "boot-2")),
            "loses its conditions" => self.node.as_mut().ok_or("no Node")?.conditions.clear(),
            "is being deleted" => self.node.as_mut().ok_or("no Node")?.deleting = true,
            "loses its finalizers" => {
                self.node.as_mut().ok_or("no Node")?.finalizers.clear();
                self.node = self.node.take().filter(|node| !node.deleting);
            }
            _ if event.starts_with("has the finalizer ") => {
                let finalizer = event.replace("has the finalizer ", "");
                let node = self.node.as_mut().ok_or("no Node")?;
                node.finalizers.push(finalizer);
            }
            _ => match (
                event.strip_prefix("boots "),
                event.strip_prefix("cannot be read: "),
            ) {
                (Some(boot), _) => {
                    boot.clone_into(&mut self.node.as_mut().ok_or("no Node")?.boot_id)
                }
                (_, Some(reason)) => self.node_unreadable = Some(reason.to_owned()),
                _ => return Err(format!("unknown event of a node `{event}`")),
            },
        }
        Ok(())
    }

    /// `KEY=VALUE:EFFECT`, set by somebody else: a claim as another process dates it, anything else as kubectl does, which is not at all.
    /// ` undated` leaves the date away, `beside ` leaves a taint of the same key where it is. `out-of-service under the claim`,
    /// `detaching under the claim`: by whoever has set the claim that stands there.
    pub fn taint_by_somebody(&mut self, text: &str) -> Result<(), String> {
        let claim = self.node.as_ref().and_then(|node| node.taint(CLAIM));
        let of_claim = claim.and_then(|(_, claim)| claim.time_added.clone());
        let now = (WALL + self.now).to_string();
        let is_beside = text.starts_with("beside ");
        let (text, date) = match text {
            "out-of-service under the claim" => (
                "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
                of_claim,
            ),
            "detaching under the claim" => ("nodefencing.io/detaching=boot-1:NoExecute", of_claim),
            text if is_beside => (text.trim_start_matches("beside "), None),
            text if text.ends_with(" undated") => (text.trim_end_matches(" undated"), None),
            text if text.starts_with(CLAIM) => (text, Some(of_claim.unwrap_or(now))),
            text => (text, None),
        };
        let (key, rest) = text.split_once('=').ok_or("no `=`")?;
        let (value, effect) = rest.split_once(':').ok_or("no `:`")?;
        let taints = &mut self.node.as_mut().ok_or("no Node")?.taints;
        taints.retain(|taint| taint.key != key || is_beside);
        let [key, value, effect] = [key, value, effect].map(str::to_owned);
        taints.push(TaintView {
            key,
            value: Some(value),
            effect,
            time_added: date,
        });
        Ok(())
    }

    /// Another process of the operator took the incident over, proved it and set the taint.
    pub fn successor_taints(&mut self) -> Result<(), String> {
        self.taint_by_somebody("nodefencing.io/claim=fence-other:NoExecute")?;
        self.taint_by_somebody("out-of-service under the claim")?;
        let evidence = Evidence {
            claim: "fence-other".to_owned(),
            node_uid: "uid-1".to_owned(),
            boot_id: "boot-1".to_owned(),
            lease_renew_time: String::new(),
            last_report: String::new(),
            level: "level".to_owned(),
            by_confirmation: false,
            readings: Vec::new(),
        };
        record::evidence(&mut self.status, &evidence, &self.memory, self.now, WALL);
        Ok(())
    }

    /// A taint that somebody else removes.
    pub fn untaint(&mut self, key: &str) -> Result<(), String> {
        let taints = &mut self.node.as_mut().ok_or("no Node")?.taints;
        taints.retain(|taint| taint.key != key);
        Ok(())
    }

    /// `renewed`, `cannot be read`, `readable`.
    pub fn lease_event(&mut self, event: &str) -> Result<(), String> {
        match event {
            "is renewed" => self.lease += 1,
            "cannot be read" => self.lease_unreadable = true,
            "can be read" => self.lease_unreadable = false,
            _ => return Err("unknown event of a lease".to_owned()),
        }
        Ok(())
    }

    /// `NAME runs|is deleted|is gone`, with `(finalizers, finished, static, tolerates out-of-service, tolerates the claim, uses PV)`.
    pub fn pod_event(&mut self, text: &str) -> Result<(), String> {
        let (text, flags) = text.split_once(" (").unwrap_or((text, ""));
        let (name, event) = text.split_once(' ').ok_or("no event")?;
        let old = self.pods.iter().position(|pod| pod.name == name);
        let mut pod = match old {
            Some(index) => self.pods.remove(index),
            None => new_pod(name),
        };
        for flag in flags
            .trim_end_matches(')')
            .split(", ")
            .filter(|flag| !flag.is_empty())
        {
            match (flag, flag.strip_prefix("uses ")) {
                ("finalizers", _) => pod.finalizers = true,
                ("attaches", _) => pod.attachable = true,
                ("finished", _) => pod.finished = true,
                ("static", _) => pod.mirror = true,
                ("tolerates the claim", _) => {
                    pod.tolerates_claim =
                        Some("operator Exists, every key, without a time limit".to_owned());
                }
                ("tolerates out-of-service", _) => pod.tolerates_out_of_service = true,
                (_, Some(volume)) => {
                    pod.claims.push(volume.to_owned());
                    pod.attachable = true;
                }
                _ => return Err(format!("unknown flag `{flag}`")),
            }
        }
        match event {
            "runs" => {}
            "is deleted" => pod.deleting = true,
            "is gone" => return Ok(()),
            _ => return Err(format!("unknown event of a pod `{event}`")),
        }
        self.pods.insert(old.unwrap_or(self.pods.len()), pod);
        Ok(())
    }

    /// `NAME is attached [by DRIVER]|is detached|does not detach: why`; the Node's `volumesAttached` follows.
    pub fn volume_event(&mut self, text: &str) -> Result<(), String> {
        let (name, event) = text.split_once(' ').ok_or("no event")?;
        self.volumes.retain(|volume| volume.volume != name);
        let error = event.strip_prefix("does not detach: ").map(str::to_owned);
        let driver = event.strip_prefix("is attached by ");
        if event == "is attached" || driver.is_some() || error.is_some() {
            self.volumes.push(AttachmentView {
                name: format!("csi-{name}"),
                uid: String::new(),
                attacher: driver.unwrap_or("lab.csi").to_owned(),
                volume: name.to_owned(),
                deleting: error.is_some(),
                detach_error: error,
            });
        }
        if let Some(node) = &mut self.node {
            node.volumes_attached = self.volumes.len();
        }
        Ok(())
    }
}

pub(super) fn node(uid: &str, boot_id: &str) -> NodeView {
    NodeView {
        name: "worker-1".to_owned(),
        uid: uid.to_owned(),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: "Unknown".to_owned(),
            transition: String::new(),
            heartbeat: WALL.to_string(),
        }],
        boot_id: boot_id.to_owned(),
        system_uuid: MACHINE.to_owned(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: 0,
        reported_early: false,
        resource_version: String::new(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

fn new_pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        deleting: false,
        finished: false,
        finalizers: false,
        mirror: false,
        tolerates_out_of_service: false,
        tolerates_claim: None,
        claims: Vec::new(),
        attachable: false,
        inline: false,
        comes_back: false,
        looks_alive: false,
        written: 0,
    }
}
