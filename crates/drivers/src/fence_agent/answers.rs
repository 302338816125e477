//! What the end of an agent means. The library that all agents share (`fence_action` of `fencing.py`, fence-agents 4.12.1) has it so:
//!
//! | action | it ends with | and printed |
//! |---|---|---|
//! | `status` | 0 | `Status: ON` |
//! | `status` | 2 | `Status: OFF` |
//! | `off` | 0 | `Success: Powered OFF`, or `Success: Already OFF` when the first thing it read was off, and nothing was sent |
//! | `on` | 0 | `Success: Powered ON`, or `Success: Already ON` |
//! | any | 1 | a reason on standard error: no login, no answer, another state, or not off in time |
//!
//! A shell that cannot read its script ends with 2 as well, and so does Python without one; hence both are asked for, and nothing beside them.

use super::given::Action;
use super::run::Ended;
use fencing_core::reading::PowerState;

const ON: &str = "Status: ON\n";
const OFF: &str = "Status: OFF\n";

/// The power that `status` has read; none: nothing that counts.
pub fn power(ended: &Ended) -> Option<PowerState> {
    match (ended.code, ended.stdout.as_slice()) {
        (Some(0), stdout) if stdout == ON.as_bytes() => Some(PowerState::On),
        (Some(2), stdout) if stdout == OFF.as_bytes() => Some(PowerState::Off),
        _ => None,
    }
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The device took it, and shows it.
    Done,
    /// The agent has sent nothing, because of what it read.
    Already,
    /// Nobody knows: it may have been sent.
    Open,
}

/// What became of a command that ended so.
pub fn answer(action: Action, ended: &Ended) -> Answer {
    let (done, already) = match action {
        Action::Off => ("Success: Powered OFF\n", "Success: Already OFF\n"),
        Action::On => ("Success: Powered ON\n", "Success: Already ON\n"),
        Action::Status => return Answer::Open,
    };
    match (ended.code, ended.stdout.as_slice()) {
        (Some(0), stdout) if stdout == done.as_bytes() => Answer::Done,
        (Some(0), stdout) if stdout == already.as_bytes() => Answer::Already,
        _ => Answer::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: impl Into<Option<i32>>, stdout: &str) -> Ended {
        Ended {
            code: code.into(),
            signal: None,
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
        }
    }

    #[test]
    fn off_is_two_and_the_one_line_and_nothing_else() {
        assert_eq!(power(&ended(2, OFF)), Some(PowerState::Off));
        assert_eq!(power(&ended(0, ON)), Some(PowerState::On));
        let lines = [
            "",
            "\n",
            "Status: OFF",
            "Status: OF\n",
            "status: off\n",
            "Status: OFF\n\n",
            "Status: OFF\nStatus: ON\n",
            " Status: OFF\n",
            "Status: OFF \n",
            "Status: OFFLINE\n",
            "Status: SUSPENDED\n",
            "Status: OFF\0\n",
            "Success: Already OFF\n",
        ];
        for line in lines {
            for code in [Some(0), Some(1), Some(2), Some(8), None] {
                assert_eq!(power(&ended(code, line)), None, "{code:?} {line:?}");
            }
        }
        for code in [
            Some(0),
            Some(1),
            Some(3),
            Some(8),
            Some(-2),
            Some(258),
            None,
        ] {
            assert_eq!(power(&ended(code, OFF)), None, "{code:?}");
        }
        for code in [Some(1), Some(2), Some(256), None] {
            assert_eq!(power(&ended(code, ON)), None, "{code:?}");
        }
    }

    #[test]
    fn a_command_that_is_not_known_to_have_ended_well_is_open() {
        let off = |code, stdout| answer(Action::Off, &ended(code, stdout));
        assert_eq!(off(0, "Success: Powered OFF\n"), Answer::Done);
        assert_eq!(off(0, "Success: Already OFF\n"), Answer::Already);
        for (code, stdout) in [
            (0, ""),
            (0, "Success: Rebooted\n"),
            (0, "Success: Powered ON\n"),
            (1, "Success: Powered OFF\n"),
            (1, "Success: Already OFF\n"),
            (2, "Success: Powered OFF\n"),
        ] {
            assert_eq!(off(code, stdout), Answer::Open, "{code} {stdout:?}");
        }
        let on = |stdout| answer(Action::On, &ended(0, stdout));
        assert_eq!(on("Success: Powered ON\n"), Answer::Done);
        assert_eq!(on("Success: Already ON\n"), Answer::Already);
        assert_eq!(on("Success: Powered OFF\n"), Answer::Open);
    }
}
