//! The processes of a machine, seen from the host.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process of a machine, by the ID that it has on the host.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// The arguments, of which the first is the program.
    pub(super) arguments: Vec<String>,
}

/// All processes of the machine with that PID 1, itself included. Those that end meanwhile are left out.
pub(super) fn of_machine(init: Pid) -> Vec<Process> {
    let Some(namespace) = namespace(init) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids =
        entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?));
    let inside = pids.filter(|pid| self::namespace(*pid).as_ref() == Some(&namespace));
    inside
        .filter_map(|pid| {
            Some(Process {
                pid,
                arguments: arguments(pid)?,
            })
        })
        .collect()
}

/// Sends a signal to those processes of the machine that are its kubelet; says whether there was one.
pub(super) fn signal_kubelet(init: Pid, signal: Signal) -> bool {
    let is_kubelet = |process: &Process| {
        process
            .arguments
            .get(1)
            .is_some_and(|argument| argument == "kubelet")
    };
    let kubelets: Vec<_> = of_machine(init).into_iter().filter(is_kubelet).collect();
    // It may have ended since; then its successor was not seen, and the caller's next look will.
    kubelets
        .iter()
        .filter(|kubelet| kill_process(kubelet.pid, signal).is_ok())
        .count()
        > 0
}

/// Resident memory of all the machine's processes in kibibytes, pages shared by several counted in parts.
pub(super) fn memory_kib(init: Pid) -> u64 {
    let of_process = |process: &Process| {
        let text = fs::read_to_string(format!(
            "/proc/{}/smaps_rollup",
            process.pid.as_raw_nonzero()
        ))
        .ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    of_machine(init).iter().filter_map(of_process).sum()
}

fn namespace(pid: Pid) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{}/ns/pid", pid.as_raw_nonzero())).ok()
}

fn arguments(pid: Pid) -> Option<Vec<String>> {
    let text = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    Some(
        text.split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
    )
}
