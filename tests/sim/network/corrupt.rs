//! Answers of the API server that never reach the operator as they were given.

use crate::libc::elapsed;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};
use simapi::answer::{self, Answer};

/// A refusal, which may ask for a pause of so many seconds.
pub(super) fn refused(code: u16, wait: Option<u64>) -> http::Response<answer::Body> {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("made up by the simulation, at {} s", elapsed().as_secs()),
    });
    let mut response = Answer::object(code, &status).into_response();
    if let Some(seconds) = wait {
        let value = HeaderValue::from_str(&seconds.to_string()).expect("a number");
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, value);
    }
    response
}

/// The half of it.
pub(super) fn shortened(answer: Answer) -> Answer {
    match answer {
        Answer::Whole(code, bytes) => Answer::Whole(code, bytes.slice(..bytes.len() / 2)),
        Answer::Watch(lines) => Answer::Watch(lines),
    }
}

/// A list without its last object, that goes on under a token which nobody knows.
pub(super) fn partial(answer: Answer) -> Answer {
    let Answer::Whole(200, bytes) = &answer else {
        return answer;
    };
    let Ok(mut list) = serde_json::from_slice::<Value>(bytes) else {
        return answer;
    };
    if let Some(items) = list["items"].as_array_mut() {
        items.pop();
        list["metadata"]["continue"] = json!("lost");
    }
    Answer::Whole(200, Bytes::from(list.to_string()))
}
