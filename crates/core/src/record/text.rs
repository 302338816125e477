//! Moments and texts, as a record keeps them.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Characters of a message inside a list.
const NOTE_CHARACTERS: usize = 1024;

/// A moment of the boot clock as wall clock, for the record.
pub fn wall(at: Duration, now: Duration, wall: Timestamp) -> Option<Timestamp> {
    let ahead = SignedDuration::try_from(at)
        .ok()?
        .checked_sub(SignedDuration::try_from(now).ok()?)?;
    wall.checked_add(ahead).ok()
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(NOTE_CHARACTERS).collect()
}
