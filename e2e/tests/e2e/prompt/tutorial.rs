//! `docs/tutorial.md` as somebody plays it: what it has typed at the prompt and in the second terminal is typed, from the page itself, and what
//! it says that one sees then is seen.
//!
//! A block says what it is: `text prompt` is typed at the prompt, and `text told` is what the prompt tells from then on; `sh cluster` is typed in
//! the second terminal, and `text shown` is what that prints. A line `...` stands for any others. Lines are held against each other without
//! what differs from run to run ([`plain`]), in any order: what happens at the same time is told in one order or another.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use fencing_testbed::eventually::eventually;
use fencing_testbed::paths::workspace;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::plain::{Names, plain};
use super::{LIMIT, Prompt};

const PAGE: &str = "docs/tutorial.md";
/// Stands for lines that are not shown.
const REST: &str = "...";
/// Commands that change nothing, and the exit code by which one says that something is not well, or that an incident is open.
const LOOKS: [(&str, i32); 6] = [
    ("kubectl get ", 0),
    ("kubectl describe ", 0),
    ("kubectl fence check", 1),
    ("kubectl fence explain", 0),
    ("kubectl fence history", 0),
    ("kubectl fence status", 3),
];

/// What a block of the page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The lab is started.
    Start,
    /// Lines for the prompt.
    Typed,
    /// What the prompt tells.
    Told,
    /// Commands for the second terminal.
    Commands,
    /// What they print.
    Shown,
}

struct Block {
    place: String,
    kind: Kind,
    text: String,
}

/// The blocks that are played. What needs no cluster is run elsewhere (`make build` before any test, `run` by tests/book).
fn blocks() -> Result<Vec<Block>> {
    let page = std::fs::read_to_string(workspace().join(PAGE))?;
    let (mut found, mut open) = (Vec::new(), None);
    for (number, line) in (1..).zip(page.lines()) {
        match (line.strip_prefix("```"), open.take()) {
            (Some(info), None) => open = Some((format!("{PAGE}:{number}"), info, String::new())),
            (None, Some((place, info, text))) => open = Some((place, info, text + line + "\n")),
            (None, None) => {}
            (Some(_), Some((place, info, text))) => {
                let kind = match (info, text.trim()) {
                    ("sh lab", "make lab") => Kind::Start,
                    ("sh lab" | "sh run", _) => continue,
                    ("sh cluster", _) => Kind::Commands,
                    ("text prompt", _) => Kind::Typed,
                    ("text told", _) => Kind::Told,
                    ("text shown", _) => Kind::Shown,
                    _ => bail!("{place}: nobody knows what to do with `{info}`"),
                };
                found.push(Block { place, kind, text });
            }
        }
    }
    Ok(found)
}

/// Whoever plays it.
struct Player {
    prompt: Prompt,
    /// What the prompt has one type first in the second terminal.
    exports: String,
    names: Names,
    /// How much was told before the last lines were typed.
    since: usize,
}

impl Player {
    async fn start() -> Result<Self> {
        let mut prompt = Prompt::start(&[])?;
        let mut exports = String::new();
        for variable in ["KUBECONFIG", "PATH"] {
            exports += &prompt.line(&format!("export {variable}=")).await?;
            exports.push('\n');
        }
        // The last line of the introduction.
        prompt.line("a node's name or its number").await?;
        let mut this = Self {
            prompt,
            exports,
            names: Names::default(),
            since: 0,
        };
        this.learn_names()?;
        Ok(this)
    }

    /// node-1 is the node on which the pod runs at first, and node-2 the one to which it moves.
    fn learn_names(&mut self) -> Result<()> {
        let mut seen: Vec<String> = Vec::new();
        for line in self.prompt.told() {
            let mut words = ["database-0 runs on ", "Running on "].into_iter();
            let after = words.find_map(|words| line.split_once(words));
            let node = after.and_then(|(_, after)| after.split_whitespace().next());
            seen.extend(node.map(str::to_owned));
        }
        ensure!(!seen.is_empty(), "the pod runs nowhere");
        seen.extend((1..=3).map(|number| format!("node-{number}")));
        let mut nodes = Vec::new();
        for node in seen {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        self.names = Names::of(&nodes);
        Ok(())
    }

    async fn play(&mut self, block: &Block, next: Option<&Block>) -> Result<()> {
        let shown = next.filter(|next| next.kind == Kind::Shown);
        match block.kind {
            Kind::Typed => {
                self.since = self.prompt.told().len();
                for line in block.text.lines() {
                    self.prompt.say(&self.names.typed(line)).await?;
                }
                Ok(())
            }
            Kind::Told => {
                eventually("the prompt tells it", LIMIT, async || {
                    self.learn_names()?;
                    let told = self.prompt.told();
                    self.holds(&block.text, told.get(self.since..).unwrap_or_default())
                })
                .await
            }
            Kind::Commands if block.text.trim_end().ends_with(" -w") => {
                let shown = shown.context("what does it show?")?;
                self.follow(&block.text, &shown.text).await
            }
            Kind::Commands if block.text.lines().all(|it| look(it).is_some()) => {
                let shown = shown.context("what does it show?")?;
                // Whoever comes too early looks again.
                eventually("it is shown", LIMIT, async || {
                    let printed = self.print(&block.text).await?;
                    self.holds(&shown.text, &printed)
                })
                .await
            }
            Kind::Commands => {
                let printed = self.print(&block.text).await?;
                shown.map_or(Ok(()), |shown| self.holds(&shown.text, &printed))
            }
            Kind::Start | Kind::Shown => Ok(()),
        }
    }

    /// Do these lines say what the page shows?
    fn holds(&self, shown: &str, lines: &[String]) -> Result<()> {
        let all = |lines: &mut dyn Iterator<Item = String>| -> Vec<String> {
            let lines = lines.map(|line| plain(&line));
            lines.filter(|line| !line.is_empty()).collect()
        };
        let mut left = all(&mut lines.iter().map(|line| self.names.told(line)));
        let expected = all(&mut shown.lines().map(str::to_owned));
        for line in expected.iter().filter(|line| *line != REST) {
            let at = left.iter().position(|it| it == line);
            let at = at.with_context(|| format!("no `{line}` in {lines:#?}"))?;
            left.remove(at);
        }
        let is_whole = !expected.iter().any(|line| line == REST);
        ensure!(!is_whole || left.is_empty(), "there is also {left:#?}");
        Ok(())
    }

    /// A script for the second terminal.
    fn script(&self, commands: &str) -> Command {
        let commands = self.names.typed(commands);
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", &format!("{}{commands}", self.exports)])
            .current_dir(workspace())
            .kill_on_drop(true);
        shell
    }

    async fn print(&self, commands: &str) -> Result<Vec<String>> {
        let output = self.script(commands).output();
        let output = timeout(LIMIT, output).await.context("it does not end")??;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_well = |code: i32| code == 0 || Some(code) == look(commands);
        let is_well = output.status.code().is_some_and(is_well);
        ensure!(is_well, "{commands}: {}: {said}", output.status);
        let printed = String::from_utf8(output.stdout)?;
        Ok(printed.lines().map(str::to_owned).collect())
    }

    /// Follows what does not end until it has shown this.
    async fn follow(&mut self, command: &str, shown: &str) -> Result<()> {
        // In place of the shell, so that it ends with it.
        let mut shell = self.script(&format!("exec {command}"));
        let mut process = shell.stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().context("standard output")?;
        let printed: Arc<Mutex<Vec<String>>> = Arc::default();
        let prints = Arc::clone(&printed);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut prints = prints.lock().unwrap_or_else(PoisonError::into_inner);
                prints.push(line);
            }
        });
        eventually("it is shown", LIMIT, async || {
            let printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
            self.holds(shown, &printed)
        })
        .await?;
        Ok(process.kill().await?)
    }
}

/// The other exit code of a command that changes nothing; none: it does.
fn look(command: &str) -> Option<i32> {
    let found = LOOKS.iter().find(|(look, _)| command.starts_with(look));
    found.map(|(_, code)| *code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_is_played_as_it_stands_and_shows_what_one_sees() -> Result<()> {
    let blocks = blocks()?;
    let count = |kind| blocks.iter().filter(|block| block.kind == kind).count();
    let (typed, seen) = (count(Kind::Typed), count(Kind::Told) + count(Kind::Shown));
    ensure!(typed > 5 && seen > 10, "{typed} are typed, {seen} are seen");
    let mut rest = blocks.iter().peekable();
    let first = rest.next().map(|block| block.kind);
    ensure!(first == Some(Kind::Start), "it begins with {first:?}");
    let mut player = Player::start().await?;
    while let Some(block) = rest.next() {
        let played = player.play(block, rest.peek().copied()).await;
        played.with_context(|| format!("{}\n{}", block.place, block.text))?;
    }
    // Its last word is `quit`.
    let ended = player.prompt.ended().await?;
    ensure!(ended.success(), "it ended with {ended}");
    Ok(())
}
