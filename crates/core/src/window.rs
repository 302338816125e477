//! What a policy says at this moment of the week: its `windows` give other times another mode, or another approval.
//!
//! A window is open from one instant to another, and both come from times of the wall clock of its zone. Where the clocks are changed,
//! each of the two is read as calendars read it (RFC 5545): a time that is skipped is taken by the offset from before the change, so
//! that 02:30 of a night without it is 03:30; one that comes twice is the first of the two. So a window may be an hour longer or shorter
//! on such a day, and one whose end is not after its start then does not open. An `end` of 23:59 is midnight, so that whole days leave
//! no gap.
//!
//! The first window that is open counts, alone: what it does not set is as the policy says. The wall clock decides here, as for a pause,
//! and none of it is a matter of safety: the proof is the same in each mode that acts.
//!
//! An incident freezes what holds when it is opened. A window that opens or closes is to it like an edit of the policy: see [`replaced`].

use fencing_api::policy::{
    ApprovalMode, EffectiveSettings, FenceMode, FenceSettings, NodeFencingPolicy, Weekday, Window,
};
use jiff::civil::{self, Date, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan};
use std::ops::Range;
use std::sync::LazyLock;

/// The IANA database of this build, and no other: an image has none, and the replicas have to agree.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// How far changes are looked for, forwards and back. One opening of a weekly window may fall out, which makes it two weeks, and what was
/// before a change is looked at too. Only windows of several zones that hide each other change at times more than three weeks apart, where one zone
/// has changed its clocks: an outage that lasts through such a time may then get a second record after three weeks, unless somebody has said no to it.
const REACH: SignedDuration = SignedDuration::from_hours(21 * 24);
/// Openings further away do not reach into it.
const REACH_DAYS: i32 = 24;

/// What holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// How far the operator may go.
    pub mode: FenceMode,
    /// Who decides that a node is fenced.
    pub approval: ApprovalMode,
    /// The window that says so; none: none is open.
    pub window: Option<String>,
    /// Since when mode and approval are these; none: they do not change, as far as can be seen.
    pub since: Option<Timestamp>,
    /// Until when; none: as above.
    pub until: Option<Timestamp>,
}

impl Effective {
    /// What the policy says without its windows.
    pub fn without_windows(policy: &NodeFencingPolicy) -> Self {
        let fence = &policy.spec.procedure.fence;
        Self {
            mode: fence.mode,
            approval: fence.approval.mode,
            window: None,
            since: None,
            until: None,
        }
    }

    /// The same for the policy's status.
    pub fn shown(self) -> EffectiveSettings {
        EffectiveSettings {
            mode: self.mode,
            approval_mode: self.approval,
            window: self.window,
            until_time: self.until,
        }
    }

    /// The window that is open, what it says and until when.
    #[must_use]
    pub fn message(&self) -> String {
        let until = self.until.map(|until| format!(" until {until}"));
        let until = until.unwrap_or_default();
        match &self.window {
            Some(window) => format!(
                "window {window} is open (mode {:?}, approval {:?}){until}",
                self.mode, self.approval
            ),
            None => format!(
                "no window is open (mode {:?}, approval {:?}){until}",
                self.mode, self.approval
            ),
        }
    }
}

/// Nobody can tell when this window is open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "window {window} of policy {policy} has `{field}` {value}, {rule}, so the policy fences nothing; correct or remove the window, or create a NodeFence by hand"
)]
pub struct Unusable {
    policy: String,
    window: String,
    field: &'static str,
    value: String,
    rule: &'static str,
}

/// What the policy says at `now`, by the wall clock.
///
/// # Errors
/// [`Unusable`] for a time zone that this build does not know, and for a time that is none.
pub fn effective(policy: &NodeFencingPolicy, now: Timestamp) -> Result<Effective, Unusable> {
    if policy.spec.windows.is_empty() {
        return Ok(Effective::without_windows(policy));
    }
    let openings: Vec<Vec<Range<Timestamp>>> = hours(policy)?
        .iter()
        .map(|hours| hours.openings(now))
        .collect();
    let (fence, windows) = (&policy.spec.procedure.fence, &policy.spec.windows);
    let open_at = |moment: Timestamp| {
        let mut all = windows.iter().zip(&openings);
        let open = all.find(|(_, openings)| openings.iter().any(|it| it.contains(&moment)));
        open.map(|(window, _)| window)
    };
    let says = |moment: Timestamp| {
        let open = open_at(moment);
        let mode = open.and_then(|window| window.mode);
        let approval = open.and_then(|window| window.approval_mode);
        (
            mode.unwrap_or(fence.mode),
            approval.unwrap_or(fence.approval.mode),
        )
    };
    let current = says(now);
    let is_in_reach = |mark: &Timestamp| mark.duration_since(now).abs() <= REACH;
    let marks = openings.iter().flatten().flat_map(|it| [it.start, it.end]);
    let mut marks: Vec<Timestamp> = marks.filter(is_in_reach).collect();
    marks.sort();
    let (past, to_come) = marks.split_at(marks.partition_point(|mark| *mark <= now));
    let mut changes = past.array_windows().rev();
    let change = changes.find(|[before, _]| says(*before) != current);
    Ok(Effective {
        mode: current.0,
        approval: current.1,
        window: open_at(now).map(|window| window.name.clone()),
        since: change.map(|[_, since]| *since),
        until: to_come.iter().copied().find(|it| says(*it) != current),
    })
}

/// Why nobody can tell what the policy says, if one of its windows cannot be used.
pub fn unusable(policy: &NodeFencingPolicy) -> Option<Unusable> {
    hours(policy).err()
}

/// The mode that holds now. Of a policy whose windows cannot be used it is nobody's concern: it does nothing.
pub fn mode(policy: &NodeFencingPolicy, now: Timestamp) -> FenceMode {
    effective(policy, now).map_or(policy.spec.procedure.fence.mode, |it| it.mode)
}

/// The next moment at which one of these policies says something else.
pub fn next_change(policies: &[NodeFencingPolicy], now: Timestamp) -> Option<Timestamp> {
    let changes = policies.iter().filter_map(|policy| {
        let effective = effective(policy, now).ok()?;
        effective.until
    });
    changes.min()
}

/// How far the mode goes.
#[must_use]
pub fn rank(mode: FenceMode) -> u8 {
    match mode {
        FenceMode::Observe => 0,
        FenceMode::ConfirmOnly => 1,
        FenceMode::PowerOff => 2,
    }
}

/// How far an incident has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// Nothing of it is on the Node.
    Nothing,
    /// Its claim stands there.
    Claimed,
    /// Its claim stands there, and an off command went out, or may have.
    Commanded,
}

/// Why the incident ends, if it froze something else than what holds now: what holds now begins a new one.
///
/// Before its claim it follows the windows either way. Under the claim it only stops: where the window that is open now wants less of it.
/// Once its machine may have been turned off it is seen through, because a machine that is off with its pods still bound to it is worse
/// than either. A human's answer to it is not asked for again.
pub fn replaced(
    policy: &str,
    frozen: &FenceSettings,
    is_answered: bool,
    begun: Begun,
    now: &Effective,
) -> Option<String> {
    let approval = frozen.approval.mode;
    let is_less = rank(now.mode) < rank(frozen.mode)
        || (now.approval == ApprovalMode::Manual && approval != now.approval && !is_answered);
    let is_other = now.mode != frozen.mode || (now.approval != approval && !is_answered);
    let ends = match begun {
        Begun::Nothing => is_other,
        Begun::Claimed => is_less,
        Begun::Commanded => false,
    };
    ends.then(|| {
        format!(
            "NodeFencingPolicy {policy} changed from mode {:?} and approval {approval:?}, now {}; a new NodeFence is opened",
            frozen.mode,
            now.message()
        )
    })
}

/// When a window is open, week by week.
struct Hours {
    days: Vec<civil::Weekday>,
    start: Time,
    /// Days after the one on which it opens, and the time of that day.
    end: (i32, Time),
    zone: TimeZone,
}

fn hours(policy: &NodeFencingPolicy) -> Result<Vec<Hours>, Unusable> {
    let name = policy.metadata.name.as_deref().unwrap_or_default();
    let windows = policy.spec.windows.iter();
    windows.map(|window| Hours::of(name, window)).collect()
}

impl Hours {
    fn of(policy: &str, window: &Window) -> Result<Self, Unusable> {
        let wrong = |field, value: &str, rule| Unusable {
            policy: policy.to_owned(),
            window: window.name.clone(),
            field,
            value: value.to_owned(),
            rule,
        };
        let time = |field, value: &str| {
            time_of_day(value)
                .ok_or_else(|| wrong(field, value, "which is not a time like `22:00`"))
        };
        let (start, end) = (time("start", &window.start)?, time("end", &window.end)?);
        let zone = ZONES.get(&window.time_zone).ok();
        let zone = zone.filter(|zone| !zone.is_unknown()).ok_or_else(|| {
            let rule = "which is not a known IANA time zone";
            wrong("timeZone", &window.time_zone, rule)
        })?;
        let end = match end {
            _ if end < start => (1, end),
            _ if end == civil::time(23, 59, 0, 0) => (1, Time::midnight()),
            _ => (0, end),
        };
        Ok(Self {
            days: window.days.iter().copied().map(day).collect(),
            start,
            end,
            zone,
        })
    }

    /// Each time that it is open within reach of `now`.
    fn openings(&self, now: Timestamp) -> Vec<Range<Timestamp>> {
        let today = self.zone.to_datetime(now).date();
        let days = (-REACH_DAYS..=REACH_DAYS).filter_map(|ahead| later(today, ahead));
        days.filter(|date| self.days.contains(&date.weekday()))
            .filter_map(|date| {
                let start = self.instant(date, self.start)?;
                let end = self.instant(later(date, self.end.0)?, self.end.1)?;
                (start < end).then_some(start..end)
            })
            .collect()
    }

    /// When the zone's wall clock shows this. Skipped: by the offset from before; twice: the first.
    fn instant(&self, date: Date, time: Time) -> Option<Timestamp> {
        let moment = self.zone.to_ambiguous_timestamp(date.to_datetime(time));
        moment.compatible().ok()
    }
}

fn later(date: Date, days: i32) -> Option<Date> {
    date.checked_add(days.days()).ok()
}

/// `HH:MM`.
fn time_of_day(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str| {
        let is_number = digits.len() == 2 && digits.bytes().all(|it| it.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number)
    };
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

fn day(day: Weekday) -> civil::Weekday {
    match day {
        Weekday::Mon => civil::Weekday::Monday,
        Weekday::Tue => civil::Weekday::Tuesday,
        Weekday::Wed => civil::Weekday::Wednesday,
        Weekday::Thu => civil::Weekday::Thursday,
        Weekday::Fri => civil::Weekday::Friday,
        Weekday::Sat => civil::Weekday::Saturday,
        Weekday::Sun => civil::Weekday::Sunday,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
