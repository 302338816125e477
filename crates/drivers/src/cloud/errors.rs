//! What an answer other than a success means: by status, code and message together, since each alone says too little.
//!
//! One status has several meanings at every provider (409 of Nova four, 500 of Proxmox five), so each provider has a table. What stands in no
//! row is unclear: a read has failed then, and a command may have been carried out.

use super::Sent;
use crate::DeviceError;
use crate::error::printable;
use crate::http::Reply;
use serde_json::Value;
use std::time::Duration;

/// Longest message that is kept, in characters.
const MESSAGE_CHARACTERS_MAX: usize = 160;

/// The way out where a provider answers as no table has it.
pub const SEE_PROVIDER: &str = "see the log of the provider, or use another level";

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The machine is in the state that was asked for.
    Already,
    /// It was not carried out, and will not be while the machine is as it is.
    Refused,
    /// The account may not do it.
    Denied,
    /// The credentials are wrong.
    Login,
    /// There is no such machine. Never off.
    Missing,
    /// It was not carried out, and may be later.
    Busy,
}

/// Stands in a row for any status, where a provider's code says all.
pub const ANY_STATUS: u16 = 0;

/// A row of a table: all that is given must match, and the first row that does counts.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its status; [`ANY_STATUS`]: any.
    pub status: u16,
    /// Its code; empty: any.
    pub code: &'static str,
    /// Some words of its message, in lower case; empty: any.
    pub words: &'static str,
    /// What it means.
    pub meaning: Meaning,
}

/// A row.
#[must_use]
pub const fn row(status: u16, code: &'static str, words: &'static str, meaning: Meaning) -> Row {
    Row {
        status,
        code,
        words,
        meaning,
    }
}

/// A row for a code that says all.
#[must_use]
pub const fn coded(code: &'static str, meaning: Meaning) -> Row {
    row(ANY_STATUS, code, "", meaning)
}

/// How a service answers other than with a success.
#[derive(Debug, Clone, Copy)]
pub struct Answers {
    /// What its answers mean.
    pub table: &'static [Row],
    /// Its code and its message.
    pub words: fn(&Reply) -> (String, String),
    /// What the account needs to have.
    pub right: &'static str,
}

/// Code and message of an error that is one object: `{"error": {"code": "locked", "message": "…"}}`.
#[must_use]
pub fn words_of_error(reply: &Reply) -> (String, String) {
    let body = reply.body.as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or_default();
    (
        word("/error/code").to_owned(),
        word("/error/message").to_owned(),
    )
}

/// What a provider answered instead of a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Host and port.
    pub endpoint: String,
    /// Method and path.
    pub request: String,
    /// Its status.
    pub status: u16,
    /// Its code; empty where it has none.
    pub code: String,
    /// Its message, without secrets.
    pub message: String,
    /// The pause that it asks for.
    pub retry_after: Option<Duration>,
    /// What the account needs to have for this.
    pub right: &'static str,
}

impl Failed {
    /// What it means, by this table.
    #[must_use]
    pub fn meaning(&self, table: &[Row]) -> Option<Meaning> {
        let message = self.message.to_lowercase();
        let fits = |row: &&Row| {
            (row.status == self.status || row.status == ANY_STATUS)
                && (row.code.is_empty() || row.code == self.code)
                && message.contains(row.words)
        };
        table.iter().find(fits).map(|row| row.meaning)
    }

    /// The error of a request that only reads.
    #[must_use]
    pub fn of_read(self, table: &[Row]) -> DeviceError {
        let meaning = self.meaning(table);
        let said = self.said();
        let Self {
            endpoint,
            request,
            status,
            retry_after,
            right,
            ..
        } = self;
        match meaning {
            Some(Meaning::Denied) => DeviceError::PermissionDenied {
                endpoint,
                request,
                said,
                right,
            },
            Some(Meaning::Login) => DeviceError::AuthFailed { endpoint, said },
            Some(Meaning::Busy) => DeviceError::Busy {
                endpoint,
                request,
                said,
                retry_after,
            },
            Some(Meaning::Missing) => DeviceError::Declined {
                endpoint,
                problem: format!("{request} found no such machine ({said}), which is no Off"),
                way_out: "check the Node's `spec.providerID`, and what the account may see"
                    .to_owned(),
            },
            Some(Meaning::Refused | Meaning::Already) => DeviceError::Declined {
                endpoint,
                problem: format!("{request} was refused ({said})"),
                way_out: "see the machine at its provider".to_owned(),
            },
            // A service that fails by itself is asked again.
            None if status >= 500 => DeviceError::Busy {
                endpoint,
                request,
                said,
                retry_after,
            },
            None => DeviceError::Protocol {
                endpoint,
                problem: format!("{request} has the status {said}"),
                way_out: SEE_PROVIDER,
            },
        }
    }

    /// The same of a power command, which may have been carried out unless the table says that it was not.
    ///
    /// # Errors
    /// It was certainly not carried out.
    pub fn of_command(self, table: &[Row]) -> Result<Sent, DeviceError> {
        match self.meaning(table) {
            Some(Meaning::Already) => Ok(Sent::Already(self.said())),
            Some(Meaning::Refused) => Err(DeviceError::Refused {
                problem: self.said(),
                endpoint: self.endpoint,
            }),
            Some(Meaning::Denied | Meaning::Login | Meaning::Missing | Meaning::Busy) => {
                Err(self.of_read(table))
            }
            None => Ok(Sent::Unclear(self.of_read(table))),
        }
    }

    /// Status, code and message.
    fn said(&self) -> String {
        let texts = [self.code.as_str(), self.message.as_str()];
        let texts = texts.iter().filter(|text| !text.is_empty());
        let texts: Vec<String> = texts
            .map(|text| printable(text, MESSAGE_CHARACTERS_MAX))
            .collect();
        match texts.is_empty() {
            true => self.status.to_string(),
            false => format!("{}: {}", self.status, texts.join(": ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [Row; 5] = [
        row(409, "", "vm_state stopped", Meaning::Already),
        row(409, "", "task_state", Meaning::Refused),
        row(403, "rateLimitExceeded", "", Meaning::Busy),
        row(403, "", "", Meaning::Denied),
        row(ANY_STATUS, "locked", "", Meaning::Busy),
    ];

    fn failed(status: u16, code: &str, message: &str) -> Failed {
        Failed {
            endpoint: "cloud:443".to_owned(),
            request: "POST /stop".to_owned(),
            status,
            code: code.to_owned(),
            message: message.to_owned(),
            retry_after: None,
            right: "the right to stop",
        }
    }

    #[test]
    fn the_first_row_that_fits_counts() {
        let of = |status, code, message| failed(status, code, message).meaning(&TABLE);
        assert_eq!(of(409, "", "in Vm_State stopped"), Some(Meaning::Already));
        assert_eq!(of(409, "", "in task_state x"), Some(Meaning::Refused));
        assert_eq!(of(409, "", "something else"), None);
        assert_eq!(of(403, "rateLimitExceeded", ""), Some(Meaning::Busy));
        assert_eq!(of(403, "forbidden", ""), Some(Meaning::Denied));
        assert_eq!(of(500, "", "vm_state stopped"), None);
        assert_eq!(of(423, "locked", ""), Some(Meaning::Busy));
        assert_eq!(of(423, "protected", ""), None);
    }

    #[test]
    fn a_command_whose_answer_no_row_has_may_have_been_carried_out() {
        let of = |status, message| failed(status, "", message).of_command(&TABLE);
        for (status, message) in [
            (409, "odd"),
            (500, "vm_state stopped"),
            (404, ""),
            (302, ""),
        ] {
            assert!(
                matches!(of(status, message), Ok(Sent::Unclear(_))),
                "{status}"
            );
        }
        assert!(matches!(of(409, "vm_state stopped"), Ok(Sent::Already(_))));
        let refused = of(409, "task_state deleting").expect_err("a refusal");
        assert_eq!(refused.reason(), "Refused");
        assert_eq!(
            of(403, "").expect_err("a denial").reason(),
            "PermissionDenied"
        );
    }
}
