//! Child processes that end with the lab, whatever ends the lab.
//!
//! A lab runs a dozen processes, and a test that is killed must not leave an API server behind. A parent-death signal
//! would not do: it belongs to the thread that forked, it is lost if the parent dies before it is set, and setting it
//! between fork and exec takes unsafe code. So each lab has a [`Guard`]: a shell that leads a process group and reads a
//! pipe whose other end only the lab holds. When the lab ends, by `Drop`, panic or SIGKILL, the kernel closes the pipe, and
//! the guard kills the group and cleans up. There is one way to end, and every test that passes has tried it.
//!
//! A child is in the group before it runs anything: it waits for a line from the lab, which the lab sends once the child
//! has been spawned into the group. A lab that dies in between closes that pipe too, and the child never starts.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// Collects clean-up commands until the lab's end of the pipe closes; then a process outside the group (the guard itself
/// is in it) kills the group and runs them. The lab sees the end of standard output when that is done.
const GUARD_SCRIPT: &str = r#"
clean_up=
while IFS= read -r line; do clean_up="$clean_up$line
"; done
exec setsid --fork sh -c 'kill -s KILL -- "-$1"; eval "$2"' sh "$$" "$clean_up"
"#;

/// Starts the program only once the lab says so, and without the pipe on which it said it.
const CHILD_SCRIPT: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Leads the process group of one lab and kills it when the lab ends. See the module's text.
#[derive(Debug)]
pub struct Guard {
    shell: Mutex<Child>,
    /// Open as long as the lab lives; `None` once the guard has been told to end.
    lifeline: Mutex<Option<ChildStdin>>,
    done: Mutex<Option<ChildStdout>>,
    group: Pid,
}

/// What to run: a program, its arguments, and where its output goes.
#[derive(Debug, Clone)]
pub struct Spec {
    name: String,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    log: PathBuf,
}

/// A running child. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: Pid,
    child: Mutex<Child>,
    _guard: Arc<Guard>,
}

impl Guard {
    /// Starts a guard for one lab.
    pub fn start() -> Result<Arc<Self>> {
        let mut shell = Command::new("sh")
            .args(["-c", GUARD_SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("failed to start the guard")?;
        Ok(Arc::new(Self {
            group: pid_of(&shell)?,
            lifeline: Mutex::new(shell.stdin.take()),
            done: Mutex::new(shell.stdout.take()),
            shell: Mutex::new(shell),
        }))
    }

    /// Adds a shell command, on one line, to be run after all processes have been killed, however the lab ends.
    pub fn at_end(&self, command: &str) -> Result<()> {
        assert!(!command.contains('\n'), "a clean-up command is one line");
        match lock(&self.lifeline).as_mut() {
            Some(lifeline) => Ok(writeln!(lifeline, "{command}")?),
            None => bail!("the guard has ended"),
        }
    }

    /// Removes the directory at the end, however the lab ends.
    pub fn remove_at_end(&self, directory: &Path) -> Result<()> {
        let text = directory
            .to_str()
            .context("the path of a directory of the lab is not UTF-8")?;
        self.at_end(&format!("rm -rf -- '{}'", text.replace('\'', r"'\''")))
    }

    /// Kills every process of the lab and cleans up. Returns when that is done. Idempotent.
    pub fn end(&self) {
        drop(lock(&self.lifeline).take());
        if let Some(mut done) = lock(&self.done).take() {
            // End of file comes when the clean-up has ended; its output, if any, is of no interest.
            let _ = done.read_to_end(&mut Vec::new());
        }
        let _ = lock(&self.shell).wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end();
    }
}

impl Spec {
    /// A program whose standard output and error are appended to `log`. `name` is what the lab calls it.
    pub fn new(name: &str, program: impl AsRef<OsStr>, log: &Path) -> Self {
        Self {
            name: name.to_owned(),
            arguments: vec![program.as_ref().to_owned()],
            environment: Vec::new(),
            directory: None,
            log: log.to_owned(),
        }
    }

    /// Appends arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable, beside those that the lab itself has.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((key.into(), value.into()));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Starts it under the guard.
    pub fn spawn(self, guard: &Arc<Guard>) -> Result<Process> {
        let output = append(&self.log)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", CHILD_SCRIPT, &self.name])
            .args(&self.arguments)
            .envs(self.environment);
        command
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output);
        command.process_group(guard.group.as_raw_nonzero().get());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("failed to start {}", self.name))?;
        let pid = pid_of(&child)?;
        if let Some(mut go) = child.stdin.take() {
            go.write_all(b"\n")
                .with_context(|| format!("failed to start {}", self.name))?;
        }
        Ok(Process {
            name: self.name,
            log: self.log,
            pid,
            child: Mutex::new(child),
            _guard: Arc::clone(guard),
        })
    }
}

impl Process {
    /// What the lab calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process ID. It stays its own until the process is dropped, because nobody else reaps it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The file with its output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        lock(&self.child).try_wait().ok().flatten()
    }

    /// Fails, with the end of the log, if it has ended.
    pub fn check(&self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended ({status}); the end of {}:\n{}",
                self.name,
                self.log.display(),
                self.tail(15)
            ),
        }
    }

    /// Sends a signal. To a process that has ended, it does nothing.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // The lock keeps anybody from reaping it in between, after which the ID could be another's.
        let mut child = lock(&self.child);
        if child.try_wait()?.is_none() {
            kill_process(self.pid, signal)
                .with_context(|| format!("failed to signal {}", self.name))?;
        }
        Ok(())
    }

    /// SIGSTOP. Returns once every thread of it stands still: the signal alone does not say so.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let tasks = format!("/proc/{}/task", self.pid.as_raw_nonzero());
        let begin = std::time::Instant::now();
        while !all_stopped(&tasks)? {
            ensure!(
                begin.elapsed() < Duration::from_secs(10),
                "{} does not stop",
                self.name
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&self) -> Result<()> {
        let mut child = lock(&self.child);
        child
            .kill()
            .with_context(|| format!("failed to kill {}", self.name))?;
        child
            .wait()
            .with_context(|| format!("failed to reap {}", self.name))?;
        Ok(())
    }

    /// Waits for its end, for at most so long.
    pub async fn wait(&self, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > end {
                bail!("{} has not ended within {limit:?}", self.name);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The last lines of its output.
    pub fn tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Are all threads in state `T` (proc(5))? The state follows the command's name, which ends with the last parenthesis.
fn all_stopped(tasks: &str) -> Result<bool> {
    for task in std::fs::read_dir(tasks)? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        if state != Some('T') {
            return Ok(false);
        }
    }
    Ok(true)
}

fn append(log: &Path) -> Result<File> {
    if let Some(parent) = log.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(log);
    file.with_context(|| format!("failed to open {}", log.display()))
}

fn pid_of(child: &Child) -> Result<Pid> {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("a process ID that is none")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(guard: &Arc<Guard>, log: &Path) -> Process {
        // A child of the child, which nobody but the group's end reaches.
        let script = "sleep 1000 & echo $!; wait";
        let spec = Spec::new("sleeper", "sh", log).args(["-c", script]);
        spec.spawn(guard).expect("sh starts")
    }

    fn is_running(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(5);
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_end_reaches_grandchildren_and_cleans_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let scratch = directory.path().join("it's scratch");
        std::fs::create_dir(&scratch).expect("a directory");
        let guard = Guard::start().expect("a guard");
        guard.remove_at_end(&scratch).expect("the guard listens");
        let process = sleeper(&guard, &directory.path().join("log"));
        wait_until("the child says nothing", || {
            process.tail(1).parse::<u32>().is_ok()
        });
        let grandchild = process.tail(1);
        assert!(is_running(&grandchild));

        guard.end();
        assert!(!scratch.exists());
        wait_until("the grandchild lives on", || !is_running(&grandchild));
        // Each dies on its own: the grandchild may be gone first.
        wait_until("the child was not killed", || process.ended().is_some());
        assert!(
            guard.at_end("true").is_err(),
            "a guard that has ended takes no commands"
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_told_with_its_log() {
        let directory = tempfile::tempdir().expect("a directory");
        let guard = Guard::start().expect("a guard");
        let spec = Spec::new("nothing", "/does/not/exist", &directory.path().join("log"));
        let process = spec.spawn(&guard).expect("its shell starts");
        wait_until("it runs", || process.ended().is_some());
        let error = process.check().expect_err("it has ended").to_string();
        assert!(
            error.contains("nothing ended") && error.contains("/does/not/exist"),
            "{error}"
        );
    }

    #[test]
    fn signals_arrive_and_the_dead_ignore_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let guard = Guard::start().expect("a guard");
        let process = sleeper(&guard, &directory.path().join("log"));
        process.signal(Signal::TERM).expect("it lives");
        wait_until("SIGTERM did not arrive", || process.ended().is_some());
        process.signal(Signal::TERM).expect("nothing happens");
        process.kill().expect("nothing happens");
    }
}
