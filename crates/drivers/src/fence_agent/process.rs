//! One run of an agent, to its end: no shell, nothing but its standard input to read, an end to its time and to what it says.
//!
//! What it was told is on its standard input alone. Its arguments and its environment, which everybody on the host can read, hold nothing of it.
//!
//! However a run ends, nothing of it goes on: an agent that hangs would send its command when nobody expects one any more. The agent leads
//! a process group, which is killed; what has left the group (a telnet or ssh of its own session) is found by a mark in its environment. The
//! agent is reaped last, so that its number cannot be another's meanwhile. All of that is a task of its own: whoever waits may go away at any
//! moment, and the agent is ended all the same.

use super::run::{Ended, Failure, OUTPUT_BYTES_MAX, Run};
use futures::future::{join, pending};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group,
    pidfd_open, pidfd_send_signal, waitid, waitpgid, waitpid,
};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Where an agent finds its own programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// What marks an agent and all that it starts.
const MARK: &str = "NODE_FENCING_RUN";
/// How often what is left of a run is looked for, and the pause before the next time: a process that was killed takes a moment to go.
const LOOKS: u32 = 100;
/// See [`LOOKS`].
const PAUSE: Duration = Duration::from_millis(5);
/// How long the last words of an agent that has ended are read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs it. Whoever drops this ends it.
///
/// # Errors
/// [`Failure`]: but for the first, it may have done something.
pub async fn run(run: Run) -> Result<Ended, Failure> {
    let (kept, gone) = oneshot::channel::<Infallible>();
    let task = tokio::spawn(to_the_end(run, gone));
    let outcome = task.await;
    drop(kept);
    outcome.unwrap_or_else(|error| Err(Failure::Lost(io::Error::other(error))))
}

async fn to_the_end(run: Run, gone: oneshot::Receiver<Infallible>) -> Result<Ended, Failure> {
    let mark = mark().map_err(Failure::NotStarted)?;
    // Before the child is there, so that its end is not missed.
    let mut deaths = signal(SignalKind::child()).map_err(Failure::NotStarted)?;
    let (mut child, pid) = start(&run.program, &mark).map_err(Failure::NotStarted)?;
    let mut group = Group(Some(pid));
    let stdin = child.stdin.take();
    let mut output = Output::of(&mut child);
    let cut_short = tokio::select! {
        () = end_of(pid, &mut deaths) => None,
        failure = talk(stdin, &run.input, &mut output) => Some(failure),
        _ = gone => Some(Failure::Late),
        () = sleep(run.time) => Some(Failure::Late),
    };
    let strays = group.end(mark).await;
    let last_words = match cut_short {
        // Everybody who could write has ended.
        None => timeout(LAST_WORDS, output.fill()).await.unwrap_or(Ok(())),
        Some(failure) => Err(failure),
    };
    let status = child.wait().await.map_err(Failure::Lost)?;
    group.0 = None;
    let _ = tokio::task::spawn_blocking(move || reap(pid, &strays)).await;
    drop(run.turn);
    last_words?;
    Ok(Ended {
        code: status.code(),
        signal: status.signal(),
        stdout: output.stdout,
        stderr: output.stderr,
    })
}

fn mark() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut mark = format!("{MARK}=");
    for byte in bytes {
        let _ = write!(mark, "{byte:02x}");
    }
    Ok(mark)
}

fn start(program: &PathBuf, mark: &str) -> io::Result<(Child, Pid)> {
    let value = mark.rsplit('=').next().unwrap_or_default();
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C.UTF-8")
        .env(MARK, value)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let child = command.spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let pid = pid.and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a child without a number"))?;
    Ok((child, pid))
}

/// Returns when the process has ended, and leaves it unreaped: its number stays its own.
async fn end_of(pid: Pid, deaths: &mut Signals) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while let Ok(None) = waitid(WaitId::Pid(pid), options) {
        if deaths.recv().await.is_none() {
            pending::<()>().await;
        }
    }
}

/// Tells it what it reads, and hears what it prints. Ends only when that is too much.
async fn talk(stdin: Option<ChildStdin>, input: &str, output: &mut Output) -> Failure {
    let tell = async {
        if let Some(mut stdin) = stdin {
            // Who does not listen to the end has ended, or will.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    match join(tell, output.fill()).await {
        ((), Err(failure)) => failure,
        ((), Ok(())) => pending().await,
    }
}

/// What an agent prints.
struct Output {
    pipes: [Option<Box<dyn AsyncRead + Send + Unpin>>; 2],
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    fn of(child: &mut Child) -> Self {
        let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as _);
        let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as _);
        Self {
            pipes: [stdout, stderr],
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }

    /// Reads both to their ends. What was read is kept where this is dropped.
    async fn fill(&mut self) -> Result<(), Failure> {
        let [out, err] = &mut self.pipes;
        let (mut one, mut other) = ([0; 4096], [0; 4096]);
        while out.is_some() || err.is_some() {
            tokio::select! {
                count = some(out, &mut one) => take(out, &mut self.stdout, &one, count),
                count = some(err, &mut other) => take(err, &mut self.stderr, &other, count),
            }
            if self.stdout.len() + self.stderr.len() > OUTPUT_BYTES_MAX {
                return Err(Failure::Flooded);
            }
        }
        Ok(())
    }
}

type Pipe = Option<Box<dyn AsyncRead + Send + Unpin>>;

/// Waits for ever at a pipe that has ended.
async fn some(pipe: &mut Pipe, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => pending().await,
    }
}

fn take(pipe: &mut Pipe, into: &mut Vec<u8>, buffer: &[u8], count: usize) {
    into.extend(buffer.iter().take(count));
    if count == 0 {
        *pipe = None;
    }
}

/// The process group of a run. What is left of it dies with this.
struct Group(Option<Pid>);

impl Group {
    /// Kills the group and whatever has left it. Returns the latter.
    async fn end(&self, mark: String) -> Vec<Pid> {
        self.kill();
        let strays = tokio::task::spawn_blocking(move || kill_marked(&mark));
        strays.await.unwrap_or_default()
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills every process with this in its environment, until there is none.
fn kill_marked(mark: &str) -> Vec<Pid> {
    let mut killed = Vec::new();
    for _ in 0..LOOKS {
        let found = marked(mark);
        if found.is_empty() {
            break;
        }
        killed.extend(found.into_iter().filter(|pid| kill_if_marked(*pid, mark)));
        std::thread::sleep(PAUSE);
    }
    killed.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
    killed.dedup();
    killed
}

/// A process that is about to be gone has no environment any more.
fn marked(mark: &str) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids = numbers.filter_map(Pid::from_raw);
    pids.filter(|pid| is_marked(*pid, mark)).collect()
}

fn is_marked(pid: Pid, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    environment.is_ok_and(|all| {
        all.split(|byte| *byte == 0)
            .any(|one| one == mark.as_bytes())
    })
}

/// Holds the process before it looks once more, so that the number cannot be another's; where the kernel cannot do that, it does without.
fn kill_if_marked(pid: Pid, mark: &str) -> bool {
    let held = pidfd_open(pid, PidfdFlags::empty());
    if !is_marked(pid, mark) {
        return false;
    }
    let killed = match held {
        Ok(held) => pidfd_send_signal(held, Signal::KILL),
        Err(_) => kill_process(pid, Signal::KILL),
    };
    killed.is_ok()
}

/// In a container this process is the first one, to which what an agent leaves behind falls, and which has to reap it.
fn reap(group: Pid, strays: &[Pid]) {
    let is_left = |pid: &Pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None));
    for _ in 0..LOOKS {
        while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
        let of_group = matches!(waitpgid(group, WaitOptions::NOHANG), Ok(None));
        if !strays.iter().any(is_left) && !of_group {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
