//! What a process uses, as the kernel counts it.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context, Result};

/// Ticks of a second in /proc, whatever the kernel's own are. Source: `USER_HZ`, proc_pid_stat(5).
const TICKS_A_SECOND: u64 = 100;
/// Where `utime` stands in /proc/PID/stat, counted after the command's name; `stime`, `cutime` and `cstime` follow.
const UTIME: usize = 11;

/// Of one process, since it was started.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// CPU time of those of its children that have ended, and of theirs.
    pub children_cpu: Duration,
    /// Resident memory.
    pub resident_bytes: u64,
    /// The most that ever was resident.
    pub peak_bytes: u64,
}

impl Usage {
    /// Of a process ID, or of `self`.
    pub fn of(process: impl Display) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{process}/{file}");
            std::fs::read_to_string(&path).context(path)
        };
        let stat = read("stat")?;
        // The name may hold anything, parentheses included.
        let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
        let ticks = fields.split_whitespace().skip(UTIME).take(4);
        let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
        let [user, system, children_user, children_system] = ticks[..] else {
            anyhow::bail!("stat is cut: {stat}");
        };
        let time = |ticks: u64| Duration::from_millis(ticks * 1000 / TICKS_A_SECOND);
        let status = read("status")?;
        let kibibytes = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.with_context(|| format!("no {name} in status"))?;
            Ok(value.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
        };
        Ok(Self {
            cpu: time(user + system),
            children_cpu: time(children_user + children_system),
            resident_bytes: kibibytes("VmRSS:")?,
            peak_bytes: kibibytes("VmHWM:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_process_and_of_its_children_is_counted() -> Result<()> {
        let before = Usage::of("self")?;
        assert!(before.peak_bytes >= before.resident_bytes && before.resident_bytes > 1 << 20);
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        let status = std::process::Command::new("sh")
            .args(["-c", script])
            .status()?;
        assert!(status.success());
        while Usage::of("self")?.cpu == before.cpu {}
        assert!(Usage::of("self")?.children_cpu > before.children_cpu);
        Ok(())
    }
}
