//! A history that was recorded, and hands to break it with.
//!
//! `history/powered-off` was recorded by `hung_kubelet::simulated_node_with_a_hung_kubelet_is_turned_off` and thinned by
//! `judge --keep`: a kubelet hangs, the node is claimed, turned off, proven off, its pod deleted by force, tainted and released.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::audit::OPERATOR;
use crate::judge::replay::text;
use crate::judge::run::{Stall, Texts};
use crate::judge::{Judgement, judge_run};
use crate::proxy::writes::{CLAIM, DETACHING, OUT_OF_SERVICE, QUARANTINE};
use crate::volume::Write;
use fencing_testbed::moment::Moment;

/// The volume of the history.
const VOLUME: &str = "work-db";

/// A write of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The pod is created.
    Create,
    /// And bound to the node.
    Bind,
    /// The operator claims the node.
    Claim,
    /// Kubernetes deletes the pod.
    Quiesce,
    /// The operator stores the attempt.
    Intent,
    /// And the evidence.
    Evidence,
    /// And deletes the pod by force.
    Evict,
    /// And puts the node out of service.
    Taint,
    /// The last finalizer of the VolumeAttachment goes.
    Detach,
    /// The operator lets the node go.
    Release,
    /// And lifts the quarantine.
    Lift,
}

/// The records of a run, to be changed.
#[derive(Clone)]
pub struct History {
    /// Events of the audit log.
    pub audit: Vec<Value>,
    /// Exchanges with devices.
    pub devices: Vec<Value>,
    /// Storage and power.
    pub journal: Vec<Value>,
    /// Lines of the one volume.
    pub lines: Vec<Write>,
    until: Moment,
    /// When the lab kept requests from arriving.
    pub stalls: Vec<Stall>,
    /// How far the lab had set the date of the operator ahead.
    pub ahead_seconds: i64,
}

impl History {
    /// As it was recorded, but with room between the resource versions.
    pub fn recorded() -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/judge/history/powered-off");
        let texts = Texts::read(&directory).expect("the history");
        let values = |text: &str| -> Vec<Value> {
            let lines = text.lines();
            lines
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect()
        };
        let lines = texts.volumes[VOLUME].lines();
        let mut this = Self {
            audit: values(&texts.audit),
            devices: values(&texts.devices),
            journal: values(&texts.journal),
            lines: lines.map(|line| line.parse().expect("a line")).collect(),
            until: texts.until,
            stalls: texts.stalls,
            ahead_seconds: texts.ahead_seconds,
        };
        for event in &mut this.audit {
            let version = event.pointer_mut("/responseObject/metadata/resourceVersion");
            if let Some(version) = version {
                *version = json!(format!("{}0", text(version)));
            }
        }
        this
    }

    /// The judge's view of it.
    pub fn judged(&self) -> Judgement {
        let text = |values: &[Value]| -> String {
            values.iter().map(|value| format!("{value}\n")).collect()
        };
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        let texts = Texts {
            until: self.until,
            stalls: self.stalls.clone(),
            ahead_seconds: self.ahead_seconds,
            audit_skipped: 0,
            audit: text(&self.audit),
            devices: text(&self.devices),
            journal: text(&self.journal),
            volumes: [(VOLUME.to_owned(), lines)].into(),
        };
        judge_run(&texts.parse().expect("readable"))
    }

    fn index(&self, step: Step) -> usize {
        let found = self.audit.iter().position(|event| is(step, event));
        found.unwrap_or_else(|| panic!("no {step:?} in the history"))
    }

    /// A write, to be changed.
    pub fn step(&mut self, step: Step) -> &mut Value {
        let index = self.index(step);
        &mut self.audit[index]
    }

    /// What a write left behind.
    pub fn left_by(&mut self, step: Step) -> &mut Value {
        &mut self.step(step)["responseObject"]
    }

    /// When a write arrived.
    pub fn when(&self, step: Step) -> Timestamp {
        time(&self.audit[self.index(step)]["requestReceivedTimestamp"])
    }

    /// Takes a write out of the history.
    pub fn remove(&mut self, step: Step) -> Value {
        let index = self.index(step);
        self.audit.remove(index)
    }

    /// Puts a copy of a write beside it, changed, so much later.
    pub fn copy(&mut self, step: Step, later: SignedDuration, change: impl FnOnce(&mut Value)) {
        let mut event = self.audit[self.index(step)].clone();
        let at = self.when(step) + later;
        place(&mut event, at);
        change(&mut event);
        self.audit.push(event);
    }

    /// Has a write happen at another time.
    pub fn move_to(&mut self, step: Step, at: Timestamp) {
        place(self.step(step), at);
    }

    /// The number of the write's resource version.
    pub fn version(&mut self, step: Step) -> u64 {
        let version = &self.left_by(step)["metadata"]["resourceVersion"];
        text(version).parse().expect("a number")
    }

    /// The readings that the evidence names.
    pub fn evidence(&mut self) -> &mut Value {
        &mut self.left_by(Step::Evidence)["status"]["evidence"]
    }

    /// When the first of them, or the second, was answered, as the operator says.
    pub fn read_at(&mut self, nth: usize) -> Timestamp {
        time(&self.evidence()["readings"][nth]["time"])
    }

    /// The device's own record of it.
    pub fn reading(&mut self, nth: usize) -> &mut Value {
        let at = self.read_at(nth);
        let near = |event: &&mut Value| {
            let off = event["what"] == "Reading" && event["told"] == "Off";
            off && time(&event["asked"]["wall"]).duration_since(at).abs()
                < SignedDuration::from_millis(50)
        };
        let mut devices = self.devices.iter_mut();
        devices.find(near).expect("the reading of the evidence")
    }

    /// The power command.
    pub fn command(&mut self) -> &mut Value {
        let mut devices = self.devices.iter_mut();
        devices
            .find(|event| event["what"] == "Command")
            .expect("the command")
    }

    /// The machine is told to turn on.
    pub fn on(&mut self, at: Timestamp) {
        let mut on = self.command().clone();
        let later = at.duration_since(time(&on["asked"]["wall"]));
        shift(&mut on, later);
        (on["name"], on["is_hard_off"], on["is_on"]) = (json!("On"), json!(false), json!(true));
        self.devices.push(on);
    }

    /// The operator writes it down, in a NodeFence with this policy.
    pub fn on_intended(&mut self, at: Timestamp, policy: &str) {
        let later = at.duration_since(self.when(Step::Evidence));
        let last = self.audit.iter().filter_map(|event| {
            let version = event["responseObject"]["metadata"]["resourceVersion"].as_str()?;
            version.parse::<u64>().ok()
        });
        let version = last.max().expect("a version") + 1;
        self.copy(Step::Evidence, later, |event| {
            // The record of what was there before, and one attempt more.
            event["requestObject"]["status"] = json!({});
            let fence = &mut event["responseObject"];
            fence["metadata"]["resourceVersion"] = json!(version.to_string());
            fence["spec"]["powerOn"] = json!({"policy": policy});
            let attempts = fence["status"]["attempts"].as_array_mut();
            let attempts = attempts.expect("the off");
            let mut on = attempts[0].clone();
            (on["action"], on["id"]) = (json!("PowerOn"), json!("on-1"));
            for field in ["result", "completionTime", "message"] {
                on.as_object_mut().expect("an attempt").remove(field);
            }
            attempts.push(on);
        });
    }

    /// Nobody can read the log of the node's device.
    pub fn without_the_log(&mut self) {
        self.devices = vec![json!({"unreadable": "node-1-bmc"})];
    }

    /// The first entry of the journal of this kind about this node.
    pub fn happened(&mut self, what: &str, node: &str) -> usize {
        let mut journal = self.journal.iter();
        let found = journal.position(|it| it["what"] == what && it["node"] == node);
        found.expect("it happened")
    }

    /// The Node is deleted in place of its release: it bears the operator's own mark and not `out-of-service`, and just before somebody has
    /// changed its taints like that.
    pub fn delete_node(&mut self, change: impl FnOnce(&mut Vec<Value>)) {
        let (at, version) = (self.when(Step::Release), self.version(Step::Release));
        let number = |event: &Value| -> u64 {
            let version = text(&event["responseObject"]["metadata"]["resourceVersion"]);
            version.parse().unwrap_or_default()
        };
        let name = self.left_by(Step::Release)["metadata"]["name"].clone();
        let release = self.remove(Step::Release);
        let is_node = |event: &Value| {
            event["responseObject"]["kind"] == "Node"
                && event["responseObject"]["metadata"]["name"] == name
        };
        self.audit
            .retain(|event| !is_node(event) || number(event) < version);
        let boot = release["responseObject"]["status"]["nodeInfo"]["bootID"].clone();
        for event in self.audit.iter_mut().filter(|event| is_node(event)) {
            for at in ["/responseObject/spec/taints", "/requestObject"] {
                let list = event.pointer_mut(at).and_then(Value::as_array_mut);
                for one in list.into_iter().flatten() {
                    let taint = if one["op"].is_null() {
                        one
                    } else {
                        &mut one["value"]
                    };
                    if taint["key"] == OUT_OF_SERVICE {
                        taint["key"] = json!(DETACHING);
                        taint["value"] = boot.clone();
                    }
                }
            }
        }
        let last = self.audit.iter().filter(|event| is_node(event));
        let mut touched = last
            .max_by_key(|event| number(event))
            .expect("a Node")
            .clone();
        touched["user"]["username"] = json!("a-human");
        touched["responseObject"]["metadata"]["resourceVersion"] = json!((version - 1).to_string());
        let taints = touched["responseObject"]["spec"]["taints"].as_array_mut();
        change(taints.expect("taints"));
        place(&mut touched, at - SignedDuration::from_millis(20));
        let uid = touched["responseObject"]["metadata"]["uid"].clone();
        self.audit.push(touched);
        let mut deletion = release;
        deletion["verb"] = json!("delete");
        let read = json!({"uid": uid, "resourceVersion": (version - 1).to_string()});
        deletion["requestObject"] = json!({"preconditions": read});
        deletion["responseObject"] = json!({"kind": "Status", "status": "Success"});
        self.audit.push(deletion);
    }

    /// The operator takes the volume itself, by its uid or by this one.
    pub fn take_volume(&mut self, uid: Option<&str>) -> &mut Value {
        let own = self.step(Step::Detach)["responseObject"]["metadata"]["uid"].clone();
        let mut all = self.audit.iter_mut();
        let deletion = all.find(|event| {
            event["verb"] == "delete" && event["objectRef"]["resource"] == "volumeattachments"
        });
        let deletion = deletion.expect("attach/detach deletes it");
        deletion["user"]["username"] = json!(OPERATOR);
        let uid = uid.map_or(own, |uid| json!(uid));
        deletion["requestObject"] = json!({"preconditions": {"uid": uid}});
        deletion
    }

    /// The Node as it was deleted.
    pub fn marked(&mut self) -> &mut Value {
        let at = self.audit.len() - 2;
        &mut self.audit[at]["responseObject"]
    }

    /// Its deletion.
    pub fn deletion(&mut self) -> &mut Value {
        self.audit.last_mut().expect("the deletion")
    }

    /// When it arrived.
    pub fn when_deleted(&self) -> Timestamp {
        let deletion = self.audit.last().expect("the deletion");
        time(&deletion["requestReceivedTimestamp"])
    }

    /// It arrives so much later.
    pub fn delay_deletion(&mut self, later: SignedDuration) {
        let at = self.when_deleted() + later;
        place(self.deletion(), at);
    }

    /// A line like the first, so much later than the moment.
    pub fn line(&self, moment: &Value, later: SignedDuration, boot: Option<&str>) -> Write {
        let mut line = self.lines[0].clone();
        line.at = shifted(moment, later);
        if let Some(boot) = boot {
            line.boot = boot.to_owned();
        }
        line
    }
}

/// A moment of the records, so much later.
pub fn shifted(moment: &Value, later: SignedDuration) -> Moment {
    let moment: Moment = serde_json::from_value(moment.clone()).expect("a moment");
    let nanoseconds = i64::try_from(later.as_nanos()).expect("short");
    Moment {
        monotonic_ns: moment
            .monotonic_ns
            .checked_add_signed(nanoseconds)
            .expect("after boot"),
        wall: moment.wall + later,
    }
}

/// Has an exchange with a device happen so much later.
pub fn shift(exchange: &mut Value, later: SignedDuration) {
    for key in ["asked", "answered"] {
        exchange[key] = json!(shifted(&exchange[key], later));
    }
}

pub fn time(value: &Value) -> Timestamp {
    text(value).parse().expect("a time")
}

fn place(event: &mut Value, at: Timestamp) {
    event["requestReceivedTimestamp"] = json!(at);
    event["stageTimestamp"] = json!(at + SignedDuration::from_millis(5));
}

fn is(step: Step, event: &Value) -> bool {
    let (of, verb) = (&event["objectRef"], text(&event["verb"]));
    let ours = event["user"]["username"] == OPERATOR;
    let resource = (text(&of["resource"]), text(&of["subresource"]));
    let status = &event["requestObject"]["status"];
    let patch = || event["requestObject"].as_array().into_iter().flatten();
    let adds = |key: &str| patch().any(|it| it["op"] == "add" && it["value"]["key"] == key);
    let removes = || patch().any(|it| it["op"] == "remove");
    match (step, resource) {
        (Step::Create, ("pods", "")) => verb == "create",
        (Step::Bind, ("pods", "binding")) => true,
        (Step::Quiesce, ("pods", "")) => verb == "delete" && !ours,
        (Step::Evict, ("pods", "")) => verb == "delete" && ours,
        (Step::Intent, ("nodefences", "status")) => {
            ours && status["attempts"].is_array() && status["evidence"].is_null()
        }
        (Step::Evidence, ("nodefences", "status")) => ours && status["evidence"].is_object(),
        (Step::Claim, ("nodes", "")) => ours && adds(CLAIM),
        (Step::Taint, ("nodes", "")) => ours && adds(OUT_OF_SERVICE),
        (Step::Release, ("nodes", "")) => ours && adds(QUARANTINE),
        (Step::Lift, ("nodes", "")) => ours && removes() && !adds(QUARANTINE),
        (Step::Detach, ("volumeattachments", "")) => {
            let metadata = &event["responseObject"]["metadata"];
            verb == "patch" && metadata["deletionTimestamp"].is_string()
        }
        _ => false,
    }
}
