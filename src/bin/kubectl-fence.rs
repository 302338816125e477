//! The plugin's process: `kubectl fence ...` runs it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    node_fencing_operator::cli::main(std::env::args_os())
}
