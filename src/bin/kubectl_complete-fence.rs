//! What kubectl runs for the completion of `kubectl fence`: it stands beside the plugin, in the user's PATH.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    fencing_plugin::complete(&words)
}
