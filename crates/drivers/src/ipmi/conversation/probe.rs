//! The look at a BMC in peace time: everything that a fence would need, and a word about each thing that is missing.

use super::super::codec::command::{
    self, AuthenticationCapabilities, Completion, SUITE_ANSWERS_MAX, SUITE_BYTES_PER_ANSWER,
};
use super::super::codec::lan::Request;
use super::super::words;
use super::{Conversation, READ_PATIENCE};
use crate::{DeviceClock, DeviceError, Probe};
use jiff::Timestamp;

impl Conversation {
    pub(super) async fn look(&mut self) -> Result<Probe, DeviceError> {
        let cipher_suites = self.look_at_suites().await?;
        let privilege = self.driver.privilege;
        let suite = self.driver.suite;
        let is_listed = cipher_suites.is_empty() || cipher_suites.contains(&suite.number());
        let raised = match self.log_in(privilege).await {
            Ok(_) => self.raise(privilege).await,
            // The list is not authenticated, so only a refusal makes it one that lacks the suite.
            Err(DeviceError::NoSecureLogin { endpoint, .. }) if !is_listed => {
                Err(DeviceError::NoSecureLogin {
                    endpoint,
                    problem: words::suite_not_offered(suite, &cipher_suites),
                })
            }
            Err(error) => Err(error),
        };
        let off_denied = match raised {
            Ok(()) => None,
            // Enough to read with, which is what mode ConfirmOnly does.
            Err(denied @ DeviceError::PermissionDenied { .. }) => Some(denied),
            Err(error) => return Err(error),
        };
        let (reading, status) = self.read().await?;
        Ok(Probe {
            reading,
            vendor: None,
            model: None,
            firmware: None,
            certificate_expiry: None,
            power_restore_policy: status.power_restore_policy().map(str::to_owned),
            restarter: None,
            off_denied,
            cipher_suites,
            clock: None,
        })
    }

    /// The BMC's clock, in the session that is open. Whatever goes wrong says nothing: some BMCs keep no event log.
    pub(super) async fn sel_time(&mut self) -> Option<DeviceClock> {
        let asked = self.command(command::get_sel_time(), READ_PATIENCE).await;
        let (_, data) = asked
            .ok()
            .filter(|(completion, _)| *completion == Completion::DONE)?;
        let seconds = command::sel_time(&data).ok()??;
        Some(DeviceClock {
            time: Timestamp::from_second(seconds.into()).ok()?,
            ours: self.driver.clock.wall(),
        })
    }

    /// What the BMC says before any login: whether there is a login that can be used. The suites that it lists, if it lists any.
    async fn look_at_suites(&mut self) -> Result<Vec<u8>, DeviceError> {
        let no_login = |problem: String| DeviceError::NoSecureLogin {
            endpoint: self.driver.address.to_string(),
            problem,
        };
        let (ipmi_1_5_only, bmc_key) = (
            no_login(words::IPMI_1_5_ONLY.to_owned()),
            no_login(words::BMC_KEY.to_owned()),
        );
        let request = command::get_authentication_capabilities(self.driver.privilege);
        let (completion, data) = self.plain_command(request).await?;
        if completion == Completion::DONE {
            let found = AuthenticationCapabilities::decode(&data);
            let found = found.map_err(|error| self.malformed(error))?;
            if !found.ipmi_2_0 {
                return Err(ipmi_1_5_only);
            }
            if found.bmc_key_set {
                return Err(bmc_key);
            }
        }
        let mut list = Vec::new();
        for index in 0..SUITE_ANSWERS_MAX {
            let request = command::get_cipher_suites(index);
            let (completion, data) = self.plain_command(request).await?;
            // The command is newer than IPMI 2.0 itself: without it the login tells.
            if completion != Completion::DONE {
                return Ok(Vec::new());
            }
            let Ok(piece) = command::cipher_suite_bytes(&data) else {
                return Ok(Vec::new());
            };
            list.extend_from_slice(piece);
            if piece.len() < SUITE_BYTES_PER_ANSWER {
                break;
            }
        }
        let suites = command::cipher_suites(&list).unwrap_or_default();
        Ok(suites.into_iter().map(|(number, _)| number).collect())
    }

    /// A command outside of the session.
    async fn plain_command(
        &mut self,
        request: Request,
    ) -> Result<(Completion, Vec<u8>), DeviceError> {
        let link = self.link().await?;
        let done = link
            .run(|session, now| session.plain_command(request, now))
            .await;
        self.answered(done)
    }
}
