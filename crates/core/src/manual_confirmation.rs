//! A manual confirmation that the machine is off (`spec.manualConfirmation` of a NodeFence): what it is worth, and for how long.
//!
//! It stands in for the reading of a device where no device can answer any more, in a rack without power above all. It is about one Node, by its
//! UID, and power may come back without a notice to the one who confirmed, so it expires. It is one reading among others: the quiesce, the
//! kubelet's Lease and every device that does answer may still contradict it.

use super::reading::Reading;
use super::settings::Settings;
use std::time::Duration;

/// A confirmation is valid this long: long enough to claim, to quiesce and to see the volumes off.
pub const CONFIRMATION_LIFE: Duration = Duration::from_secs(15 * 60);

/// A confirmation that is valid now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidConfirmation {
    /// Who confirmed.
    pub user: String,
    /// Valid until then (time since boot).
    pub valid_until: Duration,
}

/// The confirmation that is valid at `now` (time since boot); otherwise why there is none, and the way out.
pub fn valid_confirmation(settings: &Settings, now: Duration) -> Result<ValidConfirmation, String> {
    let fence = &settings.fence;
    let node_uid = settings.node_uid.as_deref().unwrap_or_default();
    let Some(confirmation) = &settings.confirmation else {
        return Err(format!(
            "no manual confirmation that the machine is off; cut its power and set `spec.manualConfirmation` of NodeFence {fence} (Node UID {node_uid})"
        ));
    };
    let (user, another) = (&confirmation.user, another(settings));
    if confirmation.node_uid != node_uid {
        return Err(format!(
            "manual confirmation by {user} rejected: it names Node UID {}, NodeFence {fence} requires Node UID {node_uid}; {another}",
            confirmation.node_uid
        ));
    }
    if confirmation.is_ahead {
        return Err(format!(
            "manual confirmation by {user} rejected: its time is in the future; correct the clocks of the operator's nodes, {another}"
        ));
    }
    let valid_until = confirmation.given.over(CONFIRMATION_LIFE);
    if now >= valid_until {
        return Err(format!(
            "manual confirmation by {user} expired after {} minutes (power may be back); check the machine again, {another}",
            CONFIRMATION_LIFE.as_secs() / 60
        ));
    }
    Ok(ValidConfirmation {
        user: user.clone(),
        valid_until,
    })
}

/// A NodeFence takes one confirmation, and keeps the Node until it is released. One that was made of a mark is made of it again.
fn another(settings: &Settings) -> &'static str {
    match settings.adopted {
        true => "delete this NodeFence, wait for its successor and confirm that one",
        false => {
            "cancel this NodeFence (`spec.desiredState: Released`), create another and confirm that one"
        }
    }
}

/// What whoever is asked for a word is told of a device that would refute it, behind what else is said.
pub fn beside(on: Option<(&str, &Reading)>) -> String {
    on.map_or_else(String::new, |(device, reading)| {
        format!(
            "; rejected while FenceDevice {device} reads {}",
            reading.raw
        )
    })
}

/// Why the word counts for nothing any more: this sign of life has spoken against it (S21).
pub fn refused(settings: &Settings, sign: &str) -> String {
    let user = settings
        .confirmation
        .as_ref()
        .map_or("a human", |confirmation| &confirmation.user);
    let another = another(settings);
    format!(
        "manual confirmation by {user} rejected: {sign}; check the machine's power and the device's wiring, then {another}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::Now;
    use crate::delay::Since;
    use crate::fixtures;
    use crate::settings::ManualConfirmation;
    use jiff::{SignedDuration, Timestamp};

    /// What is heard at so many seconds of a word that was given so many seconds before 100 s.
    fn at(now: u64, age: i64, node_uid: &str) -> Result<ValidConfirmation, String> {
        let first_heard = Now {
            boot: Duration::from_secs(100),
            wall: Timestamp::UNIX_EPOCH,
        };
        let confirmation = ManualConfirmation {
            user: "alice".to_owned(),
            node_uid: node_uid.to_owned(),
            is_ahead: false,
            given: Since::at(
                Timestamp::UNIX_EPOCH - SignedDuration::from_secs(age),
                first_heard,
            ),
        };
        let settings = Settings {
            confirmation: Some(confirmation),
            ..fixtures::settings()
        };
        valid_confirmation(&settings, Duration::from_secs(now))
    }

    #[test]
    fn a_word_counts_for_a_quarter_of_an_hour_and_no_clock_makes_it_longer() {
        assert!(at(100, 0, "uid-1").is_ok());
        assert!(at(999, 0, "uid-1").is_ok());
        assert!(at(1000, 0, "uid-1").is_err());
        assert!(at(100, 899, "uid-1").is_ok());
        let expired = at(100, 900, "uid-1").expect_err("too old");
        assert_eq!(
            expired,
            "manual confirmation by alice expired after 15 minutes (power may be back); check the machine again, cancel this NodeFence \
             (`spec.desiredState: Released`), create another and confirm that one"
        );
        // A wall clock that is behind, or a time in the future.
        assert!(at(999, -86_400, "uid-1").is_ok());
        assert!(at(1000, -86_400, "uid-1").is_err());
    }

    /// Each restart of the operator would make it young again: it is not waited for until its date has come either.
    #[test]
    fn a_word_that_is_dated_in_the_future_confirms_nothing() {
        let now = Now {
            boot: Duration::from_secs(100),
            wall: Timestamp::UNIX_EPOCH,
        };
        let said = |is_ahead| Settings {
            confirmation: Some(ManualConfirmation {
                user: "alice".to_owned(),
                node_uid: "uid-1".to_owned(),
                given: Since::at(Timestamp::UNIX_EPOCH, now),
                is_ahead,
            }),
            ..fixtures::settings()
        };
        assert!(valid_confirmation(&said(false), Duration::from_secs(100)).is_ok());
        let ahead = valid_confirmation(&said(true), Duration::from_secs(100)).expect_err("ahead");
        assert_eq!(
            ahead,
            "manual confirmation by alice rejected: its time is in the future; correct the clocks of the operator's nodes, cancel this NodeFence \
             (`spec.desiredState: Released`), create another and confirm that one"
        );
    }

    /// What has no record of its beginning is not fenced anew: another NodeFence would wait behind it.
    #[test]
    fn of_a_mark_that_was_adopted_another_word_is_given_to_the_next_record_of_it() {
        let adopted = Settings {
            adopted: true,
            ..fixtures::settings()
        };
        let refused = refused(&adopted, "FenceDevice bmc reads On");
        let way_out = "then delete this NodeFence, wait for its successor and confirm that one";
        assert!(refused.ends_with(way_out), "{refused}");
    }

    #[test]
    fn a_word_about_another_node_names_both() {
        let other = at(100, 0, "uid-2").expect_err("another Node");
        assert_eq!(
            other,
            "manual confirmation by alice rejected: it names Node UID uid-2, NodeFence fence requires Node UID uid-1; cancel \
             this NodeFence (`spec.desiredState: Released`), create another and confirm that one"
        );
    }

    #[test]
    fn whoever_waits_for_a_word_is_told_where_to_give_it() {
        let nobody = valid_confirmation(&fixtures::settings(), Duration::ZERO).expect_err("nobody");
        assert_eq!(
            nobody,
            "no manual confirmation that the machine is off; cut its power and set `spec.manualConfirmation` of NodeFence fence (Node UID uid-1)"
        );
    }
}
