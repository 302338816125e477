//! With which account BMCs are logged in to, and that somebody agrees to it. A password is never on a command line, where every process sees it.

use super::super::super::Error;
use super::super::super::table::count;
use fencing_drivers::credentials::Credentials;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

/// Variable of the environment with the password.
const PASSWORD: &str = "NODE_FENCING_BMC_PASSWORD";

/// An account that somebody has agreed to use.
pub struct Account {
    /// Its name.
    pub username: String,
    /// Name and password.
    pub credentials: Arc<Credentials>,
}

impl Account {
    /// Asks for what is not given, and whether to log in at all.
    ///
    /// # Errors
    /// Nobody agrees, or nobody is there to ask.
    pub fn agreed(
        bmcs: usize,
        username: Option<String>,
        password_stdin: bool,
        yes: bool,
    ) -> Result<Self, Error> {
        let bmcs = count(bmcs, "BMC", "BMCs");
        if !yes && (password_stdin || !is_somebody_there()) {
            return Err(Error::No(format!(
                "no terminal to confirm the login to {bmcs}; add --yes, --username, and {PASSWORD} or --password-stdin"
            )));
        }
        let username = username.map_or_else(|| asked("User of the BMCs:"), Ok)?;
        let question = format!("Log in to {bmcs} as {username} and read their systems? [y/N]");
        if !yes && !matches!(asked(&question)?.to_ascii_lowercase().as_str(), "y" | "yes") {
            return Err(Error::No("no BMC was logged in to".to_owned()));
        }
        let password = password(password_stdin)?;
        let data = BTreeMap::from([
            ("username".to_owned(), username.clone().into_bytes()),
            ("password".to_owned(), password.into_bytes()),
        ]);
        let credentials = Credentials::from_secret("of the command line", &data, &BTreeMap::new());
        let credentials = credentials
            .map_err(|error| Error::No(format!("this account cannot be used: {error}")))?;
        Ok(Self {
            username,
            credentials: Arc::new(credentials),
        })
    }
}

/// Is somebody at a terminal to be asked?
fn is_somebody_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The answer to a question, which goes to standard error: what is printed for the API server goes into a file.
fn asked(question: &str) -> Result<String, Error> {
    let mut err = io::stderr().lock();
    write!(err, "{question} ")?;
    err.flush()?;
    let mut line = String::new();
    // An empty answer is a line of its own; the end of the input agrees to nothing.
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Error::No(format!(
            "`{question}` has no answer, the input has ended; answer it, or use flags (--help)"
        )));
    }
    Ok(line.trim().to_owned())
}

fn password(from_stdin: bool) -> Result<String, Error> {
    if from_stdin {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        return Ok(line);
    }
    if let Ok(password) = std::env::var(PASSWORD) {
        return Ok(password);
    }
    if !is_somebody_there() {
        return Err(Error::No(format!(
            "no terminal to type the password at; set {PASSWORD}, or add --password-stdin"
        )));
    }
    Ok(rpassword::prompt_password("Password: ")?)
}
