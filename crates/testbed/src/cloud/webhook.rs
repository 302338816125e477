//! A service of a user's own with one machine, as the contract of driver `webhook` has it (docs/how-to/webhook.md).

use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// The token that opens it.
pub const TOKEN: &str = "4d7e0c5f-fence-token";

const API_VERSION: &str = "webhook.nodefencing.io/v1";
/// Age of a report that proves nothing, in seconds.
const OLD: u64 = 60;

/// The service.
#[derive(Debug, Clone, Copy, Default)]
pub struct Webhook;

impl Page for Webhook {
    const STATE: [&'static str; 2] = ["\"power\":\"On\"", "\"power\":\"Off\""];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let request: Value = serde_json::from_slice(&call.body).ok()?;
        match request["action"].as_str()? {
            "status" => Some(Wants::State),
            "off" => Some(Wants::Switch(false)),
            "on" => Some(Wants::Switch(true)),
            _ => None,
        }
    }

    fn lets_in(&self, _: Wants, call: &Call) -> bool {
        let header = call.head.headers.get(AUTHORIZATION);
        header.is_some_and(|it| it.as_bytes() == format!("Bearer {TOKEN}").as_bytes())
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        let request: Value = serde_json::from_str(view.body).unwrap_or_default();
        let mut answer = json!({
            "apiVersion": API_VERSION, "kind": "FenceResponse", "requestID": request["requestID"],
        });
        match (wants, view.taken) {
            (Wants::Switch(_), Taken::Done) => answer["outcome"] = json!("Accepted"),
            (Wants::Switch(_), Taken::Already) => answer["outcome"] = json!("Already"),
            (Wants::Switch(_), _) => return self.error(409, "the machine takes no command"),
            _ => status(&mut answer, view),
        }
        Answer::text(200, answer.to_string())
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        let code = match status {
            401 => "Unauthorized",
            403 => "Forbidden",
            409 => "Refused",
            _ => "BadRequest",
        };
        let error = json!({
            "apiVersion": API_VERSION, "kind": "FenceResponse", "code": code, "message": words,
        });
        Answer::text(status, error.to_string())
    }
}

fn status(answer: &mut Value, view: &View<'_>) {
    answer["power"] = json!(if view.is_on { "On" } else { "Off" });
    answer["machine"] = json!({"systemUUID": view.uuid});
    match view.beside {
        Beside::OldReport => answer["ageSeconds"] = json!(OLD),
        Beside::CutOff => {}
        _ => answer["ageSeconds"] = json!(0.2),
    }
}
