//! The control groups of a machine: where its kubelet puts its pods.
//!
//! A control group is the one thing of a machine that does not die with its PID 1, so each boot takes those of the one
//! before away, as a real reboot would: a kubelet that finds the groups of pods it does not know cleans up first.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// How long the kernel may take to let go of the groups of processes that have ended.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);

/// The control groups of one machine, one in each hierarchy.
#[derive(Debug)]
pub(super) struct Groups {
    /// The group's path below the hierarchy's root, with a leading slash.
    name: String,
    paths: Vec<PathBuf>,
}

impl Groups {
    /// The groups of that name. They are not made yet.
    pub(super) fn new(name: &str) -> Result<Self> {
        let mounts =
            fs::read_to_string("/proc/self/mounts").context("failed to read the mount table")?;
        let paths = hierarchies(&mounts).map(|root| root.join(name)).collect();
        Ok(Self {
            name: format!("/{name}"),
            paths,
        })
    }

    /// What a kubelet calls `cgroupRoot`.
    pub(super) fn root(&self) -> &str {
        &self.name
    }

    /// Makes the groups. A new cpuset is empty, and nothing could run in it, until it gets its parent's processors.
    pub(super) fn create(&self) -> Result<()> {
        for path in &self.paths {
            fs::create_dir_all(path)
                .with_context(|| format!("failed to create {}", path.display()))?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let parent = path.with_file_name(file);
                if parent.exists() {
                    fs::copy(&parent, path.join(file))?;
                }
            }
        }
        Ok(())
    }

    /// Removes the groups and all below them, which must hold no process any more.
    pub(super) fn remove(&self) -> Result<()> {
        let end = Instant::now() + REMOVAL_LIMIT;
        for path in &self.paths {
            while let Err(error) = remove_below(path) {
                if Instant::now() > end {
                    bail!("failed to remove {}: {error}", path.display());
                }
                sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// The shell command that does what [`Groups::remove`] does, for when the lab is not there to do it.
    pub(super) fn removal_command(&self) -> String {
        let paths = self
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(" ");
        format!(
            "for try in $(seq 100); do find {paths} -depth -type d -exec rmdir {{}} + 2>/dev/null; \
                 ls -d {paths} >/dev/null 2>&1 || break; sleep 0.05; done"
        )
    }
}

/// The mount points of all hierarchies, the empty version 2 one beside version 1 included: runc makes groups there too.
fn hierarchies(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (_device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        kind.starts_with("cgroup").then(|| PathBuf::from(point))
    })
}

/// Groups can only be removed from the leaves up, and their files not at all.
fn remove_below(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_below(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hierarchy_is_found_once() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nproc /proc proc rw 0 0\n";
        let found: Vec<_> = hierarchies(mounts).collect();
        assert_eq!(
            found,
            [
                Path::new("/sys/fs/cgroup/cpu"),
                Path::new("/sys/fs/cgroup/unified")
            ]
        );
    }
}
