//! A resource that is asked for, and asked for again where a refusal may be a passing one.

use super::super::parse;
use super::Session;
use crate::DeviceError;
use crate::http::Reply;
use http::StatusCode;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// Before a request is sent again that was refused a moment after the same login was taken.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The way out where what answers does not speak Redfish, or badly.
const NO_REDFISH: &str =
    "check that the address is that of the device, or update the device's firmware";

impl Session {
    /// A resource that is needed, with status 200 and nothing less.
    pub(super) async fn get(&mut self, path: &str) -> Result<Value, DeviceError> {
        let mut reply = self.http.get(path).await?;
        let past = self.driver.past.clone();
        let is_denied = matches!(
            reply.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND
        );
        // BMCs refuse a right login now and then after they have restarted, or know no system yet, and do at the next request.
        if is_denied && past.may_ask_again(self.driver.clock.since_boot()) {
            sleep(AGAIN_AFTER).await;
            reply = self.http.get(path).await?;
        }
        let document = self.document(path, reply)?;
        past.note_taken(self.driver.clock.since_boot());
        Ok(document)
    }

    /// The same of one that can be done without: not every user may read it.
    pub(super) async fn get_once(&mut self, path: &str) -> Result<Value, DeviceError> {
        let reply = self.http.get(path).await?;
        self.document(path, reply)
    }

    fn document(&self, path: &str, reply: Reply) -> Result<Value, DeviceError> {
        if reply.status != StatusCode::OK {
            return Err(self.status_error("GET", path, &reply));
        }
        let document = parse::json(&reply.body?);
        let document = document.map_err(|problem| self.protocol(problem, NO_REDFISH))?;
        Ok(parse::with_paths(document, &self.driver.target.address))
    }
}
