//! What a service says about a command that it did not carry out, as a sentence.
//!
//! A Redfish error holds messages of a registry (DSP0266 §8.6): an id, arguments, and often but not always the text that a person can
//! read. Where the text is missing it is made from the id, for those of the Base registry (DSP2065) and of vendors that a power-off
//! meets. Nothing follows from any of it: only a power state that is read counts.

use super::parse::json;
use crate::error::printable;
use serde_json::Value;

/// Of a device that does not say why.
const SILENT: &str = "no reason given";
/// Ids of messages that name no cause.
const GENERAL: [&str; 5] = [
    ".ExtendedError",
    ".ExtendedInfo",
    ".GeneralError",
    ".InternalError",
    ".ServiceTemporarilyUnavailable",
];
/// Longest sentence in characters.
const CHARACTERS_MAX: usize = 200;

/// The message of an error's body that names the cause, with its id.
#[must_use]
pub fn said(body: &[u8]) -> String {
    words(body).unwrap_or_else(|| SILENT.to_owned())
}

/// The same, if there is one.
#[must_use]
pub fn words(body: &[u8]) -> Option<String> {
    of_document(&json(body).ok()?)
}

/// The same of a document that was read already: of an error, or of a Task.
#[must_use]
pub fn sentence(document: &Value) -> String {
    of_document(document).unwrap_or_else(|| SILENT.to_owned())
}

fn of_document(document: &Value) -> Option<String> {
    let lists = [
        "/error/@Message.ExtendedInfo",
        "/@Message.ExtendedInfo",
        "/Messages",
    ];
    let message = lists
        .iter()
        .find_map(|at| cause(messages(document.pointer(at)?)));
    let of_message = |name| message.and_then(|it| it.get(name)).and_then(text);
    let of_error = |name| document.pointer(name).and_then(text);
    let id = message.and_then(id_of).or(of_error("/error/code"));
    let known = || registry(id.as_deref()?, message?.get("MessageArgs"));
    // What the error itself says often only points to its messages.
    let words = of_message("Message")
        .or_else(known)
        .or(of_error("/error/message"));
    let sentence = match (words, id) {
        (Some(words), Some(id)) => format!("{words} ({id})"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return None,
    };
    Some(printable(&sentence, CHARACTERS_MAX))
}

/// A list of messages, or the one that some firmware puts in its place.
fn messages(value: &Value) -> &[Value] {
    match value {
        Value::Array(all) => all,
        Value::Object(_) => std::slice::from_ref(value),
        _ => &[],
    }
}

/// The first message that says more than that something failed, else the first one.
fn cause(messages: &[Value]) -> Option<&Value> {
    let says_more = |message: &&Value| {
        let id = id_of(message).unwrap_or_default();
        !id.is_empty() && !GENERAL.iter().any(|general| id.ends_with(general))
    };
    messages.iter().find(says_more).or(messages.first())
}

/// The id of a message; iLO 4 spells it otherwise.
fn id_of(message: &Value) -> Option<String> {
    let id = message
        .get("MessageId")
        .or_else(|| message.get("MessageID"));
    id.and_then(text)
}

/// A text that says something.
fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| printable(text, CHARACTERS_MAX))
}

/// What a message of a registry says. Ids look like `Base.1.18.ActionNotSupported` or `IDRAC.2.8.PSU501`.
fn registry(id: &str, arguments: Option<&Value>) -> Option<String> {
    let sentence = match id.rsplit('.').next()? {
        "AccessDenied" => "access to %1 was denied",
        "ActionNotSupported" => "the action %1 is not supported",
        "ActionParameterMissing" => "the action %1 lacks the parameter %2",
        "ActionParameterNotSupported" => "the action %2 does not take the parameter %1",
        "ActionParameterValueFormatError" | "ActionParameterValueError" => {
            "the value %1 of the parameter %2 is malformed"
        }
        "ActionParameterValueNotInList" => "the value %1 is not among those of the parameter %2",
        "GeneralError" => "something failed inside the service",
        "InsufficientPrivilege" => "the account's privilege does not suffice",
        "InternalError" => "something failed inside the service, and it may still run",
        "NoValidSession" => "no session is valid",
        "PasswordChangeRequired" => "the password has to be changed first",
        "PreconditionFailed" => "the resource was changed meanwhile",
        "ResourceInUse" => "the resource is in use",
        "ResourceMissingAtURI" => "there is no resource at %1",
        "ResourceNotFound" => "there is no %1 named %2",
        "ResourceInStandby" => "the resource is in standby",
        "ServiceInUnknownState" => "the service has to be restarted",
        "ServiceShuttingDown" => "the service is shutting down",
        "ServiceTemporarilyUnavailable" => "the service is busy, for %1 seconds more",
        "SessionLimitExceeded" => "too many sessions are open",
        // iLO: a reset that the machine's power state does not allow.
        "InvalidOperationForSystemState" => "the machine's power state does not allow it",
        // iDRAC: the server is already off.
        "PSU501" => "the machine is off already",
        // iDRAC: too many sessions, for about 20 minutes.
        "RAC0218" => "too many sessions are open",
        _ => return None,
    };
    let argument = |index: usize| {
        let argument = arguments?.get(index)?;
        let word = argument.as_str().map(str::to_owned);
        Some(printable(&word.unwrap_or_else(|| argument.to_string()), 40))
    };
    let filled =
        [("%1", 0), ("%2", 1)]
            .into_iter()
            .fold(sentence.to_owned(), |sentence, (place, index)| {
                sentence.replace(
                    place,
                    &argument(index).unwrap_or_else(|| "of it".to_owned()),
                )
            });
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(message: Value) -> String {
        said(json!({"error": {"code": "Base.1.8.GeneralError", "message": "See ExtendedInfo.", "@Message.ExtendedInfo": [message]}}).to_string().as_bytes())
    }

    #[test]
    fn the_service_s_own_words_come_first_and_its_id_is_kept() {
        let message =
            json!({"MessageId": "IDRAC.2.8.PSU501", "Message": "Server is already powered OFF."});
        assert_eq!(
            error(message),
            "Server is already powered OFF. (IDRAC.2.8.PSU501)"
        );
    }

    #[test]
    fn an_id_without_words_gets_some() {
        let bare = |id: &str, arguments: Value| {
            said(json!({"error": {"@Message.ExtendedInfo": [{"MessageId": id, "MessageArgs": arguments}]}}).to_string().as_bytes())
        };
        for (id, arguments, words) in [
            (
                "iLO.2.15.InvalidOperationForSystemState",
                json!([]),
                "the machine's power state does not allow it",
            ),
            (
                "Base.1.18.ActionParameterValueNotInList",
                json!(["ForceOff", "ResetType"]),
                "the value ForceOff is not among those of the parameter ResetType",
            ),
            (
                "Base.1.18.ActionNotSupported",
                Value::Null,
                "the action of it is not supported",
            ),
            (
                "Base.1.18.ServiceTemporarilyUnavailable",
                json!([30]),
                "the service is busy, for 30 seconds more",
            ),
        ] {
            assert_eq!(bare(id, arguments), format!("{words} ({id})"));
        }
        assert_eq!(
            bare("Vendor.1.0.Whatever", json!([])),
            "Vendor.1.0.Whatever"
        );
    }

    /// Of the Base registry and of the vendors that answer a power-off with them.
    #[test]
    fn every_id_that_is_known_has_words() {
        for id in [
            "AccessDenied",
            "ActionNotSupported",
            "ActionParameterMissing",
            "ActionParameterNotSupported",
            "ActionParameterValueFormatError",
            "ActionParameterValueError",
            "ActionParameterValueNotInList",
            "GeneralError",
            "InsufficientPrivilege",
            "InternalError",
            "NoValidSession",
            "PasswordChangeRequired",
            "PreconditionFailed",
            "ResourceInUse",
            "ResourceMissingAtURI",
            "ResourceNotFound",
            "ResourceInStandby",
            "ServiceInUnknownState",
            "ServiceShuttingDown",
            "ServiceTemporarilyUnavailable",
            "SessionLimitExceeded",
            "InvalidOperationForSystemState",
            "PSU501",
            "RAC0218",
        ] {
            let words = registry(&format!("Vendor.1.0.{id}"), None);
            assert!(words.is_some_and(|words| words.len() > 15), "{id}");
        }
    }

    /// As an iLO 4 answers: another spelling, and no text.
    #[test]
    fn an_id_of_another_spelling_is_read_and_its_words_are_not_those_that_only_point_to_it() {
        let message = json!({"MessageArgs": ["Power is off"], "MessageID": "iLO.0.10.InvalidOperationForSystemState"});
        let words =
            "the machine's power state does not allow it (iLO.0.10.InvalidOperationForSystemState)";
        assert_eq!(error(message), words);
    }

    /// As an iDRAC 8 answers.
    #[test]
    fn one_message_in_the_place_of_a_list_is_read() {
        let body = json!({"error": {"code": "Base.1.0.GeneralError", "message": "A general error has occurred.", "@Message.ExtendedInfo":
            {"MessageId": "Base.1.0.InternalError", "Message": "not while another job runs"}}});
        let words = "not while another job runs (Base.1.0.InternalError)";
        assert_eq!(said(body.to_string().as_bytes()), words);
    }

    #[test]
    fn the_message_that_names_the_cause_is_said_wherever_it_stands() {
        let busy = json!({"MessageId": "Base.1.12.ServiceTemporarilyUnavailable", "Message": "Retry in 30 seconds."});
        let cause =
            json!({"MessageId": "IDRAC.2.8.SYS518", "Message": "Data sources are unavailable."});
        let of = |messages: Value| {
            said(
                json!({"error": {"@Message.ExtendedInfo": messages}})
                    .to_string()
                    .as_bytes(),
            )
        };
        let words = "Data sources are unavailable. (IDRAC.2.8.SYS518)";
        assert_eq!(of(json!([busy, cause])), words);
        assert_eq!(of(json!([cause, busy])), words);
        let only = "Retry in 30 seconds. (Base.1.12.ServiceTemporarilyUnavailable)";
        assert_eq!(of(json!([busy])), only);
    }

    #[test]
    fn a_body_that_says_nothing_is_said_to() {
        for body in [
            "",
            "{}",
            "[]",
            "<html>",
            r#"{"error": 5}"#,
            r#"{"error": {"message": " "}}"#,
        ] {
            assert_eq!(said(body.as_bytes()), "no reason given", "{body}");
        }
    }
}
