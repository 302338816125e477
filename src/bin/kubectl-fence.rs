//! The plugin's process: `kubectl fence ...` runs it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fencing_plugin::main(std::env::args_os())
}
