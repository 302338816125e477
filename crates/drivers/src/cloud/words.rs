//! From a provider's word to what it means, and the conditions without which an Off is none.

use crate::error::printable;
use fencing_core::reading::PowerState;
use std::time::Duration;

/// Longest word that is kept, in characters.
const WORD_CHARACTERS_MAX: usize = 63;

/// A word and its meaning. Words that stand in no table are Unknown, whatever they look like.
pub type Word = (&'static str, PowerState);

/// What a provider says of a machine's power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What its word means.
    pub state: PowerState,
    /// The word as it was given.
    pub raw: String,
    /// What speaks against this Off.
    pub faults: Vec<String>,
    /// Its next start may load the memory that it had: nothing of ours starts it.
    pub may_resume: bool,
    /// How old the report was when it was given, where it is not made for each request.
    pub age: Duration,
}

impl Said {
    /// The meaning of this word; `field` has it, for the record where it has none.
    #[must_use]
    pub fn of(table: &[Word], field: &str, word: Option<&str>) -> Self {
        let known = table.iter().find(|(known, _)| Some(*known) == word);
        Self {
            state: known.map_or(PowerState::Unknown, |(_, state)| *state),
            raw: match word {
                Some(word) => printable(word, WORD_CHARACTERS_MAX),
                None => format!("no {field}"),
            },
            faults: Vec::new(),
            may_resume: false,
            age: Duration::ZERO,
        }
    }

    /// The same by a report that is so old.
    #[must_use]
    pub fn of_age(self, age: Duration) -> Self {
        Self { age, ..self }
    }

    /// An Off beside which this does not hold has a fault of this name. Any other state stays as it is.
    #[must_use]
    pub fn only_if(mut self, holds: bool, fault: impl AsRef<str>) -> Self {
        if self.state == PowerState::Off && !holds {
            self.faults
                .push(printable(fault.as_ref(), WORD_CHARACTERS_MAX));
        }
        self
    }

    /// The same of a condition without which its memory may be kept.
    #[must_use]
    pub fn only_without_memory(mut self, holds: bool, fault: impl AsRef<str>) -> Self {
        self.may_resume |= self.state == PowerState::Off && !holds;
        self.only_if(holds, fault)
    }

    /// Off, and nothing speaks against it.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state == PowerState::Off && self.faults.is_empty()
    }

    /// The same, each text that is shown of it replaced by what `of` makes of it.
    #[must_use]
    pub fn with_texts(self, of: impl Fn(&str) -> String) -> Self {
        Self {
            raw: of(&self.raw),
            faults: self.faults.iter().map(|fault| of(fault)).collect(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_core::fixtures::cases;
    use proptest::prelude::*;

    const TABLE: [Word; 2] = [("stopped", PowerState::Off), ("running", PowerState::On)];

    #[test]
    fn a_condition_speaks_against_an_off_only() {
        let of = |word| Said::of(&TABLE, "status", word).only_if(false, "a lock");
        assert_eq!(of(Some("stopped")).faults, ["a lock"]);
        assert!(of(Some("running")).faults.is_empty());
        assert!(!of(Some("stopped")).is_off());
        assert_eq!(of(None).raw, "no status");
        assert_eq!(of(None).state, PowerState::Unknown);
        assert!(Said::of(&TABLE, "status", Some("stopped")).is_off());
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn only_the_exact_word_is_off(word in "[Ss]?topp?ed ?|.{0,12}") {
            let said = Said::of(&TABLE, "status", Some(&word));
            prop_assert_eq!(said.is_off(), word == "stopped");
        }
    }
}
