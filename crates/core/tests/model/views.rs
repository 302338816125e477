//! The little cluster in the core's own types: its settings, what a round sees, what a device answers.
//!
//! Time stands still at [`NOW`]. What lies before it does so by one of the few distances below, so that two situations that are
//! the same to the core are the same here.

pub use crate::incident::Incident;
use crate::state::{Node, Pod, Taint};
use crate::turned_on;
use fencing_core::answer::{DeviceReply, PodList};
use fencing_core::control::Control;
use fencing_core::device::DeviceAnswer;
use fencing_core::device::DeviceReadings;
use fencing_core::device::{Device, Level};
use fencing_core::identity_rule::IdentityRule;
use fencing_core::observed::{
    AttachmentView, CLAIM, ConditionView, DETACHING, LeaseView, NodeView, OUT_OF_SERVICE, Observed,
    PodView, QUARANTINE, Read, TaintView,
};
use fencing_core::plan::Needs;
use fencing_core::reading::{Identity, PowerState, Reading};
use fencing_core::settings::{Approval, Record, Settings};
use fencing_core::verification::{Require, Verification};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The moment of every round.
pub const NOW: Duration = Duration::from_secs(1_000_000);
/// A moment ago.
pub const JUST_NOW: Duration = Duration::from_millis(999_999_999);
/// When everything had detached.
pub const DRAINED: Duration = Duration::from_millis(999_999_998);
/// Before that.
pub const BEFORE_DRAINED: Duration = Duration::from_millis(999_999_997);
/// So long ago that no reading from then counts any more.
pub const LONG_AGO: Duration = Duration::from_secs(999_900);
/// When the node became quiet, and everything else that is only ever compared with what came later.
pub const LONG_BEFORE: Duration = Duration::from_secs(999_000);
/// How long an off command may land late.
pub const LATE_EFFECT: Duration = Duration::from_secs(60);
/// An off may land until then, and this was known before the round.
pub const MAY_LAND: Duration = Duration::from_secs(1_000_059);
/// The window of readings that the policy wants.
pub const WINDOW: Duration = Duration::from_secs(1);
/// The window of readings after a contradiction.
pub const LONG_WINDOW: Duration = Duration::from_secs(40);

/// When the claim was set: all of them then, since no moment passes between two steps.
pub const DATE: &str = "2026-01-01T00:00:00Z";
const MACHINE: &str = "11111111-2222-4333-8444-555555555555";
/// The fence's name, without a hyphen.
pub const FENCE: &str = "fence";

/// The settings, with what the record said when it was read: evidence, tainted, unresolved (bits 0 to 2), and how many contradictions
/// there are.
pub fn settings(incident: &Incident, facts: u8) -> Settings {
    let fact = |bit: u8| facts >> bit & 1 == 1;
    Settings {
        fence: FENCE.to_owned(),
        node: "worker-1".to_owned(),
        node_uid: Some(uid(1)),
        boot_id: Some(boot(1)),
        human: false,
        adopted: false,
        not_before: Duration::ZERO,
        claims_off_early: false,
        condition: None,
        procedure: incident.procedure(),
        power_on: incident.turns_on.then(turned_on::wanted),
        verification: Verification {
            off_reads_min: 2,
            window: WINDOW,
        },
        read_period: Duration::from_secs(1),
        levels: vec![Level {
            name: "level".to_owned(),
            require: Require::All,
            attempts_max: 1,
            retry_period: Duration::from_secs(5),
            timeout: Duration::from_secs(120),
            devices: vec![device(incident.control)],
        }],
        approval: Approval::NotNeeded,
        unsupported: None,
        confirmation: None,
        released: false,
        stop: None,
        record: Record {
            evidence: fact(0),
            reported: None,
            proven_by: Default::default(),
            tainted: fact(1),
            unresolved: fact(2),
            due: true,
            contradictions: vec!["words".to_owned(); usize::from(facts >> 3)],
            ..Record::default()
        },
    }
}

pub const DEVICE: &str = "bmc";

fn uid(uid: u8) -> String {
    format!("uid-{uid}")
}

fn boot(boot: u8) -> String {
    format!("boot-{boot}")
}

/// The nonce that a claim ends with.
pub fn nonce(nonce: u8) -> String {
    format!("{nonce}")
}

/// The value of the claim with this nonce.
pub fn claim(with: u8) -> String {
    format!("{FENCE}-{}", nonce(with))
}

/// The nonce of a claim's value.
pub fn nonce_of(claim: &str) -> u8 {
    let nonce = claim.rsplit_once('-').map(|(_, nonce)| nonce);
    nonce
        .and_then(|nonce| nonce.parse().ok())
        .expect("a nonce of the model")
}

/// A renewal: 0 is the newest.
pub fn lease(renewal: u8) -> LeaseView {
    LeaseView {
        renew_time: format!("{renewal}"),
    }
}

fn taint_view(taint: Taint) -> TaintView {
    let (key, value, effect) = match (taint.nonce(), taint.quarantined()) {
        (Some(claim), _) => (CLAIM, self::claim(claim), "NoExecute"),
        (_, Some(fenced)) => (QUARANTINE, boot(fenced), "NoSchedule"),
        _ if taint == Taint::OUT_OF_SERVICE => {
            (OUT_OF_SERVICE, "nodeshutdown".to_owned(), "NoExecute")
        }
        _ if taint == Taint::DETACHING => (DETACHING, boot(1), "NoExecute"),
        _ => ("example.com/foreign", String::new(), "NoSchedule"),
    };
    TaintView {
        key: key.to_owned(),
        value: Some(value),
        effect: effect.to_owned(),
        time_added: matches!(key, CLAIM | OUT_OF_SERVICE | DETACHING).then(|| DATE.to_owned()),
    }
}

/// The number of a taint that the API server has stored.
pub fn taint_of(key: &str, value: &str) -> Taint {
    let number = |text: &str| text.rsplit_once('-').and_then(|(_, it)| it.parse().ok());
    match key {
        CLAIM => Taint::claim(number(value).expect("a claim's nonce")),
        QUARANTINE => Taint::quarantine(number(value).expect("a boot")),
        OUT_OF_SERVICE => Taint::OUT_OF_SERVICE,
        DETACHING => Taint::DETACHING,
        _ => Taint::FOREIGN,
    }
}

/// The Node as a quorum GET shows it.
pub fn node_view(node: &Node, is_attached: bool) -> NodeView {
    let status = if node.ready { "True" } else { "Unknown" };
    NodeView {
        name: "worker-1".to_owned(),
        uid: uid(node.uid),
        labels: BTreeMap::new(),
        annotation_keys: Vec::new(),
        unschedulable: false,
        taints: node.taints().map(taint_view).collect(),
        conditions: vec![ConditionView {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            transition: String::new(),
            heartbeat: String::new(),
        }],
        boot_id: boot(node.boot),
        system_uuid: MACHINE.to_owned(),
        provider_id: String::new(),
        addresses: Vec::new(),
        volumes_attached: usize::from(is_attached),
        reported_early: false,
        resource_version: "as read".to_owned(),
        finalizers: Vec::new(),
        deleting: false,
    }
}

/// The pods of a list, each as [`Pod::listed`] has it.
pub fn pod_views(incident: &Incident, listed: [u8; 2]) -> Vec<PodView> {
    let view = |(index, pod): (usize, u8)| PodView {
        namespace: "default".to_owned(),
        name: format!("pod-{index}"),
        uid: format!("pod-{index}-{}", pod >> 2 & 3),
        deleting: pod & 2 != 0,
        tolerates_out_of_service: index == 1 && incident.tolerates,
        attachable: index == 0 || incident.shares,
        written: u64::from(pod >> 4),
        ..PodView::default()
    };
    let pods = listed.into_iter().enumerate();
    pods.filter(|(_, pod)| *pod != 0).map(view).collect()
}

/// Which pod it is, and which of that name.
pub fn pod_of(view: &PodView) -> (usize, u8) {
    let mut parts = view.uid.rsplit('-');
    let mut next = || parts.next().and_then(|it| it.parse::<u8>().ok());
    let (generation, index) = (next(), next());
    (
        usize::from(index.expect("a pod")),
        generation.expect("a uid"),
    )
}

/// Everything that a round may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Look {
    /// The Node; uid 0: there is none.
    pub node: Node,
    /// Its pods, as [`Pod::listed`].
    pub pods: [u8; 2],
    /// Its volume is attached.
    pub attached: bool,
    /// Which VolumeAttachment that is, and whether it has a deletionTimestamp.
    pub attachment: (u8, bool),
    /// The NodeFence has evidence for the claim on the Node.
    pub evidence: bool,
    /// Which renewal of the Lease: 0 is the newest.
    pub lease: u8,
}

impl Look {
    /// All of it as one number.
    pub fn bits(&self) -> u64 {
        let [one, other] = self.pods.map(u64::from);
        let flags = u64::from(self.attached) | u64::from(self.evidence) << 1;
        let (number, leaving) = self.attachment;
        let attachment = u64::from(number) << 1 | u64::from(leaving);
        let rest = one | other << 5 | flags << 10 | attachment << 12 | u64::from(self.lease) << 15;
        self.node.bits() | rest << Node::BITS
    }

    /// Without what the round does not read, which then makes no difference.
    pub fn only(mut self, needs: &Needs) -> Self {
        if !needs.pods && needs.starting.is_empty() {
            self.pods = [0; 2];
        }
        if !needs.pods && !needs.attachments {
            self.attached = false;
            self.attachment = (0, false);
        }
        if !needs.lease {
            self.lease = 0;
        }
        if !needs.record {
            self.evidence = false;
        }
        self
    }

    /// What the round sees.
    pub fn observed(&self, incident: &Incident, needs: &Needs) -> Observed {
        let pods = pod_views(incident, self.pods);
        let attachments = match self.attached {
            true => vec![AttachmentView {
                name: "attachment".to_owned(),
                uid: format!("{}", self.attachment.0),
                attacher: "csi.example.com".to_owned(),
                volume: "volume".to_owned(),
                deleting: self.attachment.1,
                detach_error: None,
            }],
            false => Vec::new(),
        };
        let is_one_of = |pod: &&PodView| needs.starting.iter().any(|it| it.uid == pod.uid);
        Observed {
            node: match self.node.uid {
                0 => Read::Absent,
                _ => Read::Present(node_view(&self.node, self.attached)),
            },
            lease: seen(needs.lease, || lease(self.lease)),
            pods: seen(needs.pods, || pods.clone()),
            starting: seen(!needs.starting.is_empty(), || {
                pods.iter().filter(is_one_of).cloned().collect()
            }),
            attachments: seen(needs.attachments, || attachments.clone()),
            // The watch is behind, and shows nothing of what there is: it may delay, and never decides (S12). What the operator itself is to
            // detach it sees there.
            attachments_cached: match incident.deletes {
                true => attachments.clone(),
                false => Vec::new(),
            },
            volumes: Read::NotRead,
            tolerated_volumes: Vec::new(),
            // A firewall may always be in between: the safety rests on nothing that the port says.
            kubelet_answers: false,
            evidence: seen(needs.record, || self.evidence),
            hold: None,
            claim_of_other_fence: false,
            cleared_by: None,
            claim_of_other_process: false,
            frozen: None,
        }
    }
}

fn seen<T>(wanted: bool, value: impl Fn() -> T) -> Read<T> {
    match wanted {
        true => Read::Present(value()),
        false => Read::NotRead,
    }
}

/// The pods as a list shows them now.
pub fn listed(pods: &[Pod; 2]) -> [u8; 2] {
    [pods[0].listed(), pods[1].listed()]
}

pub fn reading(is_on: bool, asked: Duration) -> Reading {
    let (state, raw) = match is_on {
        true => (PowerState::On, "On"),
        false => (PowerState::Off, "Off"),
    };
    Reading {
        state,
        raw: raw.to_owned(),
        identity: Identity {
            system_uuid: Some(MACHINE.to_owned()),
            serial_number: None,
        },
        faults: Vec::new(),
        off_parts: Vec::new(),
        asked,
        answered: asked,
        wall: Timestamp::UNIX_EPOCH,
    }
}

pub fn device(control: Control) -> Device {
    Device {
        name: DEVICE.to_owned(),
        version: "uid/1".to_owned(),
        identity: IdentityRule::Is(MACHINE.to_owned()),
        manual: false,
        outlets: false,
        covers: None,
        control,
    }
}

/// The answer to a look.
pub fn looked(
    incident: &Incident,
    is_on: bool,
    asked: Duration,
    pods: Option<[u8; 2]>,
) -> DeviceReply {
    DeviceReply::PowerRead {
        answers: vec![DeviceAnswer {
            device: device(incident.control),
            reading: Ok(reading(is_on, asked)),
        }],
        pods: pods.map(|pods| pod_views(incident, pods)),
    }
}

/// The answer to the order to read until it is off: off twice over the window, with the list of pods in between if it was answered
/// in time; or On to the end.
pub fn confirmed(
    incident: &Incident,
    is_off: bool,
    window: Duration,
    pods: Option<[u8; 2]>,
) -> DeviceReply {
    let first = JUST_NOW - Duration::from_millis(4) - window;
    let readings = match is_off {
        true => vec![reading(false, first), reading(false, JUST_NOW)],
        false => vec![reading(true, JUST_NOW)],
    };
    let list = |pods| PodList {
        pods: pod_views(incident, pods),
        answered: JUST_NOW - Duration::from_millis(1),
    };
    DeviceReply::Confirmed {
        readings: vec![DeviceReadings::of(&device(incident.control), readings)],
        failures: Vec::new(),
        others: Vec::new(),
        kubelet_answers: None,
        pods: pods.map(list).into_iter().collect(),
    }
}
