//! What the answers of Prism Central mean. Pure, and total over any JSON.

use super::super::MachineId;
use super::super::operation::Follow;
use super::super::words::{Said, Word};
use super::PAGE;
use crate::json::Few;
use fencing_core::reading::{Identity, PowerState};
use serde::Deserialize;

/// `powerState`. A VM that is `PAUSED` keeps its memory, and `UNDETERMINED`, `$UNKNOWN` and `$REDACTED` say nothing: those have no power state here.
const STATES: [Word; 2] = [("ON", PowerState::On), ("OFF", PowerState::Off)];
/// Longest id of a task, and longest version of a VM, in characters.
const TASK_CHARACTERS_MAX: usize = 128;

/// A VM, as far as its own document tells.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Vm {
    pub(super) ext_id: String,
    #[serde(default)]
    pub(super) name: String,
    power_state: Option<String>,
    bios_uuid: Option<String>,
    is_cross_cluster_migration_in_progress: Option<bool>,
    is_agent_vm: Option<bool>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    ext_id: String,
    /// The answer to a command names the task alone.
    status: Option<String>,
    #[serde(default)]
    error_messages: Vec<Error>,
    legacy_error_message: Option<String>,
}

/// Why a request or a task failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Error {
    code: String,
    error_group: String,
    message: String,
}

/// What an answer is about.
#[derive(Deserialize)]
pub(super) struct Of<T> {
    pub(super) data: T,
}

/// The same of a list, which has nothing where there is none.
#[derive(Deserialize)]
pub(super) struct All<T> {
    data: Option<Few<T, PAGE>>,
}

impl<T> All<T> {
    pub(super) fn items(self) -> Vec<T> {
        self.data.unwrap_or_default().0
    }
}

impl Vm {
    /// Its power, without what other VMs say.
    pub(super) fn said(&self) -> Said {
        let moves = self.is_cross_cluster_migration_in_progress == Some(true);
        Said::of(&STATES, "powerState", self.power_state.as_deref())
            .only_if(!moves, "moves to another cluster")
    }

    /// Has it the id that was asked for?
    pub(super) fn is(&self, id: &MachineId) -> bool {
        self.ext_id.eq_ignore_ascii_case(&id.id)
    }

    /// Could this one be the same machine? A recovery plan runs a VM at another site under another id, and leaves the one before it behind: off, with
    /// the name of the one that runs. (A list cannot be asked for BIOS UUIDs.)
    pub(super) fn may_stand_for(&self, other: &Self) -> bool {
        self.name == other.name && self.ext_id != other.ext_id
    }

    pub(super) fn identity(&self) -> Identity {
        let uuid = self.bios_uuid.as_ref().unwrap_or(&self.ext_id);
        Identity {
            system_uuid: Some(uuid.clone()),
            serial_number: None,
        }
    }

    /// AHV turns it on again with its host.
    pub(super) fn restarter(&self) -> Option<String> {
        let is_agent = self.is_agent_vm == Some(true);
        is_agent.then(|| "AHV, whenever its host returns (agent VM)".to_owned())
    }
}

impl Task {
    /// Its id as a part of a path, if it can be one: it is built, not followed.
    pub(super) fn id(&self) -> Option<&str> {
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-_=:".contains(&it);
        let id = self.ext_id.as_str();
        let fits = (1..=TASK_CHARACTERS_MAX).contains(&id.len()) && id.bytes().all(is_plain);
        fits.then_some(id)
    }

    /// Where it stands, if it is the one with this path; the command was to bring its VM into the state in these words. One that failed since the VM
    /// is in another has not.
    pub(super) fn follow(&self, path: &str, wanted: &str) -> Follow {
        let is_it = path.rsplit('/').next() == Some(self.ext_id.as_str());
        let status = self.status.as_deref().unwrap_or("in no state");
        match status {
            "QUEUED" | "RUNNING" | "CANCELING" if is_it => return Follow::Running,
            "SUCCEEDED" if is_it => return Follow::Done,
            _ => {}
        }
        let errors = self.error_messages.iter().map(|it| it.message.as_str());
        let words: Vec<&str> = errors.chain(self.legacy_error_message.as_deref()).collect();
        let words = words.join("; ");
        let is_so = !wanted.is_empty() && words.contains(wanted);
        match is_it && status == "FAILED" && is_so {
            true => Follow::Already(words),
            false => Follow::Failed(format!("its task is {status} ({words})")),
        }
    }
}

/// Code and message of an error: `{"data": {"error": [{"code": "VMM-20005", "message": "…"}]}}`.
pub(super) fn words(body: &[u8]) -> (String, String) {
    #[derive(Deserialize)]
    struct Errors {
        error: Vec<Error>,
    }
    let errors = serde_json::from_slice::<Of<Errors>>(body);
    let first = errors.ok().and_then(|it| it.data.error.into_iter().next());
    let first = first.unwrap_or_default();
    let message = match first.error_group.is_empty() {
        true => first.message,
        false => format!("{}: {}", first.error_group, first.message),
    };
    (first.code, message)
}
