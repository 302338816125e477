use super::super::turns::{self, Purpose};
use super::*;
use std::process::Command as Tool;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// Longer than anything takes on the busiest machine.
const ENDLESS: Duration = Duration::from_secs(60);
/// The time of what is ended by it.
const SHORT: Duration = Duration::from_millis(500);

/// A script in a directory of its own, written by another process: what we wrote ourselves could be open in a child that is not there yet.
fn script(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, program) = (
        directory.path().join("text"),
        directory.path().join("agent"),
    );
    fs::write(&source, format!("#!/bin/sh\n{text}\n")).expect("written");
    let installed = Tool::new("install")
        .args(["-m", "755"])
        .args([&source, &program])
        .status();
    assert!(installed.expect("install runs").success());
    (directory, program)
}

async fn tried(program: PathBuf, input: &str, time: Duration) -> Result<Ended, Failure> {
    let turn = turns::of(&program.display().to_string(), Purpose::Command).await;
    let input = Zeroizing::new(input.to_owned());
    run(Run {
        program,
        input,
        time,
        turn,
    })
    .await
}

fn pids(directory: &TempDir, name: &str) -> Vec<i32> {
    let text = fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    text.split_whitespace().flat_map(str::parse).collect()
}

fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn it_reads_its_input_and_nothing_else_knows_it() {
    let (_directory, program) = script(
        "cat; echo \"$#\" >&2; tr '\\0' '\\n' < /proc/self/environ >&2; tr '\\0' '\\n' < /proc/$$/cmdline >&2; exit 2",
    );
    let ended = tried(program, "password=correct horse\naction=status\n", ENDLESS)
        .await
        .expect("it ends");
    assert_eq!((ended.code, ended.signal), (Some(2), None));
    assert_eq!(ended.stdout, b"password=correct horse\naction=status\n");
    let seen = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        !seen.contains("horse") && !seen.contains("status"),
        "{seen}"
    );
    let names: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    let ours = ["PATH", "LC_ALL", MARK, "PWD", "SHLVL", "_", "OLDPWD"];
    assert!(names.iter().all(|name| ours.contains(name)), "{names:?}");
    assert!(seen.starts_with("0\n"), "no arguments: {seen}");
}

#[tokio::test]
async fn how_it_ended_is_told_apart() {
    let code = |ended: Result<Ended, Failure>| {
        ended
            .map(|it| (it.code, it.signal))
            .map_err(|it| format!("{it:?}"))
    };
    let (_directory, program) = script("exit 8");
    assert_eq!(code(tried(program, "", ENDLESS).await), Ok((Some(8), None)));
    let (_directory, program) = script("kill -KILL $$");
    assert_eq!(code(tried(program, "", ENDLESS).await), Ok((None, Some(9))));
    let none = tried(PathBuf::from("/nonexistent/agent"), "", ENDLESS).await;
    assert!(matches!(none, Err(Failure::NotStarted(_))), "{none:?}");
    // More than a pipe holds, and it does not listen.
    let (_directory, program) = script("exit 0");
    assert_eq!(
        code(tried(program, &"x".repeat(300_000), ENDLESS).await),
        Ok((Some(0), None))
    );
}

#[tokio::test]
async fn what_it_prints_is_bounded_and_all_of_the_rest_is_there() {
    let (_directory, program) = script("head -c 60000 /dev/zero; head -c 4000 /dev/zero >&2");
    let ended = tried(program, "", ENDLESS).await.expect("it ends");
    assert_eq!((ended.stdout.len(), ended.stderr.len()), (60_000, 4000));
    for text in [
        "head -c 60000 /dev/zero; head -c 6000 /dev/zero >&2",
        "cat /dev/zero",
        "cat /dev/zero >&2",
    ] {
        let (_directory, program) = script(text);
        let flooded = tried(program, "", ENDLESS).await;
        assert!(matches!(flooded, Err(Failure::Flooded)), "{text}");
    }
}

/// One in its group, one in a session of its own, and what the latter has started: they hold the pipes, too.
const FAMILY: &str = "sleep 1000 & echo $! >> \"${0%/*}/pids\"; setsid sh -c 'echo $$ >> \"$1/pids\"; sleep 1000 & echo $! >> \"$1/pids\"; wait' sh \"${0%/*}\" &
while [ \"$(wc -l < \"${0%/*}/pids\")\" -lt 3 ]; do sleep 0.01; done; echo $$ >> \"${0%/*}/pids\"";

#[tokio::test]
async fn nothing_of_it_is_left_when_its_time_is_over() {
    let (directory, program) = script(&format!("{FAMILY}; sleep 1000"));
    let late = tried(program, "", Duration::from_secs(2)).await;
    assert!(matches!(late, Err(Failure::Late)), "{late:?}");
    let pids = pids(&directory, "pids");
    assert_eq!(pids.len(), 4, "they were started");
    assert!(!pids.iter().any(|pid| is_running(*pid)), "{pids:?}");
}

#[tokio::test]
async fn nothing_of_it_is_left_when_it_has_ended() {
    let (directory, program) = script(&format!("{FAMILY}; echo Status: ON"));
    let ended = tried(program, "", ENDLESS).await.expect("it ends");
    assert_eq!(
        (ended.code, ended.stdout.as_slice()),
        (Some(0), &b"Status: ON\n"[..])
    );
    let pids = pids(&directory, "pids");
    assert_eq!(pids.len(), 4, "they were started");
    assert!(!pids.iter().any(|pid| is_running(*pid)), "{pids:?}");
}

/// Whoever waits goes away: the agent is ended, and the next one for the device begins after its end.
#[tokio::test]
async fn nothing_of_it_is_left_when_nobody_waits() {
    let (directory, program) = script(&format!("{FAMILY}; sleep 1000"));
    let dropped =
        tokio::time::timeout(Duration::from_secs(2), tried(program.clone(), "", ENDLESS)).await;
    assert!(dropped.is_err());
    let name = program.display().to_string();
    let next = tokio::time::timeout(ENDLESS / 2, turns::of(&name, Purpose::Command)).await;
    assert!(next.is_ok(), "long before its time is over");
    let pids = pids(&directory, "pids");
    assert_eq!(pids.len(), 4, "they were started");
    assert!(!pids.iter().any(|pid| is_running(*pid)), "{pids:?}");
}

/// A shell that ends where the signal to its group is blocked could not be told from one that obeys; SIGKILL cannot be.
#[tokio::test]
async fn whoever_ignores_signals_is_ended_too() {
    let (directory, program) =
        script("trap '' TERM HUP INT; echo $$ > \"${0%/*}/pids\"; while :; do sleep 1000; done");
    let late = tried(program, "", SHORT).await;
    assert!(matches!(late, Err(Failure::Late)), "{late:?}");
    assert!(!pids(&directory, "pids").iter().any(|pid| is_running(*pid)));
}

/// As the first process of a container, to which what an agent leaves behind falls: not even the dead are left.
#[tokio::test]
async fn what_falls_to_this_process_is_reaped() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("Linux has it");
    let (directory, program) = script(&format!("{FAMILY}; sleep 1000"));
    let late = tried(program, "", Duration::from_secs(2)).await;
    assert!(matches!(late, Err(Failure::Late)), "{late:?}");
    let pids = pids(&directory, "pids");
    assert_eq!(pids.len(), 4, "they were started");
    let left = |pid: &&i32| fs::exists(format!("/proc/{pid}")).unwrap_or(true);
    assert_eq!(pids.iter().find(left), None, "{pids:?}");
}
