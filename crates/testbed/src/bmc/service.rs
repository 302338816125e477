//! What the BMC does with a request, from its arrival to its answer.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Instant,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use http::{
    Method, Response,
    header::{ACCEPT, ALLOW, AUTHORIZATION, IF_MATCH, WWW_AUTHENTICATE},
};
use rustls::ServerConfig;
use serde_json::{Value, json};

use super::{
    Credentials, Plug, account,
    answer::{Answer, error_for},
    faults::{BmcFaults, Certificate, Reading, Reply, Which},
    log::{Auth, Entry, SentHeaders},
    model, nonsense,
    request::Asked,
    reset::Task,
};
use crate::{
    actuator::Actuator,
    https::{Body, Call, Cut, Gate, Journal, Leaf, Passage, Site},
    moment::Moment,
    power::Power,
};

/// When a request is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Arrival,
    Answer,
}

/// The Redfish service of one machine.
pub(super) struct Service {
    pub(super) power: Arc<dyn Power>,
    pub(super) credentials: Credentials,
    pub(super) certificates: HashMap<Certificate, Leaf>,
    pub(super) faults: Mutex<BmcFaults>,
    pub(super) log: Journal<Entry>,
    pub(super) holds: Mutex<Vec<(Which, Stage, Gate)>>,
    pub(super) tasks: Mutex<Vec<Task>>,
    pub(super) actuator: Arc<Actuator>,
    pub(super) empty_reads_left: AtomicU32,
    decoys: Mutex<BTreeMap<String, Arc<Plug>>>,
    wrong_passwords: AtomicU32,
    cycle: AtomicUsize,
    cached: Mutex<Option<(Instant, bool)>>,
}

impl Site for Service {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        let which = self.faults().certificate;
        self.certificates.get(&which).map(Leaf::config)
    }

    fn answer(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Response<Body>, Cut>> {
        Box::pin(self.respond(call))
    }
}

impl Service {
    pub(super) fn new(
        power: Arc<dyn Power>,
        credentials: Credentials,
        certificates: HashMap<Certificate, Leaf>,
    ) -> Self {
        Self {
            power,
            credentials,
            certificates,
            faults: Mutex::default(),
            log: Journal::new(),
            holds: Mutex::default(),
            tasks: Mutex::default(),
            actuator: Arc::default(),
            empty_reads_left: AtomicU32::new(0),
            decoys: Mutex::default(),
            wrong_passwords: AtomicU32::new(0),
            cycle: AtomicUsize::new(0),
            cached: Mutex::default(),
        }
    }

    pub(super) fn faults(&self) -> BmcFaults {
        self.faults
            .lock()
            .expect("no panic while faults are changed")
            .clone()
    }

    async fn respond(self: Arc<Self>, call: Call) -> Result<Response<Body>, Cut> {
        let faults = self.faults();
        let asked = self.receive(&call, &faults);
        if faults.reset_reused_connection && call.nth_on_connection > 1 {
            return Err(Cut::Reset);
        }
        tokio::time::sleep(faults.latency).await;
        self.pass_hold(&asked, Stage::Arrival).await?;

        let reply = self.take_reply(&asked);
        let reply_only = reply
            .as_ref()
            .is_some_and(|reply| !reply.after_effect && !reply.what.is_made_of_the_answer());
        let answer = if reply_only {
            Answer::text(200, "")
        } else {
            self.route(&asked).await
        };

        self.pass_hold(&asked, Stage::Answer).await?;
        let (response, told) = match reply {
            None => {
                let told = power_state(&asked, &answer);
                (answer.into_response(), told)
            }
            Some(reply) => (nonsense::replace(&reply.what, answer)?, None),
        };
        self.log.amend(asked.index, |entry| {
            entry.status = Some(response.status().as_u16());
            entry.answered = Some(Moment::now());
            entry.told = told;
        });
        Ok(response)
    }

    /// Reads the request and enters it in the log.
    fn receive(&self, call: &Call, faults: &BmcFaults) -> Asked {
        let header = |name| {
            call.head
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let path = call.head.uri.path();
        let mut asked = Asked {
            method: call.head.method.clone(),
            path: path.strip_suffix('/').unwrap_or(path).to_owned(),
            query: call.head.uri.query().unwrap_or_default().to_owned(),
            auth: self.auth(header(AUTHORIZATION.as_str()).as_deref(), faults),
            headers: SentHeaders {
                odata_version: header("odata-version"),
                accept: header(ACCEPT.as_str()),
                if_match: header(IF_MATCH.as_str()),
            },
            content_type: header("content-type").unwrap_or_default(),
            body: call.body.clone(),
            index: 0,
        };
        asked.index = self.log.push(Entry {
            at: Moment::now(),
            method: asked.method.to_string(),
            path: call
                .head
                .uri
                .path_and_query()
                .map_or_else(|| path.to_owned(), ToString::to_string),
            auth: asked.auth,
            connection: call.connection,
            reset_type: asked.reset_type(),
            headers: asked.headers.clone(),
            status: None,
            answered: None,
            told: None,
            accepted: false,
        });
        asked
    }

    fn auth(&self, header: Option<&str>, faults: &BmcFaults) -> Auth {
        let Some(header) = header else {
            return Auth::None;
        };
        let pair = format!(
            "{}:{}",
            self.credentials.username, self.credentials.password
        );
        let decoded = header
            .strip_prefix("Basic ")
            .and_then(|encoded| STANDARD.decode(encoded).ok());
        let is_locked = || {
            faults
                .lock_account_after
                .is_some_and(|most| self.wrong_passwords.load(Ordering::Relaxed) >= most)
        };
        if decoded.as_deref() != Some(pair.as_bytes()) {
            self.wrong_passwords.fetch_add(1, Ordering::Relaxed);
            return Auth::Wrong;
        }
        if is_locked() {
            Auth::Wrong
        } else {
            Auth::Right
        }
    }

    async fn pass_hold(&self, asked: &Asked, stage: Stage) -> Result<(), Cut> {
        let gate = {
            let mut holds = self.holds.lock().expect("no panic while holds are changed");
            let found = holds
                .iter()
                .position(|(which, when, _)| *when == stage && asked.is(which));
            found.map(|index| holds.remove(index).2)
        };
        let Some(gate) = gate else { return Ok(()) };
        match gate.pass().await {
            Passage::Go => Ok(()),
            Passage::Discard => Err(Cut::Close),
        }
    }

    /// The answer that replaces the right one, if any; counts it.
    fn take_reply(&self, asked: &Asked) -> Option<Reply> {
        let mut faults = self
            .faults
            .lock()
            .expect("no panic while faults are changed");
        let reply = faults
            .replies
            .iter_mut()
            .find(|reply| reply.times != Some(0) && asked.is(&reply.to))?;
        if let Some(times) = &mut reply.times {
            *times -= 1;
        }
        Some(reply.clone())
    }

    async fn route(self: &Arc<Self>, asked: &Asked) -> Answer {
        let faults = self.faults();
        if let Some(refusal) = asked.refuse_headers(&faults) {
            return refusal;
        }
        let is_public = matches!(
            asked.path.as_str(),
            "/redfish" | "/redfish/v1" | "/redfish/v1/odata"
        );
        if !is_public && asked.auth != Auth::Right {
            return error_for(401).with(WWW_AUTHENTICATE, "Basic realm=\"Redfish\"");
        }
        let segments: Vec<_> = asked.path.split('/').skip(1).collect();
        match segments.as_slice() {
            [
                "redfish",
                "v1",
                "Systems",
                id,
                "Actions",
                "ComputerSystem.Reset",
            ] if self.system(id, &faults).is_some() => {
                if asked.method == Method::POST {
                    self.reset(asked, id, &faults).await
                } else {
                    error_for(405).with(ALLOW, "POST")
                }
            }
            _ if asked.method != Method::GET && asked.method != Method::HEAD => {
                error_for(405).with(ALLOW, "GET, HEAD")
            }
            ["redfish", "v1", "Systems"] => {
                let page = asked
                    .query
                    .strip_prefix("$skip=")
                    .and_then(|number| number.parse().ok());
                Answer::resource(&model::systems(&faults, page))
            }
            ["redfish", "v1", "Systems", id] => self.read_system(id, &faults),
            ["redfish", "v1", "Systems", id, "ResetActionInfo"]
                if self.system(id, &faults).is_some() =>
            {
                Answer::resource(&model::action_info(id, &faults))
            }
            ["redfish", "v1", "AccountService", ..] => {
                account::answer(&asked.path, &self.credentials.username, &faults)
            }
            ["redfish", "v1", "TaskService", "Tasks", id] => self.read_task(id),
            ["redfish", "v1", "TaskService", "TaskMonitors", id] => self.read_task_monitor(id),
            ["redfish", "v1", "Managers", "BMC"] if faults.manager_time.is_some() => {
                Answer::resource(&model::manager(&faults))
            }
            _ => model::fixed(&asked.path)
                .map_or_else(|| error_for(404), |resource| Answer::resource(&resource)),
        }
    }

    /// The machine behind a system's id: the BMC's own, or a decoy.
    pub(super) fn system(&self, id: &str, faults: &BmcFaults) -> Option<Arc<dyn Power>> {
        if !model::system_ids(faults).iter().any(|other| other == id) {
            return None;
        }
        if id == model::OWN_SYSTEM {
            return Some(self.power.clone());
        }
        let mut decoys = self
            .decoys
            .lock()
            .expect("no panic while decoys are changed");
        let decoy = decoys.entry(id.to_owned()).or_insert_with(|| {
            let name = format!("{}-decoy-{id}", self.power.name());
            Arc::new(Plug::new(name, uuid::Uuid::new_v4().to_string()))
        });
        Some(decoy.clone())
    }

    fn read_system(&self, id: &str, faults: &BmcFaults) -> Answer {
        let Some(machine) = self.system(id, faults) else {
            return error_for(404);
        };
        let left = |left: u32| left.checked_sub(1);
        if self
            .empty_reads_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .is_ok()
        {
            return Answer::text(200, "");
        }
        let is_own = id == model::OWN_SYSTEM;
        let is_on = if is_own {
            self.seen_on(faults)
        } else {
            machine.is_on()
        };
        let truth = json!(if is_on { "On" } else { "Off" });
        if !is_own {
            return Answer::resource(&model::system(id, machine.as_ref(), Some(truth), faults));
        }
        let (state, second) = match &faults.power_state {
            Reading::Truth => (Some(truth), None),
            Reading::Says(value) => (Some(value.clone()), None),
            Reading::Cycle(values) => {
                let turn = self.cycle.fetch_add(1, Ordering::Relaxed);
                (values.get(turn % values.len().max(1)).cloned(), None)
            }
            Reading::Absent => (None, None),
            Reading::Twice(value) => (Some(truth), Some(value)),
        };
        let mut answer =
            Answer::resource(&model::system(id, machine.as_ref(), state.clone(), faults));
        if let (Some(first), Some(second)) = (state, second) {
            let once = format!("\"PowerState\":{first}");
            answer.text = answer
                .text
                .replace(&once, &format!("{once},\"PowerState\":{second}"));
        }
        answer
    }

    /// The power as the BMC knows it, which may be old.
    fn seen_on(&self, faults: &BmcFaults) -> bool {
        let mut cached = self
            .cached
            .lock()
            .expect("no panic while the reading is kept");
        match *cached {
            Some((at, is_on)) if at.elapsed() < faults.power_state_cached_for => is_on,
            _ => {
                let is_on = self.power.is_on();
                *cached = Some((Instant::now(), is_on));
                is_on
            }
        }
    }
}

/// The power of the BMC's own machine, if this is what the answer tells.
fn power_state(asked: &Asked, answer: &Answer) -> Option<String> {
    if answer.status != 200 || asked.path != model::system_path(model::OWN_SYSTEM) {
        return None;
    }
    let system: Value = serde_json::from_str(&answer.text).ok()?;
    Some(match &system["PowerState"] {
        Value::String(state) => state.clone(),
        other => other.to_string(),
    })
}
