//! What becomes of a command that the service has made a Task of.

use super::super::parse;
use super::super::task::{self, TaskState};
use super::Session;
use crate::OffOutcome;
use crate::http::Reply;
use http::StatusCode;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Pause between two looks at a Task.
const TASK_PERIOD: Duration = Duration::from_millis(500);

impl Session {
    /// The Task that the command became, if it did.
    pub(super) fn task_of(&self, reply: &Reply) -> Option<String> {
        if !matches!(reply.status, StatusCode::ACCEPTED | StatusCode::CREATED) {
            return None;
        }
        let body = reply.body.as_deref().ok();
        let body = body.and_then(|body| parse::json(body).ok());
        let body = body.map(|body| parse::with_paths(body, &self.driver.target.address));
        let authority = self.driver.target.address.authority();
        task::path(body.as_ref(), reply.location.as_deref(), &authority)
    }

    /// Waits for the Task to end, as long again as for the command. Only a failure that the device states counts: whatever else
    /// happens on the way, the command was accepted.
    pub(super) async fn follow(&mut self) -> OffOutcome {
        let Some(path) = self.task.take() else {
            return OffOutcome::Accepted;
        };
        let limit = self.driver.command_timeout;
        match timeout(limit, self.ended(&path)).await {
            Ok(Some(words)) => OffOutcome::Unknown(self.refused(words)),
            Ok(None) | Err(_) => OffOutcome::Accepted,
        }
    }

    /// How the Task has failed, once it has ended.
    async fn ended(&mut self, path: &str) -> Option<String> {
        loop {
            let reply = self.http.get(path).await.ok()?;
            // A monitor answers 202 until the Task has ended, and then for the command.
            let is_running = reply.status == StatusCode::ACCEPTED;
            if !is_running && reply.status != StatusCode::OK {
                return None;
            }
            let state = match reply.body.as_deref().map(parse::json) {
                Ok(Ok(document)) if !is_running => task::state(&document),
                _ if is_running => TaskState::Running,
                _ => TaskState::Ended,
            };
            match state {
                TaskState::Failed(words) => return Some(words),
                TaskState::Ended => return None,
                TaskState::Running => sleep(TASK_PERIOD).await,
            }
        }
    }
}
