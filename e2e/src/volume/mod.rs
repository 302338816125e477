//! The volumes of the lab, and the oracle that judges what was written to them.
//!
//! A volume is a real file. Every running container appends one line each 20 ms while the volume is mounted in it, so
//! that two machines writing to one volume is something that is found in the file, not something that is inferred. The
//! [`journal::Journal`] says when the storage attached the volume to which machine, and [`oracle::VolumeOracle`] holds the
//! one against the other.

pub mod journal;
pub mod oracle;
pub mod writer;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;

use fencing_testbed::moment::Moment;
use journal::Journal;
use writer::Writers;

/// The directory with one folder for each volume, the journal of what the storage did with them, and those containers
/// that write from this process (the ones of simulated nodes).
#[derive(Debug)]
pub struct Volumes {
    root: PathBuf,
    journal: Arc<Journal>,
    writers: Arc<Writers>,
}

impl Volumes {
    /// Volumes in `root`, which is created.
    pub fn new(root: impl Into<PathBuf>) -> Result<Arc<Self>> {
        let root = root.into();
        std::fs::create_dir_all(&root)
            .with_context(|| format!("failed to create {}", root.display()))?;
        Ok(Arc::new(Self {
            root,
            journal: Arc::default(),
            writers: Writers::spawn()?,
        }))
    }

    /// Where the volumes are: one folder each, named by its CSI volume handle. Real nodes mount that folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of `handle` that containers append to.
    pub fn file(&self, handle: &str) -> PathBuf {
        self.root.join(handle).join(WRITES)
    }

    /// Opens the file of `handle` for appending: what a mount gives a container.
    pub(crate) fn mount(&self, handle: &str) -> Result<File> {
        let path = self.file(handle);
        let folder = path.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("failed to create {}", folder.display()))?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.with_context(|| format!("failed to open {}", path.display()))
    }

    /// When the storage attached what to whom, and when machines lost power.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The containers that write from this process.
    pub(crate) fn writers(&self) -> &Arc<Writers> {
        &self.writers
    }

    /// The handles of all volumes that were ever written to, sorted.
    pub fn handles(&self) -> Result<Vec<String>> {
        let mut handles = Vec::new();
        for entry in std::fs::read_dir(&self.root)
            .with_context(|| format!("failed to list {}", self.root.display()))?
        {
            let entry = entry?;
            if entry.path().join(WRITES).exists() {
                handles.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        handles.sort();
        Ok(handles)
    }

    /// Every line written to `handle` so far, in file order. A last line without its newline is a write that power loss
    /// cut short, and is left out.
    pub fn writes(&self, handle: &str) -> Result<Vec<Write>> {
        let path = self.file(handle);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.with_context(|| format!("failed to read {}", path.display()))?,
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let line = |(index, line): (usize, &str)| {
            line.parse()
                .with_context(|| format!("{}:{}: {line:?}", path.display(), index + 1))
        };
        whole.lines().enumerate().map(line).collect()
    }
}

/// The file in a volume's folder.
pub(crate) const WRITES: &str = "writes.log";

/// One line of a volume: who wrote it, and when.
///
/// The text form is the contract between every writer (this process for simulated nodes, a static binary in a container
/// for real ones) and the oracle:
///
/// ```text
/// 2026-11-21T10:40:01.123456Z mono=81234567890 node=node-1 boot=6a0c… pod=0f4e… seq=17
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// When the line was written: wall clock in microseconds, monotonic clock in nanoseconds.
    pub at: Moment,
    /// The Node's name.
    pub node: String,
    /// The boot ID of the machine at that time.
    pub boot: String,
    /// The pod's UID.
    pub pod: String,
    /// Counts the container's lines from 0.
    pub sequence: u64,
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            at,
            node,
            boot,
            pod,
            sequence,
        } = self;
        let wall = at.wall.strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
        write!(
            f,
            "{wall} mono={} node={node} boot={boot} pod={pod} seq={sequence}",
            at.monotonic_ns
        )
    }
}

impl FromStr for Write {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let mut words = line.split(' ');
        let wall: Timestamp = words
            .next()
            .unwrap_or_default()
            .parse()
            .context("no time")?;
        let mut field = |key: &str| -> Result<&str> {
            let word = words.next().ok_or_else(|| anyhow!("no `{key}`"))?;
            word.strip_prefix(key)
                .and_then(|rest| rest.strip_prefix('='))
                .ok_or_else(|| anyhow!("no `{key}` in {word:?}"))
        };
        let write = Self {
            at: Moment {
                monotonic_ns: field("mono")?.parse().context("`mono`")?,
                wall,
            },
            node: field("node")?.to_owned(),
            boot: field("boot")?.to_owned(),
            pod: field("pod")?.to_owned(),
            sequence: field("seq")?.parse().context("`seq`")?,
        };
        match words.next() {
            None => Ok(write),
            Some(word) => bail!("{word:?} is one word too many"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let line =
            "2026-11-21T10:40:01.123456Z mono=81234567890 node=node-1 boot=b-1 pod=p-1 seq=17";
        let write: Write = line.parse().expect("a well-formed line");
        assert_eq!(write.to_string(), line);
        assert_eq!(write.sequence, 17);
    }

    #[test]
    fn a_line_that_two_writers_tore_is_an_error_and_not_skipped() {
        for line in [
            "",
            "2026-11-21T10:40:01Z mono=1 node=n",
            "2026-11-21T10:40:01Z mono=1 node=n boot=b pod=p seq=1 x",
        ] {
            assert!(line.parse::<Write>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_write_cut_short_by_power_loss_is_left_out() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let volumes = Volumes::new(directory.path()).expect("volumes");
        std::fs::create_dir(directory.path().join("vol")).expect("a folder");
        let text =
            "2026-11-21T10:40:01.123456Z mono=1 node=n boot=b pod=p seq=0\n2026-11-21T10:40:01.1";
        std::fs::write(volumes.file("vol"), text).expect("a file");
        assert_eq!(volumes.writes("vol").expect("readable").len(), 1);
        assert_eq!(volumes.handles().expect("readable"), ["vol"]);
        assert!(
            volumes
                .writes("never-written")
                .expect("readable")
                .is_empty()
        );
    }
}
