//! May the account switch? The service is asked in peace time, because what it lets the account read says nothing of what it lets it do.
//!
//! It takes some requests, so only a whole look asks, and the looks in between remember. A service that does not tell changes nothing: it lacks the
//! AccountService, hides other accounts, knows the user from a directory, or is slow.

use super::super::parse::{self, ACCOUNT_SERVICE};
use super::super::status::OPERATOR;
use super::Session;
use crate::DeviceError;
use std::time::Duration;
use tokio::time::timeout;

/// Accounts of one service that are read at most: iDRAC has 16, XCC 12.
const ACCOUNTS_MAX: usize = 20;
/// Time for all of it: the look waits for it.
const TIME_MAX: Duration = Duration::from_secs(10);

impl Session {
    /// Why the account may not switch, as the service says now; none where it may, or where the service does not tell.
    pub(super) async fn asked_denial(&mut self, gone: Duration) -> Option<DeviceError> {
        let left = self.driver.call_timeout.saturating_sub(gone);
        let role = timeout(left.min(TIME_MAX), self.role_that_may_not()).await;
        // Whatever a service does not tell this time, it has told before.
        if let Ok(Some(role)) = role {
            self.driver.past.note_role(role);
        }
        self.known_denial()
    }

    /// The same, as it was said last.
    pub(super) fn known_denial(&self) -> Option<DeviceError> {
        let role = self.driver.past.role_that_may_not()?;
        Some(DeviceError::PermissionDenied {
            endpoint: self.endpoint(),
            request: "the reset".to_owned(),
            said: format!("role {}", self.shown(&role)),
            right: OPERATOR,
        })
    }

    /// The name of the account's role, if that may not reset; the outer none: the service does not tell.
    async fn role_that_may_not(&mut self) -> Option<Option<String>> {
        let service = self.get_once(ACCOUNT_SERVICE).await.ok()?;
        let accounts = self.get_once(&parse::link(&service, "Accounts")?).await;
        let paths = parse::members(&accounts.ok()?).ok()?;
        for path in paths.iter().take(ACCOUNTS_MAX) {
            // The others' accounts may be hidden.
            let Ok(account) = self.get_once(path).await else {
                continue;
            };
            let user = self.driver.target.credentials.value("username");
            if let Some(role) = parse::role_of(&account, user) {
                let role = self.get_once(&role).await.ok()?;
                return Some(parse::may_not_reset(&role));
            }
        }
        None
    }
}
