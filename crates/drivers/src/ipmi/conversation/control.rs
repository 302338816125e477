//! What changes something on a BMC: the privilege of the session, and the power.

use super::super::codec::command::{self, Completion};
use super::super::codec::rakp::Privilege;
use super::super::words;
use super::{COMMAND_PATIENCE, Conversation, READ_PATIENCE};
use crate::{Command, DeviceError, OffOutcome};
use fencing_core::reading::PowerState;

impl Conversation {
    /// "Not in this state" is said of a machine that is off already, and of much else: the power itself tells which.
    pub(super) async fn already(
        &mut self,
        command: Command,
        said: String,
    ) -> Result<OffOutcome, DeviceError> {
        let other = match command {
            Command::Off => PowerState::On,
            Command::On => PowerState::Off,
        };
        let limit = self.limit(self.driver.command_timeout);
        let read = limit.on(self.read()).await;
        match self.conclude(read) {
            Ok((reading, _)) if reading.state == other => {
                let problem = format!(
                    "the {} ended with {said}, and the power reads {other:?}",
                    command.word()
                );
                Ok(OffOutcome::Unknown(words::declined(
                    self.endpoint(),
                    problem,
                )))
            }
            _ => Ok(OffOutcome::AlreadyOff { said }),
        }
    }

    /// Set Session Privilege Level.
    pub(super) async fn raise(&mut self, privilege: Privilege) -> Result<(), DeviceError> {
        let request = format!("the privilege {}", privilege.word());
        let (completion, data) = self
            .command(command::set_session_privilege(privilege), READ_PATIENCE)
            .await?;
        let denied = |said: String| DeviceError::PermissionDenied {
            endpoint: self.endpoint(),
            request: request.clone(),
            said,
            right: words::RIGHT,
        };
        match (completion, data.first()) {
            (Completion::DONE, Some(granted)) if *granted >= privilege.number() => Ok(()),
            (Completion::DONE, Some(granted)) => {
                Err(denied(format!("it granted level {granted} instead")))
            }
            (Completion::LEVEL_NOT_AVAILABLE, _) => Err(denied(
                "0x80, the requested level is not available for this user".to_owned(),
            )),
            (Completion::LEVEL_TOO_HIGH, _) => Err(denied(
                "0x81, the requested level exceeds the limit of the channel or of the user"
                    .to_owned(),
            )),
            (completion, _) => Err(words::not_done(self.endpoint(), &request, completion)),
        }
    }

    /// Chassis Control. Of a machine that is on already, devices say what they say of one that is off.
    pub(super) async fn control(&mut self, switch: Command) -> Result<OffOutcome, DeviceError> {
        let request = match switch {
            Command::Off => command::power_down(),
            Command::On => command::power_up(),
        };
        let sent = self.driver.clock.since_boot();
        let (completion, _) = self.command(request, COMMAND_PATIENCE).await?;
        let said = completion.to_string();
        match completion {
            Completion::DONE => {
                if switch == Command::Off {
                    self.driver.past.note_command(sent);
                }
                Ok(OffOutcome::Accepted)
            }
            Completion::NOT_IN_THIS_STATE => Ok(OffOutcome::AlreadyOff { said }),
            completion if completion.leaves_open() => {
                let problem = format!("the {} ended with {completion}", switch.word());
                Ok(OffOutcome::Unknown(words::declined(
                    self.endpoint(),
                    problem,
                )))
            }
            Completion::NO_PRIVILEGE => Err(words::not_done(
                self.endpoint(),
                &format!("the {}", switch.word()),
                completion,
            )),
            _ => Err(self.refused(said)),
        }
    }
}
