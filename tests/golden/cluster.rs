//! The world of a story: one Node with its pods and volumes, devices that answer when the story says so, and an API server that
//! really applies the core's JSON Patches, tests and all.

use jiff::Timestamp;
use node_fencing_operator::api::fence_status::NodeFenceStatus;
use node_fencing_operator::api::settings::{FenceMode, PodDeletion, RecoveryStrategy, ReleaseMode};
use node_fencing_operator::core::budget::Hold;
use node_fencing_operator::core::incident::{
    Approval, Decision, Device, DeviceOrder, DeviceReply, Effect, Evidence, Level, Memory,
    OffResult, Record, Reply, Settings, Sight,
};
use node_fencing_operator::core::observed::{
    AttachmentView, CLAIM, ConditionView, LeaseView, NodeView, OUT_OF_SERVICE, Observed, PodView,
    Ready, Seen, TaintView,
};
use node_fencing_operator::core::plan::{Moment, needs, step};
use node_fencing_operator::core::proof::{DeviceReadings, IdentityRule, Require, Verification};
use node_fencing_operator::core::reading::{Identity, PowerState, Reading};
use node_fencing_operator::core::record;
use node_fencing_operator::core::reply::{Asked, learn};
use node_fencing_operator::core::taint::NodePatch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// System UUID of the machine that the node runs on.
const MACHINE: &str = "11111111-2222-4333-8444-555555555555";
/// System UUID of another one.
const OTHER: &str = "99999999-2222-4333-8444-555555555555";
/// How long a device takes to answer one question.
const ANSWER_TIME: Duration = Duration::from_millis(10);
/// No decision hangs on the wall clock.
const WALL: Timestamp = Timestamp::UNIX_EPOCH;
/// Time between two readings of one confirmation.
const READ_PERIOD: Duration = Duration::from_millis(1100);

/// What becomes of the next write, instead of being done.
#[derive(Debug, Clone)]
pub enum Fate {
    /// Refused with this status and message.
    Refused(u16, String),
    /// Done, and the answer is lost.
    AnswerLost,
    /// Not done, no answer: it may still land.
    OnItsWay,
}

/// What a device says.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Readings, each with its own time or READ_PERIOD apart.
    Readings(Vec<(String, Option<Duration>)>),
    /// An error.
    Fails(String),
    /// What became of an off command.
    Off(OffResult),
}

impl Answer {
    /// `Off, Off@3.2s`, `fails: why`, `accepts`, `already off`, `goes silent`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(why) = text.strip_prefix("fails: ") {
            return Ok(Self::Fails(why.to_owned()));
        }
        match text {
            "accepts" => return Ok(Self::Off(OffResult::Accepted)),
            "is off already" => return Ok(Self::Off(OffResult::AlreadyOff)),
            "goes silent" => {
                let why = "no answer within 120 s".to_owned();
                return Ok(Self::Off(OffResult::Unknown(why)));
            }
            _ => {}
        }
        let reading = |word: &str| {
            let (state, at) = word.split_once('@').unwrap_or((word, ""));
            let at = at.strip_suffix('s').and_then(|at| at.parse().ok());
            (state.to_owned(), at.map(Duration::from_secs_f64))
        };
        Ok(Self::Readings(text.split(", ").map(reading).collect()))
    }

    /// The readings, the last of them answered at `now`.
    fn readings(&self, now: Duration) -> Result<Vec<Reading>, String> {
        let words = match self {
            Self::Readings(words) => words,
            Self::Fails(why) => return Ok(vec![reading("Unknown", why, now - ANSWER_TIME)?]),
            Self::Off(_) => return Err("nobody commanded anything".to_owned()),
        };
        let count = u32::try_from(words.len()).map_err(|error| error.to_string())?;
        let asked =
            |index: u32| (now - ANSWER_TIME).saturating_sub(READ_PERIOD * (count - 1 - index));
        let numbered = (0u32..).zip(words);
        numbered
            .map(|(index, (word, at))| reading(word, word, at.unwrap_or(asked(index))))
            .collect()
    }
}

/// `Off`, `On`, `Transitional`, `Unknown`, with `!fault` and `#other` (another machine) or `#nobody` behind.
fn reading(word: &str, raw: &str, asked: Duration) -> Result<Reading, String> {
    let mut parts = word.split_inclusive(['!', '#']);
    let state = match parts
        .next()
        .unwrap_or_default()
        .trim_end_matches(['!', '#'])
    {
        "On" => PowerState::On,
        "Off" => PowerState::Off,
        "Transitional" => PowerState::Transitional,
        "Unknown" => PowerState::Unknown,
        other => return Err(format!("a device does not say `{other}`")),
    };
    let uuid = match word {
        _ if word.ends_with("#other") => Some(OTHER.to_owned()),
        _ if word.ends_with("#nobody") || state == PowerState::Unknown => None,
        _ => Some(MACHINE.to_owned()),
    };
    Ok(Reading {
        state,
        raw: raw.to_owned(),
        identity: Identity {
            system_uuid: uuid,
            serial_number: None,
        },
        faults: if word.ends_with("!fault") {
            vec!["PowerFault".to_owned()]
        } else {
            Vec::new()
        },
        asked,
        answered: asked + ANSWER_TIME,
        wall: WALL,
    })
}

/// An order that no device has answered completely.
struct Pending {
    order: DeviceOrder,
    number: u64,
    level: Level,
    answers: BTreeMap<String, Answer>,
}

/// Everything that is, and what the operator remembers of it.
pub struct World {
    pub now: Duration,
    pub settings: Settings,
    pub memory: Memory,
    pub notes: Vec<String>,
    pub ended: bool,
    pub hold: Option<Hold>,
    pub rival: bool,
    pub frozen: Option<String>,
    pub kubelet_answers: bool,
    pub pods_unreadable: bool,
    pub cache_is_empty: bool,
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
        let settings = Settings {
            fence: "fence".to_owned(),
            node: "worker-1".to_owned(),
            node_uid: Some("uid-1".to_owned()),
            boot_id: Some("boot-1".to_owned()),
            human: false,
            adopted: false,
            mode: FenceMode::ConfirmOnly,
            strategy: RecoveryStrategy::OutOfServiceTaint,
            pod_deletion: PodDeletion::Expedited,
            release: ReleaseMode::AfterDetach,
            detach_timeout: Duration::from_secs(600),
            release_timeout: Duration::from_secs(900),
            verification: Verification {
                off_reads_min: 2,
                window: Duration::from_secs(1),
            },
            read_period: Duration::from_secs(1),
            late_effect: Duration::from_secs(60),
            levels: vec![level],
            approval: Approval::NotNeeded,
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
            frozen: None,
            kubelet_answers: false,
            pods_unreadable: false,
            cache_is_empty: false,
            node: Some(node("uid-1", "boot-1")),
            node_unreadable: None,
            lease: 1,
            lease_unreadable: false,
            pods: Vec::new(),
            volumes: Vec::new(),
            fate: Vec::new(),
            late: None,
            pending: None,
            nonces: 0,
            status: NodeFenceStatus::default(),
        }
    }

    /// A device that must be the machine's.
    pub fn device(name: &str) -> Device {
        Device {
            name: name.to_owned(),
            version: "uid/1".to_owned(),
            identity: IdentityRule::Is(MACHINE.to_owned()),
        }
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
        let needs = needs(&self.settings, &self.memory, self.node.as_ref());
        let read = |wanted: bool, fails: bool| match (wanted, fails) {
            (false, _) => Some(Seen::NotRead),
            (true, true) => Some(Seen::Failed("HTTP 503".to_owned())),
            (true, false) => None,
        };
        let lease = LeaseView {
            renew_time: format!("renewal-{}", self.lease),
        };
        let observed = Observed {
            node: match (&self.node_unreadable, &self.node) {
                (Some(reason), _) => Seen::Failed(reason.clone()),
                (None, Some(node)) => Seen::Present(node.clone()),
                (None, None) => Seen::Absent,
            },
            lease: match read(needs.lease, self.lease_unreadable) {
                Some(Seen::Failed(reason)) => Seen::Failed(reason),
                Some(_) => Seen::NotRead,
                None => Seen::Present(lease),
            },
            pods: read(needs.pods, self.pods_unreadable)
                .unwrap_or(Seen::Present(self.pods.clone())),
            attachments: match needs.attachments {
                true => Seen::Present(self.volumes.clone()),
                false => Seen::NotRead,
            },
            attachments_cached: if self.cache_is_empty {
                Vec::new()
            } else {
                self.volumes.clone()
            },
            tolerated_volumes: self
                .pods
                .iter()
                .filter(|pod| pod.tolerates_out_of_service && !pod.deleting && needs.pods)
                .flat_map(|pod| pod.claims.clone())
                .collect(),
            kubelet_answers: needs.kubelet && self.kubelet_answers,
            evidence: match needs.record {
                true => Seen::Present(self.status.evidence.is_some()),
                false => Seen::NotRead,
            },
            hold: self.hold.clone(),
            rival: self.rival,
            frozen: self.frozen.clone(),
        };
        let nonce = format!("n{}", self.nonces + 1);
        let moment = Moment {
            now: self.now,
            nonce: nonce.clone(),
        };
        let decision = step(&self.settings, &mut self.memory, &observed, &moment);
        let attempt = self.memory.attempt.as_ref();
        let used = attempt.is_some_and(|attempt| attempt.id.starts_with(&nonce));
        if used || matches!(decision.effect, Effect::Claim(_)) {
            self.nonces += 1;
        }
        decision
    }

    /// Carries a decision out, and lets the core learn from the reply.
    pub fn act(&mut self, decision: Decision) {
        let asked = Asked::from(&decision.effect);
        let fate = match &decision.effect {
            Effect::Wait | Effect::Device { .. } | Effect::Close => None,
            _ if self.fate.is_empty() => None,
            _ => Some(self.fate.remove(0)),
        };
        if let (
            Some(Fate::OnItsWay),
            Effect::Taint(patch) | Effect::Claim(patch) | Effect::DropClaim(patch),
        ) = (&fate, &decision.effect)
        {
            self.late = Some(patch.clone());
        }
        let done = match (&fate, decision.effect) {
            (_, Effect::Wait) => return,
            (_, Effect::Close) => return self.ended = true,
            (
                _,
                Effect::Device {
                    order,
                    level,
                    number,
                },
            ) => {
                let Some(level) = self.settings.levels.get(level).cloned() else {
                    return;
                };
                let answers = BTreeMap::new();
                return self.pending = Some(Pending {
                    order,
                    number,
                    level,
                    answers,
                });
            }
            (Some(Fate::Refused(..) | Fate::OnItsWay), _) => Ok(()),
            (_, effect) => self.write(effect),
        };
        let reply = match (fate, done) {
            (Some(Fate::Refused(status, words)), _) => Reply::Refused(status, words),
            (Some(_), _) => Reply::Unknown("no answer within 5 s".to_owned()),
            (None, Ok(())) => Reply::Done,
            (None, Err((status, words))) => Reply::Refused(status, words),
        };
        match &reply {
            Reply::Refused(status, words) => {
                self.notes.push(format!("refused: HTTP {status} {words}"))
            }
            Reply::Unknown(words) => self.notes.push(words.clone()),
            _ => {}
        }
        learn(&self.settings, &mut self.memory, asked, reply, self.now);
    }

    fn write(&mut self, effect: Effect) -> Result<(), (u16, String)> {
        match effect {
            Effect::Claim(patch)
            | Effect::DropClaim(patch)
            | Effect::Taint(patch)
            | Effect::Release(patch) => {
                self.patch(&patch)?;
            }
            Effect::Bind { uid, boot_id } => {
                self.settings.node_uid = Some(uid);
                self.settings.boot_id = Some(boot_id);
            }
            Effect::RecordIntent(attempt) => {
                record::intent(&mut self.status, &attempt, Duration::ZERO, WALL);
            }
            Effect::StoreEvidence(evidence) => {
                record::evidence(&mut self.status, &evidence, &self.memory, self.now, WALL);
            }
            Effect::Evict(eviction) => {
                let evicted = |pod: &PodView| eviction.pods.iter().any(|gone| gone.uid == pod.uid);
                self.pods.retain(|pod| pod.finalizers || !evicted(pod));
            }
            Effect::Wait | Effect::Device { .. } | Effect::Close => {}
        }
        Ok(())
    }

    /// Applies a patch as the API server does: the shipped admission policy's S6, then all operations or none.
    fn patch(&mut self, patch: &NodePatch) -> Result<(), (u16, String)> {
        let failed = |words: &str| (422, words.to_owned());
        let node = self.node.as_mut().ok_or((404, "not found".to_owned()))?;
        let mut object = object(node);
        for operation in patch.operations.as_array().into_iter().flatten() {
            // For the API server an absent field equals null; the json-patch crate disagrees.
            let absent = operation["value"].is_null() && object["spec"].get("taints").is_none();
            if operation["op"] == "test" && operation["path"] == "/spec/taints" && absent {
                continue;
            }
            let one: json_patch::Patch = serde_json::from_value(json!([operation]))
                .map_err(|error| failed(&error.to_string()))?;
            json_patch::patch(&mut object, &one)
                .map_err(|_| failed("a test of the patch failed"))?;
        }
        let taints = taints(&object["spec"]["taints"]);
        let added =
            |key: &str| taints.iter().any(|taint| taint.key == key) && node.taint(key).is_none();
        if node.ready() == Ready::True && (added(CLAIM) || added(OUT_OF_SERVICE)) {
            return Err((403, "S6: a Ready node may not be claimed".to_owned()));
        }
        node.taints = taints;
        Ok(())
    }

    /// A write that nobody heard of any more reaches the API server.
    pub fn land_late_write(&mut self) {
        let Some(patch) = self.late.take() else {
            return;
        };
        let note = match self.patch(&patch) {
            Ok(()) => "the late write lands".to_owned(),
            Err((status, words)) => format!("the late write is refused: HTTP {status} {words}"),
        };
        self.notes.push(note);
    }

    /// `refused STATUS WORDS`, `loses its answer`, `stays on its way`: the next one, or the one after those said before.
    pub fn next_write(&mut self, text: &str) -> Result<(), String> {
        self.fate.push(match text {
            "loses its answer" => Fate::AnswerLost,
            "stays on its way" => Fate::OnItsWay,
            _ => {
                let rest = text.strip_prefix("refused ").ok_or("unknown fate")?;
                let (status, words) = rest.split_once(' ').ok_or("no words")?;
                let status = status.parse().map_err(|_| "no status")?;
                Fate::Refused(status, words.to_owned())
            }
        });
        Ok(())
    }

    /// The process dies, and another one begins with what the NodeFence says.
    pub fn restart(&mut self) {
        self.memory = Memory::default();
        self.pending = None;
        self.settings.record = record::read(&self.status);
    }

    /// A device answers; the order's reply goes out once all of its devices have.
    pub fn answer(&mut self, device: &str, answer: Answer) -> Result<(), String> {
        let pending = self.pending.as_mut().ok_or("nobody asked the device")?;
        pending.answers.insert(device.to_owned(), answer);
        let all = |device: &Device| pending.answers.contains_key(&device.name);
        if !pending.level.devices.iter().all(all) {
            return Ok(());
        }
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        let reply = self.reply(&pending)?;
        learn(
            &self.settings,
            &mut self.memory,
            Asked::Device,
            Reply::Device(pending.number, reply),
            self.now,
        );
        if let Some(attempt) = self.memory.attempt.clone() {
            record::outcome(&mut self.status, &attempt, WALL);
        }
        Ok(())
    }

    fn reply(&mut self, pending: &Pending) -> Result<DeviceReply, String> {
        let answered = pending.level.devices.iter().filter_map(|device| {
            let answer = pending.answers.get(&device.name)?;
            Some((device, answer))
        });
        Ok(match &pending.order {
            DeviceOrder::Look => {
                let sight = |(device, answer): (&Device, &Answer)| {
                    let reading = match answer {
                        Answer::Fails(why) => Err(why.clone()),
                        other => Ok(other.readings(self.now)?.pop().ok_or("no reading")?),
                    };
                    Ok(Sight {
                        device: device.name.clone(),
                        reading,
                        at: self.now,
                    })
                };
                DeviceReply::Looked(answered.map(sight).collect::<Result<_, String>>()?)
            }
            DeviceOrder::Off(_) => {
                let result = |(device, answer): (&Device, &Answer)| {
                    let result = match answer {
                        Answer::Off(result) => result.clone(),
                        Answer::Fails(why) => OffResult::NotSent(why.clone()),
                        Answer::Readings(_) => return Err("it was commanded, not asked".to_owned()),
                    };
                    Ok((device.name.clone(), result))
                };
                let results = answered.map(result).collect::<Result<_, String>>()?;
                DeviceReply::Commanded(results)
            }
            DeviceOrder::Confirm { .. } => {
                let read = |(device, answer): (&Device, &Answer)| {
                    Ok(DeviceReadings {
                        device: device.name.clone(),
                        version: device.version.clone(),
                        identity: device.identity.clone(),
                        readings: answer.readings(self.now)?,
                    })
                };
                DeviceReply::Confirmed {
                    readings: answered.map(read).collect::<Result<_, String>>()?,
                    failures: Vec::new(),
                    kubelet_answers: self.kubelet_answers
                        && self.settings.mode == FenceMode::ConfirmOnly,
                }
            }
        })
    }

    /// `NotReady`, `Ready`, `boots boot-2`, `is deleted`, `is created anew`, `cannot be read: why`, `loses its conditions`.
    pub fn node_event(&mut self, event: &str) -> Result<(), String> {
        self.node_unreadable = None;
        let status = |node: &mut Option<NodeView>, status: &str| {
            let node = node.as_mut().ok_or("there is no Node")?;
            for condition in &mut node.conditions {
                status.clone_into(&mut condition.status);
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

    /// `KEY=VALUE:EFFECT`, set by somebody else.
    pub fn taint_by_somebody(&mut self, text: &str) -> Result<(), String> {
        let (key, rest) = text.split_once('=').ok_or("no `=`")?;
        let (value, effect) = rest.split_once(':').ok_or("no `:`")?;
        let taints = &mut self.node.as_mut().ok_or("no Node")?.taints;
        taints.retain(|taint| taint.key != key);
        let [key, value, effect] = [key, value, effect].map(str::to_owned);
        taints.push(TaintView {
            key,
            value: Some(value),
            effect,
            time_added: None,
        });
        Ok(())
    }

    /// Another process of the operator took the incident over, proved it and set the taint.
    pub fn successor_taints(&mut self) -> Result<(), String> {
        self.taint_by_somebody("nodefencing.io/claim=fence-other:NoExecute")?;
        self.taint_by_somebody("node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")?;
        let evidence = Evidence {
            claim: "fence-other".to_owned(),
            node_uid: "uid-1".to_owned(),
            boot_id: "boot-1".to_owned(),
            lease_renew_time: String::new(),
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

    /// `NAME runs|is deleted|is gone`, with `(finalizers, finished, static, tolerates, uses PV)`.
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
                ("finished", _) => pod.finished = true,
                ("static", _) => pod.mirror = true,
                ("tolerates out-of-service", _) => pod.tolerates_out_of_service = true,
                (_, Some(volume)) => pod.claims.push(volume.to_owned()),
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

    /// `NAME is attached|is detached|does not detach: why`; the Node's `volumesAttached` follows.
    pub fn volume_event(&mut self, text: &str) -> Result<(), String> {
        let (name, event) = text.split_once(' ').ok_or("no event")?;
        self.volumes.retain(|volume| volume.volume != name);
        let error = event.strip_prefix("does not detach: ").map(str::to_owned);
        if event == "is attached" || error.is_some() {
            self.volumes.push(AttachmentView {
                name: format!("csi-{name}"),
                attacher: "lab.csi".to_owned(),
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

fn node(uid: &str, boot_id: &str) -> NodeView {
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
        }],
        boot_id: boot_id.to_owned(),
        system_uuid: MACHINE.to_owned(),
        volumes_attached: 0,
    }
}

fn new_pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        deleting: false,
        finished: false,
        finalizers: false,
        mirror: false,
        tolerates_out_of_service: false,
        claims: Vec::new(),
    }
}

/// The Node as the API server stores it.
fn object(node: &NodeView) -> Value {
    let taint =
        |taint: &TaintView| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
    let mut object = json!({
        "metadata": {"uid": node.uid},
        "spec": {},
        "status": {"nodeInfo": {"bootID": node.boot_id}},
    });
    if !node.taints.is_empty() {
        object["spec"]["taints"] = node.taints.iter().map(taint).collect();
    }
    object
}

fn taints(list: &Value) -> Vec<TaintView> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let taint = |value: &Value| TaintView {
        key: text(&value["key"]).unwrap_or_default(),
        value: text(&value["value"]),
        effect: text(&value["effect"]).unwrap_or_default(),
        time_added: None,
    };
    list.as_array().into_iter().flatten().map(taint).collect()
}
