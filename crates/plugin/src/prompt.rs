//! What a command that cannot be undone asks for at the terminal before it acts: the node's name.

use super::Error;
use std::io::{self, BufRead as _, IsTerminal as _};

/// The name that the user gives: by a flag, or else typed at the terminal.
///
/// # Errors
/// There is no terminal; [`Error::Io`].
pub fn typed(node: &str, given: Option<String>) -> Result<String, Error> {
    if let Some(given) = given {
        return Ok(given);
    }
    if !io::stdin().is_terminal() {
        return Err(Error::No(format!(
            "no terminal to type the node's name at; add --confirm-node {node}"
        )));
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
