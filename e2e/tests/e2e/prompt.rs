//! `make lab` as a script uses it: commands on standard input, what follows on standard output. [`tutorial`] has the long story.

mod plain;
mod tutorial;

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencing_testbed::eventually::eventually;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// For each thing that is waited for.
const LIMIT: Duration = Duration::from_secs(120);

/// A lab that somebody types to.
struct Prompt {
    process: Child,
    input: ChildStdin,
    /// All that it has told.
    told: Arc<Mutex<Vec<String>>>,
}

impl Prompt {
    fn start(arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lab"))
            .arg("up")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().context("standard input")?;
        let output = process.stdout.take().context("standard output")?;
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&told);
        // It ends with the lab's output.
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{line}");
                let mut hears = hears.lock().unwrap_or_else(PoisonError::into_inner);
                hears.push(line);
            }
        });
        Ok(Self {
            process,
            input,
            told,
        })
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        Ok(self.input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// All that it has told until now.
    fn told(&self) -> Vec<String> {
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first line with these words in it, past or future.
    async fn line(&mut self, words: &str) -> Result<String> {
        let (process, told) = (&mut self.process, &self.told);
        eventually(&format!("it says `{words}`"), LIMIT, async || {
            let ended = process.try_wait()?;
            let told = told.lock().unwrap_or_else(PoisonError::into_inner);
            let found = told.iter().find(|line| line.contains(words)).cloned();
            found.with_context(|| format!("it has said {} lines; ended: {ended:?}", told.len()))
        })
        .await
    }

    async fn ended(mut self) -> Result<ExitStatus> {
        Ok(timeout(LIMIT, self.process.wait())
            .await
            .context("it goes on")??)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_scripts_input_ends_nothing_and_a_signal_does() -> Result<()> {
    let mut prompt = Prompt::start(&["--nodes", "1"])?;
    let kubeconfig = prompt.line("export KUBECONFIG=").await?;
    let (_, kubeconfig) = kubeconfig.split_once('=').context("a path")?;
    ensure!(std::path::Path::new(kubeconfig).exists(), "{kubeconfig}");
    prompt.say("cut nothing").await?;
    prompt
        .line("no machine is called nothing; there are node-1")
        .await?;
    prompt.say("check").await?;
    prompt.line("no volume was written by two machines").await?;

    // A script whose commands are done leaves the cluster up, until a signal ends it.
    let Prompt {
        mut process, input, ..
    } = prompt;
    drop(input);
    let stays = timeout(Duration::from_secs(1), process.wait()).await;
    ensure!(stays.is_err(), "it ended with its input: {stays:?}");
    let pid = process.id().context("it runs")?;
    let kill = Command::new("kill").arg(pid.to_string()).status().await?;
    ensure!(kill.success());
    let ended = timeout(LIMIT, process.wait()).await.context("SIGTERM")??;
    ensure!(ended.success(), "it ended with {ended}");
    Ok(())
}

/// What it says of a machine that runs is taken for the truth, until something contradicts it: the node is claimed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bmc_lies_when_it_is_asked_to() -> Result<()> {
    let mut prompt = Prompt::start(&["--nodes", "2"])?;
    prompt.line("Times are fast").await?;
    prompt.say("lie 1 off").await?;
    prompt.line("BMC SAYS OFF").await?;
    prompt.say("partition 1").await?;
    prompt.line("+ taint nodefencing.io/claim=").await?;
    for (typed, shown) in [("honest 1", "BMC IS HONEST"), ("dark 1", "POWER LOST")] {
        prompt.say(typed).await?;
        prompt.line(shown).await?;
    }
    prompt.say("quit").await?;
    ensure!(prompt.ended().await?.success());
    Ok(())
}

/// A run of nothing would find nothing wrong.
#[tokio::test]
async fn a_run_of_nothing_is_refused_by_the_name_of_its_count() -> Result<()> {
    for (command, count) in [
        ("chaos", "--cycles"),
        ("bench-failover", "--runs"),
        ("up", "--nodes"),
    ] {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
        let output = lab.args([command, count, "0"]).kill_on_drop(true).output();
        let output = timeout(LIMIT, output).await.context("it began")??;
        let words = String::from_utf8_lossy(&output.stderr);
        let is_refused = output.status.code() == Some(2);
        ensure!(
            is_refused && words.contains(&format!("'0' for '{count}")),
            "{command}: {words}"
        );
    }
    Ok(())
}
