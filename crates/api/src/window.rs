//! When a policy acts otherwise than it says: windows of the week, and requests to pause.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crd::{self, rule, rule_at};
use super::settings::{ApprovalMode, FenceMode};

/// Times of the week with another approval or mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("has(self.approvalMode) || has(self.mode)", "must set at least one of `approvalMode`, `mode`"),
    rule_at("self.start != self.end", "`end` must not equal `start`: for whole days use '00:00' and '23:59'", ".end"),
]))]
pub struct Window {
    /// Names the window in messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// Days on which the window opens.
    #[schemars(length(min = 1, max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub days: Vec<Weekday>,

    /// Local time at which the window opens, as `HH:MM`. A time that is skipped when the clocks are changed is read as calendars do, by the
    /// offset from before (02:30 is 03:30 then); one that comes twice is the first of the two.
    #[schemars(length(max = 5), extend("x-kubernetes-validations" = [time_of_day()]))]
    pub start: String,

    /// Local time at which the window closes, as `HH:MM`; `23:59` means midnight. Before `start` means on the next day. When the clocks
    /// are changed it is read as `start` is; if it is not after `start` then, the window does not open that day.
    #[schemars(length(max = 5), extend("x-kubernetes-validations" = [time_of_day()]))]
    pub end: String,

    /// IANA time zone of `start`, `end` and `days`, for instance `Europe/Berlin`. Absent: `Etc/UTC`.
    #[serde(default = "utc")]
    #[schemars(
        length(max = 64),
        regex(pattern = "^[A-Za-z]+(/[A-Za-z0-9_+-]+)*$"),
        extend("x-kubernetes-validations" = [
            rule(
                "self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",
                "must be an IANA time zone, for instance 'Europe/Berlin'",
            ),
        ])
    )]
    pub time_zone: String,

    /// Approval while the window is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_mode: Option<ApprovalMode>,

    /// Mode while the window is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<FenceMode>,
}

/// No `pattern`: the API server would show that alone, and nobody reads it.
fn time_of_day() -> serde_json::Value {
    rule(
        "self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",
        "must be a time of day as `HH:MM`, from '00:00' to '23:59', in quotation marks; for midnight at the end of a day use '23:59'",
    )
}

fn utc() -> String {
    "Etc/UTC".to_owned()
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// Somebody's wish that no new fence starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequest {
    /// Who or what requests the pause, a key of their choice; several may request it, and each removes its own.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Who has written the entry: the user who makes the request, see `kubectl auth whoami`. `kubectl fence pause` writes it; a tool that
    /// applies manifests of others leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub user: Option<String>,

    /// Why, for those who find the policy paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,

    /// From then on the entry does not count, by the operator's clock: a time of RFC 3339, for instance `2027-01-02T18:00:00Z`. Absent:
    /// it is valid until it is removed. The operator never removes an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::time")]
    pub expire_time: Option<Timestamp>,
}
