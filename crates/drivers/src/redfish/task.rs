//! A command that became a Task (DSP0266 §13.6, DSP0268 `Task`): followed to its end, so that one that fails is known at once and not
//! only when the machine still reads On.
//!
//! What a Task says proves nothing. One that has failed may have cut the power before, so the command counts as one of unknown outcome.

use super::parse::local_path;
use super::said::sentence;
use serde_json::Value;

/// Where a Task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// It has not ended.
    Running,
    /// It has ended well, or says nothing that can be understood.
    Ended,
    /// It has failed, in these words.
    Failed(String),
}

/// Path of the Task that an answer with status 202 or 201 names: in its body (`@odata.id`), or in its `Location`, which may be a whole
/// URL of the same authority. None when there is none that may be followed.
#[must_use]
pub fn path(body: Option<&Value>, location: Option<&str>, authority: &str) -> Option<String> {
    let named = body.and_then(|body| body.get("@odata.id")?.as_str());
    let named = named.and_then(|path| local_path(path).ok());
    let of_location = || {
        let location = location?;
        let path = match location.split_once("://") {
            Some((_, rest)) => rest.strip_prefix(authority)?,
            None => location,
        };
        local_path(path).ok()
    };
    named.or_else(of_location)
}

/// What a Task's resource says.
#[must_use]
pub fn state(task: &Value) -> TaskState {
    let state = task.get("TaskState").and_then(Value::as_str);
    match state {
        Some(
            "New" | "Starting" | "Running" | "Suspended" | "Pending" | "Stopping" | "Service"
            | "Cancelling" | "Interrupted",
        ) => TaskState::Running,
        Some(failed @ ("Exception" | "Killed" | "Cancelled")) => {
            TaskState::Failed(format!("its Task ended as {failed}: {}", sentence(task)))
        }
        _ => TaskState::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_task_is_followed_within_the_service_only() {
        let task = "/redfish/v1/TaskService/Tasks/1";
        let named = json!({"@odata.id": task});
        assert_eq!(path(Some(&named), None, "bmc").as_deref(), Some(task));
        for (location, found) in [
            (task.to_owned(), true),
            (format!("https://bmc{task}"), true),
            (format!("https://other{task}"), false),
            (format!("//other{task}"), false),
            ("/elsewhere".to_owned(), false),
        ] {
            let followed = path(None, Some(&location), "bmc");
            assert_eq!(followed.as_deref(), found.then_some(task), "{location}");
        }
        assert_eq!(path(None, None, "bmc"), None);
    }

    #[test]
    fn only_a_failure_that_is_said_is_one() {
        let of = |state: &str| {
            super::state(&json!({"TaskState": state, "Messages": [{"Message": "no power"}]}))
        };
        assert_eq!(of("Running"), TaskState::Running);
        assert_eq!(of("Completed"), TaskState::Ended);
        assert_eq!(of("Unheard"), TaskState::Ended);
        assert_eq!(
            of("Exception"),
            TaskState::Failed("its Task ended as Exception: no power".to_owned())
        );
        assert_eq!(super::state(&json!([])), TaskState::Ended);
    }
}
