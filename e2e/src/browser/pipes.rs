//! Messages over two named pipes: JSON, each ended by a zero byte, as Chromium has it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// Both ends of both pipes are open, so that nobody waits for the other to open theirs.
pub(super) struct Pipes {
    input: PathBuf,
    output: PathBuf,
    sender: Sender,
    receiver: BufReader<Receiver>,
    /// What has come of a message that is not whole yet.
    begun: Vec<u8>,
}

impl Pipes {
    pub fn make(directory: &Path) -> Result<Self> {
        let [input, output] = ["in", "out"].map(|it| directory.join(it));
        for path in [&input, &output] {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        let mut both = OpenOptions::new();
        both.read_write(true);
        Ok(Self {
            sender: both.open_sender(&input)?,
            receiver: BufReader::new(both.open_receiver(&output)?),
            input,
            output,
            begun: Vec::new(),
        })
    }

    /// What the other side reads.
    pub fn input(&self) -> &Path {
        &self.input
    }

    /// Where the other side writes.
    pub fn output(&self) -> &Path {
        &self.output
    }

    pub async fn send(&mut self, message: &Value) -> Result<()> {
        let mut text = message.to_string().into_bytes();
        text.push(0);
        Ok(self.sender.write_all(&text).await?)
    }

    /// The next message. Nothing is lost when this is dropped before it has come.
    pub async fn next(&mut self) -> Result<Value> {
        self.receiver.read_until(0, &mut self.begun).await?;
        let mut text = std::mem::take(&mut self.begun);
        text.pop();
        Ok(serde_json::from_slice(&text)?)
    }
}
