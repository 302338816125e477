//! The reset action: what is refused, what is done to the machine, when, and the Task that tells of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{
    HeaderName,
    header::{LOCATION, RETRY_AFTER},
};
use serde_json::{Value, json};

use super::{
    answer::{Answer, error_for},
    faults::{Accepted, BmcFaults},
    model,
    request::Asked,
    service::Service,
};
use crate::{actuator::Action, power::Power};

/// The state of a long-running reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Running,
    Completed,
    Exception,
}

impl Service {
    pub(super) async fn reset(
        self: &Arc<Self>,
        asked: &Asked,
        id: &str,
        faults: &BmcFaults,
    ) -> Answer {
        let Some(machine) = self.system(id, faults) else {
            return error_for(404);
        };
        let reset_type = match self.refuse_reset(asked, machine.as_ref(), faults) {
            Ok(reset_type) => reset_type,
            Err(refusal) => return refusal,
        };
        self.log.amend(asked.index, |entry| entry.accepted = true);
        self.empty_reads_left
            .store(faults.empty_reads_after_reset, Ordering::Relaxed);

        match faults.accepted {
            Accepted::NoContent => {
                self.take_effect(machine, &reset_type, faults).await;
                Answer::text(204, "")
            }
            Accepted::Message => {
                self.take_effect(machine, &reset_type, faults).await;
                Answer::error(
                    200,
                    "Base.1.18.Success",
                    "The request completed successfully.",
                )
            }
            Accepted::Task(takes) => {
                self.start_task(machine, reset_type, faults, takes, Task::Completed)
            }
            Accepted::FailingTask(takes) => {
                self.start_task(machine, reset_type, faults, takes, Task::Exception)
            }
        }
    }

    /// The reset type, or why there is none that will be done.
    fn refuse_reset(
        &self,
        asked: &Asked,
        machine: &dyn Power,
        faults: &BmcFaults,
    ) -> Result<String, Answer> {
        if faults.read_only_account {
            return Err(error_for(403));
        }
        if faults.refuses_if_match && asked.headers.if_match.is_some() {
            return Err(error_for(412));
        }
        if !asked.content_type.starts_with("application/json") {
            return Err(error_for(415));
        }
        let body: Value = serde_json::from_slice(&asked.body).map_err(|_| error_for(400))?;
        let reset_type = body["ResetType"].as_str().ok_or_else(|| {
            let message =
                "The action ComputerSystem.Reset requires the parameter ResetType to be present.";
            Answer::error(400, "Base.1.18.ActionParameterMissing", message)
        })?;
        if !model::reset_types(faults)
            .iter()
            .any(|other| other == reset_type)
        {
            let message =
                format!("The value '{reset_type}' for the parameter ResetType is not in the list.");
            return Err(Answer::error(
                400,
                "Base.1.18.ActionParameterValueNotInList",
                &message,
            ));
        }
        match faults.already_off_status {
            Some(409) if reset_type == "ForceOff" && !machine.is_on() => Err(error_for(409)),
            Some(status) if reset_type == "ForceOff" && !machine.is_on() => {
                let message = "The operation was not successful due to the current power state.";
                Err(Answer::error(
                    status,
                    "iLO.2.24.InvalidOperationForSystemState",
                    message,
                ))
            }
            _ => Ok(reset_type.to_owned()),
        }
    }

    async fn take_effect(&self, machine: Arc<dyn Power>, reset_type: &str, faults: &BmcFaults) {
        let action = match reset_type {
            "On" | "ForceOn" => Action::On,
            "ForceOff" => Action::Off,
            "ForceRestart" | "PowerCycle" => Action::Restart,
            // Soft ones and NMI.
            _ => Action::Nothing,
        };
        let (effect, restores_after) = (faults.effect, faults.restores_after);
        let actuator = &self.actuator;
        actuator.act(machine, action, effect, restores_after).await;
    }

    fn start_task(
        self: &Arc<Self>,
        machine: Arc<dyn Power>,
        reset_type: String,
        faults: &BmcFaults,
        takes: Duration,
        end: Task,
    ) -> Answer {
        let index = {
            let mut tasks = self.tasks.lock().expect("no panic while tasks are changed");
            tasks.push(Task::Running);
            tasks.len() - 1
        };
        let service = self.clone();
        let faults_then = faults.clone();
        tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            if end == Task::Completed {
                service
                    .take_effect(machine, &reset_type, &faults_then)
                    .await;
            }
            service
                .tasks
                .lock()
                .expect("no panic while tasks are changed")[index] = end;
        });
        let id = (index + 1).to_string();
        let location = format!("/redfish/v1/TaskService/TaskMonitors/{id}");
        running(&id).with(LOCATION, location)
    }

    fn task(&self, id: &str) -> Option<Task> {
        let number: usize = id.parse().ok()?;
        let tasks = self.tasks.lock().expect("no panic while tasks are changed");
        tasks.get(number.checked_sub(1)?).copied()
    }

    pub(super) fn read_task(&self, id: &str) -> Answer {
        self.task(id).map_or_else(
            || error_for(404),
            |task| Answer::resource(&task_resource(id, task)),
        )
    }

    /// The monitor answers 202 while the task runs, then what the action would have answered.
    pub(super) fn read_task_monitor(&self, id: &str) -> Answer {
        match self.task(id) {
            None => error_for(404),
            Some(Task::Running) => running(id).with(
                LOCATION,
                format!("/redfish/v1/TaskService/TaskMonitors/{id}"),
            ),
            Some(Task::Completed) => Answer::text(204, ""),
            Some(Task::Exception) => error_for(500),
        }
    }
}

fn running(id: &str) -> Answer {
    let after: HeaderName = RETRY_AFTER;
    Answer::text(202, task_resource(id, Task::Running).to_string()).with(after, "1")
}

fn task_resource(id: &str, task: Task) -> Value {
    let (state, status) = match task {
        Task::Running => ("Running", "OK"),
        Task::Completed => ("Completed", "OK"),
        Task::Exception => ("Exception", "Critical"),
    };
    let messages = match task {
        Task::Exception => json!([{
            "MessageId": "Base.1.18.InternalError",
            "Message": "The request failed due to an internal service error.",
        }]),
        Task::Running | Task::Completed => json!([]),
    };
    json!({
        "@odata.id": format!("/redfish/v1/TaskService/Tasks/{id}"),
        "@odata.type": "#Task.v1_7_4.Task",
        "Id": id,
        "Name": "Reset",
        "TaskState": state,
        "TaskStatus": status,
        "TaskMonitor": format!("/redfish/v1/TaskService/TaskMonitors/{id}"),
        "Messages": messages,
    })
}
