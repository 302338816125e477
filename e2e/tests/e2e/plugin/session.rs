//! A prompt at which `kubectl fence` is typed, by the real kubectl with the plugin that cargo has built, and what it has printed: names, times and
//! ages of the run are taken out of that ([`canonical`]), and what is left is held against a file beside this one.

use std::fmt::Write as _;
use std::fs;
use std::process::Output;

use anyhow::{Context, Result, bail, ensure};
use e2e::control_plane::ControlPlane;
use e2e::lab::Lab;
use e2e::operator::plugins;
use e2e::toolchain::kubernetes_minor;
use fencing_testbed::paths::workspace;
use tokio::process::Command;

use super::golden::{canonical, difference};
use crate::story::tell::{HASH, Names};

/// No NodeFence has such a name.
const NO_INCIDENT: &str = "none-00000000";
/// Columns of a terminal.
const WIDTH: usize = 80;
/// A word as long as this, such as the name of a VolumeAttachment, is not cut: people copy it.
const LONG: usize = 60;

/// What was typed, and what it said.
pub struct Session<'a> {
    lab: &'a Lab,
    node: String,
    names: Names,
    /// What is typed behind each line, and is not shown.
    flags: String,
    text: String,
}

impl<'a> Session<'a> {
    /// Nothing was typed yet; `{node}` stands for this node.
    pub fn new(lab: &'a Lab, node: &str, title: &str) -> Self {
        Self {
            lab,
            node: node.to_owned(),
            names: Names::of(node, NO_INCIDENT),
            flags: String::new(),
            text: format!("# {title}\n"),
        }
    }

    /// Types these behind each line, and does not show them.
    pub fn with(mut self, flags: &str) -> Self {
        self.flags = flags.to_owned();
        self
    }

    /// What is typed behind each line.
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// Names an incident, so that its name is taken out of what was said and of what follows.
    pub fn about(&mut self, fence: &str) {
        let hash = fence.rsplit_once('-').map_or(fence, |(_, hash)| hash);
        self.names.add(hash, HASH);
        self.text = self.text.replace(hash, HASH);
    }

    /// Names that this run alone has, and what is shown in their place.
    pub fn shows(&mut self, name: &str, stand_in: &'static str) {
        self.names.add(name, stand_in);
    }

    /// Types a command, of which `{node}` is the node, and returns what it prints.
    pub async fn types(&mut self, line: &str) -> Result<String> {
        self.exits(line).await.map(|(_, said)| said)
    }

    /// The same, with the exit code.
    pub async fn exits(&mut self, line: &str) -> Result<(i32, String)> {
        let typing = format!("{} {}", line.replace("{node}", &self.node), self.flags);
        let (code, said, complained) = typed(self.lab, &typing).await?;
        let shown = line.replace("{node}", "worker-1");
        let prompt = format!("\n$ kubectl fence {shown}\n");
        self.text += &self.names.plain(&prompt);
        self.text += &canonical(&said, &self.names);
        self.text += &canonical(&complained, &self.names);
        if code != 0 {
            let _ = writeln!(self.text, "(exit code {code})");
        }
        // An error is one line, as kubectl's are.
        let wide = said.lines().find(|line| is_too_wide(line));
        let is_for_people = !line.contains("-o ");
        ensure!(
            wide.is_none() || !is_for_people,
            "wider than a terminal: {wide:?}"
        );
        Ok((code, said))
    }

    /// All of it so far.
    pub fn told(&self) -> &str {
        &self.text
    }

    /// Compares its words with those of the file, or writes that, where they are not the same.
    pub fn hold(&self, name: &str) -> Result<()> {
        // Attach/detach has other words since 1.37 (`crates/plugin/src/foreign_text.rs`).
        if kubernetes_minor() > 36 && ["diagnose/well", "diagnose/dead"].contains(&name) {
            return Ok(());
        }
        let path = workspace().join(format!("e2e/tests/e2e/plugin/{name}.txt"));
        let recorded = fs::read_to_string(&path).unwrap_or_default();
        let Some(differs) = difference(&recorded, &self.text) else {
            return Ok(());
        };
        if std::env::var_os("UPDATE").is_some() {
            return Ok(fs::write(&path, &self.text)?);
        }
        bail!(
            "{} is stale, run it with UPDATE=1: {differs}",
            path.display()
        )
    }
}

/// Types a line of `kubectl fence`: exit code, what it prints, what it complains of.
pub async fn typed(lab: &Lab, line: &str) -> Result<(i32, String, String)> {
    let output = kubectl_fence(&lab.control_plane, &words(line), &[]).await?;
    let code = output.status.code().context("it was killed")?;
    let said = String::from_utf8(output.stdout)?;
    Ok((code, said, String::from_utf8(output.stderr)?))
}

/// Has the real kubectl run the plugin, with these variables in its environment.
pub async fn kubectl_fence(
    plane: &ControlPlane,
    arguments: &[String],
    environment: &[(&str, &str)],
) -> Result<Output> {
    let mut command = Command::new(plane.toolchain().program("kubectl"));
    command
        .arg("fence")
        .args(arguments)
        .env("PATH", plugins().await?)
        .envs(environment.iter().copied());
    plane.run_command(command).await
}

/// Commands to be copied are cut at blanks outside of quotes only, and what was done is told in one line, as kubectl tells it.
fn is_too_wide(line: &str) -> bool {
    let is_long = |word: &str| word.chars().count() > LONG;
    let is_done = line
        .split(' ')
        .next()
        .is_some_and(|it| it.contains(".nodefencing.io/"));
    line.chars().count() > WIDTH
        && !is_done
        && !line.contains('\'')
        && !line.split(' ').any(is_long)
}

/// A command line's words; quotes hold some together.
pub fn words(line: &str) -> Vec<String> {
    let quoted = line.split('"').enumerate();
    let words = quoted.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn quotes_hold_words_together() {
    assert_eq!(words("a  b --c \"d e\""), ["a", "b", "--c", "d e"]);
}

#[test]
fn a_long_word_and_a_quote_may_be_wider_than_a_terminal() {
    let word = "x".repeat(70);
    assert!(!is_too_wide(&format!("    kubectl get {word}")));
    assert!(!is_too_wide(&format!("  sh -c '{}'", "word ".repeat(20))));
    assert!(is_too_wide(&"word ".repeat(20)));
}
