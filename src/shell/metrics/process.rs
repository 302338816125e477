//! What client libraries for Prometheus export of every process: CPU time, memory, files, start.
//!
//! The names are those of <https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>. They are read from `/proc/self` at each
//! scrape (`proc_pid_stat(5)`, `proc_pid_status(5)`); what cannot be read has no series. The prometheus crate has a collector of its own, which
//! counts CPU time in whole seconds and needs procfs and a second version of rustix.

use jiff::Timestamp;
use rustix::process::{Resource, getrlimit};
use std::fs;

/// The unit of CPU time in `/proc` (`USER_HZ`), which is 100 on every architecture that the operator is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process at one moment. What is not known is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Process {
    /// User and system time, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Open file descriptors.
    pub open_files: Option<f64>,
    /// As many as it may have.
    pub max_files: Option<f64>,
    /// Virtual memory.
    pub virtual_bytes: Option<f64>,
    /// Resident memory.
    pub resident_bytes: Option<f64>,
    /// When it started, by the wall clock.
    pub started: Option<Timestamp>,
}

impl Process {
    /// This process, which started then.
    pub fn now(started: Timestamp) -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let files = fs::read_dir("/proc/self/fd").ok();
        Self {
            cpu_seconds: cpu_seconds(&stat),
            // Without that of the directory.
            open_files: files.map(|it| it.count().saturating_sub(1) as f64),
            max_files: getrlimit(Resource::Nofile).current.map(|it| it as f64),
            virtual_bytes: bytes(&status, "VmSize:"),
            resident_bytes: bytes(&status, "VmRSS:"),
            started: Some(started),
        }
    }
}

/// Fields 14 and 15, `utime` and `stime`. The name of the program is in brackets before them, and may have blanks and brackets of its own.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// A line of `status`, which is in kibibytes.
fn bytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_manual() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 311 0 4 0 150 25 0 0 20 0 3 0 4242 9 8";
        assert_eq!(cpu_seconds(stat), Some(1.75));
        assert_eq!(cpu_seconds(""), None);
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\n";
        assert_eq!(bytes(status, "VmSize:"), Some(2_097_152.0));
        assert_eq!(bytes(status, "VmRSS:"), Some(524_288.0));
        assert_eq!(bytes(status, "VmLck:"), None);
    }

    #[test]
    fn this_process_is_seen_whole() {
        let started = Timestamp::UNIX_EPOCH;
        let process = Process::now(started);
        let memory = (process.virtual_bytes, process.resident_bytes);
        let (Some(virtual_bytes), Some(resident_bytes)) = memory else {
            panic!("{process:?}");
        };
        assert!(virtual_bytes > resident_bytes && resident_bytes > 1e5);
        assert!(process.open_files > Some(2.0) && process.open_files < process.max_files);
        assert!(process.cpu_seconds >= Some(0.0) && process.started == Some(started));
    }
}
