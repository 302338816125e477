//! The archive itself: gzip around tar, all in one folder, for its owner's eyes.

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use tar::{Builder, Header};

/// The folder in it.
const FOLDER: &str = "node-fencing-report";

/// A file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Below the folder.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// Writes it. A file that is there already stays.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, files: &[File], now: Timestamp) -> io::Result<()> {
    let packed = packed(files, now)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(&packed)
}

fn packed(files: &[File], now: Timestamp) -> io::Result<Vec<u8>> {
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for file in files {
        let bytes = file.text.as_bytes();
        let mut header = Header::new_gnu();
        header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        header.set_mode(0o600);
        header.set_mtime(seconds);
        tar.append_data(&mut header, format!("{FOLDER}/{}", file.path), bytes)?;
    }
    tar.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    #[test]
    fn what_is_packed_is_unpacked_again_and_overwrites_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("report.tar.gz");
        let file = File {
            path: format!("operator/logs/{}.log", "x".repeat(200)),
            text: "a line\n".to_owned(),
        };
        write(&path, std::slice::from_ref(&file), Timestamp::UNIX_EPOCH).expect("written");
        let opened = std::fs::File::open(&path).expect("a file");
        let mut archive = tar::Archive::new(GzDecoder::new(opened));
        let mut entry = archive
            .entries()
            .expect("entries")
            .next()
            .expect("one")
            .expect("whole");
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        assert_eq!(text, file.text);
        let named = entry.path().expect("a path").display().to_string();
        assert_eq!(named, format!("{FOLDER}/{}", file.path));
        let error = write(&path, &[], Timestamp::UNIX_EPOCH).expect_err("it is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
