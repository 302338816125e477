//! A real terminal: one end of a pseudo-terminal of the kernel, at whose other end the real kubectl runs the plugin. What is typed here goes through
//! the kernel's line discipline, so that it is echoed or not, and Ctrl-C and Ctrl-D are what they are for a user.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::lab::LIMIT;
use e2e::operator::plugins;
use fencing_testbed::eventually::eventually;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::session::words;

/// Ends the input, at the beginning of a line.
pub const CTRL_D: &str = "\u{4}";
/// Interrupts what runs in the foreground.
pub const CTRL_C: &str = "\u{3}";
/// How a colour or a weight begins.
pub const COLOUR: &str = "\u{1b}[";
/// Signal of Ctrl-C.
const INTERRUPT: i32 = 2;

/// A terminal at which one command runs.
pub struct Terminal {
    end: OwnedFd,
    keys: tokio::fs::File,
    screen: tokio::fs::File,
    child: Child,
    seen: String,
}

impl Terminal {
    /// Types a line of `kubectl fence`.
    pub async fn open(
        plane: &ControlPlane,
        line: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&end)?;
        unlockpt(&end)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let other = || anyhow::Ok(ioctl_tiocgptpeer(&end, flags)?);
        // A session of its own, whose terminal this is; and a test that runs in the background has a child that ignores Ctrl-C.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "env", "--default-signal=INT"])
            .arg(plane.toolchain().program("kubectl"))
            .arg("fence")
            .args(words(line))
            .stdin(other()?)
            .stdout(other()?)
            .stderr(other()?);
        plane.equip(&mut command);
        command
            .env("PATH", with_plugins().await?)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied());
        let child = command.spawn().context("setsid of util-linux")?;
        // Only the command has the other end by now: when it has ended, the screen ends.
        drop(command);
        let file = || anyhow::Ok(tokio::fs::File::from_std(File::from(end.try_clone()?)));
        Ok(Self {
            keys: file()?,
            screen: file()?,
            end,
            child,
            seen: String::new(),
        })
    }

    /// Types these keys.
    pub async fn types(&mut self, keys: &str) -> Result<()> {
        self.keys.write_all(keys.as_bytes()).await?;
        Ok(self.keys.flush().await?)
    }

    /// Waits until the screen has shown these words.
    pub async fn reads(&mut self, words: &str) -> Result<()> {
        while !self.seen.contains(words) {
            ensure!(self.more().await?, "no `{words}` in {}", self.seen);
        }
        Ok(())
    }

    /// Waits until what is typed is not shown: a program asks first, and hides after that.
    pub async fn is_hidden(&self) -> Result<()> {
        eventually("what is typed is not echoed", LIMIT, async || {
            let modes = tcgetattr(&self.end)?.local_modes;
            ensure!(!modes.contains(LocalModes::ECHO), "{modes:?}");
            Ok(())
        })
        .await
    }

    /// Waits for the end of the command: how it has ended, and all that the screen has shown.
    pub async fn ends(mut self) -> Result<(ExitStatus, String)> {
        while self.more().await? {}
        let status = timeout(LIMIT, self.child.wait()).await??;
        Ok((status, self.seen))
    }

    /// Reads on. False: the command has ended.
    async fn more(&mut self) -> Result<bool> {
        let mut bytes = [0; 4096];
        let read = timeout(LIMIT, self.screen.read(&mut bytes)).await;
        let read = read.with_context(|| format!("nothing follows {}", self.seen))?;
        match read {
            Ok(0) => Ok(false),
            Ok(count) => {
                let text = String::from_utf8_lossy(&bytes[..count]);
                self.seen += &text.replace('\r', "");
                Ok(true)
            }
            // Nobody has the other end any more.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Where the shell finds programs, the plugin first.
pub async fn with_plugins() -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = [plugins().await?];
    let all = own.into_iter().chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all)?)
}

/// Agrees to nothing, each time in a terminal of its own: by a wrong answer to what is asked for with these words, by the end of the input, and by
/// Ctrl-C. Nothing may come of it on standard output but what was shown before the question.
pub async fn disagree(plane: &ControlPlane, line: &str, question: &str, wrong: &str) -> Result<()> {
    let answers = [
        (format!("{wrong}\n"), "error: "),
        (CTRL_D.to_owned(), "error: "),
        (CTRL_C.to_owned(), ""),
    ];
    for (keys, told) in answers {
        let mut terminal = Terminal::open(plane, line, &[]).await?;
        terminal.reads(question).await?;
        terminal.types(&keys).await?;
        let (status, seen) = terminal.ends().await?;
        ensure!(!status.success() && seen.contains(told), "{keys:?}: {seen}");
        let is_interrupted = status.signal() == Some(INTERRUPT);
        ensure!(is_interrupted == (keys == CTRL_C), "{status}: {seen}");
    }
    Ok(())
}
