//! The world of a story: one Node with its pods and volumes, devices that answer when the story says so, and an API server.
//!
//! This file is what there is, and one round over it. What happens to it is in `events`, what devices say in `answers`, and
//! what the API server makes of the core's writes in `patch`.

mod answers;
mod events;
mod patch;

pub use self::answers::Answer;
use self::answers::Pending;
use self::patch::Fate;
use fencing_api::fence_status::NodeFenceStatus;
use fencing_api::settings::{FenceMode, Procedure};
use fencing_core::control::Control;
use fencing_core::decision::{Decision, DeviceOrder, Effect};
use fencing_core::delay::{Now, Since};
use fencing_core::device::{Device, Level, Storage};
use fencing_core::hold::Hold;
use fencing_core::identity_rule::IdentityRule;
use fencing_core::memory::Memory;
use fencing_core::observed::{
    AttachmentView, LeaseView, NodeView, Observed, PodView, Read, Volumes,
};
use fencing_core::plan::{Moment, needs, step};
use fencing_core::record;
use fencing_core::settings::ManualConfirmation;
use fencing_core::settings::{Approval, ForeignCommands, Record, Settings};
use fencing_core::stage::Stage;
use fencing_core::taint::NodePatch;
use fencing_core::verification::{Require, Verification};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// System UUID of the machine that the node runs on.
const MACHINE: &str = "11111111-2222-4333-8444-555555555555";
/// No decision hangs on the wall clock.
const WALL: Timestamp = Timestamp::UNIX_EPOCH;

/// Everything that is, and what the operator remembers of it.
pub struct World {
    pub now: Duration,
    pub settings: Settings,
    pub memory: Memory,
    pub notes: Vec<String>,
    pub ended: bool,
    pub hold: Option<Hold>,
    pub rival: bool,
    pub cleared_by: Option<String>,
    pub frozen: Option<String>,
    pub kubelet_answers: bool,
    pub pods_unreadable: bool,
    /// Their list takes longer than the second that a look has for it.
    pub pods_late: bool,
    pub cache_is_empty: bool,
    /// Why the NodeFence cannot be read.
    pub fence_unreadable: Option<String>,
    pub volumes_unreadable: bool,
    node: Option<NodeView>,
    node_unreadable: Option<String>,
    lease: u32,
    lease_unreadable: bool,
    pods: Vec<PodView>,
    volumes: Vec<AttachmentView>,
    fate: Vec<Fate>,
    late: Option<NodePatch>,
    pending: Option<Pending>,
    nonces: u32,
    versions: u32,
    status: NodeFenceStatus,
}

impl World {
    /// A healthy policy, one device, a node that is about to fail.
    pub fn new() -> Self {
        let level = Level {
            name: "default".to_owned(),
            require: Require::All,
            attempts_max: 3,
            retry_period: Duration::from_secs(5),
            timeout: Duration::from_secs(120),
            devices: vec![Self::device("bmc")],
        };
        let mut procedure = Procedure::default();
        procedure.fence.mode = FenceMode::ConfirmOnly;
        procedure.release.timeout_seconds = 900;
        let settings = Settings {
            fence: "fence".to_owned(),
            node: "worker-1".to_owned(),
            node_uid: Some("uid-1".to_owned()),
            boot_id: Some("boot-1".to_owned()),
            human: false,
            adopted: false,
            not_before: Duration::ZERO,
            claims_off_early: false,
            condition: None,
            procedure,
            power_on: None,
            verification: Verification {
                off_reads_min: 2,
                window: Duration::from_secs(1),
            },
            read_period: Duration::from_secs(1),
            levels: vec![level],
            approval: Approval::NotNeeded,
            unsupported: None,
            confirmation: None,
            released: false,
            stop: None,
            record: Record::default(),
        };
        Self {
            now: Duration::ZERO,
            settings,
            memory: Memory::default(),
            notes: Vec::new(),
            ended: false,
            hold: None,
            rival: false,
            cleared_by: None,
            frozen: None,
            kubelet_answers: false,
            pods_unreadable: false,
            pods_late: false,
            cache_is_empty: false,
            fence_unreadable: None,
            volumes_unreadable: false,
            node: Some(events::node("uid-1", "boot-1")),
            node_unreadable: None,
            lease: 1,
            lease_unreadable: false,
            pods: Vec::new(),
            volumes: Vec::new(),
            fate: Vec::new(),
            late: None,
            pending: None,
            nonces: 0,
            versions: 1,
            status: NodeFenceStatus::default(),
        }
    }

    /// A device that must be the machine's.
    pub fn device(name: &str) -> Device {
        Device {
            name: name.to_owned(),
            version: "uid/1".to_owned(),
            identity: match name.starts_with("human") {
                true => IdentityRule::Skip,
                false => IdentityRule::Is(MACHINE.to_owned()),
            },
            manual: name.starts_with("human"),
            outlets: name.starts_with("outlet") || name.starts_with("storage"),
            covers: name.starts_with("storage").then(|| Storage {
                driver: "storage.csi".to_owned(),
                cluster: "a".to_owned(),
            }),
            control: match name {
                _ if name.ends_with("-unseen") => Control::Missing,
                _ if name.ends_with("-liar") => Control::OffWhileRunning,
                _ if name.ends_with("-unprobed") => Control::Shown,
                _ => Control::ShownLately,
            },
        }
    }

    /// A human gives a word now, about the Node with this UID.
    pub fn confirmed(&mut self, user: &str, node_uid: &str, is_ahead: bool) {
        const BY_HAND: &str = "manualConfirmation";
        let heard = Now {
            boot: self.now,
            wall: WALL,
        };
        self.settings.confirmation = Some(ManualConfirmation {
            user: user.to_owned(),
            node_uid: node_uid.to_owned(),
            given: Since::at(WALL, heard),
            is_ahead,
        });
        self.settings.levels.push(Level {
            name: BY_HAND.to_owned(),
            require: Require::All,
            attempts_max: 1,
            retry_period: Duration::from_secs(5),
            timeout: Duration::from_secs(60),
            devices: vec![Device {
                identity: IdentityRule::Skip,
                manual: true,
                ..Self::device(BY_HAND)
            }],
        });
    }

    /// Does a level of the settings name this device?
    pub fn knows(&self, device: &str) -> bool {
        let mut devices = self.settings.levels.iter().flat_map(|level| &level.devices);
        devices.any(|known| known.name == device)
    }

    /// Names of a level's devices.
    pub fn device_names(&self, level: usize) -> Vec<String> {
        let level = self.settings.levels.get(level);
        let devices = level.into_iter().flat_map(|level| &level.devices);
        devices.map(|device| device.name.clone()).collect()
    }

    /// One round, as the shell makes it: reads what the core asks for and nothing else.
    pub fn decide(&mut self) -> Decision {
        // Whatever happens to a Node makes another version of it.
        if let Some(node) = &mut self.node {
            node.resource_version = format!("{}", self.versions);
        }
        let observed = self.observe();
        let nonce = format!("n{}", self.nonces + 1);
        let moment = Moment {
            now: self.now,
            nonce: nonce.clone(),
            date: (WALL + self.now).to_string(),
        };
        let decision = step(&self.settings, &mut self.memory, &observed, &moment);
        // A wait under the taint is written down.
        if self.memory.taint.seen && matches!(decision.effect, Effect::Wait) {
            let wall = WALL + self.now;
            record::volumes(&mut self.status, &self.memory, &observed, self.now, wall);
        }
        if decision.stage == Stage::PoweringOn {
            // The record knows the release by then, and what has become of the commands.
            record::stage(
                &mut self.status,
                &self.memory,
                &decision,
                None,
                self.now,
                WALL + self.now,
            );
        }
        let ids = [
            self.memory.commands.attempt.as_ref().map(|it| &it.id),
            self.memory.power_on.attempt.as_ref().map(|it| &it.id),
        ];
        let used = ids.iter().flatten().any(|id| id.starts_with(&nonce));
        if used || matches!(decision.effect, Effect::Claim(_)) {
            self.nonces += 1;
        }
        decision
    }

    /// What the core asks for, and nothing else.
    fn observe(&self) -> Observed {
        let needs = needs(&self.settings, &self.memory, self.node.as_ref());
        let read = |wanted: bool, fails: bool| match (wanted, fails) {
            (false, _) => Some(Read::NotRead),
            (true, true) => Some(Read::Failed("HTTP 503".to_owned())),
            (true, false) => None,
        };
        let lease = LeaseView {
            renew_time: format!("renewal-{}", self.lease),
        };
        Observed {
            node: match (&self.node_unreadable, &self.node) {
                (Some(reason), _) => Read::Failed(reason.clone()),
                (None, Some(node)) => Read::Present(node.clone()),
                (None, None) => Read::Absent,
            },
            lease: match read(needs.lease, self.lease_unreadable) {
                Some(Read::Failed(reason)) => Read::Failed(reason),
                Some(_) => Read::NotRead,
                None => Read::Present(lease),
            },
            pods: read(needs.pods, self.pods_unreadable)
                .unwrap_or(Read::Present(self.pods.clone())),
            starting: match needs.starting.is_empty() {
                true => Read::NotRead,
                false => read(true, self.pods_unreadable)
                    .unwrap_or_else(|| Read::Present(self.still_there(&needs.starting))),
            },
            attachments: match (needs.attachments, self.volumes_unreadable) {
                (true, true) => Read::Failed("HTTP 503".to_owned()),
                (true, false) => Read::Present(self.volumes.clone()),
                (false, _) => Read::NotRead,
            },
            attachments_cached: if self.cache_is_empty {
                Vec::new()
            } else {
                self.volumes.clone()
            },
            volumes: match (&needs.volumes_of, self.volumes_unreadable) {
                (None, _) => Read::NotRead,
                (Some(_), true) => Read::Failed("HTTP 503".to_owned()),
                (Some(pods), false) => Read::Present(Volumes {
                    claims: Self::claimed(pods),
                    clusters: self.clusters(),
                }),
            },
            tolerated_volumes: self
                .pods
                .iter()
                .filter(|pod| pod.tolerates_out_of_service && !pod.deleting && needs.pods)
                .flat_map(|pod| pod.claims.clone())
                .collect(),
            kubelet_answers: needs.kubelet && self.kubelet_answers,
            evidence: match (needs.record, &self.fence_unreadable) {
                (true, Some(reason)) => Read::Failed(reason.clone()),
                (true, None) => Read::Present(self.status.evidence.iter().any(|it| {
                    let claim = self.node.as_ref().and_then(NodeView::claim);
                    claim == Some(it.claim.as_str())
                })),
                (false, _) => Read::NotRead,
            },
            hold: self.hold.clone(),
            claim_of_other_fence: self.rival,
            cleared_by: self.cleared_by.clone(),
            claim_of_other_process: false,
            frozen: self.frozen.clone(),
        }
    }

    /// Each attached volume with its `clusterID`: what follows the `@` of its name.
    fn clusters(&self) -> BTreeMap<String, String> {
        let of = |it: &AttachmentView| {
            let cluster = it
                .volume
                .split_once('@')
                .map_or("a", |(_, cluster)| cluster);
            (it.volume.clone(), cluster.to_owned())
        };
        self.volumes.iter().map(of).collect()
    }

    /// Each claim of these pods with its volume, which has its name.
    fn claimed(pods: &[PodView]) -> Vec<(String, String)> {
        let of = |pod: &PodView| {
            let claims = pod.claims.iter();
            let named = claims.map(|it| (format!("{}/{it}", pod.namespace), it.clone()));
            named.collect::<Vec<_>>()
        };
        pods.iter().flat_map(of).collect()
    }

    /// The Node, as it is.
    pub fn node(&self) -> Option<&NodeView> {
        self.node.as_ref()
    }

    /// Is anything attached?
    pub fn has_volumes(&self) -> bool {
        !self.volumes.is_empty()
    }

    /// Is there a pod that may write to a volume, or may be taken to?
    pub fn has_pod_with_volume(&self) -> bool {
        let is_done = |pod: &PodView| pod.deleting && pod.finished && pod.finalizers;
        let mut pods = self.pods.iter().filter(|pod| !pod.mirror && !is_done(pod));
        pods.any(|pod| pod.attachable)
    }

    /// The record, as it was written.
    pub fn status(&self) -> &NodeFenceStatus {
        &self.status
    }

    /// What the devices of a level are asked or told now.
    pub fn asked(&self) -> Option<(&DeviceOrder, &Level)> {
        self.pending.as_ref().map(|it| (&it.order, &it.level))
    }

    /// Those of these pods that still exist, as they are now.
    fn still_there(&self, pods: &[PodView]) -> Vec<PodView> {
        let is_one_of = |now: &&PodView| pods.iter().any(|pod| pod.uid == now.uid);
        self.pods.iter().filter(is_one_of).cloned().collect()
    }

    /// The process dies, and another one begins with what the NodeFence says: that names the claim by then, and not what others have sent.
    pub fn restart(&mut self) {
        let waited = match self.memory.stage {
            Some((Stage::AwaitingApproval, since)) => self.now - since,
            _ => Duration::ZERO,
        };
        record::note_findings(&mut self.status, &self.memory);
        // The wait under the taint writes it down.
        if self.memory.taint.seen {
            self.status.taint_applied_time.get_or_insert(WALL);
        }
        self.memory = Memory::default();
        self.pending = None;
        let before = self.settings.record.approval_waited;
        let foreign_commands = ForeignCommands {
            orphaned: false,
            ..self.settings.record.foreign_commands
        };
        self.settings.record = record::read(&self.status, WALL + self.now);
        self.settings.record.foreign_commands = foreign_commands;
        self.settings.record.approval_waited = before + waited;
    }
}
