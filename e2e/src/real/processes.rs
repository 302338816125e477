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

/// Stops every process of the machine, those of its containers too, which have process namespaces of their own. Says how many of them did not yet stand
/// still before: a process that was just being forked is among the next ones.
pub(super) fn stop(init: Pid) -> usize {
    let moving = below(init).into_iter().filter(|pid| moves(*pid));
    moving
        .filter(|pid| kill_process(*pid, Signal::STOP).is_ok())
        .count()
}

/// Lets them all go on.
pub(super) fn go_on(init: Pid) {
    for pid in below(init) {
        // It may have been killed since.
        let _ = kill_process(pid, Signal::CONT);
    }
}

/// PID 1 of a machine and all that descend from it. Whoever loses its parent in there is adopted in there.
fn below(init: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let pids =
        entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?));
    let children: Vec<_> = pids
        .filter_map(|pid| {
            let stat = fs::read_to_string(file(pid, "stat")).ok()?;
            let parent = status_fields(&stat)?.nth(1)?.parse().ok()?;
            Some((Pid::from_raw(parent)?, pid))
        })
        .collect();
    let mut found = vec![init];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let of_it = children.iter().filter(|(of, _)| *of == parent);
        found.extend(of_it.map(|(_, pid)| *pid));
        next += 1;
    }
    found
}

/// Does any thread of the process still run, or wait for something other than to be continued?
fn moves(pid: Pid) -> bool {
    let threads = fs::read_dir(file(pid, "task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .any(|stat| {
            let state = status_fields(&stat).and_then(|mut fields| fields.next());
            state.is_some_and(|state| !["T", "t", "Z", "X"].contains(&state))
        })
}

/// The fields of a `stat` from the state on: a name before them may hold anything.
fn status_fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(") ")?.1.split(' '))
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

/// What a machine costs its host: its kubelet, its container runtime, its containers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// How many processes it runs.
    pub processes: usize,
    /// Resident memory; of pages that processes share, each has its part.
    pub memory_kib: u64,
    /// Processor time of the processes that run now, since they started.
    pub cpu_seconds: f64,
}

/// What the machine with that PID 1 costs.
pub(super) fn usage(init: Pid) -> Usage {
    of_machine(init)
        .iter()
        .fold(Usage::default(), |sum, process| Usage {
            processes: sum.processes + 1,
            memory_kib: sum.memory_kib + memory_kib(process.pid).unwrap_or_default(),
            cpu_seconds: sum.cpu_seconds + cpu_seconds(process.pid).unwrap_or_default(),
        })
}

fn memory_kib(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(file(pid, "smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The fields `utime` and `stime`, in ticks of 1/100 s as on every Linux there is.
fn cpu_seconds(pid: Pid) -> Option<f64> {
    let text = fs::read_to_string(file(pid, "stat")).ok()?;
    let mut fields = status_fields(&text)?.skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}

fn namespace(pid: Pid) -> Option<std::path::PathBuf> {
    fs::read_link(file(pid, "ns/pid")).ok()
}

fn arguments(pid: Pid) -> Option<Vec<String>> {
    let text = fs::read(file(pid, "cmdline")).ok()?;
    Some(
        text.split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
    )
}

fn file(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_nonzero())
}
