//! Every metric of the operator, once: name, type, labels, help. The registry, the tests and the documentation all read
//! [`METRICS`] and [`PROCESS`].
//!
//! A series with a label `node` exists only while the incident, the device or the Node does: a closed incident that went
//! on being exported would keep its alert firing for ever.

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// A value of this moment.
    Gauge,
    /// Durations in seconds, counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    /// Whole name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence: what it says, and in what unit.
    pub help: &'static str,
}

/// Recovery takes minutes: grace periods, shutdowns, detaches.
const MINUTES: &[f64] = &[
    15.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
];
/// Devices take seconds.
const SECONDS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0,
];
/// A round of decision takes milliseconds.
const MILLISECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// Declares each metric as a constant, and all of them as one list, in the order of the documentation.
macro_rules! metrics {
    ($all:ident, $all_help:literal, $prefix:literal; $($constant:ident = $name:literal, $kind:expr, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Definition = Definition {
                name: concat!($prefix, $name),
                kind: $kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*

        #[doc = $all_help]
        pub const $all: &[&Definition] = &[$(&$constant),*];
    };
}

use Kind::{Counter, Gauge, Histogram};

metrics! {
    METRICS, "What the operator alone has.", "node_fencing_";
    INCIDENT_INFO = "incident_info", Gauge, ["node", "policy", "incident", "mode"],
        "1 for each open incident; incident is the name of the NodeFence.";
    STAGE_START = "incident_stage_start_timestamp_seconds", Gauge, ["node", "policy", "stage"],
        "When the open incident of the node entered its stage, in seconds since the epoch.";
    STAGE_DEADLINE = "incident_stage_deadline_timestamp_seconds", Gauge, ["node", "policy", "stage"],
        "When the stage of the node's open incident is late by its policy, in seconds since the epoch.";
    INCIDENT_ESCALATED = "incident_escalated", Gauge, ["node", "policy", "incident", "reason"],
        "1 while the open incident of the node requires action, by the reason of its condition Escalated.";
    INCIDENTS_HELD = "incidents_held", Gauge, ["policy", "reason"],
        "Open incidents that are held, by the reason of their condition Held, or AwaitingApproval.";
    NODE_STRANDED = "node_stranded", Gauge, ["node", "reason"],
        "1 for each node that requires action: SameBoot, it runs in the boot that was confirmed off; Claim*, stale taints; StorageFenceStays, shut out.";
    INCIDENTS = "incidents_total", Counter, ["policy", "outcome"],
        "Incidents that have ended, by how.";
    NODE_INCIDENTS = "node_incidents_total", Counter, ["node", "outcome"],
        "Incidents of the node that have ended, by how.";
    FENCE_ATTEMPTS = "fence_attempts_total", Counter, ["driver", "action", "result"],
        "Power commands to fence devices, by what became of them.";
    CONTRADICTIONS = "contradictions_total", Counter, ["policy"],
        "Contradictions: a sign of life beside a device that read Off or accepted an off command, or a machine in its confirmed-off boot.";
    EARLY_REPORTS = "early_reports_total", Counter, ["policy"],
        "Nodes that the operator has reported as PoweredOff before Kubernetes noticed (`earlyDetection`).";
    EARLY_REPORTS_REFUTED = "early_reports_refuted_total", Counter, ["policy"],
        "Of those, the Nodes that were Ready again in the same boot: their machines were not off.";
    TIME_TO_FENCE = "time_to_fence_seconds", Histogram(MINUTES), ["policy"],
        "From the first unhealthy condition until the node was out of service, in seconds.";
    TIME_TO_RECOVER = "time_to_recover_seconds", Histogram(MINUTES), ["policy"],
        "From the first unhealthy condition until the node's pods were deleted and its volumes detached, in seconds.";
    FENCE_DURATION = "fence_duration_seconds", Histogram(SECONDS), ["driver"],
        "From the power command until the machine was confirmed off, in seconds.";
    PROBE_DURATION = "probe_duration_seconds", Histogram(SECONDS), ["driver"],
        "Duration of a periodic probe of a fence device, in seconds.";
    DETACH_DURATION = "detach_duration_seconds", Histogram(SECONDS), ["attacher"],
        "From the out-of-service taint until the VolumeAttachment was gone, in seconds.";
    DEVICE_READY = "device_ready", Gauge, ["device", "reason"],
        "1 if the fence device would work if it were needed now, else 0, by the reason of its condition Ready.";
    DEVICE_REACHABLE = "device_reachable", Gauge, ["device", "node", "driver"],
        "1 if the fence device answered its last probe, else 0.";
    DEVICE_IDENTITY_VERIFIED = "device_identity_verified", Gauge, ["device", "node", "driver"],
        "1 if the fence device has shown that it controls this node's machine, else 0.";
    DEVICE_LAST_SUCCESS = "device_last_success_timestamp_seconds", Gauge, ["device", "node", "driver"],
        "When the fence device last answered in full, in seconds since the epoch.";
    DEVICE_OFF_WHILE_RUNNING = "device_off_while_running", Gauge, ["device", "node", "driver"],
        "1 for each fence device that read Off while its machine was running and has not read On since: its Off proves nothing.";
    DEVICE_NAME_RESOLVED = "device_name_resolved", Gauge, ["device", "node", "driver"],
        "1 if the last lookup of the fence device's host name was answered, 0 if it failed; absent for an IP address.";
    STANDBY_REACHABLE = "device_standby_reachable", Gauge, ["device", "node", "driver"],
        "1 if this standby can open a connection to a fence device that the leader reaches, else 0; of up to 20 devices.";
    DEVICE_CLOCK_AHEAD = "device_clock_ahead_seconds", Gauge, ["device", "node", "driver"],
        "By how many seconds the fence device's clock is ahead of the operator's; negative: behind. Absent where it has none.";
    DEVICE_CREDENTIAL_EXPIRY = "device_credential_expiry_timestamp_seconds", Gauge, ["device", "node", "driver", "credential"],
        "When the device's certificate or CA, or the client certificate or long-lived token in its Secret, expires, in seconds since the epoch.";
    DEVICE_CREDENTIAL_NOTICE = "device_credential_notice_seconds", Gauge, ["device", "node", "driver", "credential"],
        "How long before its expiry FenceDeviceCredentialExpires fires: a tenth of its lifetime, two weeks at most.";
    NODE_PROTECTED = "node_protected", Gauge, ["node"],
        "1 if the node could be fenced now, 0 if a policy selects it and it could not.";
    POLICY_READY = "policy_ready", Gauge, ["policy", "reason"],
        "1 if the policy's condition Ready is True, else 0, by the reason of that condition.";
    POLICY_PAUSED_WITHOUT_END = "policy_paused_without_end", Gauge, ["policy"],
        "1 for each policy with an entry of `pauseRequests` that has no `expireTime`.";
    NODE_RECOVERABLE = "node_recoverable", Gauge, ["node"],
        "1 if other nodes would take the pods of this node if it died, 0 if some would stay Pending; only with `headroom.enabled`.";
    POLICY_NODES = "policy_nodes", Gauge, ["policy", "state"],
        "Nodes of the policy, by state.";
    POLICY_MODE = "policy_mode", Gauge, ["policy", "mode"],
        "1 for the mode that the policy is in, at this time of the week if it has `windows`.";
    BUDGET_REMAINING = "budget_remaining", Gauge, ["policy"],
        "How many more fences the policy's budget would admit now.";
    OTHER_FENCERS = "other_fencers", Gauge, ["policy", "system"],
        "1 for each other component that may fence, taint, restart or delete the policy's nodes; see condition OtherFencers.";
    LEADER = "leader", Gauge, [],
        "1 if this replica holds the Lease and fences, 0 if it stands by.";
    ADMISSION_GUARD_MISSING = "admission_guard_missing", Gauge, [],
        "1 if the API server accepts from the operator what deploy/admission.yaml forbids, 0 if it does not; absent if unknown.";
    FROZEN = "frozen", Gauge, [],
        "1 if the cluster's resourceVersion went back (etcd was restored): this replica fences nothing until it is restarted.";
    BUILD_INFO = "build_info", Gauge, ["version", "revision"],
        "1; the labels name the build that runs.";
    TASKS = "tasks", Gauge, [],
        "Tasks of the process; constant at rest.";
    RECONCILE_ERRORS = "reconcile_errors_total", Counter, ["reason"],
        "Rounds of decision that failed, by reason.";
    RECONCILE_DURATION = "reconcile_duration_seconds", Histogram(MILLISECONDS), [],
        "How long a round of decision took, reads and writes included, in seconds.";
    WATCH_LAST_EVENT = "watch_last_event_timestamp_seconds", Gauge, ["kind"],
        "When the watch of this kind last received from the API server, in seconds since the epoch.";
    EVENTS_DROPPED = "events_dropped_total", Counter, ["reason"],
        "Kubernetes Events that were not published (queue full, or refused by the API server).";
    API_REQUESTS = "api_requests_total", Counter, ["verb", "resource", "code"],
        "Requests to the API server, by the HTTP status of the answer; code none: no answer in time. Subresources count as their resource.";
    API_REQUEST_DURATION = "api_request_duration_seconds", Histogram(MILLISECONDS), ["verb"],
        "From a request to the API server until its answer began or it was given up, in seconds.";
}

metrics! {
    PROCESS, "What client libraries for Prometheus export of a process, under their names.", "process_";
    PROCESS_CPU = "cpu_seconds_total", Counter, [],
        "CPU time of the process, user and system, in seconds.";
    PROCESS_OPEN_FDS = "open_fds", Gauge, [],
        "Open file descriptors of the process.";
    PROCESS_MAX_FDS = "max_fds", Gauge, [],
        "File descriptors that the process may have open; absent if unlimited.";
    PROCESS_VIRTUAL_MEMORY = "virtual_memory_bytes", Gauge, [],
        "Virtual memory of the process in bytes.";
    PROCESS_RESIDENT_MEMORY = "resident_memory_bytes", Gauge, [],
        "Resident memory of the process in bytes.";
    PROCESS_START_TIME = "start_time_seconds", Gauge, [],
        "When the process started, in seconds since the epoch.";
}
