//! The containers of simulated nodes: one thread that appends a line for each of them every 20 ms.
//!
//! One thread for all, so that hundreds of containers cost a few percent of a core, and so that they go on writing
//! when the async runtime is busy, as a real process would. A container belongs to a boot of a machine; ending the boot
//! is the power cut, and once [`Writers::end_boot`] returns, nothing of that boot is ever written again.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Write;
use fencing_testbed::moment::Moment;

/// How often each container appends a line.
const PERIOD: Duration = Duration::from_millis(20);

/// All containers that write from this process.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Boot IDs of the machines that have power. A container of any other boot cannot start.
    boots: HashSet<String>,
    /// Those of them that are suspended: their containers are there and write nothing.
    suspended: HashSet<String>,
    containers: HashMap<u64, Writing>,
    next_id: u64,
}

#[derive(Debug)]
struct Writing {
    next: Write,
    files: Vec<File>,
}

/// Who a container is, for the lines it writes.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The Node's name.
    pub node: String,
    /// The boot it runs in.
    pub boot: String,
    /// The pod's UID.
    pub pod: String,
}

/// A running container. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Container {
    id: u64,
    writers: Weak<Writers>,
}

impl Writers {
    /// No containers yet, and the thread that will write for them. The thread ends with the returned value.
    pub(crate) fn spawn() -> Result<Arc<Self>> {
        let writers = Arc::new(Self::default());
        let weak = Arc::downgrade(&writers);
        let thread = std::thread::Builder::new().name("containers".to_owned());
        thread
            .spawn(move || tick(&weak))
            .context("failed to start the thread of the containers")?;
        Ok(writers)
    }

    /// The machine has power: containers of `boot` may start.
    pub(crate) fn begin_boot(&self, boot: &str) {
        self.state().boots.insert(boot.to_owned());
    }

    /// The machine is dark. Returns once no container of `boot` writes any more; none will start again.
    pub(crate) fn end_boot(&self, boot: &str) {
        let mut state = self.state();
        state.boots.remove(boot);
        state.suspended.remove(boot);
        state
            .containers
            .retain(|_, container| container.next.boot != boot);
    }

    /// The machine is suspended. Returns once no container of `boot` writes any more; they go on at [`Writers::resume_boot`].
    pub(crate) fn suspend_boot(&self, boot: &str) {
        self.state().suspended.insert(boot.to_owned());
    }

    /// The machine goes on, and so do its containers.
    pub(crate) fn resume_boot(&self, boot: &str) {
        self.state().suspended.remove(boot);
    }

    /// Starts a container that writes to `files` (its mounts) until the handle is dropped or its boot ends. `None` if
    /// the boot has ended already.
    pub(crate) fn start(
        self: &Arc<Self>,
        identity: Identity,
        files: Vec<File>,
    ) -> Option<Container> {
        let mut state = self.state();
        if !state.boots.contains(&identity.boot) {
            return None;
        }
        let Identity { node, boot, pod } = identity;
        let mut writing = Writing {
            next: Write {
                at: Moment::now(),
                node,
                boot,
                pod,
                sequence: 0,
            },
            files,
        };
        if !state.suspended.contains(&writing.next.boot) {
            writing.append();
        }
        state.next_id += 1;
        let id = state.next_id;
        state.containers.insert(id, writing);
        Some(Container {
            id,
            writers: Arc::downgrade(self),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self) {
        let Self {
            suspended,
            containers,
            ..
        } = self;
        let awake = containers.values_mut();
        awake
            .filter(|container| !suspended.contains(&container.next.boot))
            .for_each(Writing::append);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(writers) = self.writers.upgrade() {
            writers.state().containers.remove(&self.id);
        }
    }
}

impl Writing {
    /// One line to each volume, in one `write` call each, so that lines of several containers never mix.
    fn append(&mut self) {
        self.next.at = Moment::now();
        let line = format!("{}\n", self.next);
        for file in &mut self.files {
            // A full disk must not be mistaken for a machine that fell silent.
            file.write_all(line.as_bytes())
                .expect("the volume's file takes a line");
        }
        self.next.sequence += 1;
    }
}

fn tick(writers: &Weak<Writers>) {
    let mut next = Instant::now();
    while let Some(writers) = writers.upgrade() {
        writers.state().append();
        drop(writers);
        next = (next + PERIOD).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            node: "n".to_owned(),
            boot: "b".to_owned(),
            pod: "p".to_owned(),
        }
    }

    #[test]
    fn a_container_writes_until_the_power_is_cut_and_never_after() {
        let writers = Writers::spawn().expect("a thread");
        let file = tempfile::NamedTempFile::new().expect("a file");
        writers.begin_boot("b");
        let container = writers
            .start(identity(), vec![file.reopen().expect("a file")])
            .expect("the machine has power");
        std::thread::sleep(PERIOD * 5);
        writers.end_boot("b");
        let text = std::fs::read_to_string(file.path()).expect("readable");
        assert!(text.lines().count() >= 3, "{text}");
        std::thread::sleep(PERIOD * 3);
        assert_eq!(
            std::fs::read_to_string(file.path()).expect("readable"),
            text
        );
        drop(container);
        assert!(
            writers.start(identity(), Vec::new()).is_none(),
            "a dark machine starts nothing"
        );
    }

    #[test]
    fn a_suspended_container_writes_nothing_and_goes_on_where_it_was() {
        let writers = Writers::spawn().expect("a thread");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let lines = || {
            let text = std::fs::read_to_string(file.path()).expect("readable");
            let lines = text.lines().map(|line| line.parse::<Write>());
            lines.collect::<Result<Vec<_>>>().expect("whole lines")
        };
        writers.begin_boot("b");
        let _container = writers
            .start(identity(), vec![file.reopen().expect("a file")])
            .expect("the machine has power");
        writers.suspend_boot("b");
        let before = lines().len();
        std::thread::sleep(PERIOD * 5);
        assert_eq!(lines().len(), before);
        writers.resume_boot("b");
        let end = Instant::now() + Duration::from_secs(60);
        while lines().len() < before + 2 && Instant::now() < end {
            std::thread::sleep(PERIOD);
        }
        let numbers: Vec<_> = lines().iter().map(|line| line.sequence).collect();
        assert!(numbers.len() >= before + 2, "{numbers:?}");
        assert!(
            numbers
                .iter()
                .zip(0..)
                .all(|(number, place)| *number == place),
            "{numbers:?}"
        );
    }

    #[test]
    fn three_hundred_containers_keep_their_pace() {
        let writers = Writers::spawn().expect("a thread");
        let file = tempfile::NamedTempFile::new().expect("a file");
        writers.begin_boot("b");
        let open = || {
            vec![
                File::options()
                    .append(true)
                    .open(file.path())
                    .expect("a file"),
            ]
        };
        let running: Vec<_> = (0..300)
            .map(|_| writers.start(identity(), open()).expect("power"))
            .collect();
        std::thread::sleep(PERIOD * 10);
        drop(running);
        let lines = std::fs::read_to_string(file.path())
            .expect("readable")
            .lines()
            .count();
        assert!(lines >= 300 * 5, "{lines} lines in ten periods");
    }
}
