//! How far a fence goes, as `--mode` and a question take it.

use clap::ValueEnum;
use fencing_api::settings::FenceMode;

/// [`FenceMode`], as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Mode {
    /// Report, change nothing
    Observe,
    /// Act on a machine that is already off
    ConfirmOnly,
    /// Power the machine off, verify, act
    PowerOff,
}

impl From<Mode> for FenceMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Observe => Self::Observe,
            Mode::ConfirmOnly => Self::ConfirmOnly,
            Mode::PowerOff => Self::PowerOff,
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_takes_a_mode_in_any_case_and_names_those_that_there_are() {
        for line in ["now worker-3 --reason dark", "generate policy"] {
            let read = |mode: &str| {
                let line = format!("kubectl-fence {line} --mode {mode}");
                let read = super::super::command().try_get_matches_from(line.split(' '));
                read.map(|_| ()).map_err(|it| it.to_string())
            };
            for mode in ["PowerOff", "poweroff", "CONFIRMONLY"] {
                assert_eq!(read(mode), Ok(()), "{line}");
            }
            let refused = read("off").expect_err("no mode");
            let values = "[possible values: Observe, ConfirmOnly, PowerOff]";
            assert!(refused.contains(values), "{refused}");
        }
    }
}
