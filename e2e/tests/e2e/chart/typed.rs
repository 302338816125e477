//! What the book has people type who use Helm: its lines, and a shell in which a test types them as they stand there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::toolchain::{Programs, Toolchain};
use fencing_testbed::paths::workspace;
use tokio::process::Command;

/// A line that calls Helm.
#[derive(Debug)]
struct Line {
    page: String,
    /// With what it goes on in, after a backslash.
    text: String,
}

/// Where somebody types.
pub struct Desk<'a> {
    plane: &'a ControlPlane,
    /// There are the chart as in the repository, and a Helm by its name.
    folder: tempfile::TempDir,
    lines: Vec<Line>,
    typed: Mutex<BTreeSet<String>>,
}

impl<'a> Desk<'a> {
    /// With this Helm.
    pub async fn furnish(plane: &'a ControlPlane, helm: &str) -> Result<Self> {
        let toolchain = tokio::task::spawn_blocking(|| Toolchain::build(Programs::All)).await??;
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("bin"))?;
        let link = std::os::unix::fs::symlink::<PathBuf, PathBuf>;
        link(workspace().join("charts"), folder.path().join("charts"))?;
        link(toolchain.program(helm), folder.path().join("bin/helm"))?;
        Ok(Self {
            plane,
            folder,
            lines: lines()?,
            typed: Mutex::default(),
        })
    }

    /// Types the one line of a page that has these words, with what is put in place of a name or behind it. Gives what it printed.
    pub async fn types(&self, page: &str, words: &str, change: (&str, &str)) -> Result<String> {
        let mut found = self
            .lines
            .iter()
            .filter(|line| line.page == page && line.text.contains(words));
        let line = found.next();
        let line = line.with_context(|| format!("{page} has no line with {words}"))?;
        ensure!(found.next().is_none(), "{page} has two lines with {words}");
        let (name, value) = change;
        let text = match name {
            "" => format!("{} {value}", line.text),
            _ => line.text.replace(name, value),
        };
        self.typed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(line.text.clone());
        let mut shell = Command::new("sh");
        let path = std::env::var("PATH")?;
        let bin = self.folder.path().join("bin");
        shell
            .args(["-euc", &text])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", bin.display()));
        let output = self.plane.run_command(shell).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{page}: {text}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Writes the file that a page shows in a block which begins with its name.
    pub fn writes(&self, page: &str, file: &str) -> Result<()> {
        let text = std::fs::read_to_string(workspace().join(page))?;
        let begins = format!("```yaml\n# {file}\n");
        let (_, rest) = text.split_once(&begins).context("the page has no block")?;
        let (block, _) = rest.split_once("```").context("the block does not end")?;
        Ok(std::fs::write(self.folder.path().join(file), block)?)
    }

    /// Every line of every page has been typed, on this page or as it stands on another one.
    pub fn has_typed_all(&self) -> Result<()> {
        let typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.lines.iter().filter(|line| !typed.contains(&line.text));
        let left: Vec<_> = left.collect();
        ensure!(left.is_empty(), "nobody has typed {left:#?}");
        ensure!(typed.len() > 8, "only {typed:?}");
        Ok(())
    }
}

/// Those of all pages for people, in their blocks for tools.
fn lines() -> Result<Vec<Line>> {
    let mut pages = vec![
        "README.md".to_owned(),
        "charts/node-fencing-operator/README.md".to_owned(),
        "charts/node-fencing-policies/README.md".to_owned(),
    ];
    for folder in ["docs", "docs/how-to", "docs/runbooks"] {
        for entry in std::fs::read_dir(workspace().join(folder))? {
            pages.push(format!("{folder}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    pages.retain(|page| page.ends_with(".md"));
    let mut found = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(workspace().join(&page))?;
        for block in text.split("```sh tool\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            let block = block.replace("\\\n", "");
            let helm = block.lines().filter(|line| line.starts_with("helm "));
            found.extend(helm.map(|line| Line {
                page: page.clone(),
                text: line.split_whitespace().collect::<Vec<_>>().join(" "),
            }));
        }
    }
    Ok(found)
}
