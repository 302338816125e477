//! `make lab` as a script uses it: commands on standard input, what follows on standard output.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// For each thing that is waited for.
const LIMIT: Duration = Duration::from_secs(120);

struct Prompt {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Prompt {
    fn start() -> Result<Self> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_lab"))
            .args(["up", "--nodes", "2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().context("standard input")?;
        let output = process.stdout.take().context("standard output")?;
        let output = BufReader::new(output).lines();
        Ok(Self {
            process,
            input,
            output,
        })
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        Ok(self.input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// The next line with these words in it.
    async fn line(&mut self, words: &str) -> Result<String> {
        let found = async {
            while let Some(line) = self.output.next_line().await? {
                eprintln!("{line}");
                if line.contains(words) {
                    return Ok(line);
                }
            }
            anyhow::bail!("it ended before it said `{words}`")
        };
        timeout(LIMIT, found)
            .await
            .with_context(|| format!("it does not say `{words}`"))?
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_the_prompt_moves_the_pod_and_the_end_of_input_ends_nothing() -> Result<()> {
    let mut prompt = Prompt::start()?;
    let introduction = prompt.line("database-0 runs on ").await?;
    let (node, other) = match introduction.contains("runs on node-1") {
        true => ("node-1", "node-2"),
        false => ("node-2", "node-1"),
    };
    let kubeconfig = prompt.line("export KUBECONFIG=").await?;
    let (_, kubeconfig) = kubeconfig.split_once('=').context("a path")?;
    ensure!(std::path::Path::new(kubeconfig).exists(), "{kubeconfig}");

    prompt.say("cut nothing").await?;
    prompt.line("no machine is called nothing").await?;
    prompt.say(&format!("cut {node}")).await?;
    prompt.line("POWER CUT").await?;
    prompt.line(&format!("Running on {other}")).await?;
    prompt.say(&format!("restore {node}")).await?;
    prompt.line("Ready=True").await?;
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
